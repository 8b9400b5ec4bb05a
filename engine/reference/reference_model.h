// The weights as the forward pass wants them: large matrices in place inside the mapped file,
// everything small (norms, biases, sinks, position terms, hash tables) decoded once.
// Immutable after build; the mapped file must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/reference/numeric_sim.h"
#include "loaders/base/error.h"
#include "loaders/model_config.h"
#include "loaders/weights.h"

namespace dsv4v {

struct HcWeights {
    TensorView fn;            // [S*D, 2S + S*S], or [S*D, S] at the exit
    std::vector<float> base;  // [2S + S*S] or [S]
    std::vector<float> scale; // [3] or [1]
};

struct CompressorWeights {
    TensorView kv;           // [D, c*width]
    TensorView gate;         // [D, c*width]
    std::vector<float> ape;  // [ratio][c*width]
    std::vector<float> norm; // [width]
    int32_t ratio = 0;
    int32_t width = 0;       // of a compressed row
    int32_t input_width = 0; // c*width, c = 2 for ratio 4
};

struct ReferenceLayer {
    int32_t layer_idx = 0;
    LayerKind kind = LayerKind::kSwa;
    int32_t ratio = 0;
    LayerWeights tensors;
    HcWeights attn_hc;
    HcWeights ffn_hc;
    std::vector<float> attn_norm;
    std::vector<float> q_a_norm;
    std::vector<float> kv_a_norm;
    std::vector<float> sinks;
    std::vector<float> ffn_norm;
    std::vector<float> exp_probs_b;       // [E]; empty on hash layers
    std::vector<int32_t> tid2eid;         // [V][A]; hash layers only
    CompressorWeights compressor;         // ratio != 0
    CompressorWeights indexer_compressor; // ratio == 4
    float swiglu_clamp_exp = 0;
    float swiglu_clamp_shexp = 0;
};

struct ReferenceModel {
    ModelConfig config;
    Numerics numerics = Numerics::kAuthor;
    TensorView token_embd;
    TensorView output;
    std::vector<float> output_norm;
    HcWeights output_hc;
    std::vector<double> rope_plain;      // [rope_dim/2], layers without compression
    std::vector<double> rope_compressed; // [rope_dim/2], all others
    std::vector<ReferenceLayer> layers;

    // Refuses what the arithmetic here cannot represent (kUnsupported, names the key) and hash
    // tables that name an expert out of range (kCorrupt, names the tensor).
    [[nodiscard]] static Expected<ReferenceModel> build(const ModelConfig& config,
                                                        const Weights& weights, Numerics numerics);
};

} // namespace dsv4v
