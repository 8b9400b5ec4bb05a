#include "engine/reference/forward.h"

#include <algorithm>
#include <string>

#include "engine/reference/attention.h"
#include "engine/reference/hyper_connection.h"
#include "engine/reference/matmul.h"
#include "engine/reference/moe.h"
#include "engine/reference/ops.h"
#include "engine/reference/parallel.h"
#include "engine/reference/rope.h"

namespace dsv4v {
namespace {

void compute_block_angles(const StepContext& ctx, int32_t ratio, std::vector<float>& angles) {
    const std::vector<PlannedBlock>& blocks = ctx.plan.blocks(ratio);
    const int64_t rope_dim = ctx.model.config.rope_dim;
    parallel_for(static_cast<int64_t>(blocks.size()), rope_dim * kExpWork, [&](int64_t i, int) {
        rope_angles(ctx.model.rope_compressed,
                    int64_t{ratio} * blocks[static_cast<size_t>(i)].block_idx,
                    angles.data() + i * rope_dim);
    });
}

// Every stream starts as a plain copy of the embedding row.
void embed(const StepContext& ctx) {
    const ModelConfig& c = ctx.model.config;
    const TensorView& table = ctx.model.token_embd;
    parallel_for(ctx.plan.n_rows(), int64_t{c.n_hc_streams} * c.hidden, [&](int64_t row, int) {
        float* x = ctx.ws.x.data() + row * c.hidden;
        decode_row(table.format, table.row(ctx.plan.row(row).token_id), c.hidden, x);
        for (int64_t s = 0; s < c.n_hc_streams; ++s) {
            std::copy_n(x, c.hidden, ctx.ws.streams.data() + (row * c.n_hc_streams + s) * c.hidden);
        }
    });
    if (ctx.probe.on()) {
        ctx.probe.value("embd", ctx.ws.x, {ctx.plan.n_rows(), c.hidden});
    }
}

// fn . streams for n rows, scaled by the inverse RMS of each row's streams taken together.
void make_hc_mixes(const ModelConfig& c, const HcWeights& hc, const std::vector<float>& streams,
                   int64_t n, std::vector<float>& mixes) {
    const int64_t flat_width = int64_t{c.n_hc_streams} * c.hidden;
    const auto n_mixes = static_cast<int64_t>(hc.base.size());
    matmul({hc.fn, 0, n_mixes, streams.data(), flat_width, n, mixes.data(), n_mixes});
    parallel_for(n, flat_width, [&](int64_t row, int) {
        const float scale = inverse_rms(streams.data() + row * flat_width, flat_width, c.rms_eps);
        for (int64_t i = 0; i < n_mixes; ++i) {
            mixes[static_cast<size_t>(row * n_mixes + i)] *= scale;
        }
    });
}

void announce_hc(const StepContext& ctx, int32_t layer_idx, const std::string& name) {
    const int64_t n = ctx.plan.n_rows();
    const int64_t s = ctx.model.config.n_hc_streams;
    const Workspace& ws = ctx.ws;
    ctx.probe.layer_value(layer_idx, name + "_hc.mixes", ws.hc_mixes, {n, 2 * s + s * s});
    ctx.probe.layer_value(layer_idx, name + "_hc.pre", ws.hc_pre, {n, s});
    ctx.probe.layer_value(layer_idx, name + "_hc.post", ws.hc_post, {n, s});
    ctx.probe.layer_value(layer_idx, name + "_hc.comb_src_dst", ws.hc_comb, {n, s, s});
    ctx.probe.layer_value(layer_idx, name + "_hc.in", ws.mixed, {n, ctx.model.config.hidden});
    ctx.probe.layer_value(layer_idx, name + "_norm", ws.x, {n, ctx.model.config.hidden});
}

// Mixes the streams into the normalized input ws.x of a sub-block; keeps post and comb for
// write_streams. `name` is "attn" or "ffn".
void read_streams(const StepContext& ctx, int32_t layer_idx, const HcWeights& hc,
                  const std::vector<float>& norm, const char* name) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t s = c.n_hc_streams;
    make_hc_mixes(c, hc, ws.streams, ctx.plan.n_rows(), ws.hc_mixes);
    parallel_for(ctx.plan.n_rows(), s * c.hidden, [&](int64_t row, int) {
        float* pre = ws.hc_pre.data() + row * s;
        hc_coefficients({ws.hc_mixes.data() + row * (2 * s + s * s), hc.base.data(),
                         hc.scale.data(), c.n_hc_streams, c.n_sinkhorn_iterations, c.hc_eps, pre,
                         ws.hc_post.data() + row * s, ws.hc_comb.data() + row * s * s});
        float* mixed = ws.mixed.data() + row * c.hidden;
        hc_mix(ws.streams.data() + row * s * c.hidden, pre, c.n_hc_streams, c.hidden, mixed);
        rms_norm(mixed, norm.data(), c.hidden, c.rms_eps, ws.x.data() + row * c.hidden);
    });
    if (ctx.probe.on()) {
        announce_hc(ctx, layer_idx, name);
    }
}

// Folds the sub-block's output ws.y into the streams.
void write_streams(const StepContext& ctx, int32_t layer_idx, const char* name) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t s = c.n_hc_streams;
    parallel_for(ctx.plan.n_rows(), s * s * c.hidden, [&](int64_t row, int) {
        const int64_t offset = row * s * c.hidden;
        hc_post(ws.streams.data() + offset, ws.y.data() + row * c.hidden,
                ws.hc_post.data() + row * s, ws.hc_comb.data() + row * s * s, c.n_hc_streams,
                c.hidden, ws.next_streams.data() + offset);
    });
    ws.streams.swap(ws.next_streams);
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer_idx, name, ws.streams, {ctx.plan.n_rows(), s, c.hidden});
    }
}

void announce_exit(const StepContext& ctx, int64_t n) {
    const ModelConfig& c = ctx.model.config;
    ctx.probe.value("hc_head_mixes", ctx.ws.head_mixes, {n, c.n_hc_streams});
    ctx.probe.value("hc_head_pre", ctx.ws.head_pre, {n, c.n_hc_streams});
    ctx.probe.value("hc_head", ctx.ws.head_mixed, {n, c.hidden});
    ctx.probe.value("result_norm", ctx.ws.head_x, {n, c.hidden});
    ctx.probe.value("logits", ctx.ws.logits, {n, c.vocab_size});
}

} // namespace

void compute_angles(const StepContext& ctx) {
    Workspace& ws = ctx.ws;
    const int64_t rope_dim = ctx.model.config.rope_dim;
    parallel_for(ctx.plan.n_rows(), 2 * rope_dim * kExpWork, [&](int64_t row, int) {
        const int64_t position = ctx.plan.row(row).position;
        rope_angles(ctx.model.rope_plain, position, ws.cos_sin_plain.data() + row * rope_dim);
        rope_angles(ctx.model.rope_compressed, position,
                    ws.cos_sin_compressed.data() + row * rope_dim);
    });
    compute_block_angles(ctx, 4, ws.cos_sin_csa_blocks);
    compute_block_angles(ctx, 128, ws.cos_sin_hca_blocks);
}

void run_layers(const StepContext& ctx) {
    compute_angles(ctx);
    embed(ctx);
    for (const ReferenceLayer& layer : ctx.model.layers) {
        read_streams(ctx, layer.layer_idx, layer.attn_hc, layer.attn_norm, "attn");
        attention_block(ctx, layer);
        if (ctx.probe.on()) {
            ctx.probe.layer_value(layer.layer_idx, "attn_out", ctx.ws.y,
                                  {ctx.plan.n_rows(), ctx.model.config.hidden});
        }
        write_streams(ctx, layer.layer_idx, "attn_hc.streams_out");
        read_streams(ctx, layer.layer_idx, layer.ffn_hc, layer.ffn_norm, "ffn");
        moe_block(ctx, layer);
        write_streams(ctx, layer.layer_idx, "streams_out");
    }
}

void run_exit(const StepContext& ctx, std::span<const SampleRow> sample_rows) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const auto n = static_cast<int64_t>(sample_rows.size());
    const int64_t flat_width = int64_t{c.n_hc_streams} * c.hidden;
    ws.grow_exit(c, n);
    for (int64_t i = 0; i < n; ++i) {
        std::copy_n(ws.streams.data() + sample_rows[static_cast<size_t>(i)].row * flat_width,
                    flat_width, ws.head_streams.data() + i * flat_width);
    }
    make_hc_mixes(c, ctx.model.output_hc, ws.head_streams, n, ws.head_mixes);
    parallel_for(n, flat_width, [&](int64_t i, int) {
        float* pre = ws.head_pre.data() + i * c.n_hc_streams;
        hc_head_weights(ws.head_mixes.data() + i * c.n_hc_streams, ctx.model.output_hc.base.data(),
                        ctx.model.output_hc.scale[0], c.n_hc_streams, c.hc_eps, pre);
        float* mixed = ws.head_mixed.data() + i * c.hidden;
        hc_mix(ws.head_streams.data() + i * flat_width, pre, c.n_hc_streams, c.hidden, mixed);
        rms_norm(mixed, ctx.model.output_norm.data(), c.hidden, c.rms_eps,
                 ws.head_x.data() + i * c.hidden);
    });
    matmul({ctx.model.output, 0, c.vocab_size, ws.head_x.data(), c.hidden, n, ws.logits.data(),
            c.vocab_size});
    if (ctx.probe.on()) {
        announce_exit(ctx, n);
    }
}

} // namespace dsv4v
