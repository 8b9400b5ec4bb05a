#include "server/logprob_tracker.h"

#include <utility>

#include "engine/utf8.h"

namespace dsv4v {

void LogprobTracker::complete_open_entries(std::string_view decoded) {
    if (decoded.empty()) {
        return;
    }
    const int64_t end = position_ + first_utf8_char(decoded).n_bytes;
    for (; n_open_ > 0; --n_open_) {
        entries_[entries_.size() - n_open_].end = end;
    }
}

void LogprobTracker::add(SampledToken token, std::string_view decoded, bool unfinished) {
    complete_open_entries(decoded);
    Entry entry{std::move(token), position_, -1};
    position_ += static_cast<int64_t>(decoded.size());
    if (unfinished) {
        ++n_open_;
    } else {
        entry.end = position_;
    }
    entries_.push_back(std::move(entry));
}

void LogprobTracker::flush(std::string_view decoded) {
    complete_open_entries(decoded);
    position_ += static_cast<int64_t>(decoded.size());
}

void LogprobTracker::release(int64_t begin, int64_t end, std::vector<SampledToken>& out) {
    while (!entries_.empty()) {
        Entry& front = entries_.front();
        if (front.end < 0 || (front.end > end && front.begin >= begin)) {
            return;
        }
        if (front.begin >= begin) {
            out.push_back(std::move(front.token));
        }
        entries_.pop_front();
    }
}

} // namespace dsv4v
