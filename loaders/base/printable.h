// Bytes of a file made safe for one line of a log or an error message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dsv4v {

// Printable ASCII stays, every other byte becomes \xNN; what is longer than `max_bytes` is cut and
// ends in "...". Never fails, whatever the bytes are.
[[nodiscard]] std::string printable(std::string_view bytes, size_t max_bytes = 96);

} // namespace dsv4v
