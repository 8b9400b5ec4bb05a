#include "engine/token_stream.h"

#include <iterator>
#include <utility>

namespace dsv4v {

bool TokenStream::wait(std::vector<TokenEvent>& out, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (timeout.count() > 0) { // a wait that has expired already would still sleep a little
        changed_.wait_for(lock, timeout, [this] {
            return !events_.empty() || finish_reason_ != FinishReason::kNone;
        });
    }
    out.insert(out.end(), std::make_move_iterator(events_.begin()),
               std::make_move_iterator(events_.end()));
    events_.clear();
    n_unread_ = 0;
    return finish_reason_ != FinishReason::kNone;
}

void TokenStream::cancel(CancelCause cause) {
    int32_t expected = kNotCancelled;
    if (cancel_state_.compare_exchange_strong(expected, static_cast<int32_t>(cause)) && on_cancel) {
        on_cancel();
    }
}

CancelCause TokenStream::cancel_cause() const {
    return static_cast<CancelCause>(cancel_state_.load());
}

FinishReason TokenStream::finish_reason() const {
    std::lock_guard lock(mutex_);
    return finish_reason_;
}

int32_t TokenStream::stop_token_id() const {
    std::lock_guard lock(mutex_);
    return stop_token_id_;
}

std::string TokenStream::error_message() const {
    std::lock_guard lock(mutex_);
    return error_message_;
}

GenerationTimings TokenStream::timings() const {
    std::lock_guard lock(mutex_);
    return timings_;
}

GenerationProgress TokenStream::progress() const {
    std::lock_guard lock(mutex_);
    return progress_;
}

void TokenStream::push(TokenEvent event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    ++n_unread_;
    changed_.notify_one();
}

void TokenStream::set_progress(const GenerationProgress& progress) {
    std::lock_guard lock(mutex_);
    progress_ = progress;
}

void TokenStream::finish(FinishReason reason, int32_t stop_token_id, std::string error_message,
                         const GenerationTimings& timings) {
    std::lock_guard lock(mutex_);
    finish_reason_ = reason;
    stop_token_id_ = stop_token_id;
    error_message_ = std::move(error_message);
    timings_ = timings;
    changed_.notify_one();
}

} // namespace dsv4v
