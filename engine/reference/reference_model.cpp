#include "engine/reference/reference_model.h"

#include <bit>
#include <cstring>
#include <string>

#include "engine/reference/hyper_connection.h"
#include "engine/reference/rope.h"

namespace dsv4v {
namespace {

std::vector<float> decoded(const TensorView& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.empty() ? 0 : tensor.n_elements()));
    for (int64_t row = 0; !tensor.empty() && row < tensor.n_rows(); ++row) {
        decode_row(tensor.format, tensor.row(row), tensor.width(),
                   values.data() + row * tensor.width());
    }
    return values;
}

HcWeights decoded_hc(const TensorView& fn, const TensorView& base, const TensorView& scale) {
    return {fn, decoded(base), decoded(scale)};
}

CompressorWeights decoded_compressor(const TensorView& kv, const TensorView& gate,
                                     const TensorView& ape, const TensorView& norm, int32_t ratio) {
    CompressorWeights weights{kv, gate, decoded(ape), decoded(norm), ratio, 0, 0};
    weights.width = static_cast<int32_t>(weights.norm.size());
    weights.input_width = (ratio == 4 ? 2 : 1) * weights.width;
    return weights;
}

Expected<std::vector<int32_t>> decoded_hash_table(const TensorView& tensor, int32_t n_experts) {
    std::vector<int32_t> ids(static_cast<size_t>(tensor.n_elements()));
    std::memcpy(ids.data(), tensor.data, ids.size() * sizeof(int32_t));
    for (const int32_t id : ids) {
        if (id < 0 || id >= n_experts) {
            return make_error(ErrorCode::kCorrupt, std::string(tensor.name) + ": expert id " +
                                                       std::to_string(id) + ", want 0.." +
                                                       std::to_string(n_experts - 1));
        }
    }
    return ids;
}

Expected<void> check_supported(const ModelConfig& config) {
    const auto refuse = [](const std::string& what) {
        return make_error(ErrorCode::kUnsupported, what);
    };
    if (config.n_hc_streams < 1 || config.n_hc_streams > kMaxHcStreams) {
        return refuse("hyper_connection.count is " + std::to_string(config.n_hc_streams) +
                      ", want 1.." + std::to_string(kMaxHcStreams));
    }
    if (config.rope_dim % 2 != 0 || config.rope_dim > config.head_dim ||
        config.rope_dim > config.indexer_dim) {
        return refuse("rope.dimension_count is " + std::to_string(config.rope_dim) +
                      ", want an even number within the attention and indexer key lengths");
    }
    if (!std::has_single_bit(static_cast<uint32_t>(config.indexer_dim))) {
        return refuse("attention.indexer.key_length is " + std::to_string(config.indexer_dim) +
                      ", want a power of two");
    }
    return {};
}

Expected<ReferenceLayer> build_layer(const ModelConfig& config, const LayerWeights& w,
                                     int32_t layer_idx) {
    const auto index = static_cast<size_t>(layer_idx);
    ReferenceLayer layer;
    layer.layer_idx = layer_idx;
    layer.kind = config.layer_kind(layer_idx);
    layer.ratio = config.compress_ratios[index];
    layer.tensors = w;
    layer.attn_hc = decoded_hc(w.hc_attn_fn, w.hc_attn_base, w.hc_attn_scale);
    layer.ffn_hc = decoded_hc(w.hc_ffn_fn, w.hc_ffn_base, w.hc_ffn_scale);
    layer.attn_norm = decoded(w.attn_norm);
    layer.q_a_norm = decoded(w.attn_q_a_norm);
    layer.kv_a_norm = decoded(w.attn_kv_a_norm);
    layer.sinks = decoded(w.attn_sinks);
    layer.ffn_norm = decoded(w.ffn_norm);
    layer.swiglu_clamp_exp = config.swiglu_clamp_exp[index];
    layer.swiglu_clamp_shexp = config.swiglu_clamp_shexp[index];
    if (config.is_hash_layer(layer_idx)) {
        DSV4V_ASSIGN_OR_RETURN(layer.tid2eid,
                               decoded_hash_table(w.ffn_gate_tid2eid, config.n_experts));
    } else {
        layer.exp_probs_b = decoded(w.exp_probs_b);
    }
    if (layer.ratio != 0) {
        layer.compressor =
            decoded_compressor(w.attn_compressor_kv, w.attn_compressor_gate, w.attn_compressor_ape,
                               w.attn_compressor_norm, layer.ratio);
    }
    if (layer.kind == LayerKind::kCsa) {
        layer.indexer_compressor =
            decoded_compressor(w.indexer_compressor_kv, w.indexer_compressor_gate,
                               w.indexer_compressor_ape, w.indexer_compressor_norm, layer.ratio);
    }
    return layer;
}

} // namespace

Expected<ReferenceModel> ReferenceModel::build(const ModelConfig& config, const Weights& weights,
                                               Numerics numerics) {
    DSV4V_RETURN_IF_ERROR(check_supported(config));
    ReferenceModel model;
    model.config = config;
    model.numerics = numerics;
    model.token_embd = weights.token_embd;
    model.output = weights.output;
    model.output_norm = decoded(weights.output_norm);
    model.output_hc =
        decoded_hc(weights.output_hc_fn, weights.output_hc_base, weights.output_hc_scale);
    model.rope_plain = rope_frequencies(config.rope_dim, config.rope_freq_base);
    model.rope_compressed = yarn_rope_frequencies(
        config.rope_dim, config.compress_rope_freq_base,
        {config.rope_scaling_factor, static_cast<double>(config.rope_original_context),
         config.yarn_beta_fast, config.yarn_beta_slow});
    for (int32_t layer_idx = 0; layer_idx < config.n_layers; ++layer_idx) {
        DSV4V_ASSIGN_OR_RETURN(
            auto layer,
            build_layer(config, weights.layers[static_cast<size_t>(layer_idx)], layer_idx));
        model.layers.push_back(std::move(layer));
    }
    return model;
}

} // namespace dsv4v
