// Vocabularies for synthetic models.
#pragma once

#include <string>

#include "loaders/base/error.h"
#include "loaders/vocab.h"

namespace dsv4v {

// Three specials, the 256 bytes, some merges of common English letter pairs, and every special
// token that chats, tools and pictures need: about 400 tokens.
[[nodiscard]] Vocab small_vocabulary();

// Reads the gzip-compressed text form of tests/data/tokenizer/dsv4_vocab.txt.gz. Line 1 is
// "dsv4-vocab 1", line 2 the numbers of tokens and merges, then one line per token: its text, a
// tab, and p > 0 for a merge of its first p code points with the rest, or -t for type t.
[[nodiscard]] Expected<Vocab> read_vocabulary(const std::string& path);

} // namespace dsv4v
