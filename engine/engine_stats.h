// Numbers the engine shows to the outside: copies, taken at a step boundary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dsv4v {

// Counters since start and gauges now; read by /metrics and /props.
struct EngineStats {
    int32_t n_running = 0; // hold a slot
    int32_t n_waiting = 0; // queued, and preempted until they run again
    int32_t n_pages = 0;
    int32_t n_pages_used = 0;
    uint64_t n_steps = 0;
    uint64_t n_preemptions = 0;
    uint64_t n_prompt_tokens = 0;    // evaluated; not counted again when recomputed
    uint64_t n_generated_tokens = 0; // stop ids included
    uint64_t n_reasoning_tokens = 0;
    uint64_t n_non_finite = 0; // sequences ended because their logits were not finite
    uint64_t n_finished_stop = 0;
    uint64_t n_finished_length = 0;
    uint64_t n_cancelled_queue = 0; // by the phase in which the cancel was seen
    uint64_t n_cancelled_prefill = 0;
    uint64_t n_cancelled_decode = 0;
    uint64_t n_timed_out = 0;
    uint64_t n_errors = 0;
    double ms_since_last_step = 0; // while work is pending: the watchdog reads it
    bool failed = false;           // the backend reported an error; nothing runs any more
    // Steps per bucket (not cumulative): bounds of kStepSecondsBounds, then everything above.
    std::vector<uint64_t> step_seconds_histogram;
    double step_seconds_sum = 0;
};

inline constexpr double kStepSecondsBounds[] = {.001, .0025, .005, .01, .025, .05, .1,
                                                .25,  .5,    1,    2.5, 5,    10};

struct SlotSnapshot {
    int32_t slot = -1; // -1: waiting
    std::string request_id;
    std::string client;
    std::string state; // "waiting", "prefill", "decode"
    int32_t n_prompt = 0;
    int32_t n_processed = 0;
    int32_t n_decoded = 0;
    int32_t max_tokens = 0;
    int32_t n_pages = 0;
    double age_ms = 0;
    bool stream = false;
};

} // namespace dsv4v
