// What every stage of the forward pass works on: the model, the sequences' memory, this step's
// plan, and buffers that are allocated once and reused by every layer.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/reference/announcer.h"
#include "engine/reference/kv_cache.h"
#include "engine/reference/reference_model.h"
#include "engine/reference/sampler.h"
#include "engine/reference/step_plan.h"

namespace dsv4v {

// Scratch of one thread.
struct ThreadScratch {
    std::vector<const float*> keys; // rows that one query attends to, in order
    std::vector<float> scores;      // one per key, or one per indexer row
    std::vector<float> pool;        // 2 * row width of a compressor
    std::vector<int32_t> order;     // indexer rows while the best are chosen
    SamplerScratch sampler;
};

// Buffers for N = max_batch_tokens rows; symbols as in docs/model.md.
struct Workspace {
    std::vector<float> cos_sin_plain;      // [N, rope_dim]
    std::vector<float> cos_sin_compressed; // [N, rope_dim]
    std::vector<float> cos_sin_csa_blocks; // [N, rope_dim], at a block's first position
    std::vector<float> cos_sin_hca_blocks; // [N, rope_dim]

    std::vector<float> streams;      // [N, S, D]
    std::vector<float> next_streams; // [N, S, D]
    std::vector<float> hc_mixes;     // [N, 2S + S*S]
    std::vector<float> hc_pre;       // [N, S]
    std::vector<float> hc_post;      // [N, S]
    std::vector<float> hc_comb;      // [N, S, S] source-major
    std::vector<float> mixed;        // [N, D] streams mixed for a sub-block
    std::vector<float> x;            // [N, D] the same, normalized
    std::vector<float> y;            // [N, D] output of a sub-block

    std::vector<float> q_latent; // [N, rq]
    std::vector<float> q;        // [N, H, dh]
    std::vector<float> kv;       // [N, dh] raw rows of this step
    std::vector<float> heads;    // [N, H, dh]
    std::vector<float> wo_a;     // [N, G, ro]

    std::vector<float> compressor_value; // [N, c*width]
    std::vector<float> compressor_gate;  // [N, c*width]
    std::vector<float> block_rows;       // [blocks of the step, width]

    std::vector<float> indexer_q;       // [N, HI, di]
    std::vector<float> indexer_weights; // [N, HI]
    std::vector<int32_t> selected;      // [N, K] ascending rows, -1 behind the last
    std::vector<int32_t> n_selected;    // [N]

    std::vector<float> router_logits;    // [N, E]
    std::vector<float> router_scores;    // [N, E]
    std::vector<int32_t> expert_ids;     // [N, A]
    std::vector<float> expert_weights;   // [N, A]
    std::vector<int32_t> expert_entries; // [N * A] row * A + slot, grouped by expert
    std::vector<int32_t> expert_begin;   // [E + 1] into expert_entries
    std::vector<float> entry_weights;    // [N] of the expert at work
    std::vector<float> expert_x;         // [N, D]
    std::vector<float> expert_gate;      // [N, F]
    std::vector<float> expert_up;        // [N, F]
    std::vector<float> expert_y;         // [N, D]
    std::vector<float> slot_y;           // [N, A, D]

    // Exit, grown to the number of sample rows.
    std::vector<float> head_streams; // [n, S, D]
    std::vector<float> head_mixes;   // [n, S]
    std::vector<float> head_pre;     // [n, S]
    std::vector<float> head_mixed;   // [n, D]
    std::vector<float> head_x;       // [n, D]
    std::vector<float> logits;       // [n, V]

    std::vector<ThreadScratch> threads;

    Workspace(const ModelConfig& config, int32_t max_batch_tokens, int32_t context_length,
              int32_t n_threads);

    // Makes room in the exit buffers.
    void grow_exit(const ModelConfig& config, int64_t n_sample_rows);
};

struct StepContext {
    const ReferenceModel& model;
    KvCache& cache;
    Workspace& ws;
    const StepPlan& plan;
    const Announcer& probe;
};

} // namespace dsv4v
