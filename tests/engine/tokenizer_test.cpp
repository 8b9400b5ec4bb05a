#include "engine/tokenizer.h"

#include <openssl/sha.h>

#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "engine/utf8.h"
#include "loaders/gguf_file.h"
#include "tests/engine/json_lines.h"
#include "tests/real_vocab.h"

namespace dsv4v {
namespace {

using testing::from_hex;
using testing::read_json_lines;
using testing::read_whole_file;
using testing::source_data;
using testing::to_ids;
using Ids = std::vector<int32_t>;

Vocab read_real_vocab() {
    return testing::read_real_vocab(source_data("tokenizer/dsv4_vocab.txt.gz"));
}

// What a run may take; builds without optimisation or with sanitizers get more.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 1;
#else
constexpr double kSlowdown = 40;
#endif

// Processor time, which a busy machine does not stretch as it does wall time.
class Stopwatch {
  public:
    [[nodiscard]] double seconds() const {
        return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC;
    }

  private:
    std::clock_t start_ = std::clock();
};

const Tokenizer& real_tokenizer() {
    static const Tokenizer tokenizer = [] {
        auto created = Tokenizer::create(read_real_vocab());
        EXPECT_TRUE(created.has_value()) << created.error().message;
        return std::move(*created);
    }();
    return tokenizer;
}

std::string concatenate(const std::vector<std::string>& pieces) {
    std::string out;
    for (const std::string& piece : pieces) {
        out += piece;
    }
    return out;
}

std::string repeat(std::string_view unit, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) {
        out += unit;
    }
    return out;
}

std::string sha256_of_ids(const Ids& ids) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(ids.data()), ids.size() * sizeof(int32_t),
           digest);
    std::string hex;
    for (const unsigned char byte : digest) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
    }
    return hex;
}

TEST(Tokenizer, EncodesEveryReferenceText) {
    const Tokenizer& tokenizer = real_tokenizer();
    int n_cases = 0;
    for (const JsonValue& entry : read_json_lines("tokenizer/token_cases.jsonl")) {
        const std::string& text = entry.find("text")->text;
        const Ids raw = to_ids(*entry.find("raw"));
        const Ids special = entry.find("special") ? to_ids(*entry.find("special")) : raw;
        std::vector<std::string> pieces;
        for (const JsonValue& piece : entry.find("pieces")->items) {
            pieces.push_back(piece.text);
        }
        EXPECT_EQ(tokenizer.pieces(text), pieces) << text;
        EXPECT_EQ(tokenizer.encode(text, false), raw) << text;
        EXPECT_EQ(tokenizer.encode(text, true), special) << text;
        EXPECT_EQ(tokenizer.decode(raw, true), text);
        EXPECT_EQ(tokenizer.decode(special, true), text);
        ++n_cases;
    }
    EXPECT_EQ(n_cases, 307);
}

TEST(Tokenizer, EncodesLongTextsQuickly) {
    const Tokenizer& tokenizer = real_tokenizer();
    int n_cases = 0;
    for (const JsonValue& entry : read_json_lines("tokenizer/long_cases.jsonl")) {
        std::string text;
        for (const JsonValue& segment : entry.find("text_segments")->items) {
            text += repeat(segment.items[0].text,
                           static_cast<size_t>(segment.items[1].as_int().value()));
        }
        const Stopwatch watch;
        const Ids ids = tokenizer.encode(text, false);
        const double seconds = watch.seconds();
        EXPECT_LT(seconds, 0.05 * kSlowdown) << entry.find("name")->text;
        EXPECT_EQ(tokenizer.pieces(text).size(),
                  static_cast<size_t>(entry.find("n_pieces")->as_int().value()));
        EXPECT_EQ(ids.size(), static_cast<size_t>(entry.find("n_ids")->as_int().value()));
        EXPECT_EQ(sha256_of_ids(ids), entry.find("sha256")->text) << entry.find("name")->text;
        ++n_cases;
    }
    EXPECT_EQ(n_cases, 16);
}

TEST(Tokenizer, DecodesEveryReferenceCase) {
    const Tokenizer& tokenizer = real_tokenizer();
    for (const JsonValue& entry : read_json_lines("tokenizer/detok_cases.jsonl")) {
        const Ids ids = to_ids(*entry.find("ids"));
        const std::string bytes = tokenizer.decode(ids, true);
        EXPECT_EQ(bytes, from_hex(entry.find("bytes_hex")->text));
        EXPECT_EQ(replace_invalid_utf8(bytes), entry.find("text")->text);
        const std::string& visible = entry.find("visible")->text;
        EXPECT_EQ(replace_invalid_utf8(tokenizer.decode(ids, false)), visible);

        Utf8Stream stream;
        std::string streamed;
        for (size_t i = 0; i < ids.size(); ++i) {
            const std::string delta = stream.feed(tokenizer.decode(std::span(&ids[i], 1), false));
            EXPECT_EQ(delta, entry.find("stream")->items[i].text) << entry.find("name")->text;
            streamed += delta;
        }
        const std::string tail = stream.finish();
        EXPECT_EQ(tail, entry.find("stream_tail")->text);
        EXPECT_EQ(streamed + tail, visible);
    }
}

TEST(Tokenizer, ReplacesIllFormedInput) {
    const Tokenizer& tokenizer = real_tokenizer();
    for (const JsonValue& entry : read_json_lines("tokenizer/utf8_input_cases.jsonl")) {
        const std::string bytes = from_hex(entry.find("bytes_hex")->text);
        const Ids raw = to_ids(*entry.find("raw"));
        EXPECT_EQ(tokenizer.encode(bytes, false), raw);
        EXPECT_EQ(tokenizer.encode(std::vector<TextPart>{{bytes, false}}), raw);
        EXPECT_EQ(concatenate(tokenizer.pieces(bytes)), entry.find("text")->text);
    }
}

TEST(Tokenizer, KnowsEverySpecialToken) {
    const Tokenizer& tokenizer = real_tokenizer();
    const auto golden = parse_json(read_whole_file(source_data("tokenizer/special_tokens.json")));
    ASSERT_TRUE(golden.has_value());
    EXPECT_EQ(tokenizer.vocab_size(), golden->find("n_vocab")->as_int());
    EXPECT_EQ(tokenizer.bos_id(), 0);
    EXPECT_EQ(tokenizer.eos_id(), 1);
    ASSERT_GT(golden->find("tokens")->items.size(), 20u);
    for (const JsonValue& entry : golden->find("tokens")->items) {
        const std::string& text = entry.find("text")->text;
        const auto id = static_cast<int32_t>(entry.find("id")->as_int().value());
        EXPECT_EQ(tokenizer.find_special(text), id) << text;
        EXPECT_EQ(tokenizer.token_bytes(id), text);
        EXPECT_EQ(tokenizer.is_control(id), entry.find("gguf_type")->as_int() == 3) << text;
        EXPECT_EQ(tokenizer.encode("a" + text + "b", true), (Ids{67, id, 68})) << text;
        EXPECT_GT(tokenizer.encode(text, false).size(), 1u) << text;
    }
    EXPECT_EQ(tokenizer.find_special("<｜place▁holder▁no▁417｜>"), 128417);
    EXPECT_EQ(tokenizer.find_special("<|place_holder_mm_span_0021|>"), 128847);
    EXPECT_EQ(tokenizer.find_special("<tool_result>"), std::nullopt);
    EXPECT_EQ(tokenizer.find_special("<think"), std::nullopt);
    EXPECT_EQ(tokenizer.find_special(""), std::nullopt);
    EXPECT_EQ(tokenizer.find_special("!"), std::nullopt); // a normal token
}

TEST(Tokenizer, TrustsOnlyWholeMatchesInOnePart) {
    const Tokenizer& tokenizer = real_tokenizer();
    const auto encode = [&](const std::vector<TextPart>& parts) { return tokenizer.encode(parts); };
    const Ids end_think = {128822};
    const Ids spelled = tokenizer.encode("</think>", false);
    EXPECT_EQ(encode({{"</think>", true}}), end_think);
    EXPECT_EQ(encode({{"</think>", false}}), spelled);
    EXPECT_EQ(encode({{"</thi", true}, {"nk>", true}}), spelled);
    EXPECT_EQ(encode({{"</thi", true}, {"nk>", false}}), spelled);
    EXPECT_EQ(encode({{"</thi", false}, {"nk>", true}}), spelled);
    EXPECT_EQ(encode({{"</think", true}, {"", false}, {">", true}}), spelled);
    EXPECT_EQ(encode({{"", true}, {"", false}}), Ids{});
    EXPECT_EQ(encode({}), Ids{});
    Ids around = end_think;
    around.insert(around.end(), spelled.begin(), spelled.end());
    around.push_back(128822);
    EXPECT_EQ(encode({{"</think>", true}, {"</think>", false}, {"</think>", true}}), around);
}

TEST(Tokenizer, PiecesSpanParts) {
    const Tokenizer& tokenizer = real_tokenizer();
    const std::vector<TextPart> parts = {
        {"<｜User｜>", true}, {"Hello.", false}, {"\n\n<tool", true}};
    Ids expected = {128803};
    const Ids rest = tokenizer.encode("Hello.\n\n<tool", false);
    expected.insert(expected.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokenizer.encode(parts), expected);
    const Ids apart = tokenizer.encode("Hello.", false);
    EXPECT_NE(Ids(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(apart.size())), apart);
}

// Characters that the pre-tokenizer treats differently, and the makings of special tokens.
std::string random_text(std::mt19937& random) {
    static const std::vector<std::string> kUnits = {"a",
                                                    "b",
                                                    "Z",
                                                    "the",
                                                    " ",
                                                    "  ",
                                                    "\n",
                                                    "\r\n",
                                                    "\t",
                                                    "1",
                                                    "23",
                                                    "4567",
                                                    ".",
                                                    ",",
                                                    "'s",
                                                    "!",
                                                    "_",
                                                    "é",
                                                    "ï",
                                                    "\u0301",
                                                    "中",
                                                    "国",
                                                    "あ",
                                                    "ン",
                                                    "・",
                                                    "゛",
                                                    "한",
                                                    "ﾊ",
                                                    "𠀀",
                                                    "😀",
                                                    "\u200D",
                                                    "\u00A0",
                                                    "\u3000",
                                                    "\u2028",
                                                    "\u0085",
                                                    "\u180E",
                                                    "\uFEFF",
                                                    "٣",
                                                    "Ⅷ",
                                                    "€",
                                                    "—",
                                                    "“",
                                                    std::string(1, '\0'),
                                                    "\x1F",
                                                    "\uE000",
                                                    "<",
                                                    ">",
                                                    "｜",
                                                    "think",
                                                    "</think>",
                                                    "<｜User｜>",
                                                    "｜DSML｜",
                                                    "▁",
                                                    "/"};
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) {
        text += kUnits[random() % kUnits.size()];
    }
    return text;
}

TEST(Tokenizer, RandomTextsRoundTrip) {
    const Tokenizer& tokenizer = real_tokenizer();
    std::mt19937 random(1);
    for (int round = 0; round < 5000; ++round) {
        const std::string text = random_text(random);
        ASSERT_EQ(concatenate(tokenizer.pieces(text)), text);
        const Ids raw = tokenizer.encode(text, false);
        ASSERT_EQ(tokenizer.decode(raw, true), text);
        ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, true), true), text);
        for (const int32_t id : raw) {
            ASSERT_TRUE(id >= 3 && id < 128000) << "special token from untrusted text: " << text;
        }
        // How untrusted text is cut into parts does not matter.
        const size_t cut = valid_utf8_prefix(
            std::string_view(text).substr(0, text.empty() ? 0 : random() % text.size()));
        const std::vector<TextPart> parts = {{text.substr(0, cut), false},
                                             {text.substr(cut), false}};
        ASSERT_EQ(tokenizer.encode(parts), raw) << text;
    }
}

// A method that is quadratic anywhere would need minutes.
TEST(Tokenizer, OneMebibyteTakesLessThanASecond) {
    const Tokenizer& tokenizer = real_tokenizer();
    constexpr size_t kBytes = 1 << 20;
    std::mt19937 random(2);
    std::string mixed;
    while (mixed.size() < kBytes) {
        mixed += random_text(random);
    }
    std::string base64;
    while (base64.size() < kBytes) {
        base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[random() % 52];
    }
    const std::string prose = "The lighthouse keeper counted 12 ships at dawn, and wrote it down. ";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"mixed", mixed},
        {"prose", repeat(prose, kBytes / prose.size())},
        {"letters", base64},
        {"a", repeat("a", kBytes)},
        {"space", repeat(" ", kBytes)},
        {"=", repeat("=", kBytes)},
        {"newline", repeat("\n", kBytes)},
        {"han", repeat("中", kBytes / 3)},
        {"digit", repeat("7", kBytes)},
        {"emoji", repeat("😀", kBytes / 4)},
        {"special", repeat("<｜User｜>", kBytes / 12)},
        {"nearly special", repeat("<｜place▁holder▁no▁", kBytes / 25)},
        {"<", repeat("<", kBytes)}};
    for (const auto& [name, text] : cases) {
        const Stopwatch watch;
        const Ids ids = tokenizer.encode(text, true);
        const double seconds = watch.seconds();
        EXPECT_LT(seconds, 1.0 * kSlowdown) << name;
        std::printf("%-15s %6.1f ms, %zu ids\n", name.c_str(), seconds * 1e3, ids.size());
        EXPECT_EQ(tokenizer.decode(ids, true), text) << name;
    }
}

TEST(Tokenizer, IsCreatedQuickly) {
    Vocab vocab = read_real_vocab();
    const Stopwatch watch;
    const auto created = Tokenizer::create(std::move(vocab));
    const double seconds = watch.seconds();
    ASSERT_TRUE(created.has_value());
    EXPECT_LT(seconds, 0.3 * kSlowdown);
    std::printf("created in %.1f ms\n", seconds * 1e3);
}

// The 256 bytes, then one merge and one control token.
Vocab small_vocab() {
    Vocab vocab = read_real_vocab();
    Vocab small;
    const auto keep = [&](size_t first, size_t end) {
        for (size_t id = first; id < end; ++id) {
            small.tokens.push_back(vocab.tokens[id]);
            small.types.push_back(vocab.types[id]);
        }
    };
    keep(0, 260);
    keep(128822, 128823);
    small.merges.push_back(vocab.merges[0]);
    return small;
}

std::string creation_error(Vocab vocab) {
    auto created = Tokenizer::create(std::move(vocab));
    EXPECT_FALSE(created.has_value());
    return created ? "" : created.error().message;
}

TEST(Tokenizer, LooksIdsUpByText) {
    Vocab vocab = small_vocab();
    std::swap(vocab.tokens[3], vocab.tokens[259]); // "!" and the merge "Ġt" change places
    auto tokenizer = Tokenizer::create(std::move(vocab));
    ASSERT_TRUE(tokenizer.has_value());
    EXPECT_EQ(tokenizer->encode(" t!", false), (Ids{3, 259}));
    EXPECT_EQ(tokenizer->encode("</think>", true), (Ids{260}));
}

TEST(Tokenizer, RefusesBrokenVocabularies) {
    EXPECT_TRUE(Tokenizer::create(small_vocab()).has_value());
    const auto broken = [](auto change) {
        Vocab vocab = small_vocab();
        change(vocab);
        return creation_error(std::move(vocab));
    };
    EXPECT_EQ(broken([](Vocab& v) { v.merges[0] = "Ġ xyz"; }),
              "merge 0 \"Ġ xyz\": its right part is not a token");
    EXPECT_EQ(broken([](Vocab& v) { v.merges[0] = "xyz t"; }),
              "merge 0 \"xyz t\": its left part is not a token");
    EXPECT_EQ(broken([](Vocab& v) { v.merges.push_back("t Ġ"); }),
              "merge 1 \"t Ġ\": the joined text is not a token");
    EXPECT_EQ(broken([](Vocab& v) { v.merges.push_back("Ġt"); }),
              "merge 1 \"Ġt\": must be two parts with one space between");
    EXPECT_EQ(broken([](Vocab& v) { v.merges.push_back("Ġ t x"); }),
              "merge 1 \"Ġ t x\": must be two parts with one space between");
    EXPECT_EQ(broken([](Vocab& v) { v.merges.push_back("Ġ t"); }),
              "merge 1 \"Ġ t\": an earlier merge has the same parts");
    EXPECT_EQ(broken([](Vocab& v) { v.tokens[3] = "xx"; }),
              "vocabulary has no token for byte 0x21");
    EXPECT_EQ(broken([](Vocab& v) {
                  v.tokens[259] = "中";
                  v.merges.clear();
              }),
              "token 259 \"中\" is not in byte-level spelling");
    EXPECT_EQ(broken([](Vocab& v) {
                  v.tokens[259] = "!";
                  v.merges.clear();
              }),
              "token 259 repeats the text \"!\" of token 3");
    EXPECT_EQ(broken([](Vocab& v) { v.tokens[0] = ""; }), "token 0 has no text");
    EXPECT_EQ(broken([](Vocab& v) { v.types.pop_back(); }),
              "vocabulary has 261 tokens but 260 token types");
    EXPECT_EQ(broken([](Vocab& v) { v.eos_id = 261; }),
              "eos token id 261 is not in the vocabulary of 261 tokens");
    EXPECT_EQ(broken([](Vocab& v) { v.bos_id = -1; }),
              "bos token id -1 is not in the vocabulary of 261 tokens");
    EXPECT_NE(creation_error(Vocab{}), "");
}

TEST(Tokenizer, EncodesWithTheVocabularyOfAModelFile) {
    const auto file = GgufFile::open(testing::unpacked("models/tiny-a-bf16.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().message;
    auto vocab = Vocab::from_gguf(*file);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().message;
    const auto tokenizer = Tokenizer::create(std::move(*vocab));
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;

    const auto golden = parse_json(read_whole_file(testing::unpacked("models/tokenize.json")));
    ASSERT_TRUE(golden.has_value());
    int n_plain = 0;
    for (const JsonValue& entry : golden->find("cases")->items) {
        const std::string& text = entry.find("text")->text;
        EXPECT_EQ(tokenizer->encode(text, true), to_ids(*entry.find("ids"))) << text;
        // The reference program keeps user-defined tokens in plain text; here nothing is special.
        if (text.find("</think>") == std::string::npos) {
            EXPECT_EQ(tokenizer->encode(text, false), to_ids(*entry.find("ids_plain"))) << text;
            ++n_plain;
        }
    }
    EXPECT_GT(n_plain, 10);
}

} // namespace
} // namespace dsv4v
