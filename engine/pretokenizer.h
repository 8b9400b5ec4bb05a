// Cuts text into the pieces that byte-pair encoding never merges across: the three regular
// expressions of the joyai-llm / deepseek-v3 pre-tokenizer as hand-written scans, linear in the
// text and without recursion (docs/tokenizer.md).
#pragma once

#include <string_view>
#include <vector>

namespace dsv4v {

// Appends the pieces of `text`, which must be well-formed UTF-8. Their concatenation is `text`; the
// views point into it.
void split_into_pieces(std::string_view text, std::vector<std::string_view>& pieces);

} // namespace dsv4v
