// The spelling of normal vocabulary entries: one printable character per byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dsv4v {

// The character, in UTF-8, that stands for `byte`: itself when printable in Latin-1, else one of
// U+0100..U+0143 in the order of the remaining bytes.
[[nodiscard]] std::string byte_level_char(uint8_t byte);

// The bytes that a spelling stands for; nothing if it has a character that stands for no byte.
[[nodiscard]] std::optional<std::string> byte_level_decode(std::string_view spelling);

} // namespace dsv4v
