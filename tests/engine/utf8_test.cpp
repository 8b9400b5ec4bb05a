#include "engine/utf8.h"

#include <random>
#include <string>
#include <vector>

#include "tests/engine/json_lines.h"

namespace dsv4v {
namespace {

using testing::from_hex;
using testing::read_json_lines;

// All inputs of the reference data, with what they decode to.
std::vector<std::pair<std::string, std::string>> golden_cases() {
    std::vector<std::pair<std::string, std::string>> cases;
    for (const char* file : {"tokenizer/utf8_input_cases.jsonl", "tokenizer/detok_cases.jsonl"}) {
        for (const JsonValue& entry : read_json_lines(file)) {
            cases.emplace_back(from_hex(entry.find("bytes_hex")->text), entry.find("text")->text);
        }
    }
    EXPECT_EQ(cases.size(), 55u);
    return cases;
}

TEST(Utf8, ReplacesLikeTheReference) {
    for (const auto& [bytes, text] : golden_cases()) {
        EXPECT_EQ(replace_invalid_utf8(bytes), text);
        EXPECT_EQ(is_valid_utf8(bytes), bytes == text);
        EXPECT_TRUE(is_valid_utf8(text));
    }
}

TEST(Utf8, StreamsEveryTwoWaySplit) {
    for (const auto& [bytes, text] : golden_cases()) {
        for (size_t cut = 0; cut <= bytes.size(); ++cut) {
            Utf8Stream stream;
            std::string out;
            for (const std::string& delta :
                 {stream.feed(std::string_view(bytes).substr(0, cut)),
                  stream.feed(std::string_view(bytes).substr(cut)), stream.finish()}) {
                EXPECT_TRUE(is_valid_utf8(delta));
                out += delta;
            }
            EXPECT_EQ(out, text) << "cut " << cut;
            EXPECT_EQ(stream.finish(), "");
        }
    }
}

TEST(Utf8, StreamsByteByByteAndHoldsAtMostThree) {
    for (const auto& [bytes, text] : golden_cases()) {
        Utf8Stream stream;
        std::string out;
        size_t n_fed = 0;
        for (const char byte : bytes) {
            out += stream.feed(std::string_view(&byte, 1));
            ++n_fed;
            const std::string decided = replace_invalid_utf8(bytes.substr(0, n_fed));
            // Either everything is out, or what is missing is one unfinished character.
            EXPECT_TRUE(out == decided || out + std::string(kReplacementCharacter) == decided);
        }
        EXPECT_EQ(out + stream.finish(), text);
    }
}

TEST(Utf8, AgreesWithTheCodeSpaceForEveryCharacter) {
    for (char32_t c = 0; c < 0x110000; ++c) {
        const uint32_t n_bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        std::string bytes;
        if (n_bytes == 1) {
            bytes += static_cast<char>(c);
        } else {
            bytes += static_cast<char>((0xF00u >> n_bytes) | (c >> (6 * (n_bytes - 1))));
            for (uint32_t i = n_bytes - 1; i-- > 0;) {
                bytes += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
            }
        }
        const Utf8Char first = first_utf8_char(bytes);
        if (c >= 0xD800 && c <= 0xDFFF) {
            ASSERT_EQ(first.state, Utf8Char::State::kInvalid) << static_cast<uint32_t>(c);
            ASSERT_EQ(replace_invalid_utf8(bytes), "\uFFFD\uFFFD\uFFFD");
        } else {
            ASSERT_EQ(first.state, Utf8Char::State::kValid) << static_cast<uint32_t>(c);
            ASSERT_EQ(first.code_point, c);
            ASSERT_EQ(first.n_bytes, n_bytes);
        }
    }
}

TEST(Utf8, RandomBytesStreamLikeTheWhole) {
    std::mt19937 random(7);
    const std::string alphabet = "a\x80\xBF\xC0\xC2\xE0\xA0\x9F\xED\xEF\xF0\x90\x8F\xF4\xF5\xFF";
    for (int round = 0; round < 2000; ++round) {
        std::string bytes;
        for (size_t n = random() % 24; n > 0; --n) {
            bytes += alphabet[random() % alphabet.size()];
        }
        Utf8Stream stream;
        std::string out;
        for (size_t at = 0; at < bytes.size();) {
            const size_t n = 1 + random() % 4;
            out += stream.feed(std::string_view(bytes).substr(at, n));
            ASSERT_TRUE(is_valid_utf8(out));
            at += n;
        }
        ASSERT_EQ(out + stream.finish(), replace_invalid_utf8(bytes));
        ASSERT_EQ(valid_utf8_prefix(bytes) == bytes.size(), replace_invalid_utf8(bytes) == bytes);
    }
}

} // namespace
} // namespace dsv4v
