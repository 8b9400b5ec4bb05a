// One thread per open connection, started when needed, with small stacks; idle threads retire. An
// open stream therefore never holds up another connection.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include <pthread.h>

namespace dsv4v {

class ConnectionThreads {
  public:
    using Job = std::function<void()>;

    // At most `max_threads` jobs run at once; a thread without work ends after `retire_after`.
    explicit ConnectionThreads(size_t max_threads,
                               std::chrono::milliseconds retire_after = std::chrono::seconds(10));
    ~ConnectionThreads(); // waits for all jobs
    ConnectionThreads(const ConnectionThreads&) = delete;
    ConnectionThreads& operator=(const ConnectionThreads&) = delete;

    // Starts `job` at once. False, without running it, when max_threads jobs are running or the
    // system gives no thread. Any thread.
    [[nodiscard]] bool run(Job job);
    // Threads alive now (for tests).
    [[nodiscard]] size_t n_threads() const;

  private:
    static void* entry(void* self);
    void work();
    bool spawn();         // with mutex_ held
    void join_finished(); // with mutex_ held

    const size_t max_threads_;
    const std::chrono::milliseconds retire_after_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    std::vector<pthread_t> finished_; // ended or about to end, still to be joined
    size_t n_threads_ = 0;
    size_t n_idle_ = 0;
    bool stopping_ = false;
};

} // namespace dsv4v
