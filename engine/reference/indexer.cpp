#include "engine/reference/indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/reference/compressor.h"
#include "engine/reference/matmul.h"
#include "engine/reference/parallel.h"
#include "engine/reference/rope.h"

namespace dsv4v {
namespace {

// q of every head: rope, rotation, rounding. No norm.
void finish_queries(const StepContext& ctx) {
    const ModelConfig& c = ctx.model.config;
    const int64_t n_queries = ctx.plan.n_rows() * c.n_indexer_heads;
    parallel_for(n_queries, kHadamardWork * c.indexer_dim, [&](int64_t i, int) {
        float* q = ctx.ws.indexer_q.data() + i * c.indexer_dim;
        const float* angles = ctx.ws.cos_sin_compressed.data() + i / c.n_indexer_heads * c.rope_dim;
        rope_apply(q + c.indexer_dim - c.rope_dim, angles, c.rope_dim);
        hadamard(q, c.indexer_dim);
    });
    if (ctx.model.numerics == Numerics::kAuthor) {
        parallel_for(n_queries, kRoundingWork * c.indexer_dim, [&](int64_t i, int) {
            fp4_sim32(ctx.ws.indexer_q.data() + i * c.indexer_dim, c.indexer_dim);
        });
    }
}

void make_queries(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t n_rows = ctx.plan.n_rows();
    const int64_t q_width = int64_t{c.n_indexer_heads} * c.indexer_dim;
    matmul({layer.tensors.indexer_attn_q_b, 0, q_width, ws.q_latent.data(), c.q_lora_rank, n_rows,
            ws.indexer_q.data(), q_width});
    finish_queries(ctx);
    matmul({layer.tensors.indexer_proj, 0, c.n_indexer_heads, ws.x.data(), c.hidden, n_rows,
            ws.indexer_weights.data(), c.n_indexer_heads});
    const float scale = 1.0f / std::sqrt(static_cast<float>(q_width));
    for (int64_t i = 0; i < n_rows * c.n_indexer_heads; ++i) {
        ws.indexer_weights[static_cast<size_t>(i)] *= scale;
    }
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, "lid_q", ws.indexer_q,
                              {n_rows, c.n_indexer_heads, c.indexer_dim});
        ctx.probe.layer_value(layer.layer_idx, "lid_weights", ws.indexer_weights,
                              {n_rows, c.n_indexer_heads});
    }
}

// score = sum over heads, in order, of weight * max(0, <q, key>).
float score_row(const ModelConfig& c, const float* q, const float* weights, const float* key) {
    float score = 0;
    for (int32_t head = 0; head < c.n_indexer_heads; ++head) {
        score += weights[head] * std::max(0.0f, dot(q + head * c.indexer_dim, key, c.indexer_dim));
    }
    return score;
}

void select_by_score(const StepContext& ctx, const ReferenceLayer& layer, int64_t row,
                     int64_t n_visible, ThreadScratch& scratch) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const auto pages = ctx.plan.pages(ctx.plan.chunk(ctx.plan.row(row).chunk_idx));
    const float* q = ws.indexer_q.data() + row * c.n_indexer_heads * c.indexer_dim;
    const float* weights = ws.indexer_weights.data() + row * c.n_indexer_heads;
    for (int64_t i = 0; i < n_visible; ++i) {
        const float* key =
            ctx.cache.compressed_row(layer.layer_idx, CompressorKind::kIndexer, pages, i);
        scratch.scores[static_cast<size_t>(i)] = score_row(c, q, weights, key);
    }
    const std::span<const float> scores(scratch.scores.data(), static_cast<size_t>(n_visible));
    select_best_rows(scores, c.indexer_top_k, scratch.order.data(),
                     ws.selected.data() + row * c.indexer_top_k);
}

void select_rows(const StepContext& ctx, const ReferenceLayer& layer, int64_t row, int thread) {
    const int32_t top_k = ctx.model.config.indexer_top_k;
    const int64_t n_visible = n_visible_blocks(ctx.plan.row(row).position, 4);
    const auto n_selected = static_cast<int32_t>(std::min<int64_t>(n_visible, top_k));
    int32_t* selected = ctx.ws.selected.data() + row * top_k;
    ctx.ws.n_selected[static_cast<size_t>(row)] = n_selected;
    if (n_visible <= top_k) {
        std::iota(selected, selected + n_selected, 0);
    } else {
        select_by_score(ctx, layer, row, n_visible, ctx.ws.threads[static_cast<size_t>(thread)]);
    }
    std::fill(selected + n_selected, selected + top_k, -1);
}

} // namespace

int32_t select_best_rows(std::span<const float> scores, int32_t n_best, int32_t* order,
                         int32_t* selected) {
    const auto n_rows = static_cast<int32_t>(scores.size());
    const int32_t n = std::min(n_rows, n_best);
    const auto ranked = [&](int32_t row) {
        const float score = scores[static_cast<size_t>(row)];
        return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    };
    std::iota(order, order + n_rows, 0);
    std::nth_element(order, order + n, order + n_rows, [&](int32_t a, int32_t b) {
        return ranked(a) > ranked(b) || (ranked(a) == ranked(b) && a < b);
    });
    std::copy_n(order, n, selected);
    std::sort(selected, selected + n);
    return n;
}

void run_indexer(const StepContext& ctx, const ReferenceLayer& layer) {
    compress(ctx, layer, CompressorKind::kIndexer);
    // While every visible block may be kept, the scores decide nothing.
    if (ctx.plan.indexer_must_choose || ctx.probe.on()) {
        make_queries(ctx, layer);
    }
    const ModelConfig& c = ctx.model.config;
    const int64_t row_work = ctx.plan.indexer_must_choose
                                 ? int64_t{c.n_indexer_heads} * c.indexer_dim * c.indexer_top_k
                                 : c.indexer_top_k;
    parallel_for(ctx.plan.n_rows(), row_work,
                 [&](int64_t row, int thread) { select_rows(ctx, layer, row, thread); });
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, "indexer_selected", ctx.ws.selected,
                              {ctx.plan.n_rows(), c.indexer_top_k});
    }
}

} // namespace dsv4v
