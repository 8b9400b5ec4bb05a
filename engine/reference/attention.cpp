#include "engine/reference/attention.h"

#include <algorithm>
#include <cmath>

#include "engine/reference/compressor.h"
#include "engine/reference/indexer.h"
#include "engine/reference/matmul.h"
#include "engine/reference/ops.h"
#include "engine/reference/parallel.h"
#include "engine/reference/rope.h"

namespace dsv4v {
namespace {

const float* row_angles(const StepContext& ctx, const ReferenceLayer& layer, int64_t row) {
    const std::vector<float>& angles =
        layer.ratio == 0 ? ctx.ws.cos_sin_plain : ctx.ws.cos_sin_compressed;
    return angles.data() + row * ctx.model.config.rope_dim;
}

void make_queries(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t n_rows = ctx.plan.n_rows();
    const int64_t q_width = int64_t{c.n_heads} * c.head_dim;
    matmul({layer.tensors.attn_q_a, 0, c.q_lora_rank, ws.x.data(), c.hidden, n_rows,
            ws.q_latent.data(), c.q_lora_rank});
    parallel_for(n_rows, c.q_lora_rank, [&](int64_t row, int) {
        float* latent = ws.q_latent.data() + row * c.q_lora_rank;
        rms_norm(latent, layer.q_a_norm.data(), c.q_lora_rank, c.rms_eps, latent);
    });
    matmul({layer.tensors.attn_q_b, 0, q_width, ws.q_latent.data(), c.q_lora_rank, n_rows,
            ws.q.data(), q_width});
    parallel_for(n_rows, q_width, [&](int64_t row, int) {
        for (int32_t head = 0; head < c.n_heads; ++head) {
            float* q = ws.q.data() + row * q_width + head * c.head_dim;
            rms_norm(q, nullptr, c.head_dim, c.rms_eps, q);
            rope_apply(q + c.head_dim - c.rope_dim, row_angles(ctx, layer, row), c.rope_dim);
        }
    });
}

void make_raw_rows(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t n_rows = ctx.plan.n_rows();
    matmul({layer.tensors.attn_kv, 0, c.head_dim, ws.x.data(), c.hidden, n_rows, ws.kv.data(),
            c.head_dim});
    parallel_for(n_rows, c.head_dim, [&](int64_t row, int) {
        float* kv = ws.kv.data() + row * c.head_dim;
        rms_norm(kv, layer.kv_a_norm.data(), c.head_dim, c.rms_eps, kv);
        rope_apply(kv + c.head_dim - c.rope_dim, row_angles(ctx, layer, row), c.rope_dim);
    });
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, "kv_rope", ws.kv, {n_rows, c.head_dim});
    }
    if (ctx.model.numerics == Numerics::kAuthor) {
        parallel_for(n_rows, kRoundingWork * c.head_dim, [&](int64_t row, int) {
            fp8_sim64(ws.kv.data() + row * c.head_dim, c.head_dim - c.rope_dim);
        });
    }
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, "kv_rows", ws.kv, {n_rows, c.head_dim});
    }
}

// Keys of one query in the order of summation: raw rows, then compressed rows, both ascending.
size_t gather_keys(const StepContext& ctx, const ReferenceLayer& layer, int64_t row,
                   std::vector<const float*>& keys) {
    const ModelConfig& c = ctx.model.config;
    const PlannedRow& planned = ctx.plan.row(row);
    const SequenceChunk& chunk = ctx.plan.chunk(planned.chunk_idx);
    size_t n = 0;
    const RawRange raw = visible_raw_rows(planned.position, c.sliding_window);
    for (int64_t p = raw.first; p <= raw.last; ++p) {
        const int64_t in_chunk = p - chunk.first_position;
        keys[n++] = in_chunk < 0 ? ctx.cache.raw_row(layer.layer_idx, chunk.slot, p)
                                 : ctx.ws.kv.data() + (chunk.first_row + in_chunk) * c.head_dim;
    }
    if (layer.ratio == 0) {
        return n;
    }
    const auto pages = ctx.plan.pages(chunk);
    const int32_t* selected =
        layer.kind == LayerKind::kCsa ? ctx.ws.selected.data() + row * c.indexer_top_k : nullptr;
    const int64_t n_compressed = selected != nullptr
                                     ? ctx.ws.n_selected[static_cast<size_t>(row)]
                                     : n_visible_blocks(planned.position, layer.ratio);
    for (int64_t i = 0; i < n_compressed; ++i) {
        const int64_t block = selected != nullptr ? selected[i] : i;
        keys[n++] =
            ctx.cache.compressed_row(layer.layer_idx, CompressorKind::kAttention, pages, block);
    }
    return n;
}

void attend_heads(const StepContext& ctx, const ReferenceLayer& layer, int64_t row,
                  int32_t first_head, int32_t n_heads, ThreadScratch& scratch) {
    const ModelConfig& c = ctx.model.config;
    const size_t n_keys = gather_keys(ctx, layer, row, scratch.keys);
    const std::span<const float* const> keys(scratch.keys.data(), n_keys);
    const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    for (int32_t head = first_head; head < first_head + n_heads; ++head) {
        const int64_t offset = (row * c.n_heads + head) * c.head_dim;
        attend(ctx.ws.q.data() + offset, keys, c.head_dim, scale,
               layer.sinks[static_cast<size_t>(head)], scratch.scores.data(),
               ctx.ws.heads.data() + offset);
    }
}

// One task per row, or per head when there are few rows (decoding).
void attend_rows(const StepContext& ctx, const ReferenceLayer& layer) {
    constexpr int64_t kFewRows = 8;
    const int64_t n_rows = ctx.plan.n_rows();
    const ModelConfig& c = ctx.model.config;
    const int32_t tasks_per_row = n_rows < kFewRows ? c.n_heads : 1;
    const int32_t heads_per_task = c.n_heads / tasks_per_row;
    const int64_t task_work = 2 * int64_t{c.sliding_window} * c.head_dim * heads_per_task;
    parallel_for(n_rows * tasks_per_row, task_work, [&](int64_t task, int thread) {
        const auto first_head = static_cast<int32_t>(task % tasks_per_row) * heads_per_task;
        attend_heads(ctx, layer, task / tasks_per_row, first_head, heads_per_task,
                     ctx.ws.threads[static_cast<size_t>(thread)]);
    });
}

void commit_raw_rows(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    const int32_t ring = raw_ring_length(c.sliding_window);
    for (const SequenceChunk& chunk : ctx.plan.chunks) {
        const int64_t end = int64_t{chunk.first_position} + chunk.n_rows;
        for (int64_t p = std::max<int64_t>(chunk.first_position, end - ring); p < end; ++p) {
            const int64_t row = chunk.first_row + p - chunk.first_position;
            std::copy_n(ctx.ws.kv.data() + row * c.head_dim, c.head_dim,
                        ctx.cache.raw_row(layer.layer_idx, chunk.slot, p));
        }
    }
}

// Values carry the rotation of their key's position; turning back by the query's leaves the
// relative one.
void derotate_heads(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    parallel_for(ctx.plan.n_rows(), int64_t{c.n_heads} * c.rope_dim, [&](int64_t row, int) {
        for (int32_t head = 0; head < c.n_heads; ++head) {
            float* out = ctx.ws.heads.data() + (row * c.n_heads + head) * c.head_dim;
            rope_invert(out + c.head_dim - c.rope_dim, row_angles(ctx, layer, row), c.rope_dim);
        }
    });
}

// Each group of heads has its own first matrix; the second folds all groups together.
void project_output(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t n_rows = ctx.plan.n_rows();
    const int64_t heads_width = int64_t{c.n_heads} * c.head_dim;
    const int64_t group_width = heads_width / c.n_output_groups;
    const int64_t ranks = int64_t{c.n_output_groups} * c.output_lora_rank;
    for (int64_t group = 0; group < c.n_output_groups; ++group) {
        const int64_t first_rank = group * c.output_lora_rank;
        matmul({layer.tensors.attn_output_a, first_rank, c.output_lora_rank,
                ws.heads.data() + group * group_width, heads_width, n_rows,
                ws.wo_a.data() + first_rank, ranks});
    }
    matmul({layer.tensors.attn_output_b, 0, c.hidden, ws.wo_a.data(), ranks, n_rows, ws.y.data(),
            c.hidden});
}

void announce(const StepContext& ctx, const ReferenceLayer& layer, const char* name,
              const std::vector<float>& values, int64_t second, int64_t third) {
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, name, values, {ctx.plan.n_rows(), second, third});
    }
}

} // namespace

void attend(const float* q, std::span<const float* const> keys, int32_t width, float scale,
            float sink, float* scores, float* out) {
    float largest = sink;
    for (size_t i = 0; i < keys.size(); ++i) {
        scores[i] = scale * dot(q, keys[i], width);
        largest = std::max(largest, scores[i]);
    }
    float sum = std::exp(sink - largest); // a sink takes weight and gives no value
    std::fill_n(out, width, 0.0f);
    for (size_t i = 0; i < keys.size(); ++i) {
        const float weight = std::exp(scores[i] - largest);
        sum += weight;
        scale_add(out, weight, keys[i], width);
    }
    const float inverse_sum = 1.0f / sum;
    for (int32_t i = 0; i < width; ++i) {
        out[i] *= inverse_sum;
    }
}

void attention_block(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    make_queries(ctx, layer);
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, "qr_norm", ws.q_latent,
                              {ctx.plan.n_rows(), c.q_lora_rank});
    }
    announce(ctx, layer, "q_rope", ws.q, c.n_heads, c.head_dim);
    make_raw_rows(ctx, layer);
    if (layer.ratio != 0) {
        compress(ctx, layer, CompressorKind::kAttention);
    }
    if (layer.kind == LayerKind::kCsa) {
        run_indexer(ctx, layer);
    }
    attend_rows(ctx, layer);
    commit_raw_rows(ctx, layer);
    announce(ctx, layer, "attn_heads", ws.heads, c.n_heads, c.head_dim);
    derotate_heads(ctx, layer);
    announce(ctx, layer, "attn_derope", ws.heads, c.n_heads, c.head_dim);
    project_output(ctx, layer);
    announce(ctx, layer, "attn_wo_a", ws.wo_a, c.n_output_groups, c.output_lora_rank);
}

} // namespace dsv4v
