#include "server/connection_threads.h"

#include <atomic>

#include <gtest/gtest.h>

#include "tests/server/http_test_server.h"

namespace dsv4v::testing {
namespace {

TEST(ConnectionThreads, RunsUpToTheLimitAtOnceAndRefusesMore) {
    std::atomic<bool> release{false};
    std::atomic<int> n_running{0};
    ConnectionThreads threads(3);
    const auto job = [&] {
        ++n_running;
        eventually([&] { return release.load(); });
    };
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(threads.run(job));
    }
    EXPECT_TRUE(eventually([&] { return n_running == 3; }));
    EXPECT_FALSE(threads.run(job));
    release = true;
    EXPECT_TRUE(eventually([&] { return threads.run([] {}); }));
}

TEST(ConnectionThreads, ReusesAndRetiresThreads) {
    ConnectionThreads threads(8, milliseconds(50));
    std::atomic<int> n_done{0};
    for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(threads.run([&] { ++n_done; }));
        EXPECT_TRUE(eventually([&] { return n_done == i + 1; }));
    }
    EXPECT_LE(threads.n_threads(), 8u);
    EXPECT_TRUE(eventually([&] { return threads.n_threads() == 0; }));
    EXPECT_TRUE(threads.run([&] { ++n_done; }));
    EXPECT_TRUE(eventually([&] { return n_done == 51; }));
}

TEST(ConnectionThreads, DestructionWaitsForJobs) {
    std::atomic<int> n_done{0};
    {
        ConnectionThreads threads(16);
        for (int i = 0; i < 16; ++i) {
            EXPECT_TRUE(threads.run([&] {
                std::this_thread::sleep_for(milliseconds(30));
                ++n_done;
            }));
        }
    }
    EXPECT_EQ(n_done, 16);
}

} // namespace
} // namespace dsv4v::testing
