// One generation from admission to end: its ids, where they lie in the cache, and what may come
// next. Built by the submitting thread, then touched by the engine thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/batch.h"
#include "engine/generation_request.h"
#include "engine/token_stream.h"

namespace dsv4v {

class Sequence {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Phase { kQueue, kPrefill, kDecode }; // how far it has ever come

    Sequence(GenerationRequest request, std::shared_ptr<TokenStream> stream);
    // A sequence that is dropped without finish() tells its consumer kError: nobody waits for ever.
    ~Sequence();
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    // Lower runs first: priority, then arrival.
    [[nodiscard]] bool runs_before(const Sequence& other) const;

    [[nodiscard]] const GenerationRequest& request() const { return *request_; } // prompt moved out
    [[nodiscard]] std::shared_ptr<const GenerationRequest> shared_request() const {
        return request_;
    }
    [[nodiscard]] const TokenStream& stream() const { return *stream_; }
    [[nodiscard]] std::span<const int32_t> ids() const { return ids_; } // prompt, then output
    [[nodiscard]] int32_t n_ids() const { return static_cast<int32_t>(ids_.size()); }
    [[nodiscard]] int32_t n_prompt() const { return n_prompt_; }
    [[nodiscard]] int32_t n_output() const { return n_ids() - n_prompt_; }
    [[nodiscard]] int32_t n_reasoning() const { return n_reasoning_; }
    [[nodiscard]] Clock::time_point submitted_at() const { return submitted_at_; }
    [[nodiscard]] Phase phase() const;

    // Ids not yet in the cache. 1 with output present: a decode step; otherwise prefill.
    [[nodiscard]] int32_t n_pending() const { return n_ids() - n_processed; }
    [[nodiscard]] bool decodes() const { return n_pending() == 1 && n_output() > 0; }

    // The draw after the last id; valid until the next append(). `row`: index of that id's row.
    [[nodiscard]] SampleRow next_token_row(int32_t row) const;
    // Scores prompt[position + 1] from the row at `position`.
    [[nodiscard]] SampleRow prompt_score_row(int32_t row, int32_t position) const;
    // First position whose successor in the prompt is still to be scored; n_prompt() - 1 or more
    // when there is none.
    [[nodiscard]] int32_t first_unscored_position() const;

    // First time that rows of it are scheduled.
    void mark_scheduled(Clock::time_point now);
    // Hands a scored prompt token to the consumer.
    void push_prompt_token(SampledToken token);
    // Appends a generated token, hands it to the consumer; tells whether that ends the output.
    [[nodiscard]] FinishReason push_output(SampledToken token, int32_t context_length,
                                           Clock::time_point now);
    // The first n_processed positions are in the cache. Returns how many prompt positions were
    // evaluated for the first time.
    int32_t advance(int32_t n_rows);
    void report_queue_position(int32_t position);
    // The only end: reason and timings to the consumer. Once.
    void finish(FinishReason reason, std::string error_message);

    // Owned by the scheduler.
    uint64_t arrival = 0;
    int32_t slot = -1;       // -1 while waiting
    int32_t n_processed = 0; // positions whose cache rows exist
    std::vector<int32_t> page_table;
    FinishReason end = FinishReason::kNone; // set when it must leave at this step boundary
    std::string error_message;

  private:
    [[nodiscard]] bool is_stop_id(int32_t token_id) const;
    [[nodiscard]] int32_t forced_token() const;
    [[nodiscard]] std::span<const int32_t> banned_tokens() const;
    [[nodiscard]] GenerationTimings timings() const;
    void report_progress();

    std::shared_ptr<const GenerationRequest> request_;
    std::shared_ptr<TokenStream> stream_;
    std::vector<int32_t> ids_;
    int32_t n_prompt_ = 0;
    int32_t n_prompt_done_ = 0;   // prompt positions evaluated at least once
    int32_t n_prompt_scored_ = 1; // the first prompt token has no score
    int32_t n_reasoning_ = 0;
    bool in_reasoning_ = false;
    bool finished_ = false;
    int32_t stop_token_id_ = -1;
    std::vector<int32_t> banned_early_; // banned ids and stop ids: while output < min_tokens
    Clock::time_point submitted_at_;
    std::optional<Clock::time_point> scheduled_at_;
    std::optional<Clock::time_point> first_token_at_;
    Clock::time_point last_token_at_;
};

} // namespace dsv4v
