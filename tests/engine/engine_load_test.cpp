// The engine under many threads: submits, cancels, failures and shutdown at any moment.
#include <atomic>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/engine/generation.h"

namespace dsv4v::testing {
namespace {

using std::chrono::milliseconds;

struct Rig {
    explicit Rig(const std::function<void(FakeBackend&)>& script = {},
                 const BackendLimits& limits = small_limits(), EngineOptions options = {}) {
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

    std::shared_ptr<FakeRecord> record;
    std::unique_ptr<Engine> engine;
};

void slow(FakeBackend& backend) {
    backend.step_delay = milliseconds(1);
}

// Pages for about half of what the slots could use, so that preemption is part of every run.
BackendLimits tight_limits() {
    BackendLimits limits = small_limits();
    limits.max_sequences = 16;
    limits.n_pages = 24;
    limits.context_length = 1024;
    return limits;
}

TEST(EngineLoad, ManyThreadsEachGetTheirOwnAnswer) {
    Rig rig({}, tight_limits(), {.max_queue = 1000, .prefill_chunk = 64});
    std::vector<std::thread> threads;
    std::atomic<int> n_right{0};
    for (int32_t t = 0; t < 64; ++t) {
        threads.emplace_back([&rig, &n_right, t] {
            for (int32_t i = 0; i < 5; ++i) {
                const GenerationRequest request = make_request(10 + 3 * t, 40 + t, 100 * t + i);
                const Generation generation = read_all(*rig.submit(request));
                n_right += generation.output == expected_output(request.prompt, 40 + t) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(n_right, 64 * 5);
    expect_all_free(*rig.engine);
    EXPECT_EQ(rig.engine->stats().n_finished_length, 64U * 5);
}

TEST(EngineLoad, ThousandSimultaneousRequestsDoNotMix) {
    Rig rig({}, tight_limits(), {.max_queue = 1000, .prefill_chunk = 64});
    std::vector<GenerationRequest> requests;
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t i = 0; i < 1000; ++i) {
        requests.push_back(make_request(1 + i % 150, 1 + i % 90, i));
        streams.push_back(rig.submit(requests.back()));
    }
    for (size_t i = 0; i < streams.size(); ++i) {
        EXPECT_EQ(read_all(*streams[i]).output,
                  expected_output(requests[i].prompt, requests[i].max_tokens));
    }
    expect_all_free(*rig.engine);
}

TEST(EngineLoad, RandomCancelsLeaveNothingBehind) {
    Rig rig([](FakeBackend& backend) { backend.row_delay = std::chrono::microseconds(2); },
            tight_limits(), {.max_queue = 1000, .prefill_chunk = 32});
    std::vector<std::thread> threads;
    std::atomic<int> n_ended{0};
    for (uint32_t t = 0; t < 20; ++t) {
        threads.emplace_back([&rig, &n_ended, t] {
            std::mt19937 random(t);
            for (int32_t i = 0; i < 50; ++i) {
                const GenerationRequest request = make_request(
                    1 + static_cast<int32_t>(random() % 200), static_cast<int32_t>(random() % 100),
                    static_cast<int32_t>(t) * 1000 + i);
                const auto stream = rig.submit(request);
                Generation generation;
                const bool ended = read_some(*stream, generation, milliseconds(random() % 30));
                stream->cancel(static_cast<CancelCause>(random() % 3));
                if (!ended) {
                    while (!read_some(*stream, generation, milliseconds(100))) {
                    }
                }
                const auto n = static_cast<int32_t>(generation.output.size());
                n_ended += generation.output == expected_output(request.prompt, n) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(n_ended, 1000);
    expect_all_free(*rig.engine);
    const EngineStats stats = rig.engine->stats();
    EXPECT_EQ(stats.n_finished_stop + stats.n_finished_length + stats.n_cancelled_queue +
                  stats.n_cancelled_prefill + stats.n_cancelled_decode + stats.n_timed_out,
              1000U);
    EXPECT_EQ(stats.n_errors, 0U);
    EXPECT_EQ(read_all(*rig.submit(make_request(5, 5))).output.size(), 5U);
}

TEST(EngineLoad, CancelledQueuedRequestIsNeverScheduled) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Rig rig(
        [](FakeBackend& backend) {
            slow(backend);
            backend.keep_batches = true;
        },
        limits);
    const auto running = rig.submit(make_request(5, 2000, 1));
    const auto queued = rig.submit(make_request(50, 5, 2));
    queued->cancel(CancelCause::kGone);
    EXPECT_EQ(read_all(*queued).reason, FinishReason::kCancelled);
    EXPECT_EQ(running->finish_reason(), FinishReason::kNone); // it did not wait for its turn
    running->cancel(CancelCause::kGone);
    read_all(*running);
    for (const Batch& batch : rig.record->copy_batches()) {
        EXPECT_LT(batch.token_ids.size(), 50U);
    }
    EXPECT_EQ(rig.engine->stats().n_cancelled_queue, 1U);
}

TEST(EngineLoad, EndIsSeenOnlyAfterEverythingIsFree) {
    Rig rig;
    for (int32_t i = 0; i < 300; ++i) {
        read_all(*rig.submit(make_request(5, 3, i)));
        expect_all_free(*rig.engine); // at once, not after some time
    }
}

TEST(EngineLoad, DeadlineOfARequestThatOnlyWaits) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Rig rig(slow, limits);
    const auto running = rig.submit(make_request(5, 2000, 1));
    GenerationRequest request = make_request(5, 5, 2);
    request.deadline = std::chrono::steady_clock::now() + milliseconds(20);
    EXPECT_EQ(read_all(*rig.submit(request)).reason, FinishReason::kTimeout);
    EXPECT_EQ(running->finish_reason(), FinishReason::kNone);
}

TEST(EngineLoad, DeadlineAndCancelReachARestingSequence) {
    Rig rig;
    GenerationRequest request = make_request(5, 2000, 1);
    request.deadline = std::chrono::steady_clock::now() + milliseconds(300);
    const auto first = rig.submit(request);
    request.deadline.reset();
    const auto second = rig.submit(request);
    ASSERT_TRUE(eventually([&] { return first->congested() && second->congested(); }));
    second->cancel(CancelCause::kGone);
    EXPECT_TRUE(eventually([&] { return second->finish_reason() == FinishReason::kCancelled; }));
    EXPECT_TRUE(eventually([&] { return first->finish_reason() == FinishReason::kTimeout; }));
    EXPECT_LT(rig.engine->stats().ms_since_last_step, 1000);
    expect_all_free(*rig.engine);
}

TEST(EngineLoad, RestingSequenceGoesOnWhenRead) {
    Rig rig;
    const GenerationRequest request = make_request(5, 2000, 1);
    const auto stream = rig.submit(request);
    ASSERT_TRUE(eventually([&] { return stream->congested(); }));
    EXPECT_EQ(read_all(*stream).output, expected_output(request.prompt, 2000));
}

TEST(EngineLoad, BackendErrorEndsEverything) {
    const auto fail_at_20 = [](const std::function<Expected<void>()>& fail) {
        return [fail](FakeBackend& backend) {
            backend.on_step = [fail, n = 0](const Batch&) mutable -> Expected<void> {
                return ++n == 20 ? fail() : Expected<void>{};
            };
        };
    };
    const std::vector<std::function<Expected<void>()>> faults = {
        [] { return Expected<void>(make_error(ErrorCode::kInternal, "device lost")); },
        []() -> Expected<void> { throw std::bad_alloc(); },
        []() -> Expected<void> { throw std::runtime_error("broken"); },
        []() -> Expected<void> { throw 5; },
    };
    for (const auto& fault : faults) {
        Rig rig(fail_at_20(fault));
        std::vector<std::shared_ptr<TokenStream>> streams;
        for (int32_t i = 0; i < 8; ++i) { // four run, four wait
            auto stream = rig.engine->submit(make_request(5, 500, i));
            if (stream) {
                streams.push_back(*stream);
            } else {
                EXPECT_EQ(stream.error().code, ErrorCode::kUnavailable);
            }
        }
        for (const auto& stream : streams) {
            const Generation generation = read_all(*stream);
            EXPECT_EQ(generation.reason, FinishReason::kError);
            EXPECT_FALSE(generation.error_message.empty());
        }
        EXPECT_TRUE(rig.engine->stats().failed);
        EXPECT_EQ(rig.engine->stats().n_errors, streams.size());
        expect_all_free(*rig.engine);
        const auto refused = rig.engine->submit(make_request(5, 5));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
        EXPECT_EQ(rig.record->steps(), 20U);
        rig.engine->stop();
    }
}

TEST(EngineLoad, TokenOutsideTheVocabularyIsABackendError) {
    for (const int32_t bad : {-1, 1000}) {
        Rig rig([bad](FakeBackend& backend) {
            backend.next_token = [bad](const SampleRow&, int32_t, SampledToken&) { return bad; };
        });
        const Generation generation = read_all(*rig.submit(make_request(5, 5)));
        EXPECT_EQ(generation.reason, FinishReason::kError);
        EXPECT_THAT(generation.error_message, ::testing::HasSubstr(std::to_string(bad)));
        EXPECT_TRUE(rig.engine->stats().failed);
    }
}

TEST(EngineLoad, NonFiniteLogitsEndOneSequenceOnly) {
    Rig rig([](FakeBackend& backend) {
        backend.next_token = [](const SampleRow& row, int32_t, SampledToken& token) {
            token.non_finite_logits = row.history[0] == 500 && row.output_position == 10;
            return hash_token(row.history, row.output_position, 1000);
        };
    });
    std::vector<GenerationRequest> requests;
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t i = 0; i < 8; ++i) {
        requests.push_back(make_request(20, 50, i));
        requests.back().prompt[0] = i == 3 ? 500 : 1;
        streams.push_back(rig.submit(requests.back()));
    }
    for (size_t i = 0; i < 8; ++i) {
        const Generation generation = read_all(*streams[i]);
        EXPECT_EQ(generation.reason, i == 3 ? FinishReason::kError : FinishReason::kLength);
        EXPECT_EQ(generation.output, expected_output(requests[i].prompt, i == 3 ? 10 : 50));
    }
    const EngineStats stats = rig.engine->stats();
    EXPECT_EQ(stats.n_non_finite, 1U);
    EXPECT_EQ(stats.n_errors, 1U);
    EXPECT_FALSE(stats.failed);
    expect_all_free(*rig.engine);
}

TEST(EngineLoad, DrainRefusesNewWorkAndFinishesTheRest) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 2;
    Rig rig(slow, limits);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t i = 0; i < 5; ++i) {
        streams.push_back(rig.submit(make_request(5, 30, i)));
    }
    EXPECT_FALSE(rig.engine->draining());
    rig.engine->drain();
    EXPECT_TRUE(rig.engine->draining());
    const auto refused = rig.engine->submit(make_request(5, 5));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    for (const auto& stream : streams) {
        EXPECT_EQ(read_all(*stream).output.size(), 30U);
    }
}

TEST(EngineLoad, StopCancelsRunningAndWaiting) {
    Rig rig(slow);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t i = 0; i < 10; ++i) {
        streams.push_back(rig.submit(make_request(5, 2000, i)));
    }
    ASSERT_TRUE(eventually([&] { return rig.engine->stats().n_running == 4; }));
    std::thread other([&] { rig.engine->stop(); });
    rig.engine->stop();
    other.join();
    rig.engine->stop();
    for (const auto& stream : streams) {
        EXPECT_EQ(read_all(*stream).reason, FinishReason::kCancelled);
    }
    expect_all_free(*rig.engine);
    EXPECT_FALSE(rig.engine->stats().failed);
    EXPECT_FALSE(rig.engine->submit(make_request(5, 5)));
}

TEST(EngineLoad, StopAtAnyMomentOfSubmission) {
    for (int round = 0; round < 30; ++round) {
        auto engine = std::make_unique<Engine>(std::make_unique<FakeBackend>(), EngineOptions{});
        std::vector<std::thread> threads;
        for (int32_t t = 0; t < 4; ++t) {
            threads.emplace_back([&engine, t] {
                for (int32_t i = 0; i < 20; ++i) {
                    const auto stream = engine->submit(make_request(5, 10, t * 100 + i));
                    if (!stream) {
                        EXPECT_EQ(stream.error().code, ErrorCode::kUnavailable);
                        return;
                    }
                    EXPECT_NE(read_all(**stream).reason, FinishReason::kError);
                }
            });
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        engine->stop();
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
}

TEST(EngineLoad, StreamOutlivesTheEngine) {
    std::shared_ptr<TokenStream> stream;
    {
        Rig rig(slow);
        stream = rig.submit(make_request(5, 2000));
    }
    stream->cancel(CancelCause::kGone);
    EXPECT_EQ(read_all(*stream).reason, FinishReason::kCancelled);
}

TEST(EngineLoad, SlotsShowWhatRunsAndWaits) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Rig rig(slow, limits);
    GenerationRequest request = make_request(150, 1000, 1);
    request.client = "alice";
    request.stream = true;
    const auto running = rig.submit(request);
    const auto waiting = rig.submit(make_request(5, 5, 2));
    ASSERT_TRUE(eventually([&] {
        const auto slots = rig.engine->slots();
        return slots.size() == 2 && slots[0].n_decoded > 2;
    }));
    const std::vector<SlotSnapshot> slots = rig.engine->slots();
    EXPECT_EQ(slots[0].slot, 0);
    EXPECT_EQ(slots[0].state, "decode");
    EXPECT_EQ(slots[0].request_id, "request-1");
    EXPECT_EQ(slots[0].client, "alice");
    EXPECT_TRUE(slots[0].stream);
    EXPECT_EQ(slots[0].n_prompt, 150);
    EXPECT_GE(slots[0].n_processed, 152);
    EXPECT_GE(slots[0].n_pages, 2);
    EXPECT_EQ(slots[0].max_tokens, 1000);
    EXPECT_GT(slots[0].age_ms, 0);
    EXPECT_EQ(slots[1].slot, -1);
    EXPECT_EQ(slots[1].state, "waiting");
    const EngineStats stats = rig.engine->stats();
    EXPECT_EQ(stats.n_running, 1);
    EXPECT_EQ(stats.n_waiting, 1);
    EXPECT_GE(stats.n_pages_used, 2);
    EXPECT_EQ(stats.n_pages, 64);
}

TEST(EngineLoad, StallIsVisibleWhileAStepHangs) {
    std::atomic<bool> release{false};
    Rig rig([&release](FakeBackend& backend) {
        backend.on_step = [&release](const Batch&) -> Expected<void> {
            while (!release) {
                std::this_thread::sleep_for(milliseconds(1));
            }
            return {};
        };
    });
    EXPECT_EQ(rig.engine->stats().ms_since_last_step, 0);
    const auto stream = rig.submit(make_request(5, 5));
    EXPECT_TRUE(eventually([&] { return rig.engine->stats().ms_since_last_step > 50; }));
    release = true;
    read_all(*stream);
    EXPECT_EQ(rig.engine->stats().ms_since_last_step, 0);
}

} // namespace
} // namespace dsv4v::testing
