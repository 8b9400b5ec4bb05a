// Exchanges in progress by request id, so that an administrator can end one. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace dsv4v {

class RequestRegistry {
  public:
    // Keeps an exchange registered while it lives. The registry must outlive it. Ids come from
    // clients and may repeat: each entry has a flag of its own.
    class Entry {
      public:
        Entry(RequestRegistry& registry, const std::string& request_id)
            : registry_(registry), place_(registry.add(request_id, &cancelled_)) {}
        ~Entry() { registry_.remove(place_); }
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        [[nodiscard]] bool cancelled() const { return cancelled_; }

      private:
        RequestRegistry& registry_;
        std::atomic<bool> cancelled_{false};
        std::multimap<std::string, std::atomic<bool>*>::iterator place_;
    };

    // Raises the flags of all exchanges with this id. False: there is none.
    bool cancel(const std::string& request_id) {
        std::lock_guard lock(mutex_);
        const auto [begin, end] = running_.equal_range(request_id);
        for (auto it = begin; it != end; ++it) {
            it->second->store(true);
        }
        return begin != end;
    }

  private:
    using Running = std::multimap<std::string, std::atomic<bool>*>;

    Running::iterator add(const std::string& request_id, std::atomic<bool>* flag) {
        std::lock_guard lock(mutex_);
        return running_.emplace(request_id, flag);
    }
    void remove(Running::iterator place) {
        std::lock_guard lock(mutex_);
        running_.erase(place);
    }

    std::mutex mutex_;
    Running running_;
};

} // namespace dsv4v
