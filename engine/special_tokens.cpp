#include "engine/special_tokens.h"

namespace dsv4v {

int32_t SpecialTokens::child(int32_t node_idx, char byte) const {
    for (const auto& [edge, child_idx] : nodes_[static_cast<size_t>(node_idx)].children) {
        if (edge == byte) {
            return child_idx;
        }
    }
    return -1;
}

void SpecialTokens::add(std::string_view text, int32_t token_id) {
    int32_t node_idx = 0;
    for (const char byte : text) {
        int32_t next = child(node_idx, byte);
        if (next < 0) {
            next = static_cast<int32_t>(nodes_.size());
            nodes_[static_cast<size_t>(node_idx)].children.emplace_back(byte, next);
            nodes_.emplace_back();
        }
        node_idx = next;
    }
    int32_t& id = nodes_[static_cast<size_t>(node_idx)].token_id;
    id = id < 0 ? token_id : id;
}

SpecialTokens::Match SpecialTokens::longest_prefix(std::string_view text) const {
    Match longest;
    int32_t node_idx = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        node_idx = child(node_idx, text[i]);
        if (node_idx < 0) {
            break;
        }
        if (const int32_t id = nodes_[static_cast<size_t>(node_idx)].token_id; id >= 0) {
            longest = {0, i + 1, id};
        }
    }
    return longest;
}

std::optional<SpecialTokens::Match> SpecialTokens::find_first(std::string_view text,
                                                              size_t from) const {
    for (size_t offset = from; offset < text.size(); ++offset) {
        Match match = longest_prefix(text.substr(offset));
        if (match.n_bytes > 0) {
            match.offset = offset;
            return match;
        }
    }
    return std::nullopt;
}

std::optional<int32_t> SpecialTokens::find_exact(std::string_view text) const {
    int32_t node_idx = 0;
    for (const char byte : text) {
        node_idx = child(node_idx, byte);
        if (node_idx < 0) {
            return std::nullopt;
        }
    }
    const int32_t id = nodes_[static_cast<size_t>(node_idx)].token_id;
    return id >= 0 ? std::optional(id) : std::nullopt;
}

} // namespace dsv4v
