// UTF-8 with replacement of ill-formed bytes, one U+FFFD per maximal invalid subpart
// (Unicode 3.9), whole strings and streams.
#pragma once

#include <string>
#include <string_view>

namespace dsv4v {

// True if all of `bytes` is well-formed.
[[nodiscard]] bool is_valid_utf8(std::string_view bytes);
// Copy of `bytes` with each maximal ill-formed subpart replaced by U+FFFD.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view bytes);

// Turns a stream of token bytes into whole characters: feed() returns the longest prefix that is
// decided, keeping at most 3 bytes of an unfinished character; finish() flushes those as U+FFFD.
class Utf8Stream {
  public:
    [[nodiscard]] std::string feed(std::string_view bytes);
    [[nodiscard]] std::string finish();

  private:
    std::string pending_;
};

} // namespace dsv4v
