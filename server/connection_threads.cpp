#include "server/connection_threads.h"

#include <utility>

namespace dsv4v {

namespace {

// Handlers keep their buffers on the heap; sanitizers need several times the room.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 4 << 20;
#else
constexpr size_t kStackBytes = 512 << 10;
#endif

} // namespace

ConnectionThreads::ConnectionThreads(size_t max_threads, std::chrono::milliseconds retire_after)
    : max_threads_(max_threads), retire_after_(retire_after) {}

ConnectionThreads::~ConnectionThreads() {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return n_threads_ == 0; });
    join_finished();
}

bool ConnectionThreads::run(Job job) {
    std::lock_guard lock(mutex_);
    join_finished();
    if (n_idle_ <= jobs_.size() && !spawn()) {
        return false;
    }
    jobs_.push_back(std::move(job));
    changed_.notify_one();
    return true;
}

size_t ConnectionThreads::n_threads() const {
    std::lock_guard lock(mutex_);
    return n_threads_;
}

bool ConnectionThreads::spawn() {
    if (n_threads_ == max_threads_) {
        return false;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_t thread{};
    const int error = pthread_create(&thread, &attributes, &ConnectionThreads::entry, this);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        return false;
    }
    ++n_threads_;
    ++n_idle_; // until it takes the job that it was started for
    return true;
}

void ConnectionThreads::join_finished() {
    for (const pthread_t thread : finished_) {
        pthread_join(thread, nullptr); // past its last use of mutex_ or about to leave it
    }
    finished_.clear();
}

void* ConnectionThreads::entry(void* self) {
    static_cast<ConnectionThreads*>(self)->work();
    return nullptr;
}

void ConnectionThreads::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait_for(lock, retire_after_, [this] { return !jobs_.empty() || stopping_; });
        if (jobs_.empty()) {
            break;
        }
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        --n_idle_;
        lock.unlock();
        job();
        job = nullptr;
        lock.lock();
        ++n_idle_;
    }
    --n_idle_;
    --n_threads_;
    finished_.push_back(pthread_self());
    changed_.notify_all();
}

} // namespace dsv4v
