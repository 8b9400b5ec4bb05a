// Finds control and user-defined tokens in text: a byte trie, longest spelling first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv4v {

class SpecialTokens {
  public:
    struct Match {
        size_t offset = 0;
        size_t n_bytes = 0;
        int32_t token_id = -1;
    };

    SpecialTokens() : nodes_(1) {}

    // `text` must not be empty; of two tokens with one spelling the first added counts.
    void add(std::string_view text, int32_t token_id);

    // The leftmost spelling in `text` at or after `from`, of those that begin there the longest.
    [[nodiscard]] std::optional<Match> find_first(std::string_view text, size_t from) const;

    // Id of the token spelled exactly `text`.
    [[nodiscard]] std::optional<int32_t> find_exact(std::string_view text) const;

  private:
    struct Node {
        int32_t token_id = -1;
        std::vector<std::pair<char, int32_t>> children = {}; // byte, index into nodes_
    };

    // Child of a node, or -1.
    [[nodiscard]] int32_t child(int32_t node_idx, char byte) const;
    // Longest spelling at the start of `text`; n_bytes 0 if there is none.
    [[nodiscard]] Match longest_prefix(std::string_view text) const;

    std::vector<Node> nodes_; // [0] is the root
};

} // namespace dsv4v
