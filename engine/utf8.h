// UTF-8 with replacement of ill-formed bytes, one U+FFFD per maximal invalid subpart
// (Unicode 3.9), whole strings and streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dsv4v {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD"; // U+FFFD

// What lies at the front of a byte string.
struct Utf8Char {
    enum class State {
        kValid,      // a whole character
        kInvalid,    // a maximal ill-formed subpart
        kUnfinished, // the bytes end inside a so far well-formed character
    };
    char32_t code_point = 0; // only for kValid
    uint32_t n_bytes = 0;    // 1..4; how far the next character is away
    State state = State::kInvalid;
};

// The first character of `bytes`, which must not be empty.
[[nodiscard]] Utf8Char first_utf8_char(std::string_view bytes);

// True if all of `bytes` is well-formed.
[[nodiscard]] bool is_valid_utf8(std::string_view bytes);
// Length of the longest well-formed prefix, which is where the first ill-formed byte lies.
[[nodiscard]] size_t valid_utf8_prefix(std::string_view bytes);
// Copy of `bytes` with each maximal ill-formed subpart replaced by U+FFFD.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view bytes);

// Turns a stream of token bytes into whole characters: feed() returns the longest prefix that is
// decided, keeping at most 3 bytes of an unfinished character; finish() flushes those as U+FFFD.
class Utf8Stream {
  public:
    [[nodiscard]] std::string feed(std::string_view bytes);
    [[nodiscard]] std::string finish();
    // Bytes of an unfinished character that are kept.
    [[nodiscard]] size_t n_pending() const { return pending_.size(); }

  private:
    std::string pending_;
};

} // namespace dsv4v
