// What this server allows in a request and assumes when a field is absent: the numbers that request
// parsing needs, gathered from options, model and engine once at start. Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/chat_encoder.h"

namespace dsv4v {

struct RequestRules {
    int32_t vocab_size = 0;
    int32_t context_length = 0;

    std::string served_model;         // echoed in every reply
    std::vector<std::string> aliases; // further names of it
    bool strict_model = false;        // other names are refused
    bool strict_params = false;       // unknown fields are refused

    bool default_thinking = true;
    ReasoningEffort default_effort = ReasoningEffort::kHigh;
    float default_temperature = 1.0f;
    float default_top_p = 1.0f;
    bool thinking_fixed_sampling = false; // temperature and penalties are ignored while thinking
    bool drop_tools_on_none = false;

    int32_t max_n = 8;
    int32_t max_messages = 10000;
    int32_t max_parts = 4096;
    int32_t max_tools = 512;
    bool allow_priority = false;
    double max_timeout_s = 0; // cap of `timeout`, and its default; 0 = none
};

} // namespace dsv4v
