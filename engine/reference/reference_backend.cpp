#include "engine/reference/reference_backend.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "engine/reference/forward.h"
#include "engine/reference/parallel.h"
#include "engine/reference/sampler.h"
#include "loaders/base/check.h"

namespace dsv4v {
namespace {

BackendLimits make_limits(const ModelConfig& config, const ReferenceOptions& options) {
    return {options.max_sequences, options.n_pages, options.max_batch_tokens,
            options.context_length, config.vocab_size};
}

void check_options(const ReferenceOptions& options) {
    DSV4V_CHECK(options.max_sequences > 0);
    DSV4V_CHECK(options.n_pages > 0);
    DSV4V_CHECK(options.max_batch_tokens > 0);
    DSV4V_CHECK(options.context_length > 0);
    DSV4V_CHECK(options.n_threads >= 0);
}

void check_chunk(const Batch& batch, const SequenceChunk& chunk, const BackendLimits& limits) {
    const int64_t end = int64_t{chunk.first_position} + chunk.n_rows;
    DSV4V_CHECK(chunk.slot >= 0 && chunk.slot < limits.max_sequences);
    DSV4V_CHECK(chunk.n_rows > 0 && chunk.first_position >= 0);
    DSV4V_CHECK(end <= limits.context_length);
    DSV4V_CHECK(int64_t{chunk.n_pages} * kPageTokens >= end);
    DSV4V_CHECK(chunk.first_page_entry >= 0);
    DSV4V_CHECK(int64_t{chunk.first_page_entry} + chunk.n_pages <=
                static_cast<int64_t>(batch.page_table.size()));
}

// A batch is made by the scheduler: anything wrong in it is a programmer error.
void check_batch(const Batch& batch, const BackendLimits& limits) {
    const auto n_rows = static_cast<int64_t>(batch.token_ids.size());
    DSV4V_CHECK(n_rows > 0 && n_rows <= limits.max_batch_tokens);
    int64_t next_row = 0;
    std::vector<bool> slot_taken(static_cast<size_t>(limits.max_sequences));
    for (const SequenceChunk& chunk : batch.chunks) {
        check_chunk(batch, chunk, limits);
        DSV4V_CHECK(chunk.first_row == next_row);
        DSV4V_CHECK(!slot_taken[static_cast<size_t>(chunk.slot)]);
        slot_taken[static_cast<size_t>(chunk.slot)] = true;
        next_row += chunk.n_rows;
    }
    DSV4V_CHECK(next_row == n_rows);
    for (const int32_t id : batch.token_ids) {
        DSV4V_CHECK(id >= 0 && id < limits.vocab_size);
    }
    for (const int32_t page : batch.page_table) {
        DSV4V_CHECK(page >= 0 && page < limits.n_pages);
    }
    for (const SampleRow& sample : batch.sample_rows) {
        DSV4V_CHECK(sample.row >= 0 && sample.row < n_rows && sample.params != nullptr);
    }
}

} // namespace

ReferenceBackend::ReferenceBackend(ReferenceModel model, const ReferenceOptions& options,
                                   int32_t n_threads)
    : model_(std::move(model)), limits_(make_limits(model_.config, options)), workers_(n_threads),
      cache_(model_.config, options.max_sequences, options.n_pages),
      workspace_(model_.config, options.max_batch_tokens, options.context_length, n_threads) {
    workspace_.grow_exit(model_.config, options.max_sequences);
}

Expected<std::unique_ptr<ReferenceBackend>>
ReferenceBackend::create(const ModelConfig& config, const Weights& weights,
                         const ReferenceOptions& options) {
    check_options(options);
    DSV4V_ASSIGN_OR_RETURN(auto model, ReferenceModel::build(config, weights, options.numerics));
    const int32_t n_threads =
        options.n_threads > 0
            ? options.n_threads
            : std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
    try {
        return std::unique_ptr<ReferenceBackend>(
            new ReferenceBackend(std::move(model), options, n_threads));
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::kResourceExhausted,
                          "out of memory for " + std::to_string(options.n_pages) + " KV pages, " +
                              std::to_string(options.max_sequences) + " sequences and steps of " +
                              std::to_string(options.max_batch_tokens) + " tokens");
    }
}

Expected<void> ReferenceBackend::step(const Batch& batch, StepResult& result) {
    check_batch(batch, limits_);
    const WorkerPoolScope scope(workers_);
    for (const SequenceChunk& chunk : batch.chunks) {
        if (chunk.first_position == 0) {
            cache_.reset_slot(chunk.slot);
        }
    }
    plan_.assign(batch, model_.config);
    const Announcer probe(probe_);
    const StepContext ctx{model_, cache_, workspace_, plan_, probe};
    run_layers(ctx);
    result.tokens.resize(batch.sample_rows.size());
    if (batch.sample_rows.empty()) {
        return {};
    }
    run_exit(ctx, batch.sample_rows);
    const auto vocab_size = static_cast<size_t>(limits_.vocab_size);
    const auto n_samples = static_cast<int64_t>(batch.sample_rows.size());
    parallel_for(n_samples, limits_.vocab_size, [&](int64_t i, int thread) {
        const auto index = static_cast<size_t>(i);
        const std::span<const float> logits(workspace_.logits.data() + index * vocab_size,
                                            vocab_size);
        result.tokens[index] = sample(logits, batch.sample_rows[index],
                                      workspace_.threads[static_cast<size_t>(thread)].sampler);
    });
    return {};
}

void ReferenceBackend::copy_pages(std::span<const PageCopy> copies) {
    for (const PageCopy& copy : copies) {
        DSV4V_CHECK(copy.from_page >= 0 && copy.from_page < limits_.n_pages);
        DSV4V_CHECK(copy.to_page >= 0 && copy.to_page < limits_.n_pages);
        cache_.copy_page(copy);
    }
}

void ReferenceBackend::reset_slot(int32_t slot) {
    DSV4V_CHECK(slot >= 0 && slot < limits_.max_sequences);
    cache_.reset_slot(slot);
}

std::string ReferenceBackend::description() const {
    return std::string("cpu reference, float32, ") +
           (model_.numerics == Numerics::kAuthor ? "author" : "plain") + " numerics, " +
           std::to_string(workers_.n_threads()) + " threads";
}

} // namespace dsv4v
