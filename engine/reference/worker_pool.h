// The threads of the CPU backend. Items of a task are claimed one by one, so a thread that the
// operating system has put aside holds up nothing but the item it is at: on a busy machine a run
// degrades to the caller working alone, where a barrier would wait for every thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace dsv4v {

class WorkerPool {
  public:
    // A body and how to call it: plain pointers, so that running a task allocates nothing.
    struct Task {
        void (*call)(const void* body, int64_t item, int32_t thread_idx) = nullptr;
        const void* body = nullptr;
    };

    // The caller of run() is one of the n_threads.
    explicit WorkerPool(int32_t n_threads);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    [[nodiscard]] int32_t n_threads() const { return static_cast<int32_t>(workers_.size()) + 1; }

    // Calls the task once for every item in [0, n_items) and returns when all are done. thread_idx
    // is below n_threads() and belongs to one thread of the run. If the pool is busy, with another
    // caller or because a task itself calls run(), the caller does all items alone, as thread 0.
    void run(int64_t n_items, Task task);

  private:
    void work(int32_t thread_idx);
    [[nodiscard]] int64_t run_claimed(int32_t thread_idx);
    [[nodiscard]] bool claim(int64_t& item);
    [[nodiscard]] bool has_items() const;
    void publish(int64_t n_items);
    void sleep_until_needed();

    std::atomic<bool> busy_ = false;
    Task task_; // written only while no item is claimed or left
    // Generation, number of items and next item of the current task, in one word, so that a late
    // claim cannot mix two tasks.
    std::atomic<uint64_t> ticket_ = 0;
    std::atomic<int64_t> n_done_ = 0;

    std::atomic<int32_t> n_sleeping_ = 0;
    std::atomic<bool> stopping_ = false;
    std::mutex sleep_mutex_;
    std::condition_variable wake_;
    std::vector<std::thread> workers_;
};

// Makes `pool` the one that parallel_for uses in this thread, for the life of the scope.
class WorkerPoolScope {
  public:
    explicit WorkerPoolScope(WorkerPool& pool);
    ~WorkerPoolScope();
    WorkerPoolScope(const WorkerPoolScope&) = delete;
    WorkerPoolScope& operator=(const WorkerPoolScope&) = delete;

  private:
    WorkerPool* outer_;
};

// The pool of this thread's innermost scope; without one a process-wide pool with a thread per
// core.
[[nodiscard]] WorkerPool& current_worker_pool();

} // namespace dsv4v
