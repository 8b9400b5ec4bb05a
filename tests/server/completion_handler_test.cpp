#include "server/completion_handler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/server/api_fixture.h"
#include "tests/server/stream_checker.h"

namespace dsv4v::testing {
namespace {

constexpr std::string_view kScript = R"({"text":"one two three"})";

TEST(CompletionHandler, ContinuesText) {
    TestApi api(kScript);
    const ApiReply reply =
        api.complete(R"({"prompt":"Say","max_tokens":100,"return_token_ids":true})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(names_of(reply.json),
              (std::vector<std::string>{"id", "object", "created", "model", "system_fingerprint",
                                        "choices", "usage", "timings", "dsv4v"}));
    EXPECT_TRUE(reply.text("id").starts_with("cmpl-"));
    EXPECT_EQ(reply.text("object"), "text_completion");
    EXPECT_EQ(reply.text("choices.0.text"), "one two three");
    EXPECT_EQ(reply.text("choices.0.finish_reason"), "stop");
    EXPECT_EQ(reply.number("choices.0.prompt_token_ids.0"), 0) << "BOS";
    EXPECT_EQ(reply.number("usage.prompt_tokens"), 4);
    EXPECT_EQ(reply.number("usage.completion_tokens"), 14);
}

TEST(CompletionHandler, DefaultLimitIsSixteen) {
    TestApi api(R"({"text":"abc","finish":"none"})");
    const ApiReply reply = api.complete(R"({"prompt":"x"})");
    EXPECT_EQ(reply.number("usage.completion_tokens"), 16);
    EXPECT_EQ(reply.text("choices.0.finish_reason"), "length");
}

TEST(CompletionHandler, PromptFormsAndBos) {
    TestApi api(kScript);
    const auto ids = [&](const std::string& fields) {
        const ApiReply reply =
            api.complete(R"({"return_token_ids":true,"max_tokens":1,)" + fields + "}");
        EXPECT_EQ(reply.status, 200) << reply.body;
        return python_json(*reply.at("choices.0.prompt_token_ids"));
    };
    const int32_t a = kFirstByteId + 'a';
    EXPECT_EQ(ids(R"("prompt":"")"), "[0]");
    EXPECT_EQ(ids(R"("prompt":"a")"), fmt::format("[0, {}]", a));
    EXPECT_EQ(ids(R"("prompt":"a","add_bos":false)"), fmt::format("[{}]", a));
    EXPECT_EQ(ids(R"("prompt":"<｜begin▁of▁sentence｜>a")"), fmt::format("[0, {}]", a))
        << "no second BOS";
    EXPECT_EQ(ids(R"("prompt":[5,6])"), "[5, 6]") << "exactly as given";
    EXPECT_GT(ids(R"("prompt":"<think>","parse_special":false)").size(), 12u);
    EXPECT_LT(ids(R"("prompt":"<think>")").size(), 12u);
}

TEST(CompletionHandler, ManyPromptsTimesN) {
    TestApi api(kScript);
    const ApiReply reply =
        api.complete(R"({"prompt":["a","bc"],"n":2,"max_tokens":3,"echo":true})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    ASSERT_EQ(reply.at("choices")->items.size(), 4u);
    const char* expected[] = {"aone", "aone", "bcone", "bcone"};
    for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(reply.number(fmt::format("choices.{}.index", k)), k);
        EXPECT_EQ(reply.text(fmt::format("choices.{}.text", k)), expected[k]);
    }
    EXPECT_EQ(reply.number("usage.prompt_tokens"), 2 + 3) << "each prompt once";
    EXPECT_EQ(reply.number("usage.completion_tokens"), 12);
}

TEST(CompletionHandler, LegacyLogprobs) {
    TestApi api(R"({"text":"é!"})");
    const ApiReply reply = api.complete(R"({"prompt":"ab","logprobs":2,"max_tokens":9})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const JsonValue& logprobs = *reply.at("choices.0.logprobs");
    EXPECT_EQ(names_of(logprobs),
              (std::vector<std::string>{"tokens", "token_logprobs", "top_logprobs", "text_offset",
                                        "token_ids", "top"}));
    EXPECT_EQ(logprobs.find("tokens")->items.size(), 3u);
    EXPECT_EQ(logprobs.find("token_ids")->items.size(), 3u);
    EXPECT_EQ(ApiReply::at(logprobs, "top.0")->items.size(), 2u);
    EXPECT_EQ(reply.text("choices.0.text"), "é!");
    EXPECT_EQ(api.complete(R"({"prompt":"ab","max_tokens":1})").text("choices.0.logprobs"),
              "(null)");
}

TEST(CompletionHandler, EchoWithLogprobsScoresThePrompt) {
    TestApi api(kScript);
    const ApiReply reply =
        api.complete(R"({"prompt":"abc","echo":true,"logprobs":1,"max_tokens":0})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.text("choices.0.text"), "abc");
    EXPECT_EQ(reply.text("choices.0.finish_reason"), "length");
    const JsonValue& logprobs = *reply.at("choices.0.logprobs");
    ASSERT_EQ(logprobs.find("tokens")->items.size(), 4u) << "BOS and three letters";
    EXPECT_TRUE(ApiReply::at(logprobs, "token_logprobs.0")->is_null());
    EXPECT_TRUE(ApiReply::at(logprobs, "top_logprobs.0")->is_null());
    for (int k = 1; k < 4; ++k) {
        EXPECT_TRUE(ApiReply::at(logprobs, fmt::format("token_logprobs.{}", k))->is_number());
        EXPECT_EQ(ApiReply::at(logprobs, fmt::format("text_offset.{}", k))->as_int(), k - 1);
    }
    EXPECT_EQ(reply.number("usage.completion_tokens"), 0);
}

TEST(CompletionHandler, StreamAndBodyTellTheSame) {
    for (const char* fields : {R"("prompt":"ab","stop":"thr","max_tokens":50)",
                               R"("prompt":["a","b"],"n":2,"max_tokens":5)",
                               R"("prompt":"ab","echo":true,"logprobs":1,"max_tokens":5)",
                               R"("prompt":"ab","max_tokens":0)"}) {
        TestApi api(R"({"text":"one 😀 two three"})");
        const ApiReply whole = api.complete(fmt::format("{{{}}}", fields));
        ASSERT_EQ(whole.status, 200) << whole.body;
        const ApiReply stream = api.complete(fmt::format(
            R"({{{},"stream":true,"stream_options":{{"include_usage":true}}}})", fields));
        ASSERT_TRUE(stream.done) << stream.body;
        std::map<int64_t, std::string> texts;
        std::map<int64_t, std::string> reasons;
        std::map<int64_t, size_t> n_entries;
        for (size_t k = 0; k < stream.events.size(); ++k) {
            const JsonValue& event = stream.events[k];
            expect_prefix(event,
                          {"id", "object", "created", "model", "system_fingerprint", "choices"});
            EXPECT_EQ(event.find("object")->text, "text_completion");
            const bool last = k + 1 == stream.events.size();
            EXPECT_EQ(event.find("choices")->items.size(), last ? 0u : 1u);
            EXPECT_EQ(event.find("usage")->is_object(), last);
            for (const JsonValue& choice : event.find("choices")->items) {
                expect_prefix(choice, {"index", "text", "logprobs", "finish_reason"});
                const int64_t index = *choice.find("index")->as_int();
                EXPECT_TRUE(reasons[index].empty());
                texts[index] += choice.find("text")->text;
                reasons[index] = choice.find("finish_reason")->text;
                if (const JsonValue* ids = ApiReply::at(choice, "logprobs.token_ids")) {
                    n_entries[index] += ids->items.size();
                }
            }
        }
        for (const auto& [index, text] : texts) {
            EXPECT_EQ(text, whole.text(fmt::format("choices.{}.text", index)));
            EXPECT_EQ(reasons[index], whole.text(fmt::format("choices.{}.finish_reason", index)));
            const JsonValue* ids = whole.at(fmt::format("choices.{}.logprobs.token_ids", index));
            EXPECT_EQ(n_entries[index], ids == nullptr ? 0 : ids->items.size());
        }
        EXPECT_EQ(python_json(*stream.events.back().find("usage")),
                  python_json(*whole.at("usage")));
    }
}

TEST(CompletionHandler, BadPromptsAreRefusedAndTheServerLives) {
    TestApi api(kScript);
    for (const char* prompt : {"[-1]", "[100000]", "[2147483648]", "[1.5]", "[null]", "[]", "{}"}) {
        const ApiReply reply = api.complete(fmt::format(R"({{"prompt":{}}})", prompt));
        EXPECT_EQ(reply.status, 400) << prompt;
        EXPECT_EQ(reply.text("error.param"), "prompt");
    }
    EXPECT_EQ(api.complete(R"({"prompt":"a","suffix":"b"})").text("error.param"), "suffix");
    EXPECT_EQ(api.complete(R"({"prompt":"a","max_tokens":2})").status, 200);
}

TEST(CompletionHandler, NoiseIsAlwaysValidJson) {
    // Every byte in turn: text that is mostly no UTF-8.
    std::string tokens;
    for (int k = 0; k < 256; ++k) {
        tokens += (k == 0 ? "" : ",") + std::to_string(kFirstByteId + (k * 97) % 256);
    }
    TestApi api(fmt::format(R"({{"tokens":[{}],"finish":"none"}})", tokens));
    const std::string fields = R"("prompt":"x","ignore_eos":true,"max_tokens":3000,"logprobs":1)";
    const ApiReply whole = api.complete("{" + fields + "}");
    ASSERT_EQ(whole.status, 200);
    EXPECT_TRUE(is_valid_utf8(whole.body));
    const ApiReply stream = api.complete("{" + fields + R"(,"stream":true})");
    EXPECT_TRUE(is_valid_utf8(stream.body));
    std::string text;
    for (const JsonValue& event : stream.events) {
        text += ApiReply::at(event, "choices.0.text")->text;
    }
    EXPECT_EQ(text, whole.text("choices.0.text"));
}

TEST(TokenHandlers, TokenizeAndBack) {
    TestApi api(kScript);
    const ApiReply ids = api.post("/tokenize", R"({"content":"a<think>é"})");
    EXPECT_EQ(ids.number("count"), 4);
    EXPECT_EQ(ids.number("max_model_len"), 4096);
    EXPECT_EQ(ids.number("tokens.0"), kFirstByteId + 'a');
    const ApiReply text =
        api.post("/detokenize", R"({"tokens":)" + python_json(*ids.at("tokens")) + "}");
    EXPECT_EQ(text.text("content"), "a<think>é");
    EXPECT_EQ(text.text("prompt"), "a<think>é");
    const ApiReply pieces =
        api.post("/tokenize", R"({"prompt":"é","with_pieces":true,"add_special":true})");
    EXPECT_EQ(pieces.text("tokens.0.piece"), "<｜begin▁of▁sentence｜>");
    EXPECT_EQ(pieces.at("tokens.1.piece")->items.size(), 1u) << "half a character: bytes";
    EXPECT_EQ(
        api.post("/tokenize", R"({"content":"<think>","parse_special":false})").number("count"), 7);
    EXPECT_EQ(
        api.post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})").number("count"),
        api.post("/v1/chat/completions/input_tokens",
                 R"({"messages":[{"role":"user","content":"x"}]})")
            .number("input_tokens"));
}

TEST(TokenHandlers, WrongInputIsNamed) {
    TestApi api(kScript);
    EXPECT_EQ(api.post("/tokenize", "{}").text("error.param"), "content");
    EXPECT_EQ(api.post("/tokenize", R"({"content":5})").text("error.param"), "content");
    EXPECT_EQ(api.post("/detokenize", R"({"tokens":[1,-1]})").text("error.param"), "tokens[1]");
    EXPECT_EQ(api.post("/detokenize", R"({"tokens":[100000]})").text("error.param"), "tokens[0]");
    EXPECT_EQ(api.post("/detokenize", "{}").text("error.param"), "tokens");
    EXPECT_EQ(api.post("/detokenize", "[").text("error.code"), "invalid_json");
}

TEST(TokenHandlers, AMegabyteIsQuick) {
    TestApi api(kScript);
    const auto start = std::chrono::steady_clock::now();
    const ApiReply reply =
        api.post("/tokenize", R"({"content":")" + std::string(1 << 20, 'a') + R"("})");
    EXPECT_EQ(reply.number("count"), 1 << 20);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

} // namespace
} // namespace dsv4v::testing
