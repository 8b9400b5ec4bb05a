// The one queue from the engine back to a request's connection thread, and its cancel flag.
// push/finish: engine thread. wait/cancel: any one consumer thread. docs: DESIGN.md "Threads".
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/batch.h"

namespace dsv4v {

enum class FinishReason {
    kNone,
    kStop,      // a stop id; also a consumer that asked to stop (stop string, closed tool block)
    kLength,    // max_tokens or context full
    kCancelled, // the consumer went away
    kTimeout,   // deadline passed
    kError,     // engine failure; see error_message
};

enum class CancelCause { kStopped, kGone, kTimeout };

struct GenerationTimings {
    double queue_ms = 0;  // submit -> first scheduled
    double prompt_ms = 0; // first scheduled -> first token
    double decode_ms = 0; // first token -> last token
    int32_t n_prompt = 0;
    int32_t n_cached = 0;
    int32_t n_generated = 0;
    int32_t n_reasoning = 0; // tokens up to and including </think>
};

struct GenerationProgress {
    enum class Phase { kQueue, kPrefill, kDecode } phase = Phase::kQueue;
    int32_t queue_position = 0;
    int32_t n_prompt = 0;
    int32_t n_prompt_done = 0;
};

struct TokenEvent {
    SampledToken token;
    bool is_prompt = false; // a scored prompt token (prompt_logprobs)
};

// Nothing is ever dropped from a stream; beyond this many unread events the engine stops scheduling
// the sequence instead.
inline constexpr int32_t kMaxUnreadEvents = 1024;

class TokenStream {
  public:
    // Consumer: appends new events to `out` and returns true when finished and drained. Waits
    // until something happened or `timeout` passed.
    bool wait(std::vector<TokenEvent>& out, std::chrono::milliseconds timeout);
    // Any thread: asks the engine to end this sequence at the next step boundary. Idempotent; the
    // first cause counts.
    void cancel(CancelCause cause);
    // Any thread: asks the engine to close the reasoning at the next token. Idempotent; no effect
    // once the answer has begun.
    void request_reasoning_end() { reasoning_end_requested_.store(true); }
    // Valid once wait() returned true. By then the sequence has given back its slot and pages.
    [[nodiscard]] FinishReason finish_reason() const;
    [[nodiscard]] int32_t stop_token_id() const; // -1 if no stop id ended it
    [[nodiscard]] std::string error_message() const;
    [[nodiscard]] GenerationTimings timings() const;
    [[nodiscard]] GenerationProgress progress() const; // any time

    // Engine side.
    void push(TokenEvent event);
    void set_progress(const GenerationProgress& progress);
    void finish(FinishReason reason, int32_t stop_token_id, std::string error_message,
                const GenerationTimings& timings);
    [[nodiscard]] bool cancel_requested() const { return cancel_state_.load() != kNotCancelled; }
    [[nodiscard]] CancelCause cancel_cause() const; // valid when cancel_requested()
    [[nodiscard]] bool reasoning_end_requested() const { return reasoning_end_requested_.load(); }
    // The consumer is so far behind that the sequence should rest until it has caught up.
    [[nodiscard]] bool congested() const { return n_unread_.load() >= kMaxUnreadEvents; }
    // Called on cancel() so that an idle engine wakes up; set once before the stream is shared.
    std::function<void()> on_cancel;

  private:
    static constexpr int32_t kNotCancelled = -1;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<TokenEvent> events_;
    GenerationProgress progress_;
    GenerationTimings timings_;
    FinishReason finish_reason_ = FinishReason::kNone;
    int32_t stop_token_id_ = -1;
    std::string error_message_;
    std::atomic<int32_t> n_unread_{0};
    std::atomic<int32_t> cancel_state_{kNotCancelled}; // or the cause's number
    std::atomic<bool> reasoning_end_requested_{false};
};

} // namespace dsv4v
