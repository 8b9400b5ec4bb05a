#include "engine/sequence.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "loaders/base/check.h"

namespace dsv4v {
namespace {

double ms_between(Sequence::Clock::time_point from, Sequence::Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

} // namespace

Sequence::Sequence(GenerationRequest request, std::shared_ptr<TokenStream> stream)
    : stream_(std::move(stream)), ids_(std::move(request.prompt)),
      n_prompt_(static_cast<int32_t>(ids_.size())), in_reasoning_(request.starts_in_reasoning),
      submitted_at_(Clock::now()) {
    if (request.min_tokens > 0 && !request.ignore_eos) {
        banned_early_ = request.banned_token_ids;
        banned_early_.insert(banned_early_.end(), request.stop_token_ids.begin(),
                             request.stop_token_ids.end());
    }
    request_ = std::make_shared<const GenerationRequest>(std::move(request));
}

Sequence::~Sequence() {
    if (!finished_) {
        finish(FinishReason::kError, {});
    }
}

bool Sequence::runs_before(const Sequence& other) const {
    return std::tuple(request_->priority, arrival) <
           std::tuple(other.request_->priority, other.arrival);
}

Sequence::Phase Sequence::phase() const {
    if (n_output() > 0) {
        return Phase::kDecode;
    }
    return scheduled_at_ ? Phase::kPrefill : Phase::kQueue;
}

SampleRow Sequence::next_token_row(int32_t row) const {
    SampleRow sample;
    sample.row = row;
    sample.params = &request_->sampling;
    sample.history = ids_;
    sample.n_prompt_tokens = n_prompt_;
    sample.output_position = n_output();
    sample.choice_idx = request_->choice_idx;
    sample.banned = banned_tokens();
    sample.forced_token = forced_token();
    return sample;
}

SampleRow Sequence::prompt_score_row(int32_t row, int32_t position) const {
    SampleRow sample;
    sample.row = row;
    sample.params = &request_->sampling;
    sample.history = ids().first(static_cast<size_t>(position) + 1);
    sample.n_prompt_tokens = position + 1;
    sample.choice_idx = request_->choice_idx;
    sample.forced_token = ids_[static_cast<size_t>(position) + 1];
    return sample;
}

int32_t Sequence::first_unscored_position() const {
    return request_->prompt_logprobs ? n_prompt_scored_ - 1 : n_prompt_;
}

// Reasoning tokens come first in the output, so what follows them is the answer.
int32_t Sequence::forced_token() const {
    if (in_reasoning_) {
        const bool spent =
            request_->reasoning_budget >= 0 && n_reasoning_ >= request_->reasoning_budget;
        return spent || stream_->reasoning_end_requested() ? request_->think_close_id : -1;
    }
    const auto answer_idx = static_cast<size_t>(n_output() - n_reasoning_);
    const std::vector<int32_t>& prefix = request_->forced_answer_prefix;
    return answer_idx < prefix.size() ? prefix[answer_idx] : -1;
}

std::span<const int32_t> Sequence::banned_tokens() const {
    if (!banned_early_.empty() && n_output() < request_->min_tokens) {
        return banned_early_;
    }
    return request_->banned_token_ids;
}

bool Sequence::is_stop_id(int32_t token_id) const {
    return !request_->ignore_eos &&
           std::ranges::find(request_->stop_token_ids, token_id) != request_->stop_token_ids.end();
}

void Sequence::mark_scheduled(Clock::time_point now) {
    if (!scheduled_at_) {
        scheduled_at_ = now;
        report_progress();
    }
}

void Sequence::push_prompt_token(SampledToken token) {
    ++n_prompt_scored_;
    stream_->push({std::move(token), true});
}

FinishReason Sequence::push_output(SampledToken token, int32_t context_length,
                                   Clock::time_point now) {
    const int32_t token_id = token.token_id;
    ids_.push_back(token_id);
    last_token_at_ = now;
    if (in_reasoning_) {
        ++n_reasoning_;
        in_reasoning_ = token_id != request_->think_close_id;
    }
    if (!first_token_at_) {
        first_token_at_ = now;
        report_progress();
    }
    stream_->push({std::move(token), false});
    if (is_stop_id(token_id)) {
        stop_token_id_ = token_id;
        return FinishReason::kStop;
    }
    const bool full = n_output() >= request_->max_tokens || n_ids() >= context_length;
    return full ? FinishReason::kLength : FinishReason::kNone;
}

int32_t Sequence::advance(int32_t n_rows) {
    n_processed += n_rows;
    DSV4V_CHECK(n_processed <= n_ids());
    const int32_t n_first_time = std::min(n_processed, n_prompt_) - n_prompt_done_;
    if (n_first_time <= 0) {
        return 0;
    }
    n_prompt_done_ += n_first_time;
    report_progress();
    return n_first_time;
}

void Sequence::report_queue_position(int32_t position) {
    if (phase() == Phase::kQueue) {
        stream_->set_progress({GenerationProgress::Phase::kQueue, position, n_prompt_, 0});
    }
}

void Sequence::report_progress() {
    const auto shown =
        n_output() > 0 ? GenerationProgress::Phase::kDecode : GenerationProgress::Phase::kPrefill;
    stream_->set_progress({shown, 0, n_prompt_, n_prompt_done_});
}

GenerationTimings Sequence::timings() const {
    const Clock::time_point now = Clock::now();
    const Clock::time_point scheduled = scheduled_at_.value_or(now);
    const Clock::time_point first_token = first_token_at_.value_or(scheduled_at_ ? now : scheduled);
    GenerationTimings timings;
    timings.queue_ms = ms_between(submitted_at_, scheduled);
    timings.prompt_ms = ms_between(scheduled, first_token);
    timings.decode_ms = first_token_at_ ? ms_between(first_token, last_token_at_) : 0;
    timings.n_prompt = n_prompt_;
    timings.n_generated = n_output();
    timings.n_reasoning = n_reasoning_;
    return timings;
}

void Sequence::finish(FinishReason reason, std::string message) {
    DSV4V_CHECK(!finished_);
    finished_ = true;
    stream_->finish(reason, stop_token_id_, std::move(message), timings());
}

} // namespace dsv4v
