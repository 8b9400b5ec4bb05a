// Unicode 16.0 general categories, as far as the pre-tokenizer tells characters apart.
#pragma once

#include <cstdint>

namespace dsv4v {

enum class CharClass : uint8_t { kOther, kLetter, kMark, kNumber, kPunctuation, kSymbol, kSpace };

// Class of a code point; kOther above U+10FFFF and for everything that has none. kSpace is what a
// regular expression's \s matches, which no other class overlaps.
[[nodiscard]] CharClass char_class(char32_t code_point);

} // namespace dsv4v
