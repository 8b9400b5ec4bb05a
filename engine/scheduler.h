// Waiting and running sequences -> one Batch per step, and the step's result back into them.
// Decides who runs and who holds pages; never sees a tensor, never blocks. Engine thread only.
// The rules are told in docs/engine.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "engine/batch.h"
#include "engine/block_manager.h"
#include "engine/engine_stats.h"
#include "engine/sequence.h"

namespace dsv4v {

// What /slots shows of one sequence; the strings stay in the shared request.
struct SequenceStatus {
    std::shared_ptr<const GenerationRequest> request;
    Sequence::Phase phase = Sequence::Phase::kQueue;
    Sequence::Clock::time_point submitted_at;
    int32_t slot = -1;
    int32_t n_prompt = 0;
    int32_t n_processed = 0;
    int32_t n_decoded = 0;
    int32_t n_pages = 0;
};

class Scheduler {
  public:
    using Clock = Sequence::Clock;

    // `limits.context_length` must fit into the page pool: a sequence alone can always finish.
    Scheduler(const BackendLimits& limits, int32_t prefill_chunk);

    // Queues a sequence whose prompt fits into the context.
    void add(std::unique_ptr<Sequence> sequence);
    // Ends cancelled and expired sequences; their slots and pages are free afterwards.
    void sweep(Clock::time_point now);
    // Ends everything for the same reason.
    void finish_all(FinishReason reason, const std::string& error_message);

    // The next step; empty when nothing can run. Holds until the next call on this object.
    [[nodiscard]] const Batch& schedule(Clock::time_point now);
    // Slots that got a new sequence in the last schedule().
    [[nodiscard]] std::span<const int32_t> slots_to_reset() const { return slots_to_reset_; }
    // Takes the result of the batch of the last schedule(): one token per sample row.
    void commit(StepResult& result, Clock::time_point now);

    // Ended sequences; the caller tells their consumers (Sequence::finish).
    [[nodiscard]] std::vector<std::unique_ptr<Sequence>> take_finished();

    [[nodiscard]] bool has_sequences() const { return !waiting_.empty() || !running_.empty(); }
    [[nodiscard]] EngineStats stats() const; // without what only the engine knows
    void append_status(std::vector<SequenceStatus>& out) const;
    // Aborts unless slots and pages have exactly the owners that the running sequences name.
    void check_invariants() const;

  private:
    struct Plan { // rows of one sequence in the scheduled batch
        Sequence* sequence = nullptr;
        int32_t n_rows = 0;
        int32_t n_score_rows = 0;
        bool draws = false;
    };

    void schedule_decode();
    void admit(Clock::time_point now);
    void schedule_prefill();
    void add_rows(Sequence& sequence, int32_t n_rows);
    [[nodiscard]] bool fits(const Sequence& sequence) const;
    [[nodiscard]] bool grow_page_table(size_t& running_idx);
    [[nodiscard]] size_t preemption_victim() const;
    void preempt(size_t running_idx);
    void release(Sequence& sequence);
    void insert_waiting(std::unique_ptr<Sequence> sequence);
    void report_queue();
    void commit_plan(const Plan& plan, std::span<SampledToken> tokens, Clock::time_point now);
    void end_non_finite(Sequence& sequence);
    void collect_ended();
    void count_end(const Sequence& sequence);

    const BackendLimits limits_;
    const int32_t prefill_chunk_;
    BlockManager pages_;
    std::vector<int32_t> free_slots_;
    int32_t n_slots_ = 0;
    std::deque<std::unique_ptr<Sequence>> waiting_;  // runs_before order
    std::vector<std::unique_ptr<Sequence>> running_; // runs_before order
    std::vector<std::unique_ptr<Sequence>> finished_;
    bool queue_changed_ = false;
    Batch batch_;
    std::vector<Plan> plans_; // in chunk order
    std::vector<int32_t> slots_to_reset_;
    EngineStats counters_;
};

} // namespace dsv4v
