// The engine: an inbox, a step loop on its own thread, and outboxes (TokenStream). All public
// functions may be called from any thread; everything else belongs to the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend.h"
#include "engine/engine_stats.h"
#include "engine/generation_request.h"
#include "engine/token_stream.h"
#include "loaders/base/error.h"

namespace dsv4v {

struct EngineOptions {
    int32_t max_queue = 256;     // waiting requests; more are refused
    int32_t prefill_chunk = 512; // prompt rows of one sequence per step
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
