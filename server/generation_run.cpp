#include "server/generation_run.h"

#include <algorithm>
#include <utility>

#include "server/logging.h"

namespace dsv4v {
namespace {

constexpr std::chrono::milliseconds kMaxWait{100};
// With several choices one thread reads several streams; all advance in the same engine steps.
constexpr std::chrono::milliseconds kMaxWaitOfMany{5};

double ms_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
}

} // namespace

GenerationRun::GenerationRun(ServingContext& context, RunPlan plan,
                             std::shared_ptr<RequestRecord> record)
    : context_(context), record_(std::move(record)), arrived_at_(plan.arrived_at),
      n_prompt_tokens_(plan.n_prompt_tokens) {}

tl::expected<std::unique_ptr<GenerationRun>, ApiError>
GenerationRun::start(ServingContext& context, RunRegistry& registry, RunPlan plan,
                     std::shared_ptr<RequestRecord> record) {
    std::string reply_id = plan.reply_id;
    std::vector<RunPlan::Choice> choices = std::move(plan.choices);
    record->max_tokens = choices.front().request.max_tokens;
    record->stream = choices.front().request.stream;
    record->n_choices = static_cast<int32_t>(choices.size());
    std::unique_ptr<GenerationRun> run(
        new GenerationRun(context, std::move(plan), std::move(record)));
    RunRegistry::Streams streams;
    for (RunPlan::Choice& choice : choices) {
        auto stream = context.engine().submit(std::move(choice.request));
        if (!stream) {
            run->withdraw(CancelCause::kGone);
            run->state_ = RunState::kFailed;
            return tl::unexpected(to_api_error(stream.error()));
        }
        streams.push_back(*stream);
        run->choices_.push_back({std::move(*stream),
                                 ChoiceOutput(context.model().tokenizer, std::move(choice.options)),
                                 {},
                                 {},
                                 {},
                                 {},
                                 false,
                                 false});
    }
    run->registration_ =
        std::make_unique<RunRegistry::Entry>(registry, std::move(reply_id), streams);
    return run;
}

GenerationRun::~GenerationRun() {
    if (state_ == RunState::kRunning && !choices_.empty()) {
        abandon();
    }
}

void GenerationRun::withdraw(CancelCause cause) {
    for (Choice& choice : choices_) {
        if (!choice.finished) {
            choice.stream->cancel(cause);
        }
    }
}

void GenerationRun::abandon() {
    withdraw(CancelCause::kGone);
    state_ = RunState::kGone;
    fill_record("abort");
}

RunState GenerationRun::fail(ApiError error) {
    withdraw(CancelCause::kGone);
    error_ = std::move(error);
    state_ = RunState::kFailed;
    fill_record("error");
    return state_;
}

bool GenerationRun::waited_too_long() const {
    const double limit_s = context_.options.queue_timeout_s;
    return limit_s > 0 && ms_since(arrived_at_) > limit_s * 1000 &&
           std::any_of(choices_.begin(), choices_.end(), [](const Choice& choice) {
               return !choice.begun && !choice.finished &&
                      choice.stream->progress().phase == GenerationProgress::Phase::kQueue;
           });
}

RunState GenerationRun::advance(std::chrono::milliseconds timeout,
                                const std::function<bool()>& gone, std::vector<ChoiceUpdate>& out) {
    if (state_ != RunState::kRunning) {
        return state_;
    }
    if (gone && gone()) {
        abandon();
        return state_;
    }
    const auto most = choices_.size() == 1 ? kMaxWait : kMaxWaitOfMany;
    bool waited = false;
    for (size_t k = 0; k < choices_.size(); ++k) {
        Choice& choice = choices_[k];
        if (choice.finished) {
            continue;
        }
        const auto wait =
            std::exchange(waited, true) ? std::chrono::milliseconds(0) : std::min(timeout, most);
        const bool drained = choice.stream->wait(choice.events, wait);
        process(k, drained, out);
        if (state_ == RunState::kFailed) {
            return state_;
        }
    }
    if (waited_too_long()) {
        return fail(unavailable("overloaded", "the request waited too long in the queue"));
    }
    if (std::all_of(choices_.begin(), choices_.end(), [](auto& c) { return c.finished; })) {
        state_ = RunState::kFinished;
        fill_record(finish_reason_);
    }
    return state_;
}

void GenerationRun::process(size_t choice_idx, bool drained, std::vector<ChoiceUpdate>& out) {
    Choice& choice = choices_[choice_idx];
    ChoiceUpdate update;
    update.choice_idx = choice_idx;
    for (const TokenEvent& event : choice.events) {
        take_event(choice, event, update);
    }
    choice.events.clear();
    observe_latency(choice, !update.token_ids.empty());
    if (drained) {
        end_choice(choice, update);
    } else if (choice.output.wants_stop()) {
        choice.stream->cancel(CancelCause::kStopped);
    }
    if (state_ == RunState::kFailed || (update.token_ids.empty() && !update.end)) {
        return;
    }
    update.first = !std::exchange(choice.begun, true);
    out.push_back(std::move(update));
}

void GenerationRun::take_event(Choice& choice, const TokenEvent& event, ChoiceUpdate& update) {
    if (event.is_prompt) {
        choice.prompt_scores.push_back(event.token);
    } else if (!choice.output.wants_stop()) {
        update.token_ids.push_back(event.token.token_id);
        choice.output.feed(event.token, update.deltas);
    }
}

void GenerationRun::observe_latency(Choice& choice, bool has_tokens) {
    if (!has_tokens) {
        return;
    }
    const Clock::time_point now = Clock::now();
    if (!ttft_ms_) {
        ttft_ms_ = ms_since(arrived_at_);
    }
    if (choice.last_token_at) {
        context_.metrics.observe_inter_token(
            std::chrono::duration<double>(now - *choice.last_token_at).count());
    }
    choice.last_token_at = now;
}

void GenerationRun::end_choice(Choice& choice, ChoiceUpdate& update) {
    const FinishReason reason = choice.stream->finish_reason();
    const bool complete = choice.output.wants_stop() || reason == FinishReason::kStop ||
                          reason == FinishReason::kLength;
    if (!complete) {
        fail(failure_of(choice));
        return;
    }
    choice.finished = true;
    choice.timings = choice.stream->timings();
    const EndCause cause = reason == FinishReason::kLength ? EndCause::kLength : EndCause::kStop;
    update.end = choice.output.finish(cause, update.deltas);
    if (finish_reason_.empty()) {
        finish_reason_ = update.end->finish_reason;
    }
}

ApiError GenerationRun::failure_of(const Choice& choice) const {
    switch (choice.stream->finish_reason()) {
    case FinishReason::kTimeout: {
        const bool waiting = !choice.begun && choice.stream->timings().n_generated == 0;
        return {.status = waiting ? 408 : 504,
                .type = "timeout_error",
                .code = waiting ? "request_timeout" : "generation_timeout",
                .message = waiting ? "the time limit passed before the first token"
                                   : "the time limit passed during the generation"};
    }
    case FinishReason::kCancelled:
        return unavailable("draining", "the server is shutting down");
    default: {
        log_line(LogLevel::kError, "generation failed",
                 {{"req", record_->request_id}, {"what", choice.stream->error_message()}});
        ApiError error = internal_error();
        error.code = "engine_error";
        return error;
    }
    }
}

RunTotals GenerationRun::totals() const {
    RunTotals totals;
    totals.n_prompt = n_prompt_tokens_;
    totals.ttft_ms = ttft_ms_.value_or(0);
    totals.total_ms = ms_since(arrived_at_);
    for (const Choice& choice : choices_) {
        totals.n_generated += choice.output.n_tokens();
        totals.n_reasoning += choice.output.n_reasoning_tokens();
        totals.decode_ms = std::max(totals.decode_ms, choice.timings.decode_ms);
        totals.queue_ms = std::max(totals.queue_ms, choice.timings.queue_ms);
        totals.prompt_ms = std::max(totals.prompt_ms, choice.timings.prompt_ms);
    }
    if (!choices_.empty()) {
        totals.n_cached = std::min(choices_.front().timings.n_cached, n_prompt_tokens_);
    }
    return totals;
}

GenerationProgress GenerationRun::progress() const {
    return choices_.front().stream->progress();
}

const std::vector<SampledToken>& GenerationRun::prompt_scores(size_t choice_idx) const {
    return choices_[choice_idx].prompt_scores;
}

void GenerationRun::fill_record(const std::string& finish_reason) {
    const RunTotals totals_now = totals();
    record_->generated = true;
    record_->finish_reason = finish_reason;
    record_->n_prompt = totals_now.n_prompt;
    record_->n_cached = totals_now.n_cached;
    record_->n_generated = totals_now.n_generated;
    record_->n_reasoning = totals_now.n_reasoning;
    record_->queue_ms = totals_now.queue_ms;
    record_->prompt_ms = totals_now.prompt_ms;
    record_->decode_ms = totals_now.decode_ms;
    record_->ttft_ms = ttft_ms_.value_or(-1);
}

} // namespace dsv4v
