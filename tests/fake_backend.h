// A Backend without arithmetic: tokens come from a function of what lies in the simulated cache,
// and every batch is checked against the rules of batch.h. A broken rule is an error of step(),
// which ends the engine, so no test can overlook it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backend.h"

namespace dsv4v::testing {

inline BackendLimits small_limits() {
    BackendLimits limits;
    limits.max_sequences = 4;
    limits.n_pages = 64;
    limits.max_batch_tokens = 256;
    limits.context_length = 2048;
    limits.vocab_size = 1000;
    return limits;
}

// Next token as a hash of everything before it: any slip of a position, page, slot or random
// counter changes all that follows.
class HistoryHash {
  public:
    void add(int32_t id) { state_ = (state_ ^ static_cast<uint64_t>(id)) * 0x100000001b3U; }
    [[nodiscard]] int32_t token(int32_t output_position, int32_t vocab_size) const {
        const uint64_t mixed =
            (state_ ^ static_cast<uint64_t>(output_position)) * 0x9e3779b97f4a7c15U;
        return static_cast<int32_t>((mixed >> 20) % static_cast<uint64_t>(vocab_size));
    }

  private:
    uint64_t state_ = 0xcbf29ce484222325U;
};

inline int32_t hash_token(std::span<const int32_t> history, int32_t output_position,
                          int32_t vocab_size) {
    HistoryHash hash;
    for (const int32_t id : history) {
        hash.add(id);
    }
    return hash.token(output_position, vocab_size);
}

// What a test may look at after the engine (which owns the backend) is gone.
struct FakeRecord {
    std::mutex mutex;
    std::vector<Batch> batches; // spans inside are dead; kept when FakeBackend::keep_batches
    std::vector<std::string> violations;
    uint64_t n_steps = 0;
    uint64_t n_rows = 0;

    std::vector<std::string> copy_violations() {
        std::lock_guard lock(mutex);
        return violations;
    }
    std::vector<Batch> copy_batches() {
        std::lock_guard lock(mutex);
        return batches;
    }
    uint64_t steps() {
        std::lock_guard lock(mutex);
        return n_steps;
    }
};

class FakeBackend final : public Backend {
  public:
    // The token after `row.history`; `banned` and `forced_token` are applied by the backend. May
    // return an error or throw (an engine failure), or set non_finite_logits of `token`.
    using TokenFunction =
        std::function<Expected<int32_t>(const SampleRow& row, int32_t slot, SampledToken& token)>;
    // Called once per step before anything else: sleeps, errors, exceptions.
    using StepFunction = std::function<Expected<void>(const Batch& batch)>;
    // Called once per chunk with all ids of the sequence that are in the cache by now.
    using ChunkFunction =
        std::function<Expected<void>(const SequenceChunk& chunk, std::span<const int32_t> cached)>;

    explicit FakeBackend(const BackendLimits& limits = small_limits())
        : limits_(limits), slots_(static_cast<size_t>(limits.max_sequences)),
          pages_(static_cast<size_t>(limits.n_pages),
                 std::vector<int32_t>(static_cast<size_t>(kPageTokens), -1)) {
        next_token = [vocab_size = limits.vocab_size](const SampleRow& row, int32_t,
                                                      SampledToken&) {
            return hash_token(row.history, row.output_position, vocab_size);
        };
    }

    TokenFunction next_token;
    StepFunction on_step;
    ChunkFunction on_chunk;
    std::function<void()> before_draw; // once per step, after all chunks
    bool keep_batches = false;
    std::chrono::microseconds step_delay{0};
    std::chrono::microseconds row_delay{0};
    const std::shared_ptr<FakeRecord> record = std::make_shared<FakeRecord>();

    [[nodiscard]] const BackendLimits& limits() const override { return limits_; }

    [[nodiscard]] Expected<void> step(const Batch& batch, StepResult& result) override {
        note(batch);
        if (on_step) {
            DSV4V_RETURN_IF_ERROR(on_step(batch));
        }
        const auto n_rows = static_cast<int64_t>(batch.token_ids.size());
        if (const auto delay = step_delay + n_rows * row_delay; delay.count() > 0) {
            std::this_thread::sleep_for(delay);
        }
        check_shape(batch);
        if (ok()) {
            DSV4V_RETURN_IF_ERROR(write_chunks(batch));
        }
        if (before_draw) {
            before_draw();
        }
        if (ok()) {
            DSV4V_RETURN_IF_ERROR(draw(batch, result));
        }
        if (!ok()) {
            return make_error(ErrorCode::kInternal, "batch: " + violation_);
        }
        return {};
    }

    void copy_pages(std::span<const PageCopy> copies) override {
        for (const PageCopy& copy : copies) {
            pages_[static_cast<size_t>(copy.to_page)] = pages_[static_cast<size_t>(copy.from_page)];
        }
    }

    void reset_slot(int32_t slot) override {
        require(slot >= 0 && slot < limits_.max_sequences, "reset of a slot that does not exist");
        if (ok()) {
            slots_[static_cast<size_t>(slot)] = {};
        }
    }

    void set_probe(Probe*) override {}
    [[nodiscard]] std::string description() const override { return "fake"; }

  private:
    struct SlotState {
        bool fresh = true; // reset since its last sequence
        int32_t end = 0;   // positions seen
        std::vector<int32_t> page_table;
        std::vector<int32_t> ids; // what went through the ring
    };

    [[nodiscard]] bool ok() const { return violation_.empty(); }
    void require(bool condition, const char* rule) {
        if (!condition && ok()) {
            violation_ = rule;
            std::lock_guard lock(record->mutex);
            record->violations.emplace_back(rule);
        }
    }

    void note(const Batch& batch) {
        std::lock_guard lock(record->mutex);
        ++record->n_steps;
        record->n_rows += batch.token_ids.size();
        if (keep_batches) {
            record->batches.push_back(batch);
        }
    }

    void check_shape(const Batch& batch) {
        const auto n_rows = static_cast<int32_t>(batch.token_ids.size());
        require(n_rows > 0, "a step has at least one row");
        require(n_rows <= limits_.max_batch_tokens, "rows exceed max_batch_tokens");
        std::map<int32_t, int32_t> page_slot;
        std::vector<bool> slot_seen(static_cast<size_t>(limits_.max_sequences), false);
        int32_t next_row = 0;
        int32_t next_entry = 0;
        for (const SequenceChunk& chunk : batch.chunks) {
            check_chunk(batch, chunk);
            if (!ok()) {
                return;
            }
            require(chunk.first_row == next_row, "rows are grouped by chunk without gaps");
            require(chunk.first_page_entry == next_entry, "page tables follow each other");
            require(!slot_seen[static_cast<size_t>(chunk.slot)], "one chunk per slot");
            slot_seen[static_cast<size_t>(chunk.slot)] = true;
            next_row += chunk.n_rows;
            next_entry += chunk.n_pages;
            for (const int32_t page : page_table(batch, chunk)) {
                require(page_slot.emplace(page, chunk.slot).second, "a page has two owners");
            }
        }
        require(next_row == n_rows, "every row belongs to a chunk");
        require(next_entry == static_cast<int32_t>(batch.page_table.size()),
                "every page entry belongs to a chunk");
        for (const int32_t id : batch.token_ids) {
            require(id >= 0 && id < limits_.vocab_size, "token id outside the vocabulary");
        }
        check_sample_rows(batch);
    }

    void check_chunk(const Batch& batch, const SequenceChunk& chunk) {
        require(chunk.slot >= 0 && chunk.slot < limits_.max_sequences, "slot does not exist");
        require(chunk.n_rows > 0, "a chunk has at least one row");
        require(chunk.first_position >= 0, "positions are not negative");
        require(chunk.first_position + chunk.n_rows <= limits_.context_length,
                "positions exceed the context");
        require(chunk.n_pages * kPageTokens >= chunk.first_position + chunk.n_rows,
                "pages do not cover the rows");
        require(chunk.first_page_entry >= 0 && chunk.first_page_entry + chunk.n_pages <=
                                                   static_cast<int32_t>(batch.page_table.size()),
                "page table entries do not exist");
        if (!ok()) {
            return;
        }
        for (const int32_t page : page_table(batch, chunk)) {
            require(page >= 0 && page < limits_.n_pages, "page does not exist");
        }
    }

    void check_sample_rows(const Batch& batch) {
        int32_t previous = -1;
        for (const SampleRow& sample : batch.sample_rows) {
            require(sample.row > previous, "sample rows ascend");
            require(sample.row < static_cast<int32_t>(batch.token_ids.size()),
                    "sample row does not exist");
            require(sample.params != nullptr, "a sample row has parameters");
            require(!sample.history.empty(), "a sample row has a history");
            require(sample.n_prompt_tokens > 0 &&
                        sample.n_prompt_tokens <= static_cast<int32_t>(sample.history.size()),
                    "prompt is part of the history");
            require(sample.n_prompt_tokens + sample.output_position ==
                        static_cast<int32_t>(sample.history.size()),
                    "output position counts the output in the history");
            previous = sample.row;
        }
    }

    static std::span<const int32_t> page_table(const Batch& batch, const SequenceChunk& chunk) {
        return std::span(batch.page_table)
            .subspan(static_cast<size_t>(chunk.first_page_entry),
                     static_cast<size_t>(chunk.n_pages));
    }

    // Writes the rows into pages and ring, after checking that both still hold what came before.
    Expected<void> write_chunks(const Batch& batch) {
        for (const SequenceChunk& chunk : batch.chunks) {
            SlotState& slot = slots_[static_cast<size_t>(chunk.slot)];
            if (chunk.first_position == 0) {
                require(slot.fresh, "a slot is reset before another sequence uses it");
                slot = {};
            }
            slot.fresh = false;
            require(chunk.first_position == slot.end, "positions continue where the slot ended");
            const auto table = page_table(batch, chunk);
            require(std::ranges::equal(slot.page_table,
                                       table.first(std::min(slot.page_table.size(), table.size()))),
                    "the page table only grows");
            slot.page_table.assign(table.begin(), table.end());
            for (int32_t i = 0; i < chunk.n_rows; ++i) {
                const int32_t id = batch.token_ids[static_cast<size_t>(chunk.first_row + i)];
                cell(slot.page_table, chunk.first_position + i) = id;
                slot.ids.push_back(id);
            }
            slot.end = chunk.first_position + chunk.n_rows;
            if (!ok()) {
                return {};
            }
            if (on_chunk) {
                DSV4V_RETURN_IF_ERROR(on_chunk(chunk, slot.ids));
            }
        }
        return {};
    }

    int32_t& cell(const std::vector<int32_t>& table, int32_t position) {
        const int32_t page = table[static_cast<size_t>(position / kPageTokens)];
        return pages_[static_cast<size_t>(page)][static_cast<size_t>(position % kPageTokens)];
    }

    Expected<void> draw(const Batch& batch, StepResult& result) {
        size_t i = 0;
        for (const SampleRow& sample : batch.sample_rows) {
            while (sample.row >= batch.chunks[i].first_row + batch.chunks[i].n_rows) {
                ++i;
            }
            check_history(batch.chunks[i], sample);
            DSV4V_ASSIGN_OR_RETURN(SampledToken token, draw_one(sample, batch.chunks[i].slot));
            result.tokens.push_back(std::move(token));
        }
        return {};
    }

    // The history a row brings along, the pages it names and the ring of its slot must agree.
    void check_history(const SequenceChunk& chunk, const SampleRow& sample) {
        const SlotState& slot = slots_[static_cast<size_t>(chunk.slot)];
        const int32_t n = chunk.first_position + sample.row - chunk.first_row + 1;
        require(n == static_cast<int32_t>(sample.history.size()), "history ends at its row");
        if (!ok()) {
            return;
        }
        const auto length = static_cast<size_t>(n);
        require(std::equal(sample.history.begin(), sample.history.end(), slot.ids.begin(),
                           slot.ids.begin() + n),
                "a ring lost what was written");
        for (size_t at = 0, k = 0; at < length; at += kPageTokens, ++k) {
            const auto part =
                sample.history.subspan(at, std::min(length - at, static_cast<size_t>(kPageTokens)));
            const std::vector<int32_t>& page = pages_[static_cast<size_t>(slot.page_table[k])];
            require(std::equal(part.begin(), part.end(), page.begin()),
                    "a page lost what was written");
        }
    }

    Expected<SampledToken> draw_one(const SampleRow& sample, int32_t slot) {
        SampledToken token;
        token.token_id = sample.forced_token;
        if (sample.forced_token < 0) {
            DSV4V_ASSIGN_OR_RETURN(token.token_id, next_token(sample, slot, token));
            for (int32_t i = 0; i < limits_.vocab_size && is_banned(sample, token.token_id); ++i) {
                token.token_id = (token.token_id + 1) % limits_.vocab_size;
            }
        }
        for (int32_t i = 0; i < sample.params->n_logprobs; ++i) {
            const int32_t id = (token.token_id + i) % limits_.vocab_size;
            token.top_logprobs.push_back({id, -0.25F * static_cast<float>(i + 1)});
        }
        token.logprob = sample.params->n_logprobs >= 0 ? -0.25F : 0.0F;
        return token;
    }

    static bool is_banned(const SampleRow& sample, int32_t id) {
        return std::ranges::find(sample.banned, id) != sample.banned.end();
    }

    const BackendLimits limits_;
    std::vector<SlotState> slots_;
    std::vector<std::vector<int32_t>> pages_; // [n_pages, kPageTokens] token ids
    std::string violation_;
};

} // namespace dsv4v::testing
