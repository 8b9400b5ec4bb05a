// The request fields that chat and text completions share: sampling, limits, stop conditions and
// what the reply shall contain. docs/api.md "Common fields".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampling_params.h"
#include "server/request_fields.h"
#include "server/request_rules.h"

namespace dsv4v {

struct StreamFlags {
    bool stream = false;
    bool include_usage = false;
    bool continuous_usage = false;
    bool progress = false; // progress events before the first token
    bool timings_per_token = false;
};

struct SamplingRequest {
    SamplingParams params;             // n_logprobs is set by the dialect
    std::optional<int32_t> max_tokens; // absent: the rest of the context; 0: prompt only
    int32_t min_tokens = 0;
    int32_t n = 1;
    std::vector<std::string> stops; // no empty ones
    bool include_stop = false;      // the stop string stays in the text
    bool stop_in_reasoning = false;
    std::vector<int32_t> stop_token_ids;
    bool ignore_eos = false;
    int32_t priority = 0;
    double timeout_s = 0; // 0 = none
    bool return_token_ids = false;
    StreamFlags stream;
};

// Reads the shared fields; errors stick to `fields`. A seed that is absent or -1 is drawn here, so
// every request has one to report.
[[nodiscard]] SamplingRequest read_sampling(RequestFields& fields, const RequestRules& rules);

} // namespace dsv4v
