// The body of POST /v1/completions as a checked value. docs/api.md "Text completions".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "engine/tokenizer.h"
#include "server/error_reply.h"
#include "server/request_rules.h"
#include "server/sampling_request.h"

namespace dsv4v {

struct CompletionRequest {
    // Text, or token ids used exactly as given.
    struct Prompt {
        std::string text;
        std::vector<int32_t> ids;
        bool is_text = true;
    };
    SamplingRequest sampling; // params.n_logprobs is set
    std::vector<Prompt> prompts;
    bool echo = false;
    bool add_bos = true;       // text only: unless the prompt begins with it
    bool parse_special = true; // text only: control tokens may be spelled
};

[[nodiscard]] tl::expected<CompletionRequest, ApiError>
parse_completion_request(const JsonValue& body, const RequestRules& rules);

// The ids to evaluate.
[[nodiscard]] std::vector<int32_t> prompt_ids(const CompletionRequest& request,
                                              const CompletionRequest::Prompt& prompt,
                                              const Tokenizer& tokenizer);

} // namespace dsv4v
