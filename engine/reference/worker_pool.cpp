#include "engine/reference/worker_pool.h"

#include <algorithm>

namespace dsv4v {
namespace {

constexpr int kItemBits = 22;
constexpr int64_t kMaxItems = (int64_t{1} << kItemBits) - 1;
// Looks for work this often, giving way each time, before a worker sleeps: bridges the short serial
// parts between the stages of a step.
constexpr int kLooksBeforeSleep = 200;

int64_t next_item(uint64_t ticket) {
    return static_cast<int64_t>(ticket) & kMaxItems;
}
int64_t n_items_of(uint64_t ticket) {
    return static_cast<int64_t>(ticket >> kItemBits) & kMaxItems;
}
uint64_t make_ticket(uint64_t generation, int64_t n_items) {
    return generation << (2 * kItemBits) | static_cast<uint64_t>(n_items) << kItemBits;
}

thread_local WorkerPool* scoped_pool = nullptr;

} // namespace

WorkerPool::WorkerPool(int32_t n_threads) {
    for (int32_t thread_idx = 1; thread_idx < n_threads; ++thread_idx) {
        workers_.emplace_back([this, thread_idx] { work(thread_idx); });
    }
}

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard lock(sleep_mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) {
        worker.join();
    }
}

void WorkerPool::run(int64_t n_items, Task task) {
    if (workers_.empty() || n_items < 2 || n_items > kMaxItems || busy_.exchange(true)) {
        for (int64_t item = 0; item < n_items; ++item) {
            task.call(task.body, item, 0);
        }
        return;
    }
    task_ = task;
    publish(n_items);
    n_done_ += run_claimed(0);
    while (n_done_ != n_items) {
        std::this_thread::yield(); // others are at their last items
    }
    busy_ = false;
}

void WorkerPool::publish(int64_t n_items) {
    n_done_ = 0;
    ticket_ = make_ticket((ticket_ >> (2 * kItemBits)) + 1, n_items);
    // A worker counts itself before its last look at the ticket, so one of the two sees the other.
    if (n_sleeping_ > 0) {
        { const std::lock_guard lock(sleep_mutex_); }
        wake_.notify_all();
    }
}

bool WorkerPool::has_items() const {
    const uint64_t ticket = ticket_;
    return next_item(ticket) < n_items_of(ticket);
}

bool WorkerPool::claim(int64_t& item) {
    uint64_t ticket = ticket_;
    while (next_item(ticket) < n_items_of(ticket)) {
        if (ticket_.compare_exchange_weak(ticket, ticket + 1)) {
            item = next_item(ticket);
            return true;
        }
    }
    return false;
}

int64_t WorkerPool::run_claimed(int32_t thread_idx) {
    int64_t n_run = 0;
    for (int64_t item = 0; claim(item); ++n_run) {
        task_.call(task_.body, item, thread_idx);
    }
    return n_run;
}

void WorkerPool::work(int32_t thread_idx) {
    scoped_pool = this; // a task that calls parallel_for finds the pool busy and runs it alone
    int n_looks = 0;
    while (!stopping_) {
        if (has_items()) {
            n_done_ += run_claimed(thread_idx);
            n_looks = 0;
        } else if (++n_looks < kLooksBeforeSleep) {
            std::this_thread::yield();
        } else {
            sleep_until_needed();
            n_looks = 0;
        }
    }
}

void WorkerPool::sleep_until_needed() {
    std::unique_lock lock(sleep_mutex_);
    ++n_sleeping_;
    wake_.wait(lock, [this] { return stopping_ || has_items(); });
    --n_sleeping_;
}

WorkerPoolScope::WorkerPoolScope(WorkerPool& pool) : outer_(scoped_pool) {
    scoped_pool = &pool;
}

WorkerPoolScope::~WorkerPoolScope() {
    scoped_pool = outer_;
}

WorkerPool& current_worker_pool() {
    if (scoped_pool != nullptr) {
        return *scoped_pool;
    }
    static WorkerPool shared(
        std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency())));
    return shared;
}

} // namespace dsv4v
