// Requests and waiting for the engine's tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/fake_backend.h"

namespace dsv4v::testing {

// A prompt that no other `seed` shares.
inline std::vector<int32_t> make_prompt(int32_t n_tokens, int32_t seed, int32_t vocab_size = 1000) {
    std::vector<int32_t> prompt;
    uint64_t state = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15U + 1;
    for (int32_t i = 0; i < n_tokens; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        prompt.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size)));
    }
    return prompt;
}

inline GenerationRequest make_request(int32_t n_prompt, int32_t max_tokens, int32_t seed = 1) {
    GenerationRequest request;
    request.request_id = "request-" + std::to_string(seed);
    request.prompt = make_prompt(n_prompt, seed);
    request.max_tokens = max_tokens;
    return request;
}

struct Generation {
    FinishReason reason = FinishReason::kNone;
    std::vector<int32_t> output;
    std::vector<SampledToken> prompt_tokens;
    std::vector<SampledToken> tokens;
    int32_t stop_token_id = -1;
    std::string error_message;
    GenerationTimings timings;
};

// Appends what is there; true when finished.
inline bool read_some(TokenStream& stream, Generation& generation,
                      std::chrono::milliseconds timeout) {
    std::vector<TokenEvent> events;
    const bool finished = stream.wait(events, timeout);
    for (TokenEvent& event : events) {
        if (event.is_prompt) {
            generation.prompt_tokens.push_back(std::move(event.token));
        } else {
            generation.output.push_back(event.token.token_id);
            generation.tokens.push_back(std::move(event.token));
        }
    }
    if (finished) {
        generation.reason = stream.finish_reason();
        generation.stop_token_id = stream.stop_token_id();
        generation.error_message = stream.error_message();
        generation.timings = stream.timings();
    }
    return finished;
}

// Reads to the end; fails the test after a minute.
inline Generation read_all(TokenStream& stream) {
    Generation generation;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!read_some(stream, generation, std::chrono::milliseconds(100))) {
        if (std::chrono::steady_clock::now() > limit) {
            ADD_FAILURE() << "the generation does not end";
            break;
        }
    }
    return generation;
}

// The output of a request that runs alone on hash_token.
inline std::vector<int32_t> expected_output(const std::vector<int32_t>& prompt, int32_t n_tokens,
                                            int32_t vocab_size = 1000) {
    HistoryHash hash;
    for (const int32_t id : prompt) {
        hash.add(id);
    }
    std::vector<int32_t> output;
    for (int32_t i = 0; i < n_tokens; ++i) {
        output.push_back(hash.token(i, vocab_size));
        hash.add(output.back());
    }
    return output;
}

// Polls `condition` for at most ten seconds.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition) {
    for (int i = 0; i < 10000; ++i) {
        if (condition()) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

inline void expect_all_free(const Engine& engine) {
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.n_running, 0);
    EXPECT_EQ(stats.n_waiting, 0);
    EXPECT_EQ(stats.n_pages_used, 0);
    EXPECT_TRUE(engine.slots().empty());
}

} // namespace dsv4v::testing
