#include "bench/synth/recipe.h"

#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dsv4v {
namespace {

constexpr int32_t kMaxLayers = 512;
constexpr int32_t kFullLayers = 43;
// Two uncompressed layers, a hash-routed and a scored layer of ratio 4, one of ratio 128.
constexpr int32_t kTinyLayers = 5;

struct ExpertFormats {
    QuantFormat gate_up;
    QuantFormat down;
};

// Formats of a recipe by the role of a tensor. Norms, biases, sinks and the bases and scales of the
// hyper-connections are F32 everywhere.
struct FormatMap {
    const char* name;
    uint32_t file_type;
    ExpertFormats (*experts)(int32_t layer_idx);
    QuantFormat dense;     // attention, shared expert
    QuantFormat output;    // head
    QuantFormat embedding; // token rows
    QuantFormat router;
    QuantFormat index_query; // indexer.attn_q_b
    QuantFormat compressor;  // compressor and other indexer projections
    QuantFormat mixing;      // hyper-connection matrices, position tables
};

// Twelve evenly spread layers at the wider format bring the file to the published size.
constexpr int32_t kUpgraded = 12;

bool is_upgraded(int32_t layer_idx) {
    return (layer_idx + 1) * kUpgraded / kFullLayers != layer_idx * kUpgraded / kFullLayers;
}

// Formats of every family.
ExpertFormats tiny_experts(int32_t layer_idx) {
    constexpr std::array<ExpertFormats, 5> kByLayer = {{
        {QuantFormat::kIQ2_XXS, QuantFormat::kQ2_K},
        {QuantFormat::kQ4_K, QuantFormat::kQ6_K},
        {QuantFormat::kIQ1_S, QuantFormat::kIQ3_XXS},
        {QuantFormat::kMXFP4, QuantFormat::kMXFP4},
        {QuantFormat::kQ8_0, QuantFormat::kIQ3_S},
    }};
    return kByLayer[static_cast<size_t>(layer_idx) % kByLayer.size()];
}

constexpr auto kF32 = QuantFormat::kF32;
constexpr auto kF16 = QuantFormat::kF16;
constexpr auto kBF16 = QuantFormat::kBF16;
constexpr auto kQ8 = QuantFormat::kQ8_0;

constexpr std::array kMaps = {
    FormatMap{"tiny", 19, tiny_experts, kQ8, QuantFormat::kQ6_K, QuantFormat::kQ4_K, kBF16, kQ8,
              kBF16, kF32},
    FormatMap{"ds4-q2", 19,
              [](int32_t) {
                  return ExpertFormats{QuantFormat::kIQ2_XXS, QuantFormat::kQ2_K};
              },
              kQ8, kQ8, kF16, kF16, kF16, kF16, kF16},
    FormatMap{"ud-iq1_s", 24,
              [](int32_t layer_idx) {
                  return ExpertFormats{is_upgraded(layer_idx) ? QuantFormat::kIQ2_XXS
                                                              : QuantFormat::kIQ1_S,
                                       QuantFormat::kIQ3_XXS};
              },
              kQ8, kQ8, kQ8, kF32, kQ8, kQ8, kF32},
    FormatMap{"mxfp4", 38,
              [](int32_t) {
                  return ExpertFormats{QuantFormat::kMXFP4, QuantFormat::kMXFP4};
              },
              kQ8, kQ8, kBF16, kBF16, kQ8, kBF16, kF32},
    FormatMap{"q8_0", 7,
              [](int32_t) {
                  return ExpertFormats{kQ8, kQ8};
              },
              kQ8, kQ8, kQ8, kF32, kQ8, kQ8, kF32},
};

constexpr std::array<const char*, kMaps.size()> kNames = {
    kMaps[0].name, kMaps[1].name, kMaps[2].name, kMaps[3].name, kMaps[4].name};

ModelConfig common_config(int32_t n_layers, int32_t vocab_size) {
    ModelConfig c;
    c.n_layers = n_layers;
    c.vocab_size = vocab_size;
    c.rms_eps = 1e-20f;
    c.rope_freq_base = 10000;
    c.compress_rope_freq_base = 160000;
    c.rope_scaling_factor = 16;
    c.rope_original_context = 65536;
    c.n_hc_streams = 4;
    c.n_sinkhorn_iterations = 20;
    c.hc_eps = 1e-6f;
    c.n_hash_layers = std::min(3, n_layers);
    c.n_experts_used = 6;
    c.expert_weights_scale = 1.5f;
    // Widths that the GPU kernels are built for: the same in both geometries.
    c.head_dim = 512;
    c.rope_dim = 64;
    c.sliding_window = 128;
    c.indexer_dim = 128;
    for (int32_t i = 0; i < n_layers; ++i) {
        c.compress_ratios.push_back(i < 2 ? 0 : i % 2 == 0 ? 4 : 128);
    }
    c.swiglu_clamp_exp.assign(static_cast<size_t>(n_layers), 10.0f);
    c.swiglu_clamp_shexp = c.swiglu_clamp_exp;
    return c;
}

ModelConfig full_config(int32_t n_layers, int32_t vocab_size) {
    ModelConfig c = common_config(n_layers, vocab_size);
    c.context_length = 1 << 20;
    c.hidden = 4096;
    c.n_heads = 64;
    c.q_lora_rank = 1024;
    c.n_output_groups = 8;
    c.output_lora_rank = 1024;
    c.n_indexer_heads = 64;
    c.indexer_top_k = 512;
    c.n_experts = 256;
    c.expert_ffn = 2048;
    return c;
}

ModelConfig tiny_config(int32_t n_layers, int32_t vocab_size) {
    ModelConfig c = common_config(n_layers, vocab_size);
    c.context_length = 8192;
    c.hidden = 256;
    c.n_heads = 4;
    c.q_lora_rank = 256;
    c.n_output_groups = 2;
    c.output_lora_rank = 128;
    c.n_indexer_heads = 16;
    c.indexer_top_k = 64;
    c.n_experts = 16;
    c.expert_ffn = 256;
    return c;
}

// Appends the tensors of a model in the order of published files: globals, then layer by layer.
class TensorLister {
  public:
    TensorLister(SynthModel& model, const FormatMap& formats)
        : model_(model), c_(model.config), formats_(formats) {}

    void list() {
        matrix("token_embd.weight", formats_.embedding, {c_.hidden, c_.vocab_size}, 1.0f);
        matrix("output.weight", formats_.output, {c_.hidden, c_.vocab_size});
        small("output_norm.weight", Fill::kNorm, c_.hidden);
        matrix("output_hc_fn.weight", formats_.mixing, {streams_width(), c_.n_hc_streams});
        small("output_hc_base.weight", Fill::kSmall, c_.n_hc_streams);
        constant("output_hc_scale.weight", 1, 1.0f);
        for (layer_ = 0; layer_ < c_.n_layers; ++layer_) {
            list_attention();
            list_feed_forward();
            if (c_.layer_kind(layer_) != LayerKind::kSwa) {
                list_compressor();
            }
            if (c_.layer_kind(layer_) == LayerKind::kCsa) {
                list_indexer();
            }
        }
    }

  private:
    [[nodiscard]] int64_t streams_width() const { return int64_t{c_.n_hc_streams} * c_.hidden; }
    [[nodiscard]] std::string in_layer(const char* name) const {
        return fmt::format("blk.{}.{}", layer_, name);
    }

    // Rows of a matrix have variance 1/K, so that products keep the size of their input.
    void matrix(std::string name, QuantFormat format, std::vector<int64_t> ne) {
        const float sigma = 1.0f / std::sqrt(static_cast<float>(ne[0]));
        matrix(std::move(name), format, std::move(ne), sigma);
    }
    void matrix(std::string name, QuantFormat format, std::vector<int64_t> ne, float sigma) {
        model_.tensors.push_back(
            {{std::move(name), format, std::move(ne)}, Fill::kMatrix, sigma, false});
    }
    void small(std::string name, Fill fill, int64_t width) {
        model_.tensors.push_back({{std::move(name), kF32, {width}}, fill, 0, false});
    }
    void constant(std::string name, int64_t width, float value) {
        model_.tensors.push_back({{std::move(name), kF32, {width}}, Fill::kConstant, value, false});
    }

    void list_attention() {
        const int64_t heads_width = int64_t{c_.n_heads} * c_.head_dim;
        const int64_t ranks = int64_t{c_.n_output_groups} * c_.output_lora_rank;
        const QuantFormat dense = formats_.dense;
        small(in_layer("attn_norm.weight"), Fill::kNorm, c_.hidden);
        matrix(in_layer("attn_q_a.weight"), dense, {c_.hidden, c_.q_lora_rank});
        small(in_layer("attn_q_a_norm.weight"), Fill::kNorm, c_.q_lora_rank);
        matrix(in_layer("attn_q_b.weight"), dense, {c_.q_lora_rank, heads_width});
        matrix(in_layer("attn_kv.weight"), dense, {c_.hidden, c_.head_dim});
        small(in_layer("attn_kv_a_norm.weight"), Fill::kNorm, c_.head_dim);
        small(in_layer("attn_sinks.weight"), Fill::kSmall, c_.n_heads);
        matrix(in_layer("attn_output_a.weight"), dense, {heads_width / c_.n_output_groups, ranks});
        matrix(in_layer("attn_output_b.weight"), dense, {ranks, c_.hidden});
        list_hyper_connection("attn");
    }

    void list_hyper_connection(const char* part) {
        const int64_t n_mix = int64_t{c_.n_hc_streams} * (2 + c_.n_hc_streams);
        matrix(fmt::format("blk.{}.hc_{}_fn.weight", layer_, part), formats_.mixing,
               {streams_width(), n_mix});
        small(fmt::format("blk.{}.hc_{}_base.weight", layer_, part), Fill::kSmall, n_mix);
        constant(fmt::format("blk.{}.hc_{}_scale.weight", layer_, part), 3, 0.3f);
    }

    void list_feed_forward() {
        small(in_layer("ffn_norm.weight"), Fill::kNorm, c_.hidden);
        matrix(in_layer("ffn_gate_inp.weight"), formats_.router, {c_.hidden, c_.n_experts});
        list_routing();
        const ExpertFormats experts = formats_.experts(layer_);
        const int64_t ffn = c_.expert_ffn;
        const int64_t n_experts = c_.n_experts;
        matrix(in_layer("ffn_gate_exps.weight"), experts.gate_up, {c_.hidden, ffn, n_experts});
        matrix(in_layer("ffn_up_exps.weight"), experts.gate_up, {c_.hidden, ffn, n_experts});
        matrix(in_layer("ffn_down_exps.weight"), experts.down, {ffn, c_.hidden, n_experts});
        matrix(in_layer("ffn_gate_shexp.weight"), formats_.dense, {c_.hidden, ffn});
        matrix(in_layer("ffn_up_shexp.weight"), formats_.dense, {c_.hidden, ffn});
        matrix(in_layer("ffn_down_shexp.weight"), formats_.dense, {ffn, c_.hidden});
        list_hyper_connection("ffn");
    }

    void list_routing() {
        small(in_layer("exp_probs_b_vl.bias"), Fill::kSmall, c_.n_experts);
        model_.tensors.back().in_first_shard = true;
        if (c_.is_hash_layer(layer_)) {
            model_.tensors.push_back({{in_layer("ffn_gate_tid2eid.weight"),
                                       QuantFormat::kI32,
                                       {c_.n_experts_used, c_.vocab_size}},
                                      Fill::kExpertTable,
                                      0,
                                      false});
        } else {
            small(in_layer("exp_probs_b.bias"), Fill::kSmall, c_.n_experts);
        }
    }

    void list_compressor() {
        const int64_t ratio = c_.compress_ratios[static_cast<size_t>(layer_)];
        const int64_t width = (ratio == 4 ? 2 : 1) * int64_t{c_.head_dim};
        matrix(in_layer("attn_compressor_kv.weight"), formats_.compressor, {c_.hidden, width});
        matrix(in_layer("attn_compressor_gate.weight"), formats_.compressor, {c_.hidden, width});
        matrix(in_layer("attn_compressor_ape.weight"), formats_.mixing, {width, ratio});
        small(in_layer("attn_compressor_norm.weight"), Fill::kNorm, c_.head_dim);
    }

    void list_indexer() {
        const int64_t dim = c_.indexer_dim;
        const QuantFormat format = formats_.compressor;
        matrix(in_layer("indexer.attn_q_b.weight"), formats_.index_query,
               {c_.q_lora_rank, c_.n_indexer_heads * dim});
        matrix(in_layer("indexer.proj.weight"), format, {c_.hidden, c_.n_indexer_heads});
        matrix(in_layer("indexer_compressor_kv.weight"), format, {c_.hidden, 2 * dim});
        matrix(in_layer("indexer_compressor_gate.weight"), format, {c_.hidden, 2 * dim});
        matrix(in_layer("indexer_compressor_ape.weight"), formats_.mixing, {2 * dim, 4});
        small(in_layer("indexer_compressor_norm.weight"), Fill::kNorm, dim);
    }

    SynthModel& model_;
    const ModelConfig& c_;
    const FormatMap& formats_;
    int32_t layer_ = 0;
};

uint32_t u32(int32_t value) {
    return static_cast<uint32_t>(value);
}

void add_attention_keys(GgufKeys& keys, const ModelConfig& c) {
    keys.add_u32("deepseek4.attention.head_count", u32(c.n_heads));
    keys.add_u32("deepseek4.attention.head_count_kv", 1);
    keys.add_u32("deepseek4.attention.key_length", u32(c.head_dim));
    keys.add_u32("deepseek4.attention.value_length", u32(c.head_dim));
    keys.add_f32("deepseek4.attention.layer_norm_rms_epsilon", c.rms_eps);
    keys.add_u32("deepseek4.attention.q_lora_rank", u32(c.q_lora_rank));
    keys.add_u32("deepseek4.attention.sliding_window", u32(c.sliding_window));
    keys.add_u32("deepseek4.attention.output_group_count", u32(c.n_output_groups));
    keys.add_u32("deepseek4.attention.output_lora_rank", u32(c.output_lora_rank));
    keys.add_u32("deepseek4.attention.indexer.head_count", u32(c.n_indexer_heads));
    keys.add_u32("deepseek4.attention.indexer.key_length", u32(c.indexer_dim));
    keys.add_u32("deepseek4.attention.indexer.top_k", u32(c.indexer_top_k));
    keys.add_i32_array("deepseek4.attention.compress_ratios", c.compress_ratios);
    keys.add_f32("deepseek4.attention.compress_rope_freq_base", c.compress_rope_freq_base);
    keys.add_u32("deepseek4.rope.dimension_count", u32(c.rope_dim));
    keys.add_f32("deepseek4.rope.freq_base", c.rope_freq_base);
    keys.add_string("deepseek4.rope.scaling.type", "yarn");
    keys.add_f32("deepseek4.rope.scaling.factor", c.rope_scaling_factor);
    keys.add_u32("deepseek4.rope.scaling.original_context_length", u32(c.rope_original_context));
    keys.add_f32("deepseek4.rope.scaling.yarn_beta_fast", c.yarn_beta_fast);
    keys.add_f32("deepseek4.rope.scaling.yarn_beta_slow", c.yarn_beta_slow);
}

void add_expert_keys(GgufKeys& keys, const ModelConfig& c) {
    keys.add_u32("deepseek4.hash_layer_count", u32(c.n_hash_layers));
    keys.add_u32("deepseek4.expert_count", u32(c.n_experts));
    keys.add_u32("deepseek4.expert_used_count", u32(c.n_experts_used));
    keys.add_u32("deepseek4.expert_shared_count", 1);
    keys.add_u32("deepseek4.expert_feed_forward_length", u32(c.expert_ffn));
    keys.add_f32("deepseek4.expert_weights_scale", c.expert_weights_scale);
    keys.add_bool("deepseek4.expert_weights_norm", true);
    keys.add_u32("deepseek4.expert_gating_func", 4); // sqrt of softplus
    keys.add_f32_array("deepseek4.swiglu_clamp_exp", c.swiglu_clamp_exp);
    keys.add_f32_array("deepseek4.swiglu_clamp_shexp", c.swiglu_clamp_shexp);
}

} // namespace

std::span<const char* const> recipe_names() {
    return kNames;
}

Expected<SynthModel> make_recipe(const std::string& name, int32_t n_layers, int32_t vocab_size) {
    if (n_layers < 0 || n_layers > kMaxLayers) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--layers is {}, wanted 1 to {}, or 0 for the recipe's own",
                                      n_layers, kMaxLayers));
    }
    for (const FormatMap& formats : kMaps) {
        if (name == formats.name) {
            const bool tiny = name == "tiny";
            const int32_t layers = n_layers > 0 ? n_layers : tiny ? kTinyLayers : kFullLayers;
            SynthModel model;
            model.config = tiny ? tiny_config(layers, vocab_size) : full_config(layers, vocab_size);
            model.file_type = formats.file_type;
            TensorLister(model, formats).list();
            return model;
        }
    }
    return make_error(ErrorCode::kInvalidArgument, fmt::format("--recipe is {}, wanted one of {}",
                                                               name, fmt::join(kNames, ", ")));
}

void add_model_keys(GgufKeys& keys, const SynthModel& model, const std::string& recipe) {
    const ModelConfig& c = model.config;
    keys.add_string("general.architecture", "deepseek4");
    keys.add_string("general.type", "model");
    keys.add_string("general.name", fmt::format("synthetic {}", recipe));
    keys.add_string("general.description",
                    "Random weights: every part works, but the answers are noise.");
    keys.add_u32("general.quantization_version", 2);
    keys.add_u32("general.file_type", model.file_type);
    keys.add_u32("deepseek4.block_count", u32(c.n_layers));
    keys.add_u32("deepseek4.context_length", u32(c.context_length));
    keys.add_u32("deepseek4.embedding_length", u32(c.hidden));
    keys.add_u32("deepseek4.vocab_size", u32(c.vocab_size));
    add_attention_keys(keys, c);
    keys.add_u32("deepseek4.hyper_connection.count", u32(c.n_hc_streams));
    keys.add_u32("deepseek4.hyper_connection.sinkhorn_iterations", u32(c.n_sinkhorn_iterations));
    keys.add_f32("deepseek4.hyper_connection.epsilon", c.hc_eps);
    add_expert_keys(keys, c);
}

} // namespace dsv4v
