// The vocabulary of the real model, read from tests/data/tokenizer/dsv4_vocab.txt.gz. Does not use
// the test framework, so that fuzz targets can include it.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/utf8.h"
#include "loaders/base/check.h"
#include "loaders/vocab.h"

namespace dsv4v::testing {

inline std::string read_gzip(const std::string& path) {
    std::string text;
    char buffer[1 << 16];
    gzFile file = gzopen(path.c_str(), "rb");
    DSV4V_CHECK(file != nullptr);
    for (int n = gzread(file, buffer, sizeof(buffer)); n != 0;
         n = gzread(file, buffer, sizeof(buffer))) {
        DSV4V_CHECK(n > 0);
        text.append(buffer, static_cast<size_t>(n));
    }
    gzclose(file);
    return text;
}

// Offset in `text` of the character with index `n_chars`.
inline size_t offset_of_char(std::string_view text, int n_chars) {
    size_t offset = 0;
    for (int i = 0; i < n_chars; ++i) {
        offset += first_utf8_char(text.substr(offset)).n_bytes;
    }
    return offset;
}

// Reads tokenizer/dsv4_vocab.txt.gz of the test data. Layout: a title line; "tokens merges"; then
// one line per token, "text TAB number". A positive number p: the token is the next merge, of its
// first p characters and the rest. A negative number -t: no merge, token type t.
inline Vocab read_real_vocab(const std::string& path) {
    const std::string text = read_gzip(path);
    Vocab vocab;
    size_t at = text.find('\n', text.find('\n') + 1) + 1;
    while (at < text.size()) {
        const size_t end = text.find('\n', at);
        const std::string_view line = std::string_view(text).substr(at, end - at);
        const size_t tab = line.rfind('\t');
        const std::string_view token = line.substr(0, tab);
        const int number = std::stoi(std::string(line.substr(tab + 1)));
        vocab.tokens.emplace_back(token);
        vocab.types.push_back(number > 0 ? TokenType::kNormal : static_cast<TokenType>(-number));
        if (number > 0) {
            const size_t split = offset_of_char(token, number);
            vocab.merges.push_back(std::string(token.substr(0, split)) + " " +
                                   std::string(token.substr(split)));
        }
        at = end + 1;
    }
    DSV4V_CHECK(vocab.tokens.size() == 129280 && vocab.merges.size() == 127741);
    return vocab;
}

} // namespace dsv4v::testing
