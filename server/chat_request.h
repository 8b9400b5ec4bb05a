// The body of POST /v1/chat/completions as a checked value: every default and range is applied
// here and nowhere later. What depends on the prompt's length (context) follows in chat_prompt.h.
#pragma once

#include <string>

#include <tl/expected.hpp>

#include "server/error_reply.h"
#include "server/request_rules.h"
#include "server/sampling_request.h"
#include "server/thinking_request.h"
#include "server/tool_request.h"

namespace dsv4v {

struct ChatRequest {
    SamplingRequest sampling;
    ThinkingRequest thinking;
    ToolRequest tools;
    JsonValue messages;                // non-empty array
    bool add_generation_header = true; // false: the prompt ends with the last message
    bool continue_final = false;       // the last message is an assistant message to go on with
};

// The JSON body as an object, with a literal `extra_body` merged under the top level.
[[nodiscard]] tl::expected<JsonValue, ApiError> parse_body(std::string_view text);

// Checks `body`, which must be an object. Errors carry the JSON path.
[[nodiscard]] tl::expected<ChatRequest, ApiError> parse_chat_request(JsonValue body,
                                                                     const RequestRules& rules);

// 404 model_not_found when `model` is given, unknown, and the rules are strict about it.
[[nodiscard]] tl::expected<void, ApiError> check_model(std::string_view model,
                                                       const RequestRules& rules);

} // namespace dsv4v
