#include "engine/reference/worker_pool.h"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/parallel.h"

namespace dsv4v {
namespace {

constexpr int64_t kMuchWork = kMinParallelWork;

TEST(WorkerPool, RunsEveryItemOnce) {
    for (const int32_t n_threads : {1, 2, 5}) {
        WorkerPool pool(n_threads);
        const WorkerPoolScope scope(pool);
        EXPECT_EQ(pool.n_threads(), n_threads);
        for (int64_t n_items = 0; n_items < 200; ++n_items) {
            std::vector<std::atomic<int>> counts(static_cast<size_t>(n_items));
            parallel_for(n_items, kMuchWork, [&](int64_t item, int32_t thread_idx) {
                EXPECT_LT(thread_idx, n_threads);
                ++counts[static_cast<size_t>(item)];
            });
            for (const std::atomic<int>& count : counts) {
                ASSERT_EQ(count, 1) << n_items << " items, " << n_threads << " threads";
            }
        }
    }
}

TEST(WorkerPool, ThreadIndexBelongsToOneThreadAtATime) {
    WorkerPool pool(4);
    const WorkerPoolScope scope(pool);
    std::vector<std::atomic<int>> inside(4);
    parallel_for(2000, kMuchWork, [&](int64_t, int32_t thread_idx) {
        std::atomic<int>& users = inside[static_cast<size_t>(thread_idx)];
        EXPECT_EQ(++users, 1);
        --users;
    });
}

// Two items that wait for each other need two threads.
TEST(WorkerPool, ItemsRunAtTheSameTime) {
    WorkerPool pool(2);
    const WorkerPoolScope scope(pool);
    std::atomic<int> n_arrived = 0;
    parallel_for(2, kMuchWork, [&](int64_t, int32_t) {
        ++n_arrived;
        while (n_arrived < 2) {
            std::this_thread::yield();
        }
    });
    EXPECT_EQ(n_arrived, 2);
}

TEST(WorkerPool, SleepingWorkersWakeUp) {
    WorkerPool pool(2);
    const WorkerPoolScope scope(pool);
    for (int round = 0; round < 5; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::atomic<int> n_arrived = 0;
        parallel_for(2, kMuchWork, [&](int64_t, int32_t) {
            ++n_arrived;
            while (n_arrived < 2) {
                std::this_thread::yield();
            }
        });
    }
}

TEST(WorkerPool, NestedRunsStayOnTheirThread) {
    WorkerPool pool(3);
    const WorkerPoolScope scope(pool);
    std::atomic<int64_t> n_run = 0;
    parallel_for(20, kMuchWork, [&](int64_t, int32_t) {
        const std::thread::id outer = std::this_thread::get_id();
        parallel_for(30, kMuchWork, [&](int64_t, int32_t) {
            EXPECT_EQ(std::this_thread::get_id(), outer);
            ++n_run;
        });
    });
    EXPECT_EQ(n_run, 600);
}

TEST(WorkerPool, SeveralCallersShareThePool) {
    WorkerPool pool(3);
    std::atomic<int64_t> n_run = 0;
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
        callers.emplace_back([&] {
            const WorkerPoolScope scope(pool);
            for (int round = 0; round < 100; ++round) {
                parallel_for(17, kMuchWork, [&](int64_t, int32_t) { ++n_run; });
            }
        });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    EXPECT_EQ(n_run, 4 * 100 * 17);
}

TEST(WorkerPool, LittleWorkStaysWithTheCaller) {
    WorkerPool pool(2);
    const WorkerPoolScope scope(pool);
    std::set<std::thread::id> threads;
    parallel_for(100, kMinParallelWork / 100 - 1,
                 [&](int64_t, int32_t) { threads.insert(std::this_thread::get_id()); });
    EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(WorkerPool, ScopesNest) {
    WorkerPool outer(1);
    WorkerPool inner(2);
    const WorkerPoolScope outer_scope(outer);
    {
        const WorkerPoolScope inner_scope(inner);
        EXPECT_EQ(&current_worker_pool(), &inner);
    }
    EXPECT_EQ(&current_worker_pool(), &outer);
}

} // namespace
} // namespace dsv4v
