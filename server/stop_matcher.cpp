#include "server/stop_matcher.h"

#include <algorithm>

namespace dsv4v {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
    nodes_.emplace_back();
    for (const std::string& stop : stops) {
        if (!stop.empty()) {
            stops_.push_back(stop);
            insert(stop, static_cast<int32_t>(stops_.size()) - 1);
        }
    }
    link_suffixes();
}

void StopMatcher::insert(std::string_view stop, int32_t stop_idx) {
    int32_t node = 0;
    for (const char byte : stop) {
        int32_t below = child(node, byte);
        if (below < 0) {
            below = static_cast<int32_t>(nodes_.size());
            Node added;
            added.next_sibling = nodes_[static_cast<size_t>(node)].first_child;
            added.depth = nodes_[static_cast<size_t>(node)].depth + 1;
            added.byte = byte;
            nodes_.push_back(added);
            nodes_[static_cast<size_t>(node)].first_child = below;
        }
        node = below;
    }
    if (nodes_[static_cast<size_t>(node)].output < 0) {
        nodes_[static_cast<size_t>(node)].output = stop_idx;
    }
}

void StopMatcher::link_suffixes() {
    std::vector<int32_t> order = {0}; // breadth first: suffixes are shorter, so they come earlier
    for (size_t k = 0; k < order.size(); ++k) {
        const int32_t parent = order[k];
        for (int32_t c = nodes_[static_cast<size_t>(parent)].first_child; c >= 0;
             c = nodes_[static_cast<size_t>(c)].next_sibling) {
            Node& node = nodes_[static_cast<size_t>(c)];
            node.fail = parent == 0 ? 0 : next(nodes_[static_cast<size_t>(parent)].fail, node.byte);
            if (node.output < 0) {
                node.output = nodes_[static_cast<size_t>(node.fail)].output;
            }
            order.push_back(c);
        }
    }
}

int32_t StopMatcher::child(int32_t node, char byte) const {
    int32_t c = nodes_[static_cast<size_t>(node)].first_child;
    while (c >= 0 && nodes_[static_cast<size_t>(c)].byte != byte) {
        c = nodes_[static_cast<size_t>(c)].next_sibling;
    }
    return c;
}

int32_t StopMatcher::next(int32_t node, char byte) const {
    while (true) {
        const int32_t below = child(node, byte);
        if (below >= 0) {
            return below;
        }
        if (node == 0) {
            return 0;
        }
        node = nodes_[static_cast<size_t>(node)].fail;
    }
}

void StopMatcher::consider_match() {
    const int32_t idx = nodes_[static_cast<size_t>(node_)].output;
    if (idx < 0) {
        return;
    }
    const auto length = static_cast<int64_t>(stops_[static_cast<size_t>(idx)].size());
    const int64_t start = position_ - length;
    // With an equal start a match that ends later is the longer one.
    if (match_idx_ < 0 || start <= match_start_) {
        match_idx_ = idx;
        match_start_ = start;
    }
}

bool StopMatcher::decided() const {
    if (match_idx_ < 0) {
        return false;
    }
    // The node is the longest suffix that can still become a stop string: the earliest start. A
    // node without children is complete and was considered; every other candidate starts later.
    const Node& node = nodes_[static_cast<size_t>(node_)];
    const int64_t growing_start = position_ - node.depth;
    return node_ == 0 || growing_start > match_start_ ||
           (growing_start == match_start_ && node.first_child < 0);
}

std::string StopMatcher::take_before(int64_t position) {
    const auto n = static_cast<size_t>(std::max<int64_t>(position - held_start_, 0));
    std::string out = held_.substr(0, n);
    held_.erase(0, n);
    held_start_ += static_cast<int64_t>(out.size());
    return out;
}

std::string StopMatcher::feed(std::string_view text) {
    if (done_) {
        return {};
    }
    if (stops_.empty()) {
        return std::string(text);
    }
    held_.append(text);
    for (const char byte : text) {
        node_ = next(node_, byte);
        ++position_;
        consider_match();
        if (decided()) {
            return finish();
        }
    }
    const int64_t growing_start = position_ - nodes_[static_cast<size_t>(node_)].depth;
    return take_before(match_idx_ < 0 ? growing_start : std::min(growing_start, match_start_));
}

std::string StopMatcher::finish() {
    if (done_) {
        return {};
    }
    done_ = true;
    std::string out = match_idx_ < 0 ? std::move(held_) : take_before(match_start_);
    held_.clear();
    return out;
}

const std::string* StopMatcher::matched() const {
    return done_ && match_idx_ >= 0 ? &stops_[static_cast<size_t>(match_idx_)] : nullptr;
}

} // namespace dsv4v
