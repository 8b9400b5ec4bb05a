#include "engine/reference/step_context.h"

#include <algorithm>

namespace dsv4v {
namespace {

template <class T>
void size_to(std::vector<T>& values, int64_t rows, int64_t width) {
    values.resize(static_cast<size_t>(rows * width));
}

template <class T>
void grow_to(std::vector<T>& values, int64_t rows, int64_t width) {
    values.resize(std::max(values.size(), static_cast<size_t>(rows * width)));
}

void size_streams(Workspace& ws, const ModelConfig& c, int64_t n) {
    const int64_t s = c.n_hc_streams;
    for (auto* angles : {&ws.cos_sin_plain, &ws.cos_sin_compressed, &ws.cos_sin_csa_blocks,
                         &ws.cos_sin_hca_blocks}) {
        size_to(*angles, n, c.rope_dim);
    }
    size_to(ws.streams, n, s * c.hidden);
    size_to(ws.next_streams, n, s * c.hidden);
    size_to(ws.hc_mixes, n, 2 * s + s * s);
    size_to(ws.hc_pre, n, s);
    size_to(ws.hc_post, n, s);
    size_to(ws.hc_comb, n, s * s);
    size_to(ws.mixed, n, c.hidden);
    size_to(ws.x, n, c.hidden);
    size_to(ws.y, n, c.hidden);
}

void size_attention(Workspace& ws, const ModelConfig& c, int64_t n) {
    const int64_t heads_width = int64_t{c.n_heads} * c.head_dim;
    const int64_t row_width = std::max(c.head_dim, c.indexer_dim);
    size_to(ws.q_latent, n, c.q_lora_rank);
    size_to(ws.q, n, heads_width);
    size_to(ws.kv, n, c.head_dim);
    size_to(ws.heads, n, heads_width);
    size_to(ws.wo_a, n, int64_t{c.n_output_groups} * c.output_lora_rank);
    size_to(ws.compressor_value, n, 2 * row_width);
    size_to(ws.compressor_gate, n, 2 * row_width);
    size_to(ws.block_rows, n, row_width);
    size_to(ws.indexer_q, n, int64_t{c.n_indexer_heads} * c.indexer_dim);
    size_to(ws.indexer_weights, n, c.n_indexer_heads);
    size_to(ws.selected, n, c.indexer_top_k);
    size_to(ws.n_selected, n, 1);
}

void size_experts(Workspace& ws, const ModelConfig& c, int64_t n) {
    const int64_t used = c.n_experts_used;
    size_to(ws.router_logits, n, c.n_experts);
    size_to(ws.router_scores, n, c.n_experts);
    size_to(ws.expert_ids, n, used);
    size_to(ws.expert_weights, n, used);
    size_to(ws.expert_entries, n, used);
    size_to(ws.expert_begin, c.n_experts + 1, 1);
    size_to(ws.entry_weights, n, 1);
    size_to(ws.expert_x, n, c.hidden);
    size_to(ws.expert_gate, n, c.expert_ffn);
    size_to(ws.expert_up, n, c.expert_ffn);
    size_to(ws.expert_y, n, c.hidden);
    size_to(ws.slot_y, n, used * c.hidden);
}

ThreadScratch make_scratch(const ModelConfig& c, int32_t context_length) {
    const int64_t csa_rows = n_visible_blocks(context_length, 4);
    const int64_t chosen = std::max<int64_t>(std::min<int64_t>(csa_rows, c.indexer_top_k),
                                             n_visible_blocks(context_length, 128));
    const int64_t n_keys = c.sliding_window + chosen;
    ThreadScratch scratch;
    size_to(scratch.keys, n_keys, 1);
    size_to(scratch.scores, std::max(n_keys, csa_rows), 1);
    size_to(scratch.pool, 2, std::max(c.head_dim, c.indexer_dim));
    size_to(scratch.order, csa_rows, 1);
    return scratch;
}

} // namespace

Workspace::Workspace(const ModelConfig& config, int32_t max_batch_tokens, int32_t context_length,
                     int32_t n_threads) {
    size_streams(*this, config, max_batch_tokens);
    size_attention(*this, config, max_batch_tokens);
    size_experts(*this, config, max_batch_tokens);
    threads.assign(static_cast<size_t>(n_threads), make_scratch(config, context_length));
}

void Workspace::grow_exit(const ModelConfig& config, int64_t n_sample_rows) {
    grow_to(head_streams, n_sample_rows, int64_t{config.n_hc_streams} * config.hidden);
    grow_to(head_mixes, n_sample_rows, config.n_hc_streams);
    grow_to(head_pre, n_sample_rows, config.n_hc_streams);
    grow_to(head_mixed, n_sample_rows, config.hidden);
    grow_to(head_x, n_sample_rows, config.hidden);
    grow_to(logits, n_sample_rows, config.vocab_size);
}

} // namespace dsv4v
