#include "loaders/vocab.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loaders/gguf_file.h"
#include "tests/gguf_builder.h"
#include "tests/golden.h"

namespace dsv4v {
namespace {

using testing::GgufBuilder;
using ::testing::HasSubstr;

const GgufFile& golden_file() {
    static const GgufFile file =
        std::move(*GgufFile::open(testing::unpacked("models/tiny-a-bf16.gguf")));
    return file;
}

std::string error_of(const std::function<void(GgufBuilder&)>& change) {
    GgufBuilder builder = GgufBuilder::copy_of(golden_file());
    std::erase_if(builder.tensors, [](const auto& t) { return t.name != "token_embd.weight"; });
    change(builder);
    const std::string bytes = builder.build();
    const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "test.gguf");
    if (!file) {
        return file.error().message;
    }
    const auto vocab = Vocab::from_gguf(*file);
    return vocab ? "accepted" : vocab.error().message;
}

void replace_token(GgufBuilder& b, const std::string& from, const std::string& to) {
    std::vector<std::string> tokens = *golden_file().get_string_array("tokenizer.ggml.tokens");
    std::replace(tokens.begin(), tokens.end(), from, to);
    b.set_string_array("tokenizer.ggml.tokens", tokens);
}

TEST(Vocab, AcceptsTheGoldenVocabulary) {
    EXPECT_EQ(error_of([](auto&) {}), "accepted");
    EXPECT_EQ(error_of([](auto& b) { b.set_string("tokenizer.ggml.pre", "deepseek-v3"); }),
              "accepted");
    EXPECT_EQ(error_of([](auto& b) { b.erase_key("tokenizer.chat_template"); }), "accepted");
}

TEST(Vocab, NamesEveryMissingKey) {
    for (const char* name :
         {"model", "pre", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id"}) {
        const std::string key = std::string("tokenizer.ggml.") + name;
        EXPECT_THAT(error_of([&](GgufBuilder& b) { b.erase_key(key); }),
                    HasSubstr("key " + key + " is missing"));
    }
}

TEST(Vocab, NamesEveryKeyOfTheWrongKind) {
    for (const char* name :
         {"model", "pre", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id"}) {
        const std::string key = std::string("tokenizer.ggml.") + name;
        EXPECT_THAT(error_of([&](GgufBuilder& b) { b.set_bool(key, true); }),
                    HasSubstr("key " + key + " has type bool"));
    }
    EXPECT_THAT(error_of([](auto& b) {
                    b.set_f32_array("tokenizer.ggml.token_type", std::vector<float>(512, 1));
                }),
                HasSubstr("key tokenizer.ggml.token_type has type array of 512 f32"));
    EXPECT_THAT(error_of([](auto& b) {
                    b.set_i32_array("tokenizer.ggml.tokens", std::vector<int32_t>(512, 1));
                }),
                HasSubstr("key tokenizer.ggml.tokens has type array of 512 i32"));
    EXPECT_THAT(error_of([](auto& b) { b.set_i32_array("tokenizer.ggml.merges", {1}); }),
                HasSubstr("key tokenizer.ggml.merges has type array of 1 i32"));
}

TEST(Vocab, RefusesOtherAlgorithms) {
    EXPECT_THAT(error_of([](auto& b) { b.set_string("tokenizer.ggml.model", "llama"); }),
                HasSubstr("key tokenizer.ggml.model is \"llama\""));
    EXPECT_THAT(error_of([](auto& b) { b.set_string("tokenizer.ggml.pre", "gpt-4o"); }),
                HasSubstr("key tokenizer.ggml.pre is \"gpt-4o\""));
}

TEST(Vocab, RefusesCountsThatDisagree) {
    EXPECT_THAT(error_of([](auto& b) {
                    b.set_i32_array("tokenizer.ggml.token_type", std::vector<int32_t>(511, 1));
                }),
                HasSubstr("key tokenizer.ggml.token_type has 511 elements, wanted one for each"));
    EXPECT_THAT(error_of([](auto& b) {
                    b.set_string_array("tokenizer.ggml.tokens", {"a", "b"});
                }),
                HasSubstr("key tokenizer.ggml.tokens has 2 elements, but tensor"));
    EXPECT_THAT(error_of([](auto& b) { b.set_string_array("tokenizer.ggml.tokens", {}); }),
                HasSubstr("key tokenizer.ggml.tokens has 0 elements"));
}

TEST(Vocab, RefusesIdsAndTypesOutOfRange) {
    EXPECT_THAT(error_of([](auto& b) { b.set_u32("tokenizer.ggml.bos_token_id", 512); }),
                HasSubstr("key tokenizer.ggml.bos_token_id is 512, wanted 0 to 511"));
    EXPECT_THAT(error_of([](auto& b) { b.set_i32("tokenizer.ggml.eos_token_id", -1); }),
                HasSubstr("key tokenizer.ggml.eos_token_id is -1"));
    for (const int32_t type : {0, 7, -1}) {
        EXPECT_THAT(error_of([&](GgufBuilder& b) {
                        std::vector<int32_t> types(512, 1);
                        types[300] = type;
                        b.set_i32_array("tokenizer.ggml.token_type", types);
                    }),
                    HasSubstr("key tokenizer.ggml.token_type element 300 is "));
    }
}

TEST(Vocab, NamesAMissingSpecialToken) {
    for (const char* token : {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>",
                              "<｜Assistant｜>", "<think>", "</think>"}) {
        EXPECT_THAT(error_of([&](GgufBuilder& b) { replace_token(b, token, "other"); }),
                    HasSubstr(std::string("does not hold the token ") + token));
    }
}

} // namespace
} // namespace dsv4v
