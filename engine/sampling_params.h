// How the next token is chosen. Ranges are checked where a request is parsed; here they hold.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace dsv4v {

struct SamplingParams {
    float temperature = 1.0f;        // 0 = argmax
    float top_p = 1.0f;              // (0, 1]
    float min_p = 0.0f;              // [0, 1]
    float typical_p = 1.0f;          // (0, 1]
    int32_t top_k = 0;               // 0 = off
    float presence_penalty = 0.0f;   // subtracted once from tokens already generated
    float frequency_penalty = 0.0f;  // subtracted per occurrence among generated tokens
    float repetition_penalty = 1.0f; // divides positive, multiplies negative logits
    int32_t repeat_last_n = -1;      // window of repetition_penalty over prompt + output; -1 = all
    uint64_t seed = 0;
    int32_t n_logprobs = -1; // -1 = none, else that many alternatives per token
    std::vector<std::pair<int32_t, float>> logit_bias; // -inf bans the token
};

} // namespace dsv4v
