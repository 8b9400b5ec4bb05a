#include "engine/memory_plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/backend.h"

namespace dsv4v {
namespace {

constexpr uint64_t kFloatBytes = 4;
constexpr uint64_t kDefaultKvBudget = uint64_t{4} << 30;
constexpr int32_t kMaxSequences = 1 << 16;
constexpr int32_t kMaxBatchTokens = 1 << 20;
constexpr int32_t kOverlapPositions = 8; // a ratio-4 block reads itself and the block before

uint64_t count_layers(const ModelConfig& config, int32_t ratio) {
    return static_cast<uint64_t>(
        std::count(config.compress_ratios.begin(), config.compress_ratios.end(), ratio));
}

void plan_pages(MemoryPlan& plan, const ModelConfig& config, uint64_t element_bytes) {
    const uint64_t head_row = static_cast<uint64_t>(config.head_dim) * element_bytes;
    const uint64_t indexer_row = static_cast<uint64_t>(config.indexer_dim) * element_bytes;
    const uint64_t n_csa = count_layers(config, 4);
    plan.csa_page_bytes = n_csa * (kPageTokens / 4) * head_row;
    plan.indexer_page_bytes = n_csa * (kPageTokens / 4) * indexer_row;
    plan.hca_page_bytes = count_layers(config, 128) * (kPageTokens / 128) * head_row;
}

// Positions times value and gate of a compressor whose rows are `width` wide.
uint64_t state_bytes(uint64_t n_layers, int32_t ring_rows, uint64_t input_width) {
    return n_layers * static_cast<uint64_t>(ring_rows) * 2 * input_width * kFloatBytes;
}

void plan_rings(MemoryPlan& plan, const ModelConfig& config, uint64_t element_bytes) {
    const auto head_dim = static_cast<uint64_t>(config.head_dim);
    const auto indexer_dim = static_cast<uint64_t>(config.indexer_dim);
    plan.raw_ring_rows = config.sliding_window + kRollbackTokens;
    plan.csa_ring_rows = kOverlapPositions + kRollbackTokens;
    plan.hca_ring_rows = 128 + kRollbackTokens;
    plan.raw_ring_bytes = static_cast<uint64_t>(config.n_layers) *
                          static_cast<uint64_t>(plan.raw_ring_rows) * head_dim * element_bytes;
    plan.csa_state_bytes = state_bytes(count_layers(config, 4), plan.csa_ring_rows, 2 * head_dim);
    plan.indexer_state_bytes =
        state_bytes(count_layers(config, 4), plan.csa_ring_rows, 2 * indexer_dim);
    plan.hca_state_bytes = state_bytes(count_layers(config, 128), plan.hca_ring_rows, head_dim);
}

// The large float32 buffers of one step: residual streams, attention heads, indexer, experts, and
// the logits of one row per slot.
uint64_t estimate_workspace(const ModelConfig& c, const MemoryRequest& request) {
    const auto n = [](int32_t a, int32_t b = 1) {
        return static_cast<uint64_t>(a) * static_cast<uint64_t>(b);
    };
    const uint64_t streams = 2 * n(c.n_hc_streams, c.hidden) + 3 * n(c.hidden);
    const uint64_t attention = n(c.q_lora_rank) + 2 * n(c.n_heads, c.head_dim) +
                               n(c.n_output_groups, c.output_lora_rank) + 5 * n(c.head_dim);
    const uint64_t indexer = n(c.n_indexer_heads, c.indexer_dim) + n(c.indexer_top_k);
    const uint64_t experts =
        2 * n(c.n_experts) + n(c.n_experts_used + 2, c.hidden) + 2 * n(c.expert_ffn);
    const uint64_t per_row = streams + attention + indexer + experts;
    return (n(request.max_batch_tokens) * per_row + n(request.max_sequences, c.vocab_size)) *
           kFloatBytes;
}

Expected<void> check_range(const char* name, int32_t value, int32_t max) {
    if (value < 1 || value > max) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("{} is {}, wanted 1 to {}", name, value, max));
    }
    return {};
}

int32_t pages_of(int32_t n_tokens) {
    return (n_tokens + kPageTokens - 1) / kPageTokens;
}

// Pages that the budget holds, never more than all slots can use.
Expected<int32_t> plan_n_pages(const MemoryPlan& plan, const MemoryRequest& request) {
    const uint64_t most = static_cast<uint64_t>(pages_of(plan.context_length)) *
                          static_cast<uint64_t>(request.max_sequences);
    const uint64_t least = static_cast<uint64_t>(request.max_sequences);
    uint64_t n_pages = most;
    if (plan.page_bytes() > 0) { // 0: a model of sliding windows only
        const uint64_t budget = request.kv_budget_bytes > 0
                                    ? request.kv_budget_bytes
                                    : std::max(kDefaultKvBudget, least * plan.page_bytes());
        n_pages = std::min(most, budget / plan.page_bytes());
    }
    if (n_pages < least) {
        return make_error(
            ErrorCode::kInvalidArgument,
            fmt::format("{} of KV memory hold {} page(s) of {}, wanted at least {}, one per "
                        "sequence; raise the KV memory or lower the number of parallel sequences",
                        format_bytes(request.kv_budget_bytes), n_pages,
                        format_bytes(plan.page_bytes()), least));
    }
    return static_cast<int32_t>(std::min<uint64_t>(n_pages, INT32_MAX));
}

} // namespace

Expected<MemoryPlan> MemoryPlan::make(const ModelConfig& config, const MemoryRequest& request) {
    DSV4V_RETURN_IF_ERROR(check_range("parallel", request.max_sequences, kMaxSequences));
    DSV4V_RETURN_IF_ERROR(
        check_range("max-batch-tokens", request.max_batch_tokens, kMaxBatchTokens));
    if (request.ctx_size < 0 || request.ctx_size > config.context_length) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("ctx-size is {}, wanted 0 to {}, the model's context length",
                                      request.ctx_size, config.context_length));
    }
    MemoryPlan plan;
    plan.max_sequences = request.max_sequences;
    plan.max_batch_tokens = request.max_batch_tokens;
    plan.context_length = request.ctx_size > 0 ? request.ctx_size : config.context_length;
    plan.weights_bytes = request.weights_bytes;
    plan_pages(plan, config, request.kv_element_bytes);
    plan_rings(plan, config, request.kv_element_bytes);
    plan.workspace_bytes = estimate_workspace(config, request);
    DSV4V_ASSIGN_OR_RETURN(plan.n_pages, plan_n_pages(plan, request));
    const int64_t pool_tokens = int64_t{plan.n_pages} * kPageTokens;
    plan.context_length = static_cast<int32_t>(std::min<int64_t>(plan.context_length, pool_tokens));
    return plan;
}

std::string MemoryPlan::to_string() const {
    const auto pool = [this](const char* name, uint64_t bytes) {
        return fmt::format("    {:<22} {:>11}   {} pages x {}\n", name,
                           format_bytes(static_cast<uint64_t>(n_pages) * bytes), n_pages,
                           format_bytes(bytes));
    };
    const auto ring = [this](const char* name, uint64_t bytes, int32_t n_rows) {
        return fmt::format("    {:<22} {:>11}   {} slots x {}, last {} positions\n", name,
                           format_bytes(static_cast<uint64_t>(max_sequences) * bytes),
                           max_sequences, format_bytes(bytes), n_rows);
    };
    const auto line = [](const char* name, uint64_t bytes, const std::string& note) {
        return fmt::format("  {:<24} {:>11}{}\n", name, format_bytes(bytes),
                           note.empty() ? "" : "   " + note);
    };
    return "memory plan\n" + line("weights", weights_bytes, "") +
           line("KV pages", pages_bytes(),
                fmt::format("{} tokens, {} per token", static_cast<uint64_t>(n_pages) * kPageTokens,
                            format_bytes(page_bytes() / kPageTokens))) +
           pool("ratio-4 rows", csa_page_bytes) + pool("indexer rows", indexer_page_bytes) +
           pool("ratio-128 rows", hca_page_bytes) + line("sequence rings", slots_bytes(), "") +
           ring("raw window", raw_ring_bytes, raw_ring_rows) +
           ring("ratio-4 state", csa_state_bytes, csa_ring_rows) +
           ring("indexer state", indexer_state_bytes, csa_ring_rows) +
           ring("ratio-128 state", hca_state_bytes, hca_ring_rows) +
           line("workspace", workspace_bytes, fmt::format("{} rows per step", max_batch_tokens)) +
           line("total", total_bytes(),
                fmt::format("{} sequences, up to {} tokens each", max_sequences, context_length));
}

std::string format_bytes(uint64_t n_bytes) {
    constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (n_bytes < 1024) {
        return fmt::format("{} B", n_bytes);
    }
    auto value = static_cast<double>(n_bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

} // namespace dsv4v
