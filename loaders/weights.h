// One named field per tensor of the language model. Binding checks that the file holds exactly
// these tensors: a missing, unknown or misshapen one is an error that names it.
// Shapes in GGUF order [input, output, experts]; symbols as in docs/model.md:
// D hidden, S hyper-connection streams, V vocabulary, H heads, dh head width, rq q rank, G groups,
// ro group rank, HI/di indexer heads and width, E experts, A active, F expert width, r ratio,
// c = 2 for ratio 4, else 1.
#pragma once

#include <vector>

#include "loaders/base/error.h"
#include "loaders/model_config.h"
#include "loaders/tensor_view.h"

namespace dsv4v {

class GgufFile;

struct LayerWeights {
    TensorView attn_norm;      // [D]
    TensorView attn_q_a;       // [D, rq]
    TensorView attn_q_a_norm;  // [rq]
    TensorView attn_q_b;       // [rq, H*dh], row = head*dh + dim
    TensorView attn_kv;        // [D, dh]
    TensorView attn_kv_a_norm; // [dh]
    TensorView attn_sinks;     // [H]
    TensorView attn_output_a;  // [H*dh/G, G*ro], rows g*ro.. belong to group g
    TensorView attn_output_b;  // [G*ro, D]
    TensorView hc_attn_fn;     // [S*D, 2S + S*S]: rows pre, post, comb (source-major)
    TensorView hc_attn_base;   // [2S + S*S]
    TensorView hc_attn_scale;  // [3]: pre, post, comb
    TensorView hc_ffn_fn;      // as hc_attn_*
    TensorView hc_ffn_base;
    TensorView hc_ffn_scale;

    TensorView ffn_norm;         // [D]
    TensorView ffn_gate_inp;     // [D, E]
    TensorView exp_probs_b;      // [E], text selection bias; empty on hash layers
    TensorView exp_probs_b_vl;   // [E], image selection bias; empty in text checkpoints
    TensorView ffn_gate_tid2eid; // I32 [A, V]; hash layers only
    TensorView ffn_gate_exps;    // [D, F, E]
    TensorView ffn_up_exps;      // [D, F, E]
    TensorView ffn_down_exps;    // [F, D, E]
    TensorView ffn_gate_shexp;   // [D, F]
    TensorView ffn_up_shexp;     // [D, F]
    TensorView ffn_down_shexp;   // [F, D]

    // Ratio 4 and 128.
    TensorView attn_compressor_kv;   // [D, c*dh]
    TensorView attn_compressor_gate; // [D, c*dh]
    TensorView attn_compressor_ape;  // [c*dh, r]
    TensorView attn_compressor_norm; // [dh]

    // Ratio 4.
    TensorView indexer_attn_q_b;        // [rq, HI*di]
    TensorView indexer_proj;            // [D, HI]
    TensorView indexer_compressor_kv;   // [D, 2*di]
    TensorView indexer_compressor_gate; // [D, 2*di]
    TensorView indexer_compressor_ape;  // [2*di, 4]
    TensorView indexer_compressor_norm; // [di]
};

struct Weights {
    TensorView token_embd;      // [D, V]
    TensorView output;          // [D, V]
    TensorView output_norm;     // [D]
    TensorView output_hc_fn;    // [S*D, S]
    TensorView output_hc_base;  // [S]
    TensorView output_hc_scale; // [1]
    std::vector<LayerWeights> layers;

    // True when every layer carries exp_probs_b_vl (a vision checkpoint).
    bool has_image_bias = false;

    [[nodiscard]] static Expected<Weights> bind(const GgufFile& file, const ModelConfig& config);
};

} // namespace dsv4v
