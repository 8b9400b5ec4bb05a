// Running replies by id, so that another request can act on them. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/token_stream.h"

namespace dsv4v {

class RunRegistry {
  public:
    using Streams = std::vector<std::shared_ptr<TokenStream>>;

    // Keeps an id registered while it lives. The registry must outlive it.
    class Entry {
      public:
        Entry(RunRegistry& registry, std::string id, const Streams& streams);
        ~Entry();
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

      private:
        RunRegistry& registry_;
        std::string id_;
    };

    // Ends the outputs of a running reply as a stop string would. False: the id is not running.
    bool stop(const std::string& id);
    // Closes the reasoning at the next step. False: the id is not running.
    bool end_reasoning(const std::string& id);

  private:
    [[nodiscard]] Streams find(const std::string& id) const;

    mutable std::mutex mutex_;
    std::map<std::string, Streams> running_;
};

} // namespace dsv4v
