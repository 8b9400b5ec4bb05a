// The text of a JSON number as an integer, a double, or the way Python prints it. All take a
// number that follows the JSON grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dsv4v {

// Exact value if it is an integer within int64, however it is written (`4`, `4.0`, `1e2`).
[[nodiscard]] std::optional<int64_t> number_as_int(std::string_view number);
// Nearest double; nothing when it would be infinite.
[[nodiscard]] std::optional<double> number_as_finite_double(std::string_view number);
// As Python's json module prints what it read: integers with all digits, others as the shortest
// text that reads back as the same double.
[[nodiscard]] std::string python_number(std::string_view number);

} // namespace dsv4v
