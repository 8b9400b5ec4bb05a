#include "engine/scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "loaders/base/check.h"

namespace dsv4v {
namespace {

int32_t pages_for(int32_t n_tokens) {
    return (n_tokens + kPageTokens - 1) / kPageTokens;
}

bool in_order(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
    return a->runs_before(*b);
}

// Why a sequence must end at this step boundary, or kNone.
FinishReason requested_end(const Sequence& sequence, Scheduler::Clock::time_point now) {
    if (sequence.stream().cancel_requested()) {
        switch (sequence.stream().cancel_cause()) {
        case CancelCause::kStopped:
            return FinishReason::kStop;
        case CancelCause::kGone:
            return FinishReason::kCancelled;
        case CancelCause::kTimeout:
            return FinishReason::kTimeout;
        }
    }
    const auto& deadline = sequence.request().deadline;
    return deadline && now >= *deadline ? FinishReason::kTimeout : FinishReason::kNone;
}

} // namespace

Scheduler::Scheduler(const BackendLimits& limits, int32_t prefill_chunk)
    : limits_(limits), prefill_chunk_(prefill_chunk), pages_(limits.n_pages) {
    DSV4V_CHECK(prefill_chunk > 0 && limits.max_batch_tokens > 0 && limits.max_sequences > 0);
    DSV4V_CHECK(limits.context_length > 0 && pages_for(limits.context_length) <= limits.n_pages);
    // With no more slots than rows every running sequence gets its decode row in every step.
    n_slots_ = std::min(limits.max_sequences, limits.max_batch_tokens);
    for (int32_t slot = n_slots_ - 1; slot >= 0; --slot) {
        free_slots_.push_back(slot);
    }
    running_.reserve(static_cast<size_t>(n_slots_));
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
    DSV4V_CHECK(sequence->n_prompt() > 0 && sequence->n_prompt() <= limits_.context_length);
    insert_waiting(std::move(sequence));
}

void Scheduler::insert_waiting(std::unique_ptr<Sequence> sequence) {
    waiting_.insert(std::ranges::upper_bound(waiting_, sequence, in_order), std::move(sequence));
    queue_changed_ = true;
}

void Scheduler::sweep(Clock::time_point now) {
    bool any = false;
    const auto visit = [&](const std::unique_ptr<Sequence>& sequence) {
        sequence->end = requested_end(*sequence, now);
        any = any || sequence->end != FinishReason::kNone;
    };
    std::ranges::for_each(waiting_, visit);
    std::ranges::for_each(running_, visit);
    if (any) {
        collect_ended();
    }
}

void Scheduler::finish_all(FinishReason reason, const std::string& error_message) {
    const auto visit = [&](const std::unique_ptr<Sequence>& sequence) {
        sequence->end = reason;
        sequence->error_message = error_message;
    };
    std::ranges::for_each(waiting_, visit);
    std::ranges::for_each(running_, visit);
    collect_ended();
}

const Batch& Scheduler::schedule(Clock::time_point now) {
    batch_.clear();
    plans_.clear();
    slots_to_reset_.clear();
    schedule_decode();
    admit(now);
    schedule_prefill();
    report_queue();
    return batch_;
}

// Oldest first, so that when pages run out the older one grows and the newest one gives way.
void Scheduler::schedule_decode() {
    for (size_t i = 0; i < running_.size();) {
        Sequence& sequence = *running_[i];
        if (sequence.decodes() && !sequence.stream().congested()) {
            if (!grow_page_table(i)) {
                continue; // gave way itself: index i is the next one now
            }
            add_rows(sequence, 1);
        }
        ++i;
    }
}

// Makes room for the pending row of running_[running_idx], preempting others if it must. The index
// follows its sequence. False: the sequence itself was preempted.
bool Scheduler::grow_page_table(size_t& running_idx) {
    Sequence& sequence = *running_[running_idx];
    if (sequence.n_ids() <= static_cast<int32_t>(sequence.page_table.size()) * kPageTokens) {
        return true;
    }
    while (pages_.n_free() == 0) {
        const size_t victim = preemption_victim();
        preempt(victim);
        if (victim == running_idx) {
            return false;
        }
        running_idx -= victim < running_idx ? 1 : 0;
    }
    sequence.page_table.push_back(pages_.allocate());
    return true;
}

// The last in order; before that, one that rests anyway because nobody reads its tokens.
size_t Scheduler::preemption_victim() const {
    for (size_t i = running_.size(); i-- > 0;) {
        if (running_[i]->stream().congested()) {
            return i;
        }
    }
    return running_.size() - 1;
}

void Scheduler::preempt(size_t running_idx) {
    std::unique_ptr<Sequence> sequence = std::move(running_[running_idx]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(running_idx));
    release(*sequence);
    sequence->n_processed = 0; // prompt and output are prefilled again
    ++counters_.n_preemptions;
    insert_waiting(std::move(sequence));
}

void Scheduler::release(Sequence& sequence) {
    for (const int32_t page : sequence.page_table) {
        pages_.release(page);
    }
    sequence.page_table.clear();
    if (sequence.slot >= 0) {
        free_slots_.push_back(sequence.slot);
        sequence.slot = -1;
    }
}

// Pages for all its ids, and one more for each running sequence to grow into: a newcomer that
// would be preempted at once is not worth its prefill. Alone, a sequence needs no such reserve.
bool Scheduler::fits(const Sequence& sequence) const {
    const auto reserve = static_cast<int32_t>(running_.size());
    return !free_slots_.empty() && pages_for(sequence.n_ids()) + reserve <= pages_.n_free();
}

// Strictly in order: whoever does not fit holds up those behind, so nobody is overtaken for ever.
// Only resting sequences are passed over, and they make room.
void Scheduler::admit(Clock::time_point now) {
    for (size_t i = 0; i < waiting_.size();) {
        if (waiting_[i]->stream().congested()) { // preempted while resting; still unread
            ++i;
            continue;
        }
        if (!fits(*waiting_[i])) {
            const size_t victim = running_.empty() ? 0 : preemption_victim();
            if (running_.empty() || !running_[victim]->stream().congested()) {
                return;
            }
            preempt(victim);
            i = 0; // the victim waits somewhere among the others now
            continue;
        }
        std::unique_ptr<Sequence> sequence = std::move(waiting_[i]);
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        queue_changed_ = true;
        sequence->slot = free_slots_.back();
        free_slots_.pop_back();
        slots_to_reset_.push_back(sequence->slot);
        while (static_cast<int32_t>(sequence->page_table.size()) < pages_for(sequence->n_ids())) {
            sequence->page_table.push_back(pages_.allocate());
        }
        sequence->mark_scheduled(now);
        running_.insert(std::ranges::upper_bound(running_, sequence, in_order),
                        std::move(sequence));
    }
}

void Scheduler::schedule_prefill() {
    for (const std::unique_ptr<Sequence>& sequence : running_) {
        const auto n_rows_left =
            limits_.max_batch_tokens - static_cast<int32_t>(batch_.token_ids.size());
        if (n_rows_left == 0) {
            return;
        }
        if (!sequence->decodes() && !sequence->stream().congested()) {
            add_rows(*sequence, std::min({sequence->n_pending(), prefill_chunk_, n_rows_left}));
        }
    }
}

void Scheduler::add_rows(Sequence& sequence, int32_t n_rows) {
    SequenceChunk chunk;
    chunk.slot = sequence.slot;
    chunk.first_row = static_cast<int32_t>(batch_.token_ids.size());
    chunk.n_rows = n_rows;
    chunk.first_position = sequence.n_processed;
    chunk.first_page_entry = static_cast<int32_t>(batch_.page_table.size());
    chunk.n_pages = pages_for(sequence.n_processed + n_rows);
    const auto ids = sequence.ids().subspan(static_cast<size_t>(sequence.n_processed),
                                            static_cast<size_t>(n_rows));
    batch_.token_ids.insert(batch_.token_ids.end(), ids.begin(), ids.end());
    batch_.page_table.insert(batch_.page_table.end(), sequence.page_table.begin(),
                             sequence.page_table.begin() + chunk.n_pages);
    batch_.chunks.push_back(chunk);

    Plan plan{&sequence, n_rows, 0, false};
    const int32_t end = sequence.n_processed + n_rows;
    const int32_t last_scored = std::min(end, sequence.n_prompt() - 1);
    for (int32_t p = std::max(sequence.n_processed, sequence.first_unscored_position());
         p < last_scored; ++p, ++plan.n_score_rows) {
        batch_.sample_rows.push_back(
            sequence.prompt_score_row(chunk.first_row + p - sequence.n_processed, p));
    }
    if (end == sequence.n_ids() && sequence.request().max_tokens > 0) {
        batch_.sample_rows.push_back(sequence.next_token_row(chunk.first_row + n_rows - 1));
        plan.draws = true;
    }
    plans_.push_back(plan);
}

void Scheduler::report_queue() {
    if (!std::exchange(queue_changed_, false)) {
        return;
    }
    int32_t position = 0;
    for (const std::unique_ptr<Sequence>& sequence : waiting_) {
        sequence->report_queue_position(++position);
    }
}

void Scheduler::commit(StepResult& result, Clock::time_point now) {
    DSV4V_CHECK(result.tokens.size() == batch_.sample_rows.size());
    std::span<SampledToken> tokens = result.tokens;
    for (const Plan& plan : plans_) {
        const auto n_tokens = static_cast<size_t>(plan.n_score_rows + (plan.draws ? 1 : 0));
        commit_plan(plan, tokens.first(n_tokens), now);
        tokens = tokens.subspan(n_tokens);
    }
    plans_.clear();
    collect_ended();
}

void Scheduler::commit_plan(const Plan& plan, std::span<SampledToken> tokens,
                            Clock::time_point now) {
    Sequence& sequence = *plan.sequence;
    counters_.n_prompt_tokens += static_cast<uint64_t>(sequence.advance(plan.n_rows));
    if (std::ranges::any_of(tokens, &SampledToken::non_finite_logits)) {
        end_non_finite(sequence);
        return;
    }
    for (SampledToken& token : tokens.first(static_cast<size_t>(plan.n_score_rows))) {
        sequence.push_prompt_token(std::move(token));
    }
    if (plan.draws) {
        const int32_t n_reasoning = sequence.n_reasoning();
        sequence.end = sequence.push_output(std::move(tokens.back()), limits_.context_length, now);
        ++counters_.n_generated_tokens;
        counters_.n_reasoning_tokens += static_cast<uint64_t>(sequence.n_reasoning() - n_reasoning);
    } else if (sequence.n_pending() == 0) {
        sequence.end = FinishReason::kLength; // max_tokens 0: the prompt was all there was to do
    }
}

void Scheduler::end_non_finite(Sequence& sequence) {
    sequence.end = FinishReason::kError;
    sequence.error_message = "the model produced non-finite logits";
    ++counters_.n_non_finite;
}

void Scheduler::collect_ended() {
    const auto collect = [this](auto& sequences) {
        const auto ended =
            std::stable_partition(sequences.begin(), sequences.end(),
                                  [](const auto& s) { return s->end == FinishReason::kNone; });
        for (auto it = ended; it != sequences.end(); ++it) {
            release(**it);
            count_end(**it);
            finished_.push_back(std::move(*it));
        }
        sequences.erase(ended, sequences.end());
    };
    const size_t n_waiting = waiting_.size();
    collect(waiting_);
    queue_changed_ = queue_changed_ || waiting_.size() != n_waiting;
    collect(running_);
}

void Scheduler::count_end(const Sequence& sequence) {
    switch (sequence.end) {
    case FinishReason::kStop:
        ++counters_.n_finished_stop;
        break;
    case FinishReason::kLength:
        ++counters_.n_finished_length;
        break;
    case FinishReason::kTimeout:
        ++counters_.n_timed_out;
        break;
    case FinishReason::kCancelled:
        ++(sequence.phase() == Sequence::Phase::kQueue     ? counters_.n_cancelled_queue
           : sequence.phase() == Sequence::Phase::kPrefill ? counters_.n_cancelled_prefill
                                                           : counters_.n_cancelled_decode);
        break;
    case FinishReason::kError:
    case FinishReason::kNone:
        ++counters_.n_errors;
        break;
    }
}

std::vector<std::unique_ptr<Sequence>> Scheduler::take_finished() {
    return std::exchange(finished_, {});
}

EngineStats Scheduler::stats() const {
    EngineStats stats = counters_;
    stats.n_running = static_cast<int32_t>(running_.size());
    stats.n_waiting = static_cast<int32_t>(waiting_.size());
    stats.n_pages = pages_.n_pages();
    stats.n_pages_used = pages_.n_used();
    return stats;
}

void Scheduler::append_status(std::vector<SequenceStatus>& out) const {
    const auto visit = [&out](const std::unique_ptr<Sequence>& sequence) {
        out.push_back({sequence->shared_request(), sequence->phase(), sequence->submitted_at(),
                       sequence->slot, sequence->n_prompt(), sequence->n_processed,
                       sequence->n_output(), static_cast<int32_t>(sequence->page_table.size())});
    };
    std::ranges::for_each(running_, visit);
    std::ranges::for_each(waiting_, visit);
}

void Scheduler::check_invariants() const {
    pages_.check_invariants();
    std::vector<int32_t> n_owners(static_cast<size_t>(pages_.n_pages()), 0);
    std::vector<bool> slot_used(static_cast<size_t>(n_slots_), false);
    for (const int32_t slot : free_slots_) {
        DSV4V_CHECK(!slot_used[static_cast<size_t>(slot)]);
        slot_used[static_cast<size_t>(slot)] = true;
    }
    for (const std::unique_ptr<Sequence>& sequence : running_) {
        DSV4V_CHECK(sequence->slot >= 0 && !slot_used[static_cast<size_t>(sequence->slot)]);
        slot_used[static_cast<size_t>(sequence->slot)] = true;
        DSV4V_CHECK(sequence->n_pending() > 0);
        DSV4V_CHECK(static_cast<int32_t>(sequence->page_table.size()) >=
                    pages_for(sequence->n_processed));
        for (const int32_t page : sequence->page_table) {
            ++n_owners[static_cast<size_t>(page)];
        }
    }
    DSV4V_CHECK(std::ranges::find(slot_used, false) == slot_used.end());
    for (int32_t page = 0; page < pages_.n_pages(); ++page) {
        DSV4V_CHECK(n_owners[static_cast<size_t>(page)] == pages_.n_owners(page));
    }
    for (const std::unique_ptr<Sequence>& sequence : waiting_) {
        DSV4V_CHECK(sequence->slot == -1 && sequence->page_table.empty());
        DSV4V_CHECK(sequence->n_processed == 0);
    }
    DSV4V_CHECK(std::ranges::is_sorted(running_, in_order));
    DSV4V_CHECK(std::ranges::is_sorted(waiting_, in_order));
}

} // namespace dsv4v
