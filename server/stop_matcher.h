// Finds the first stop string in streamed text. Of all occurrences in the whole text the one with
// the earliest start wins, among those with the same start the longest, so the result does not
// depend on how the text was cut into feeds. The price: when one stop string begins inside, or at
// the start of, another, a complete match waits until the other one is decided.
// Not thread-safe; one per choice. docs/api.md "Stop strings".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dsv4v {

class StopMatcher {
  public:
    // Empty strings are ignored. Memory is proportional to the total length of `stops`.
    explicit StopMatcher(const std::vector<std::string>& stops);

    // Takes more text; returns the part that is now certain to lie before any stop string. Held
    // back is exactly the longest suffix that begins a stop string (plus what follows a match
    // that is not decided yet). After matched() text is ignored. Linear in the text.
    [[nodiscard]] std::string feed(std::string_view text);
    // Ends the text: decides a waiting match or returns what was held back.
    [[nodiscard]] std::string finish();

    // The stop string that ended the text, or nullptr.
    [[nodiscard]] const std::string* matched() const;

  private:
    struct Node {
        int32_t first_child = -1;
        int32_t next_sibling = -1;
        int32_t fail = 0;    // longest proper suffix that is a node
        int32_t output = -1; // longest stop string that ends here (index), own or by suffix
        int32_t depth = 0;
        char byte = 0;
    };

    void insert(std::string_view stop, int32_t stop_idx);
    void link_suffixes();
    [[nodiscard]] int32_t child(int32_t node, char byte) const;
    [[nodiscard]] int32_t next(int32_t node, char byte) const;
    // Takes the match that ends at the current byte if it is better than the best so far.
    void consider_match();
    // True when no stop string that is still growing could replace the best match.
    [[nodiscard]] bool decided() const;
    [[nodiscard]] std::string take_before(int64_t position);

    std::vector<std::string> stops_;
    std::vector<Node> nodes_;
    int32_t node_ = 0;
    std::string held_;       // text from held_start_ on that was not returned
    int64_t held_start_ = 0; // positions count bytes since the first feed
    int64_t position_ = 0;   // bytes scanned
    int64_t match_start_ = -1;
    int32_t match_idx_ = -1; // best match so far
    bool done_ = false;
};

} // namespace dsv4v
