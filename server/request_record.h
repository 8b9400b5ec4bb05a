// What one request did, for the access log and the metrics. The HTTP server fills the transport
// half and reports it once at the end; a generating handler fills the rest.
#pragma once

#include <cstdint>
#include <string>

namespace dsv4v {

struct RequestRecord {
    // Set by a handler that generated something (also on failure after admission).
    bool generated = false;
    bool stream = false;
    std::string model;
    std::string finish_reason; // stop, length, tool_calls, abort, error; "" when not generated
    int32_t n_choices = 1;
    int32_t max_tokens = 0;
    int32_t n_prompt = 0;
    int32_t n_cached = 0;
    int32_t n_images = 0;
    int32_t n_image_tokens = 0;
    int32_t n_generated = 0; // over all choices
    int32_t n_reasoning = 0;
    double queue_ms = 0;
    double prompt_ms = 0;
    double decode_ms = 0;
    double ttft_ms = -1; // arrival to first token; < 0: there was none

    // Set by the HTTP server; the id at the beginning.
    std::string request_id;
    std::string error_type; // of an error reply, "" otherwise
    double total_ms = 0;
    uint64_t bytes_in = 0; // of the body
    uint64_t bytes_out = 0;
};

} // namespace dsv4v
