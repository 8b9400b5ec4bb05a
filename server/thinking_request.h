// The request fields about reasoning and the precedence among their many spellings.
// docs/api.md "Reasoning".
#pragma once

#include <optional>
#include <string_view>

#include "engine/chat_encoder.h"
#include "server/request_fields.h"
#include "server/request_rules.h"

namespace dsv4v {

struct ThinkingRequest {
    ThinkingMode mode = ThinkingMode::kThinking;
    ReasoningEffort effort = ReasoningEffort::kHigh;
    bool drop_thinking = true; // reasoning of earlier turns is left out
    bool split = true;         // false: reasoning stays in the content, with its markers
    bool include = true;       // false: generated and counted, not returned
    int32_t budget = -1;       // reasoning tokens; -1 = unlimited
};

// "minimal", "low" -> low; "medium", "high", "xhigh" -> high; "max", "ultra" -> max.
[[nodiscard]] std::optional<ReasoningEffort> effort_of(std::string_view name);

// Reads them; errors stick to `fields`. `model` is the requested name: two aliases choose the mode.
[[nodiscard]] ThinkingRequest read_thinking(RequestFields& fields, std::string_view model,
                                            const RequestRules& rules);

} // namespace dsv4v
