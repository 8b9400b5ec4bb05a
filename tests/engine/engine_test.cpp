// The engine over FakeBackend: life of a request, limits, cancels, failures, shutdown.
#include "engine/engine.h"

#include <numeric>

#include "tests/engine/generation.h"
#include "tests/fake_backend.h"

namespace dsv4v::testing {
namespace {

using std::chrono::milliseconds;

struct Rig {
    explicit Rig(const BackendLimits& limits = small_limits(), EngineOptions options = {},
                 const std::function<void(FakeBackend&)>& script = {}) {
        auto backend = std::make_unique<FakeBackend>(limits);
        if (script) {
            script(*backend);
        }
        record = backend->record;
        engine = std::make_unique<Engine>(std::move(backend), options);
    }
    ~Rig() {
        engine.reset();
        EXPECT_THAT(record->copy_violations(), ::testing::IsEmpty());
    }
    std::shared_ptr<TokenStream> submit(GenerationRequest request) {
        auto stream = engine->submit(std::move(request));
        if (!stream) {
            ADD_FAILURE() << stream.error().message;
            return std::make_shared<TokenStream>();
        }
        return *stream;
    }
    Generation generate(GenerationRequest request) { return read_all(*submit(std::move(request))); }

    std::shared_ptr<FakeRecord> record;
    std::unique_ptr<Engine> engine;
};

// The script is slow enough that a test can act while a request runs.
void slow(FakeBackend& backend) {
    backend.step_delay = milliseconds(2);
}

// Always the same token, so that no stop id is met by chance.
void only_sevens(FakeBackend& backend) {
    backend.next_token = [](const SampleRow&, int32_t, SampledToken&) { return 7; };
}

TEST(Engine, GeneratesUntilMaxTokens) {
    Rig rig;
    const GenerationRequest request = make_request(5, 300);
    const Generation generation = rig.generate(request);
    EXPECT_EQ(generation.reason, FinishReason::kLength);
    EXPECT_EQ(generation.output, expected_output(request.prompt, 300));
    EXPECT_EQ(generation.stop_token_id, -1);
    EXPECT_EQ(generation.timings.n_prompt, 5);
    EXPECT_EQ(generation.timings.n_generated, 300);
    expect_all_free(*rig.engine);
    const EngineStats stats = rig.engine->stats();
    EXPECT_EQ(stats.n_steps, 300U);
    EXPECT_EQ(stats.n_prompt_tokens, 5U);
    EXPECT_EQ(stats.n_generated_tokens, 300U);
    EXPECT_EQ(stats.n_finished_length, 1U);
    EXPECT_EQ(std::accumulate(stats.step_seconds_histogram.begin(),
                              stats.step_seconds_histogram.end(), uint64_t{0}),
              300U);
}

TEST(Engine, EndsAtStopIdAndReportsIt) {
    Rig rig;
    GenerationRequest request = make_request(5, 100);
    const std::vector<int32_t> all = expected_output(request.prompt, 100);
    request.stop_token_ids = {all[20]};
    const Generation generation = rig.generate(request);
    EXPECT_EQ(generation.reason, FinishReason::kStop);
    EXPECT_EQ(generation.stop_token_id, all[20]);
    const auto first = std::ranges::find(all, all[20]);
    EXPECT_EQ(generation.output, std::vector<int32_t>(all.begin(), first + 1));
    EXPECT_EQ(rig.engine->stats().n_finished_stop, 1U);
}

TEST(Engine, PromptLongerThanChunkAndPagesGivesSameTokens) {
    BackendLimits limits = small_limits();
    for (const int32_t chunk : {1, 3, 127, 128, 129, 512}) {
        Rig rig(limits, {.max_queue = 8, .prefill_chunk = chunk});
        const GenerationRequest request = make_request(600, 10);
        EXPECT_EQ(rig.generate(request).output, expected_output(request.prompt, 10)) << chunk;
    }
}

TEST(Engine, MaxTokensZeroEvaluatesThePromptOnly) {
    Rig rig;
    const Generation generation = rig.generate(make_request(300, 0));
    EXPECT_EQ(generation.reason, FinishReason::kLength);
    EXPECT_TRUE(generation.output.empty());
    EXPECT_EQ(rig.engine->stats().n_prompt_tokens, 300U);
    expect_all_free(*rig.engine);
}

TEST(Engine, ContextLimitEndsWithLength) {
    BackendLimits limits = small_limits();
    limits.context_length = 200;
    Rig rig(limits);
    const GenerationRequest request = make_request(190, 1000);
    const Generation generation = rig.generate(request);
    EXPECT_EQ(generation.reason, FinishReason::kLength);
    EXPECT_EQ(generation.output, expected_output(request.prompt, 10));
    EXPECT_EQ(rig.generate(make_request(199, 5)).output.size(), 1U);
    EXPECT_EQ(rig.generate(make_request(200, 0)).reason, FinishReason::kLength);
}

TEST(Engine, RefusesWhatCanNeverFit) {
    BackendLimits limits = small_limits();
    limits.context_length = 200;
    Rig rig(limits);
    for (const auto& [n_prompt, max_tokens] : {std::pair{200, 1}, {201, 0}, {2000, 5}}) {
        const auto refused = rig.engine->submit(make_request(n_prompt, max_tokens));
        ASSERT_FALSE(refused) << n_prompt;
        EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(refused.error().param, "context");
        EXPECT_THAT(refused.error().message, ::testing::HasSubstr(std::to_string(n_prompt)));
        EXPECT_THAT(refused.error().message, ::testing::HasSubstr("200"));
    }
}

TEST(Engine, ContextIsCappedByThePagePool) {
    BackendLimits limits = small_limits();
    limits.n_pages = 2;
    Rig rig(limits);
    EXPECT_EQ(rig.engine->limits().context_length, 256);
    EXPECT_EQ(rig.generate(make_request(250, 100)).output.size(), 6U);
}

TEST(Engine, RefusesBadIds) {
    Rig rig;
    const auto expect_refused = [&](const GenerationRequest& request, const char* param) {
        const auto refused = rig.engine->submit(request);
        ASSERT_FALSE(refused) << param;
        EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(refused.error().param, param);
    };
    for (const int32_t bad : {-1, 1000, INT32_MAX, INT32_MIN}) {
        GenerationRequest request = make_request(5, 5);
        request.prompt[3] = bad;
        expect_refused(request, "prompt");
        request = make_request(5, 5);
        request.stop_token_ids = {bad};
        expect_refused(request, "stop_token_ids");
        request = make_request(5, 5);
        request.banned_token_ids = {bad};
        expect_refused(request, "banned_token_ids");
        request = make_request(5, 5);
        request.sampling.logit_bias = {{3, 1.0F}, {bad, 1.0F}};
        expect_refused(request, "logit_bias");
        request = make_request(5, 5);
        request.forced_answer_prefix = {bad};
        expect_refused(request, "answer prefix");
        request = make_request(5, 5);
        request.starts_in_reasoning = true;
        request.reasoning_budget = 3;
        request.think_close_id = bad;
        expect_refused(request, "think_close_id");
    }
    expect_refused(make_request(0, 5), "prompt");
    expect_refused(make_request(5, -1), "max_tokens");
    EXPECT_EQ(rig.generate(make_request(5, 5)).output.size(), 5U);
}

TEST(Engine, QueueFullIsRefusedAndRoomComesBack) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Rig rig(limits, {.max_queue = 2, .prefill_chunk = 64}, slow);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int i = 0; i < 3; ++i) {
        streams.push_back(rig.submit(make_request(5, 2000, i)));
    }
    const auto refused = rig.engine->submit(make_request(5, 5));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    streams[2]->cancel(CancelCause::kGone);
    EXPECT_EQ(read_all(*streams[2]).reason, FinishReason::kCancelled);
    EXPECT_TRUE(rig.engine->submit(make_request(5, 5)));
}

TEST(Engine, BansHoldAtEveryPosition) {
    Rig rig(small_limits(), {}, only_sevens);
    GenerationRequest request = make_request(5, 20);
    request.banned_token_ids = {7, 8};
    EXPECT_EQ(rig.generate(request).output, std::vector<int32_t>(20, 9));
}

TEST(Engine, MinTokensMasksStopIdsUntilThen) {
    Rig rig(small_limits(), {}, only_sevens);
    GenerationRequest request = make_request(5, 20);
    request.stop_token_ids = {7};
    request.banned_token_ids = {8};
    request.min_tokens = 4;
    const Generation generation = rig.generate(request);
    EXPECT_EQ(generation.output, (std::vector<int32_t>{9, 9, 9, 9, 7}));
    EXPECT_EQ(generation.reason, FinishReason::kStop);
}

TEST(Engine, IgnoreEosRunsToTheLimit) {
    Rig rig(small_limits(), {}, only_sevens);
    GenerationRequest request = make_request(5, 20);
    request.stop_token_ids = {7};
    request.ignore_eos = true;
    const Generation generation = rig.generate(request);
    EXPECT_EQ(generation.output, std::vector<int32_t>(20, 7));
    EXPECT_EQ(generation.reason, FinishReason::kLength);
}

TEST(Engine, ReasoningBudgetForcesTheClose) {
    Rig rig(small_limits(), {}, only_sevens);
    GenerationRequest request = make_request(5, 60);
    request.starts_in_reasoning = true;
    request.think_close_id = 99;
    request.reasoning_budget = 50;
    request.forced_answer_prefix = {1, 2};
    const Generation generation = rig.generate(request);
    std::vector<int32_t> expected(50, 7);
    expected.insert(expected.end(), {99, 1, 2, 7, 7, 7, 7, 7, 7, 7});
    EXPECT_EQ(generation.output, expected);
    EXPECT_EQ(generation.timings.n_reasoning, 51);
    EXPECT_EQ(rig.engine->stats().n_reasoning_tokens, 51U);
}

TEST(Engine, ReasoningBudgetZeroClosesAtOnce) {
    Rig rig(small_limits(), {}, only_sevens);
    GenerationRequest request = make_request(5, 3);
    request.starts_in_reasoning = true;
    request.think_close_id = 99;
    request.reasoning_budget = 0;
    EXPECT_EQ(rig.generate(request).output, (std::vector<int32_t>{99, 7, 7}));
}

TEST(Engine, AnswerPrefixWaitsForTheModelsOwnClose) {
    Rig rig(small_limits(), {}, [](FakeBackend& backend) {
        backend.next_token = [](const SampleRow& row, int32_t, SampledToken&) {
            return row.output_position == 3 ? 99 : 7;
        };
    });
    GenerationRequest request = make_request(5, 8);
    request.starts_in_reasoning = true;
    request.think_close_id = 99;
    request.forced_answer_prefix = {1, 2};
    EXPECT_EQ(rig.generate(request).output, (std::vector<int32_t>{7, 7, 7, 99, 1, 2, 7, 7}));
    request.starts_in_reasoning = false;
    EXPECT_EQ(rig.generate(request).output, (std::vector<int32_t>{1, 2, 7, 99, 7, 7, 7, 7}));
}

TEST(Engine, ChoicesHaveTheirOwnRandomKey) {
    Rig rig(small_limits(), {}, [](FakeBackend& backend) {
        backend.next_token = [](const SampleRow& row, int32_t, SampledToken&) {
            return row.choice_idx * 100 + static_cast<int32_t>(row.params->seed);
        };
    });
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t choice = 0; choice < 6; ++choice) {
        GenerationRequest request = make_request(5, 3);
        request.choice_idx = choice;
        request.sampling.seed = 42;
        streams.push_back(rig.submit(std::move(request)));
    }
    for (int32_t choice = 0; choice < 6; ++choice) {
        EXPECT_EQ(read_all(*streams[static_cast<size_t>(choice)]).output,
                  std::vector<int32_t>(3, choice * 100 + 42));
    }
}

TEST(Engine, PromptLogprobsScoreEveryTokenAfterTheFirst) {
    for (const int32_t max_tokens : {0, 2}) {
        Rig rig(small_limits(), {.max_queue = 8, .prefill_chunk = 50});
        GenerationRequest request = make_request(130, max_tokens);
        request.prompt_logprobs = true;
        request.sampling.n_logprobs = 2;
        const Generation generation = rig.generate(request);
        ASSERT_EQ(generation.prompt_tokens.size(), 129U);
        for (size_t i = 0; i < 129; ++i) {
            EXPECT_EQ(generation.prompt_tokens[i].token_id, request.prompt[i + 1]);
            EXPECT_EQ(generation.prompt_tokens[i].top_logprobs.size(), 2U);
        }
        EXPECT_EQ(generation.output, expected_output(request.prompt, max_tokens));
    }
}

} // namespace
} // namespace dsv4v::testing
