// The stub scripts that the HTTP tests rely on.
#include "tests/stub_script.h"

#include "tests/engine/generation.h"

namespace dsv4v::testing {
namespace {

constexpr int32_t kEos = 256;

// One token per byte.
StubVocabulary byte_vocabulary() {
    StubVocabulary vocabulary;
    vocabulary.encode = [](std::string_view text) {
        std::vector<int32_t> ids;
        for (const char c : text) {
            ids.push_back(static_cast<uint8_t>(c));
        }
        return ids;
    };
    vocabulary.decode = [](std::span<const int32_t> ids) {
        std::string text;
        for (const int32_t id : ids) {
            text.push_back(static_cast<char>(id));
        }
        return text;
    };
    vocabulary.find_bytes = [](std::string_view bytes) -> std::optional<int32_t> {
        return bytes.size() == 1 ? std::optional<int32_t>(static_cast<uint8_t>(bytes[0]))
                                 : std::nullopt;
    };
    vocabulary.eos_id = kEos;
    return vocabulary;
}

std::unique_ptr<Engine> make_engine(std::string_view scripts, int32_t prefill_chunk = 512) {
    auto backend = make_stub_backend(scripts, byte_vocabulary(), small_limits());
    if (!backend) {
        ADD_FAILURE() << backend.error().message;
        return nullptr;
    }
    return std::make_unique<Engine>(std::move(*backend),
                                    EngineOptions{.max_queue = 64, .prefill_chunk = prefill_chunk});
}

Generation play(Engine& engine, std::string_view prompt, int32_t max_tokens = 100) {
    GenerationRequest request;
    request.prompt = byte_vocabulary().encode(prompt);
    request.max_tokens = max_tokens;
    request.stop_token_ids = {kEos};
    const auto stream = engine.submit(std::move(request));
    EXPECT_TRUE(stream);
    return stream ? read_all(**stream) : Generation{};
}

std::string text_of(const Generation& generation) {
    return byte_vocabulary().decode(generation.output);
}

TEST(EngineStubScript, FirstMatchPlaysElseTheLast) {
    const auto engine = make_engine(R"({"match":{"contains":"weather"},"text":"rain"}
{"match":{"nth":2},"tokens":[1,2]}

{"bytes":["c3","a9"]})");
    const Generation first = play(*engine, "the weather?");
    EXPECT_EQ(first.reason, FinishReason::kStop);
    EXPECT_EQ(first.output, (std::vector<int32_t>{'r', 'a', 'i', 'n', kEos}));
    EXPECT_EQ(play(*engine, "x").output, (std::vector<int32_t>{1, 2, kEos}));
    EXPECT_EQ(play(*engine, "x").output, (std::vector<int32_t>{0xc3, 0xa9, kEos}));
}

TEST(EngineStubScript, RepeatAndFinishNoneRunToTheLimit) {
    for (const char* script :
         {R"({"text":"ab","repeat":true})", R"({"text":"ab","finish":"none"})"}) {
        const auto engine = make_engine(script);
        const Generation generation = play(*engine, "x", 5);
        EXPECT_EQ(text_of(generation), "ababa");
        EXPECT_EQ(generation.reason, FinishReason::kLength);
    }
}

TEST(EngineStubScript, DelaysTakeTheirTime) {
    const auto engine = make_engine(R"({"text":"abcd","step_ms":20,"prefill_ms_per_token":10})");
    const Generation generation = play(*engine, "12345");
    EXPECT_GE(generation.timings.prompt_ms, 50);
    EXPECT_GE(generation.timings.decode_ms, 80);
}

TEST(EngineStubScript, MatchSpansPrefillChunks) {
    const auto engine = make_engine(R"({"match":{"contains":"weather"},"text":"a"}
{"text":"b"})",
                                    3);
    EXPECT_EQ(text_of(play(*engine, "what is the weather today", 1)), "a");
    EXPECT_EQ(text_of(play(*engine, "what is the time today", 1)), "b");
}

TEST(EngineStubScript, FailuresEndTheEngine) {
    for (const char* kind : {"exception", "oom", "cuda"}) {
        const auto engine = make_engine(
            std::string(R"({"text":"abcdef","fail":{"phase":"decode","step":3,"kind":")") + kind +
            "\"}}");
        const Generation generation = play(*engine, "x");
        EXPECT_EQ(generation.reason, FinishReason::kError) << kind;
        EXPECT_EQ(text_of(generation), "abc") << kind;
        EXPECT_TRUE(engine->stats().failed) << kind;
    }
    const auto engine = make_engine(R"({"text":"a","fail":{"phase":"prefill","step":1}})", 2);
    const Generation generation = play(*engine, "12345");
    EXPECT_EQ(generation.reason, FinishReason::kError);
    EXPECT_TRUE(generation.output.empty());
}

TEST(EngineStubScript, NonFiniteEndsTheSequenceOnly) {
    const auto engine = make_engine(
        R"({"match":{"nth":1},"text":"abc","fail":{"phase":"decode","step":2,"kind":"nonfinite"}}
{"text":"abc"})");
    const Generation generation = play(*engine, "x");
    EXPECT_EQ(generation.reason, FinishReason::kError);
    EXPECT_EQ(text_of(generation), "ab");
    EXPECT_FALSE(engine->stats().failed);
    EXPECT_EQ(play(*engine, "x").reason, FinishReason::kStop);
}

TEST(EngineStubScript, BadScriptsNameTheLine) {
    for (const char* bad : {"{\"text\":", R"({"bytes":["zz"]})", R"({"bytes":["c3a9"]})",
                            R"({"text":"a","fail":{"phase":"x"}})", R"({"repeat":true})",
                            R"({"text":"a","step_ms":-1})"}) {
        const auto scripts =
            parse_stub_scripts(std::string("{\"text\":\"a\"}\n") + bad, byte_vocabulary());
        ASSERT_FALSE(scripts) << bad;
        EXPECT_THAT(scripts.error().message, ::testing::HasSubstr("line 2")) << bad;
    }
    EXPECT_FALSE(parse_stub_scripts("", byte_vocabulary()));
}

} // namespace
} // namespace dsv4v::testing
