#include "server/run_registry.h"

#include <utility>

namespace dsv4v {

RunRegistry::Entry::Entry(RunRegistry& registry, std::string id, const Streams& streams)
    : registry_(registry), id_(std::move(id)) {
    const std::lock_guard lock(registry_.mutex_);
    registry_.running_[id_] = streams;
}

RunRegistry::Entry::~Entry() {
    const std::lock_guard lock(registry_.mutex_);
    registry_.running_.erase(id_);
}

RunRegistry::Streams RunRegistry::find(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    return found == running_.end() ? Streams{} : found->second;
}

bool RunRegistry::stop(const std::string& id) {
    const Streams streams = find(id);
    for (const auto& stream : streams) {
        stream->cancel(CancelCause::kStopped);
    }
    return !streams.empty();
}

bool RunRegistry::end_reasoning(const std::string& id) {
    const Streams streams = find(id);
    for (const auto& stream : streams) {
        stream->request_reasoning_end();
    }
    return !streams.empty();
}

} // namespace dsv4v
