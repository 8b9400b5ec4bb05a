#include "engine/reference/moe.h"

#include <algorithm>

#include "engine/reference/matmul.h"
#include "engine/reference/ops.h"
#include "engine/reference/parallel.h"

namespace dsv4v {
namespace {

// A hash layer takes the experts of the token id from its table, any other those of the best
// biased scores.
void route_row(const StepContext& ctx, const ReferenceLayer& layer, int64_t row) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const float* logits = ws.router_logits.data() + row * c.n_experts;
    float* scores = ws.router_scores.data() + row * c.n_experts;
    std::transform(logits, logits + c.n_experts, scores, sqrt_softplus);
    int32_t* ids = ws.expert_ids.data() + row * c.n_experts_used;
    if (layer.tid2eid.empty()) {
        choose_experts(scores, layer.exp_probs_b.data(), c.n_experts, c.n_experts_used, ids);
    } else {
        const int64_t entry = int64_t{ctx.plan.row(row).token_id} * c.n_experts_used;
        std::copy_n(layer.tid2eid.data() + entry, c.n_experts_used, ids);
    }
    weigh_experts(scores, ids, c.n_experts_used, c.expert_weights_scale,
                  ws.expert_weights.data() + row * c.n_experts_used);
}

void announce_routing(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    const int64_t n_rows = ctx.plan.n_rows();
    const int32_t idx = layer.layer_idx;
    ctx.probe.layer_value(idx, "router_logits", ctx.ws.router_logits, {n_rows, c.n_experts});
    ctx.probe.layer_value(idx, "router_scores", ctx.ws.router_scores, {n_rows, c.n_experts});
    if (layer.tid2eid.empty()) {
        std::vector<float> biased(static_cast<size_t>(n_rows * c.n_experts));
        for (size_t i = 0; i < biased.size(); ++i) {
            biased[i] =
                ctx.ws.router_scores[i] + layer.exp_probs_b[i % static_cast<size_t>(c.n_experts)];
        }
        ctx.probe.layer_value(idx, "router_scores_biased", biased, {n_rows, c.n_experts});
    }
    ctx.probe.layer_value(idx, "expert_ids", ctx.ws.expert_ids, {n_rows, c.n_experts_used});
    ctx.probe.layer_value(idx, "expert_weights", ctx.ws.expert_weights, {n_rows, c.n_experts_used});
}

void route(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    matmul({layer.tensors.ffn_gate_inp, 0, c.n_experts, ctx.ws.x.data(), c.hidden,
            ctx.plan.n_rows(), ctx.ws.router_logits.data(), c.n_experts});
    parallel_for(ctx.plan.n_rows(), kExpWork * c.n_experts,
                 [&](int64_t row, int) { route_row(ctx, layer, row); });
    if (ctx.probe.on()) {
        announce_routing(ctx, layer);
    }
}

// Counting sort of all (row, slot) entries by expert, rows ascending within each.
void group_by_expert(const StepContext& ctx) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t n_entries = ctx.plan.n_rows() * c.n_experts_used;
    std::fill(ws.expert_begin.begin(), ws.expert_begin.end(), 0);
    for (int64_t i = 0; i < n_entries; ++i) {
        ++ws.expert_begin[static_cast<size_t>(ws.expert_ids[static_cast<size_t>(i)]) + 1];
    }
    for (size_t e = 1; e < ws.expert_begin.size(); ++e) {
        ws.expert_begin[e] += ws.expert_begin[e - 1];
    }
    // Filling moves every begin to its end, which is the next begin: shift back afterwards.
    for (int64_t i = 0; i < n_entries; ++i) {
        const auto expert = static_cast<size_t>(ws.expert_ids[static_cast<size_t>(i)]);
        ws.expert_entries[static_cast<size_t>(ws.expert_begin[expert]++)] = static_cast<int32_t>(i);
    }
    std::rotate(ws.expert_begin.begin(), ws.expert_begin.end() - 1, ws.expert_begin.end());
    ws.expert_begin[0] = 0;
}

struct ExpertTensors {
    const TensorView& gate;
    const TensorView& up;
    const TensorView& down;
    int64_t expert = 0; // slice of the stacked tensors
    float clamp = 0;
};

// out[i] = W2 (weights[i] * swiglu(W1 x[i], W3 x[i])) for n rows; null weights mean 1. The weight
// is applied before the last matrix, as the author's code does.
void run_expert(const StepContext& ctx, const ExpertTensors& expert, const float* x,
                const float* weights, int64_t n, float* out) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const int64_t first_ffn = expert.expert * c.expert_ffn;
    matmul({expert.gate, first_ffn, c.expert_ffn, x, c.hidden, n, ws.expert_gate.data(),
            c.expert_ffn});
    matmul({expert.up, first_ffn, c.expert_ffn, x, c.hidden, n, ws.expert_up.data(), c.expert_ffn});
    parallel_for(n, kExpWork * c.expert_ffn, [&](int64_t i, int) {
        float* gate = ws.expert_gate.data() + i * c.expert_ffn;
        swiglu(gate, ws.expert_up.data() + i * c.expert_ffn, c.expert_ffn, expert.clamp);
        for (int32_t f = 0; weights != nullptr && f < c.expert_ffn; ++f) {
            gate[f] *= weights[i];
        }
    });
    matmul({expert.down, expert.expert * c.hidden, c.hidden, ws.expert_gate.data(), c.expert_ffn, n,
            out, c.hidden});
}

// One routed expert over `entries`, at most as many as the workspace has rows.
void run_routed_expert(const StepContext& ctx, const ReferenceLayer& layer, int64_t expert,
                       std::span<const int32_t> entries) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const auto n = static_cast<int64_t>(entries.size());
    for (int64_t i = 0; i < n; ++i) {
        const int64_t entry = entries[static_cast<size_t>(i)];
        std::copy_n(ws.x.data() + entry / c.n_experts_used * c.hidden, c.hidden,
                    ws.expert_x.data() + i * c.hidden);
        ws.entry_weights[static_cast<size_t>(i)] = ws.expert_weights[static_cast<size_t>(entry)];
    }
    run_expert(ctx,
               {layer.tensors.ffn_gate_exps, layer.tensors.ffn_up_exps, layer.tensors.ffn_down_exps,
                expert, layer.swiglu_clamp_exp},
               ws.expert_x.data(), ws.entry_weights.data(), n, ws.expert_y.data());
    for (int64_t i = 0; i < n; ++i) {
        std::copy_n(ws.expert_y.data() + i * c.hidden, c.hidden,
                    ws.slot_y.data() + entries[static_cast<size_t>(i)] * int64_t{c.hidden});
    }
}

void run_routed_experts(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    const auto n_rows = static_cast<int32_t>(ctx.plan.n_rows());
    for (int32_t expert = 0; expert < c.n_experts; ++expert) {
        const int32_t end = ws.expert_begin[static_cast<size_t>(expert) + 1];
        int32_t begin = ws.expert_begin[static_cast<size_t>(expert)];
        // More entries than rows only when a hash table names an expert twice for one token.
        for (; begin < end; begin += n_rows) {
            const auto n = static_cast<size_t>(std::min(n_rows, end - begin));
            run_routed_expert(ctx, layer, expert,
                              std::span(ws.expert_entries).subspan(static_cast<size_t>(begin), n));
        }
    }
}

// ws.y = sum of the slots, in slot order; then the shared expert on top.
void sum_slots(const StepContext& ctx) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    parallel_for(ctx.plan.n_rows(), int64_t{c.n_experts_used} * c.hidden, [&](int64_t row, int) {
        float* y = ws.y.data() + row * c.hidden;
        std::fill_n(y, c.hidden, 0.0f);
        for (int64_t slot = 0; slot < c.n_experts_used; ++slot) {
            const float* slot_y = ws.slot_y.data() + (row * c.n_experts_used + slot) * c.hidden;
            scale_add(y, 1.0f, slot_y, c.hidden);
        }
    });
}

void announce_output(const StepContext& ctx, const ReferenceLayer& layer, const char* name,
                     const std::vector<float>& values) {
    if (ctx.probe.on()) {
        ctx.probe.layer_value(layer.layer_idx, name, values,
                              {ctx.plan.n_rows(), ctx.model.config.hidden});
    }
}

void add_shared_expert(const StepContext& ctx, const ReferenceLayer& layer) {
    const ModelConfig& c = ctx.model.config;
    Workspace& ws = ctx.ws;
    run_expert(ctx,
               {layer.tensors.ffn_gate_shexp, layer.tensors.ffn_up_shexp,
                layer.tensors.ffn_down_shexp, 0, layer.swiglu_clamp_shexp},
               ws.x.data(), nullptr, ctx.plan.n_rows(), ws.expert_y.data());
    announce_output(ctx, layer, "shared_out", ws.expert_y);
    scale_add(ws.y.data(), 1.0f, ws.expert_y.data(), ctx.plan.n_rows() * c.hidden);
}

} // namespace

void choose_experts(const float* scores, const float* bias, int32_t n_experts, int32_t n_used,
                    int32_t* ids) {
    for (int32_t slot = 0; slot < n_used; ++slot) {
        int32_t best = -1;
        for (int32_t e = 0; e < n_experts; ++e) {
            if (std::find(ids, ids + slot, e) != ids + slot) {
                continue;
            }
            if (best < 0 || scores[e] + bias[e] > scores[best] + bias[best]) {
                best = e;
            }
        }
        ids[slot] = best;
    }
}

void weigh_experts(const float* scores, const int32_t* ids, int32_t n_used, float scale,
                   float* weights) {
    constexpr float kSmallestSum = 0x1p-14f; // against 0/0; far below any real sum
    float sum = 0;
    for (int32_t i = 0; i < n_used; ++i) {
        sum += scores[ids[i]];
    }
    sum = std::max(sum, kSmallestSum);
    for (int32_t i = 0; i < n_used; ++i) {
        weights[i] = scale * (scores[ids[i]] / sum);
    }
}

void moe_block(const StepContext& ctx, const ReferenceLayer& layer) {
    route(ctx, layer);
    group_by_expert(ctx);
    run_routed_experts(ctx, layer);
    sum_slots(ctx);
    announce_output(ctx, layer, "routed_out", ctx.ws.y);
    add_shared_expert(ctx, layer);
    announce_output(ctx, layer, "ffn_out", ctx.ws.y);
}

} // namespace dsv4v
