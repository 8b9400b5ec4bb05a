// What the API layer hands to the engine: ids and numbers, no text, no JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampling_params.h"

namespace dsv4v {

struct GenerationRequest {
    std::string request_id;
    std::string client;          // key name, for /slots and logs
    std::vector<int32_t> prompt; // at least one id
    SamplingParams sampling;
    int32_t choice_idx = 0;                // 0-based among n choices; part of the random key
    int32_t max_tokens = 0;                // 0: evaluate the prompt only
    int32_t min_tokens = 0;                // stop ids are masked before that many tokens
    std::vector<int32_t> stop_token_ids;   // end the output; the id itself is reported
    bool ignore_eos = false;               // stop_token_ids do not end the output
    std::vector<int32_t> banned_token_ids; // masked at every position

    bool starts_in_reasoning = false; // the prompt ends inside <think>
    int32_t think_close_id = -1;      // </think>
    int32_t reasoning_budget = -1;    // after that many reasoning tokens </think> is forced
    std::vector<int32_t> forced_answer_prefix; // forced once the answer begins

    bool prompt_logprobs = false; // score every prompt token after the first
    int32_t priority = 0;         // lower runs first
    bool stream = false;          // for /slots only
    std::optional<std::chrono::steady_clock::time_point> deadline;
};

} // namespace dsv4v
