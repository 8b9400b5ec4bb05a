#include "engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace dsv4v {
namespace {

using Clock = Sequence::Clock;

// How often a step loop whose consumers have all fallen behind looks whether one caught up.
constexpr std::chrono::milliseconds kBlockedPoll{10};

// Wakes the engine thread. Streams share it, so that a cancel after the engine is gone is harmless.
class Doorbell {
  public:
    void ring() {
        std::lock_guard lock(mutex_);
        rung_ = true;
        changed_.notify_one();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return rung_; });
        rung_ = false;
    }
    void wait_for(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, timeout, [this] { return rung_; });
        rung_ = false;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool rung_ = false;
};

// What one sequence may use: never more than the whole pool, so that the oldest can always finish.
BackendLimits usable_limits(BackendLimits limits) {
    const int64_t pool = int64_t{limits.n_pages} * kPageTokens;
    limits.context_length = static_cast<int32_t>(std::min<int64_t>(limits.context_length, pool));
    return limits;
}

Expected<void> check_ids(const std::vector<int32_t>& ids, int32_t vocab_size, const char* param) {
    const auto bad =
        std::ranges::find_if(ids, [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
    if (bad == ids.end()) {
        return {};
    }
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}[{}]: token id {} is not in [0, {})", param,
                                  std::distance(ids.begin(), bad), *bad, vocab_size),
                      param);
}

Expected<void> check_all_ids(const GenerationRequest& request, int32_t vocab_size) {
    DSV4V_RETURN_IF_ERROR(check_ids(request.prompt, vocab_size, "prompt"));
    DSV4V_RETURN_IF_ERROR(check_ids(request.stop_token_ids, vocab_size, "stop_token_ids"));
    DSV4V_RETURN_IF_ERROR(check_ids(request.banned_token_ids, vocab_size, "banned_token_ids"));
    DSV4V_RETURN_IF_ERROR(check_ids(request.forced_answer_prefix, vocab_size, "answer prefix"));
    if (request.starts_in_reasoning && request.reasoning_budget >= 0) {
        DSV4V_RETURN_IF_ERROR(check_ids({request.think_close_id}, vocab_size, "think_close_id"));
    }
    std::vector<int32_t> biased;
    for (const auto& [id, bias] : request.sampling.logit_bias) {
        biased.push_back(id);
    }
    return check_ids(biased, vocab_size, "logit_bias");
}

Expected<void> check_request(const GenerationRequest& request, const BackendLimits& limits) {
    if (request.prompt.empty()) {
        return make_error(ErrorCode::kInvalidArgument, "prompt: must hold at least one token",
                          "prompt");
    }
    const size_t n_needed = request.prompt.size() + (request.max_tokens > 0 ? 1 : 0);
    if (n_needed > static_cast<size_t>(limits.context_length)) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("the prompt has {} tokens{}; the context holds {}",
                                      request.prompt.size(),
                                      request.max_tokens > 0 ? " and needs one for output" : "",
                                      limits.context_length),
                          "context");
    }
    if (request.max_tokens < 0) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("max_tokens: must be >= 0, got {}", request.max_tokens),
                          "max_tokens");
    }
    return check_all_ids(request, limits.vocab_size);
}

SlotSnapshot to_snapshot(const SequenceStatus& status, Clock::time_point now) {
    SlotSnapshot snapshot;
    snapshot.slot = status.slot;
    snapshot.request_id = status.request->request_id;
    snapshot.client = status.request->client;
    snapshot.state = status.slot < 0                            ? "waiting"
                     : status.phase == Sequence::Phase::kDecode ? "decode"
                                                                : "prefill";
    snapshot.n_prompt = status.n_prompt;
    snapshot.n_processed = status.n_processed;
    snapshot.n_decoded = status.n_decoded;
    snapshot.max_tokens = status.request->max_tokens;
    snapshot.n_pages = status.n_pages;
    snapshot.age_ms = std::chrono::duration<double, std::milli>(now - status.submitted_at).count();
    snapshot.stream = status.request->stream;
    return snapshot;
}

} // namespace

class Engine::Impl {
  public:
    Impl(std::unique_ptr<Backend> backend, const EngineOptions& options)
        : backend_(std::move(backend)), limits_(usable_limits(backend_->limits())),
          options_(options), scheduler_(limits_, options.prefill_chunk),
          thread_([this] { thread_main(); }) {}
    ~Impl() { stop(); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    Expected<std::shared_ptr<TokenStream>> submit(GenerationRequest request);
    void drain();
    bool draining() const;
    void stop();
    EngineStats stats() const;
    std::vector<SlotSnapshot> slots() const;
    const BackendLimits& limits() const { return limits_; }

  private:
    // Any thread, under mutex_.
    [[nodiscard]] Expected<void> check_admission() const;

    // Engine thread.
    void thread_main();
    void run();
    [[nodiscard]] bool take_inbox();
    [[nodiscard]] Expected<bool> run_step();
    [[nodiscard]] Expected<void> check_result() const;
    void record_step(double seconds);
    void publish();
    void end_everything(FinishReason reason, const std::string& message);

    const std::unique_ptr<Backend> backend_;
    const BackendLimits limits_;
    const EngineOptions options_;
    const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();

    // Engine thread only.
    Scheduler scheduler_;
    StepResult result_;
    uint64_t n_steps_ = 0;
    std::vector<uint64_t> step_histogram_ =
        std::vector<uint64_t>(std::size(kStepSecondsBounds) + 1, 0);
    double step_seconds_sum_ = 0;

    // Shared; held for copies only, never during a step.
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Sequence>> inbox_;
    uint64_t n_arrivals_ = 0;
    int32_t n_live_ = 0; // submitted and not yet finished
    bool draining_ = false;
    bool stopping_ = false;
    bool failed_ = false;
    std::string failure_; // why
    EngineStats published_;
    std::vector<SequenceStatus> published_sequences_;
    Clock::time_point last_step_at_ = Clock::now();

    std::mutex join_mutex_;
    std::thread thread_; // last: starts when everything above exists
};

Expected<void> Engine::Impl::check_admission() const {
    if (failed_) {
        return make_error(ErrorCode::kUnavailable, "the engine has failed: " + failure_);
    }
    if (draining_ || stopping_) {
        return make_error(ErrorCode::kUnavailable, "the server is shutting down");
    }
    const int32_t n_slots = std::min(limits_.max_sequences, limits_.max_batch_tokens);
    if (n_live_ >= n_slots + options_.max_queue) {
        return make_error(ErrorCode::kResourceExhausted,
                          fmt::format("the queue is full: {} running, {} waiting",
                                      published_.n_running, n_live_ - published_.n_running));
    }
    return {};
}

Expected<std::shared_ptr<TokenStream>> Engine::Impl::submit(GenerationRequest request) {
    DSV4V_RETURN_IF_ERROR(check_request(request, limits_));
    auto stream = std::make_shared<TokenStream>();
    stream->on_cancel = [doorbell = doorbell_] { doorbell->ring(); };
    const auto n_prompt = static_cast<int32_t>(request.prompt.size());
    {
        std::lock_guard lock(mutex_);
        DSV4V_RETURN_IF_ERROR(check_admission());
        stream->set_progress(
            {GenerationProgress::Phase::kQueue, n_live_ - published_.n_running + 1, n_prompt, 0});
        auto sequence = std::make_unique<Sequence>(std::move(request), stream);
        sequence->arrival = n_arrivals_++;
        inbox_.push_back(std::move(sequence));
        if (n_live_++ == 0) {
            last_step_at_ = Clock::now();
        }
    }
    doorbell_->ring();
    return stream;
}

void Engine::Impl::drain() {
    std::lock_guard lock(mutex_);
    draining_ = true;
}

bool Engine::Impl::draining() const {
    std::lock_guard lock(mutex_);
    return draining_;
}

void Engine::Impl::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    doorbell_->ring();
    std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) {
        thread_.join();
    }
}

EngineStats Engine::Impl::stats() const {
    std::lock_guard lock(mutex_);
    EngineStats stats = published_;
    stats.n_waiting = n_live_ - stats.n_running;
    stats.failed = failed_;
    if (n_live_ > 0) {
        stats.ms_since_last_step =
            std::chrono::duration<double, std::milli>(Clock::now() - last_step_at_).count();
    }
    return stats;
}

std::vector<SlotSnapshot> Engine::Impl::slots() const {
    std::vector<SequenceStatus> sequences;
    {
        std::lock_guard lock(mutex_);
        sequences = published_sequences_;
    }
    const Clock::time_point now = Clock::now();
    std::vector<SlotSnapshot> snapshots;
    for (const SequenceStatus& status : sequences) {
        snapshots.push_back(to_snapshot(status, now));
    }
    return snapshots;
}

// What the library throws (no memory) must not leave consumers waiting or the process in doubt.
void Engine::Impl::thread_main() {
    std::string failure;
    try {
        run();
        return;
    } catch (const std::exception& e) {
        failure = e.what();
    } catch (...) {
        failure = "unknown exception";
    }
    end_everything(FinishReason::kError, failure);
}

void Engine::Impl::run() {
    while (take_inbox()) {
        scheduler_.sweep(Clock::now());
        const Expected<bool> stepped = run_step();
        if (!stepped) {
            end_everything(FinishReason::kError, stepped.error().message);
            return;
        }
        publish();
        if (!scheduler_.has_sequences()) {
            scheduler_.check_invariants();
            doorbell_->wait();
        } else if (!*stepped) {
            doorbell_->wait_for(kBlockedPoll);
        }
    }
    end_everything(FinishReason::kCancelled, {});
}

// False: time to stop.
bool Engine::Impl::take_inbox() {
    std::lock_guard lock(mutex_);
    if (stopping_) {
        return false;
    }
    for (std::unique_ptr<Sequence>& sequence : inbox_) {
        scheduler_.add(std::move(sequence));
    }
    inbox_.clear();
    return true;
}

// Whether there was anything to run.
Expected<bool> Engine::Impl::run_step() {
    const Batch& batch = scheduler_.schedule(Clock::now());
    if (batch.token_ids.empty()) {
        return false;
    }
    for (const int32_t slot : scheduler_.slots_to_reset()) {
        backend_->reset_slot(slot);
    }
    const Clock::time_point start = Clock::now();
    result_.tokens.clear();
    DSV4V_RETURN_IF_ERROR(backend_->step(batch, result_));
    if (result_.tokens.size() != batch.sample_rows.size()) {
        return make_error(ErrorCode::kInternal,
                          fmt::format("backend returned {} tokens for {} sample rows",
                                      result_.tokens.size(), batch.sample_rows.size()));
    }
    DSV4V_RETURN_IF_ERROR(check_result());
    const Clock::time_point end = Clock::now();
    record_step(std::chrono::duration<double>(end - start).count());
    scheduler_.commit(result_, end);
    return true;
}

Expected<void> Engine::Impl::check_result() const {
    for (const SampledToken& token : result_.tokens) {
        if (!token.non_finite_logits &&
            (token.token_id < 0 || token.token_id >= limits_.vocab_size)) {
            return make_error(ErrorCode::kInternal,
                              fmt::format("backend returned token id {}, vocabulary has {}",
                                          token.token_id, limits_.vocab_size));
        }
    }
    return {};
}

void Engine::Impl::record_step(double seconds) {
    const auto bucket = std::ranges::lower_bound(kStepSecondsBounds, seconds);
    ++step_histogram_[static_cast<size_t>(bucket - std::begin(kStepSecondsBounds))];
    step_seconds_sum_ += seconds;
    ++n_steps_;
}

// Shows the new state, then tells the consumers of ended sequences: whoever learns of an end finds
// its slot and pages free.
void Engine::Impl::publish() {
    std::vector<std::unique_ptr<Sequence>> finished = scheduler_.take_finished();
    {
        std::lock_guard lock(mutex_);
        const EngineStats stats = scheduler_.stats();
        published_ = stats;
        published_.n_steps = n_steps_;
        published_.step_seconds_sum = step_seconds_sum_;
        published_.step_seconds_histogram = step_histogram_;
        published_sequences_.clear();
        scheduler_.append_status(published_sequences_);
        n_live_ = static_cast<int32_t>(inbox_.size()) + stats.n_running + stats.n_waiting;
        last_step_at_ = Clock::now();
    }
    for (const std::unique_ptr<Sequence>& sequence : finished) {
        sequence->finish(sequence->end, std::move(sequence->error_message));
    }
}

void Engine::Impl::end_everything(FinishReason reason, const std::string& message) {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        failed_ = reason == FinishReason::kError;
        failure_ = message;
        for (std::unique_ptr<Sequence>& sequence : inbox_) {
            scheduler_.add(std::move(sequence));
        }
        inbox_.clear();
    }
    scheduler_.finish_all(reason, message);
    publish();
}

Engine::Engine(std::unique_ptr<Backend> backend, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(backend), options)) {}

Engine::~Engine() = default;

Expected<std::shared_ptr<TokenStream>> Engine::submit(GenerationRequest request) {
    return impl_->submit(std::move(request));
}

void Engine::drain() {
    impl_->drain();
}
bool Engine::draining() const {
    return impl_->draining();
}
void Engine::stop() {
    impl_->stop();
}
EngineStats Engine::stats() const {
    return impl_->stats();
}
std::vector<SlotSnapshot> Engine::slots() const {
    return impl_->slots();
}
const BackendLimits& Engine::limits() const {
    return impl_->limits();
}

} // namespace dsv4v
