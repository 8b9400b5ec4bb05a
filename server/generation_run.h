// The generations behind one reply, from submission to end: n choices, each a token stream and the
// pipeline that turns its tokens into output. Belongs to one connection thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "engine/generation_request.h"
#include "server/choice_output.h"
#include "server/error_reply.h"
#include "server/run_registry.h"
#include "server/serving_context.h"

namespace dsv4v {

// What happened to one choice since the last look.
struct ChoiceUpdate {
    size_t choice_idx = 0;
    bool first = false; // the choice has begun: its first token, or its end without one
    std::vector<ChoiceDelta> deltas;
    std::vector<int32_t> token_ids;
    std::optional<ChoiceEnd> end;
};

enum class RunState { kRunning, kFinished, kFailed, kGone };

// Sums over the choices.
struct RunTotals {
    int32_t n_prompt = 0; // each prompt once
    int32_t n_cached = 0;
    int32_t n_generated = 0;
    int32_t n_reasoning = 0;
    double queue_ms = 0;
    double prompt_ms = 0;
    double decode_ms = 0;
    double ttft_ms = 0;
    double total_ms = 0;
};

struct RunPlan {
    std::string reply_id;
    struct Choice {
        GenerationRequest request;
        ChoiceOptions options;
    };
    std::vector<Choice> choices; // at least one
    int32_t n_prompt_tokens = 0; // of all prompts
    std::chrono::steady_clock::time_point arrived_at = std::chrono::steady_clock::now();
};

class GenerationRun {
  public:
    // Submits all choices; when one is refused the others are withdrawn and the refusal is
    // returned. `registry` and `context` must outlive the run.
    [[nodiscard]] static tl::expected<std::unique_ptr<GenerationRun>, ApiError>
    start(ServingContext& context, RunRegistry& registry, RunPlan plan,
          std::shared_ptr<RequestRecord> record);
    ~GenerationRun(); // withdraws what still runs
    GenerationRun(const GenerationRun&) = delete;
    GenerationRun& operator=(const GenerationRun&) = delete;

    // Waits up to `timeout` (at most 100 ms) for news and appends them. `gone` is asked first.
    RunState advance(std::chrono::milliseconds timeout, const std::function<bool()>& gone,
                     std::vector<ChoiceUpdate>& out);
    // Ends everything because nobody reads the reply.
    void abandon();

    // Why, after kFailed.
    [[nodiscard]] const ApiError& error() const { return error_; }
    [[nodiscard]] RunTotals totals() const;
    [[nodiscard]] GenerationProgress progress() const; // of the first choice
    [[nodiscard]] size_t n_choices() const { return choices_.size(); }
    // Scores of the prompt tokens after the first, in order (prompt_logprobs).
    [[nodiscard]] const std::vector<SampledToken>& prompt_scores(size_t choice_idx) const;

  private:
    using Clock = std::chrono::steady_clock;
    struct Choice {
        std::shared_ptr<TokenStream> stream;
        ChoiceOutput output;
        std::vector<SampledToken> prompt_scores;
        std::vector<TokenEvent> events; // read, not processed
        GenerationTimings timings;
        std::optional<Clock::time_point> last_token_at;
        bool begun = false;
        bool finished = false;
    };

    GenerationRun(ServingContext& context, RunPlan plan, std::shared_ptr<RequestRecord> record);
    void process(size_t choice_idx, bool drained, std::vector<ChoiceUpdate>& out);
    void take_event(Choice& choice, const TokenEvent& event, ChoiceUpdate& update);
    void observe_latency(Choice& choice, bool has_tokens);
    // Ends the choice, or sets error_ when it failed.
    void end_choice(Choice& choice, ChoiceUpdate& update);
    [[nodiscard]] ApiError failure_of(const Choice& choice) const;
    [[nodiscard]] bool waited_too_long() const;
    RunState fail(ApiError error);
    void withdraw(CancelCause cause);
    void fill_record(const std::string& finish_reason);

    ServingContext& context_;
    std::shared_ptr<RequestRecord> record_;
    Clock::time_point arrived_at_;
    int32_t n_prompt_tokens_ = 0;
    std::vector<Choice> choices_;
    std::unique_ptr<RunRegistry::Entry> registration_;
    std::optional<double> ttft_ms_;
    RunState state_ = RunState::kRunning;
    ApiError error_;
    std::string finish_reason_; // of the first choice that ended
};

} // namespace dsv4v
