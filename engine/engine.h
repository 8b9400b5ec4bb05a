// The engine: an inbox, a step loop on its own thread, and outboxes (TokenStream). All public
// functions may be called from any thread; everything else belongs to the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "engine/generation_request.h"
#include "engine/token_stream.h"
#include "loaders/base/error.h"

namespace dsv4v {

struct EngineOptions {
    int32_t max_queue = 256;      // waiting requests; more are refused
    int32_t prefill_chunk = 512;  // prompt rows of one sequence per step
};

// Counters since start and gauges now; read by /metrics and /props.
struct EngineStats {
    int32_t n_running = 0;
    int32_t n_waiting = 0;
    int32_t n_pages = 0;
    int32_t n_pages_used = 0;
    uint64_t n_steps = 0;
    uint64_t n_preemptions = 0;
    uint64_t n_prompt_tokens = 0;
    uint64_t n_generated_tokens = 0;
    uint64_t n_reasoning_tokens = 0;
    uint64_t n_non_finite = 0;
    uint64_t n_finished_stop = 0;
    uint64_t n_finished_length = 0;
    uint64_t n_cancelled_queue = 0;   // by the phase in which the cancel was seen
    uint64_t n_cancelled_prefill = 0;
    uint64_t n_cancelled_decode = 0;
    uint64_t n_errors = 0;
    double ms_since_last_step = 0;    // while work is pending: the watchdog reads it
    bool failed = false;              // the backend reported an error; nothing runs any more
    std::vector<uint64_t> step_seconds_histogram; // counts per bound of kStepSecondsBounds, +Inf last
    double step_seconds_sum = 0;
};

inline constexpr double kStepSecondsBounds[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};

struct SlotSnapshot {
    int32_t slot = -1;
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

class Engine {
  public:
    Engine(std::unique_ptr<Backend> backend, const EngineOptions& options); // starts the thread
    ~Engine();                                                              // stop()
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Queues a request. kInvalidArgument: the prompt can never fit (param "context"), or an id is
    // out of range; kResourceExhausted: the queue is full; kUnavailable: draining or failed.
    [[nodiscard]] Expected<std::shared_ptr<TokenStream>> submit(GenerationRequest request);

    // Refuses new requests; running and queued ones continue.
    void drain();
    [[nodiscard]] bool draining() const;
    // Cancels everything (FinishReason::kCancelled) and joins the thread. Idempotent.
    void stop();

    [[nodiscard]] EngineStats stats() const;
    [[nodiscard]] std::vector<SlotSnapshot> slots() const;
    [[nodiscard]] const BackendLimits& limits() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace dsv4v
