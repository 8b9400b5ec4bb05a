// Tokenizer and UTF-8 stream over the real vocabulary. The first byte of the input says where the
// rest is cut into parts and which of them are trusted.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"
#include "engine/utf8.h"
#include "loaders/base/check.h"
#include "tests/real_vocab.h"

namespace {

using namespace dsv4v;

const Tokenizer& real_tokenizer() {
    static const Tokenizer tokenizer = [] {
        auto created = Tokenizer::create(testing::read_real_vocab(
            std::string(DSV4V_SOURCE_DIR) + "/tests/data/tokenizer/dsv4_vocab.txt.gz"));
        DSV4V_CHECK(created.has_value());
        return std::move(*created);
    }();
    return tokenizer;
}

int count_special(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    int n = 0;
    for (const int32_t id : ids) {
        n += tokenizer.find_special(tokenizer.token_bytes(id)) == id ? 1 : 0;
    }
    return n;
}

std::vector<TextPart> cut_into_parts(std::string_view text, uint8_t pattern) {
    std::vector<TextPart> parts;
    const size_t length = 1 + pattern % 16;
    for (size_t i = 0; i * length < text.size(); ++i) {
        parts.push_back(
            {std::string(text.substr(i * length, length)), ((pattern >> 4) >> (i % 4) & 1) != 0});
    }
    return parts;
}

void check_parts(const Tokenizer& tokenizer, std::string_view text, uint8_t pattern) {
    std::vector<TextPart> parts = cut_into_parts(text, pattern);
    std::string expected;
    int n_special = 0;
    for (const TextPart& part : parts) {
        expected += replace_invalid_utf8(part.text);
        n_special += part.trusted ? count_special(tokenizer, tokenizer.encode(part.text, true)) : 0;
    }
    const std::vector<int32_t> ids = tokenizer.encode(parts);
    DSV4V_CHECK(tokenizer.decode(ids, true) == expected);
    DSV4V_CHECK(count_special(tokenizer, ids) == n_special);
    for (TextPart& part : parts) {
        part.trusted = false;
    }
    DSV4V_CHECK(tokenizer.encode(parts) == tokenizer.encode(expected, false));
}

void check_whole(const Tokenizer& tokenizer, std::string_view text) {
    const std::string valid = replace_invalid_utf8(text);
    DSV4V_CHECK(is_valid_utf8(valid));
    std::string joined;
    for (const std::string& piece : tokenizer.pieces(text)) {
        DSV4V_CHECK(!piece.empty());
        joined += piece;
    }
    DSV4V_CHECK(joined == valid);
    const std::vector<int32_t> raw = tokenizer.encode(text, false);
    DSV4V_CHECK(count_special(tokenizer, raw) == 0);
    DSV4V_CHECK(tokenizer.decode(raw, false) == valid);
    DSV4V_CHECK(tokenizer.decode(tokenizer.encode(text, true), true) == valid);
}

void check_stream(std::string_view bytes, uint8_t pattern) {
    Utf8Stream stream;
    std::string out;
    const size_t length = 1 + pattern % 5;
    for (size_t at = 0; at < bytes.size(); at += length) {
        const std::string delta = stream.feed(bytes.substr(at, length));
        DSV4V_CHECK(is_valid_utf8(delta));
        out += delta;
    }
    out += stream.finish();
    DSV4V_CHECK(out == replace_invalid_utf8(bytes));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    check_whole(real_tokenizer(), text);
    check_parts(real_tokenizer(), text, data[0]);
    check_stream(text, data[0]);
    return 0;
}
