#include "loaders/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "loaders/base/printable.h"
#include "loaders/gguf_file.h"

namespace dsv4v {
namespace {

using Shape = std::array<int64_t, 4>;

enum class Formats {
    kFloat,   // F32, F16, BF16: what is never quantized
    kIndex,   // I32
    kNumbers, // any storage format of weights
};

bool allows(Formats formats, QuantFormat format) {
    switch (formats) {
    case Formats::kFloat:
        return format == QuantFormat::kF32 || format == QuantFormat::kF16 ||
               format == QuantFormat::kBF16;
    case Formats::kIndex:
        return format == QuantFormat::kI32;
    case Formats::kNumbers:
        return format != QuantFormat::kI32;
    }
    return false;
}

const char* describe(Formats formats) {
    return formats == Formats::kFloat   ? "F32, F16 or BF16"
           : formats == Formats::kIndex ? "I32"
                                        : "a format of weights";
}

// "[4096, 512]", without trailing ones.
std::string describe(const Shape& shape) {
    size_t n_dims = shape.size();
    while (n_dims > 1 && shape[n_dims - 1] == 1) {
        --n_dims;
    }
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.begin() + n_dims, ", "));
}

// Takes tensors by name and remembers which; the first failure sticks.
class TensorBinder {
  public:
    explicit TensorBinder(const GgufFile& file)
        : file_(file), taken_(file.tensors().size(), false) {}

    TensorView take(const std::string& name, Shape shape, Formats formats) {
        if (file_.find_tensor(name) == nullptr) {
            fail(fmt::format("tensor {} is missing, wanted shape {}", name, describe(shape)));
            return {};
        }
        return take_optional(name, shape, formats);
    }

    // Empty when the file does not have it.
    TensorView take_optional(const std::string& name, Shape shape, Formats formats) {
        const TensorView* tensor = find(name);
        if (tensor == nullptr) {
            return {};
        }
        if (tensor->ne != shape) {
            fail(fmt::format("tensor {} has shape {}, wanted {}", name, describe(tensor->ne),
                             describe(shape)));
        }
        if (!allows(formats, tensor->format)) {
            fail(fmt::format("tensor {} has format {}, wanted {}", name,
                             quant_format_info(tensor->format).name, describe(formats)));
        }
        return *tensor;
    }

    // A matrix [width, n_rows * n_slices] that may also come as [width, n_rows, n_slices]: the
    // bytes are the same.
    TensorView take_stacked(const std::string& name, int64_t width, int64_t n_rows,
                            int64_t n_slices) {
        const TensorView* tensor = file_.find_tensor(name);
        if (tensor == nullptr || tensor->ne != Shape{width, n_rows, n_slices, 1}) {
            return take(name, {width, n_rows * n_slices, 1, 1}, Formats::kNumbers);
        }
        TensorView view = take(name, tensor->ne, Formats::kNumbers);
        view.ne = {width, n_rows * n_slices, 1, 1};
        return view;
    }

    void ignore_prefix(const std::string& prefix) {
        for (size_t i = 0; i < taken_.size(); ++i) {
            if (file_.tensors()[i].name.starts_with(prefix)) {
                taken_[i] = true;
            }
        }
    }

    void fail(const std::string& message) {
        if (!error_) {
            error_ = Error{ErrorCode::kCorrupt, fmt::format("{}: {}", file_.path(), message)};
        }
    }

    [[nodiscard]] Expected<void> result() const {
        if (error_) {
            return tl::unexpected<Error>(*error_);
        }
        return {};
    }

    // Fails on the first tensor of the file that nobody took.
    void check_all_taken() {
        const auto first = std::find(taken_.begin(), taken_.end(), false);
        if (first == taken_.end()) {
            return;
        }
        const std::string_view name =
            file_.tensors()[static_cast<size_t>(first - taken_.begin())].name;
        fail(fmt::format("tensor {} is not part of this model ({} unknown tensor(s))",
                         printable(name), std::count(first, taken_.end(), false)));
    }

  private:
    const TensorView* find(const std::string& name) {
        const TensorView* tensor = file_.find_tensor(name);
        if (tensor != nullptr) {
            taken_[static_cast<size_t>(tensor - file_.tensors().data())] = true;
        }
        return tensor;
    }

    const GgufFile& file_;
    std::vector<bool> taken_;
    std::optional<Error> error_;
};

// Binds one layer. Members are the dimension symbols of the header.
class LayerBinder {
  public:
    LayerBinder(TensorBinder& binder, const ModelConfig& config, int32_t layer_idx)
        : binder_(binder), c_(config), layer_idx_(layer_idx),
          prefix_(fmt::format("blk.{}.", layer_idx)) {}

    LayerWeights bind() {
        bind_attention();
        bind_hyper_connections();
        bind_router();
        bind_experts();
        if (c_.layer_kind(layer_idx_) != LayerKind::kSwa) {
            bind_compressor();
        }
        if (c_.layer_kind(layer_idx_) == LayerKind::kCsa) {
            bind_indexer();
        }
        return layer_;
    }

  private:
    TensorView vector(const char* name, int64_t width) {
        return binder_.take(prefix_ + name, {width, 1, 1, 1}, Formats::kFloat);
    }
    TensorView matrix(const char* name, int64_t width, int64_t n_rows) {
        return binder_.take(prefix_ + name, {width, n_rows, 1, 1}, Formats::kNumbers);
    }
    TensorView experts(const char* name, int64_t width, int64_t n_rows) {
        return binder_.take(prefix_ + name, {width, n_rows, c_.n_experts, 1}, Formats::kNumbers);
    }

    void bind_attention() {
        const int64_t heads_width = int64_t{c_.n_heads} * c_.head_dim;
        const int64_t n_groups = c_.n_output_groups;
        layer_.attn_norm = vector("attn_norm.weight", c_.hidden);
        layer_.attn_q_a = matrix("attn_q_a.weight", c_.hidden, c_.q_lora_rank);
        layer_.attn_q_a_norm = vector("attn_q_a_norm.weight", c_.q_lora_rank);
        layer_.attn_q_b = matrix("attn_q_b.weight", c_.q_lora_rank, heads_width);
        layer_.attn_kv = matrix("attn_kv.weight", c_.hidden, c_.head_dim);
        layer_.attn_kv_a_norm = vector("attn_kv_a_norm.weight", c_.head_dim);
        layer_.attn_sinks = vector("attn_sinks.weight", c_.n_heads);
        layer_.attn_output_a =
            binder_.take_stacked(prefix_ + "attn_output_a.weight", heads_width / n_groups,
                                 c_.output_lora_rank, n_groups);
        layer_.attn_output_b =
            matrix("attn_output_b.weight", n_groups * c_.output_lora_rank, c_.hidden);
    }

    void bind_hyper_connections() {
        const int64_t n_streams = c_.n_hc_streams;
        const int64_t flat = n_streams * c_.hidden;
        const int64_t n_mix = 2 * n_streams + n_streams * n_streams;
        layer_.hc_attn_fn = matrix("hc_attn_fn.weight", flat, n_mix);
        layer_.hc_attn_base = vector("hc_attn_base.weight", n_mix);
        layer_.hc_attn_scale = vector("hc_attn_scale.weight", 3);
        layer_.hc_ffn_fn = matrix("hc_ffn_fn.weight", flat, n_mix);
        layer_.hc_ffn_base = vector("hc_ffn_base.weight", n_mix);
        layer_.hc_ffn_scale = vector("hc_ffn_scale.weight", 3);
    }

    void bind_router() {
        const int64_t n_experts = c_.n_experts;
        layer_.ffn_norm = vector("ffn_norm.weight", c_.hidden);
        layer_.ffn_gate_inp = binder_.take(prefix_ + "ffn_gate_inp.weight",
                                           {c_.hidden, n_experts, 1, 1}, Formats::kFloat);
        layer_.exp_probs_b_vl = binder_.take_optional(prefix_ + "exp_probs_b_vl.bias",
                                                      {n_experts, 1, 1, 1}, Formats::kFloat);
        if (!c_.is_hash_layer(layer_idx_)) {
            layer_.exp_probs_b = vector("exp_probs_b.bias", n_experts);
            return;
        }
        // The checkpoint has a bias on hash layers too and some converters keep it; hash routing
        // does not use it.
        (void)binder_.take_optional(prefix_ + "exp_probs_b.bias", {n_experts, 1, 1, 1},
                                    Formats::kFloat);
        layer_.ffn_gate_tid2eid =
            binder_.take(prefix_ + "ffn_gate_tid2eid.weight",
                         {c_.n_experts_used, c_.vocab_size, 1, 1}, Formats::kIndex);
    }

    void bind_experts() {
        layer_.ffn_gate_exps = experts("ffn_gate_exps.weight", c_.hidden, c_.expert_ffn);
        layer_.ffn_up_exps = experts("ffn_up_exps.weight", c_.hidden, c_.expert_ffn);
        layer_.ffn_down_exps = experts("ffn_down_exps.weight", c_.expert_ffn, c_.hidden);
        layer_.ffn_gate_shexp = matrix("ffn_gate_shexp.weight", c_.hidden, c_.expert_ffn);
        layer_.ffn_up_shexp = matrix("ffn_up_shexp.weight", c_.hidden, c_.expert_ffn);
        layer_.ffn_down_shexp = matrix("ffn_down_shexp.weight", c_.expert_ffn, c_.hidden);
    }

    void bind_compressor() {
        const int64_t ratio = c_.compress_ratios[static_cast<size_t>(layer_idx_)];
        const int64_t width = (ratio == 4 ? 2 : 1) * int64_t{c_.head_dim};
        layer_.attn_compressor_kv = matrix("attn_compressor_kv.weight", c_.hidden, width);
        layer_.attn_compressor_gate = matrix("attn_compressor_gate.weight", c_.hidden, width);
        layer_.attn_compressor_ape = matrix("attn_compressor_ape.weight", width, ratio);
        layer_.attn_compressor_norm = vector("attn_compressor_norm.weight", c_.head_dim);
    }

    void bind_indexer() {
        const int64_t dim = c_.indexer_dim;
        layer_.indexer_attn_q_b =
            matrix("indexer.attn_q_b.weight", c_.q_lora_rank, c_.n_indexer_heads * dim);
        layer_.indexer_proj = matrix("indexer.proj.weight", c_.hidden, c_.n_indexer_heads);
        layer_.indexer_compressor_kv = matrix("indexer_compressor_kv.weight", c_.hidden, 2 * dim);
        layer_.indexer_compressor_gate =
            matrix("indexer_compressor_gate.weight", c_.hidden, 2 * dim);
        layer_.indexer_compressor_ape = matrix("indexer_compressor_ape.weight", 2 * dim, 4);
        layer_.indexer_compressor_norm = vector("indexer_compressor_norm.weight", dim);
    }

    TensorBinder& binder_;
    const ModelConfig& c_;
    int32_t layer_idx_;
    std::string prefix_;
    LayerWeights layer_;
};

void bind_globals(TensorBinder& binder, const ModelConfig& c, Weights& weights) {
    const int64_t n_streams = c.n_hc_streams;
    const auto vector = [&](const char* name, int64_t width) {
        return binder.take(name, {width, 1, 1, 1}, Formats::kFloat);
    };
    const auto matrix = [&](const char* name, int64_t width, int64_t n_rows) {
        return binder.take(name, {width, n_rows, 1, 1}, Formats::kNumbers);
    };
    weights.token_embd = matrix("token_embd.weight", c.hidden, c.vocab_size);
    weights.output = matrix("output.weight", c.hidden, c.vocab_size);
    weights.output_norm = vector("output_norm.weight", c.hidden);
    weights.output_hc_fn = matrix("output_hc_fn.weight", n_streams * c.hidden, n_streams);
    weights.output_hc_base = vector("output_hc_base.weight", n_streams);
    weights.output_hc_scale = vector("output_hc_scale.weight", 1);
}

// The image bias comes with all layers or with none.
void check_image_bias(TensorBinder& binder, Weights& weights) {
    const auto has = [](const LayerWeights& layer) { return !layer.exp_probs_b_vl.empty(); };
    const auto n_with = std::count_if(weights.layers.begin(), weights.layers.end(), has);
    weights.has_image_bias = n_with > 0;
    if (n_with > 0 && static_cast<size_t>(n_with) != weights.layers.size()) {
        const auto without = std::find_if_not(weights.layers.begin(), weights.layers.end(), has);
        binder.fail(fmt::format("tensor blk.{}.exp_probs_b_vl.bias is missing, but {} other "
                                "layer(s) have theirs",
                                without - weights.layers.begin(), n_with));
    }
}

// The values index experts, so one out of range or repeated would address memory or weight an
// expert twice.
void check_expert_table(TensorBinder& binder, const TensorView& table, int32_t n_experts) {
    const auto n_used = static_cast<size_t>(table.width());
    std::vector<int32_t> experts(n_used);
    for (int64_t token_id = 0; token_id < table.n_rows(); ++token_id) {
        std::memcpy(experts.data(), table.row(token_id), n_used * sizeof(int32_t));
        for (size_t i = 0; i < n_used; ++i) {
            if (experts[i] < 0 || experts[i] >= n_experts) {
                binder.fail(fmt::format("tensor {}: row {} holds expert {}, wanted 0 to {}",
                                        table.name, token_id, experts[i], n_experts - 1));
                return;
            }
            const auto begin = experts.begin();
            const auto here = begin + static_cast<std::ptrdiff_t>(i);
            if (std::find(begin, here, experts[i]) != here) {
                binder.fail(fmt::format("tensor {}: row {} holds expert {} twice", table.name,
                                        token_id, experts[i]));
                return;
            }
        }
    }
}

} // namespace

Expected<Weights> Weights::bind(const GgufFile& file, const ModelConfig& config) {
    TensorBinder binder(file);
    Weights weights;
    bind_globals(binder, config, weights);
    for (int32_t i = 0; i < config.n_layers; ++i) {
        weights.layers.push_back(LayerBinder(binder, config, i).bind());
    }
    for (int32_t i = 0; i < config.n_draft_layers; ++i) {
        binder.ignore_prefix(fmt::format("blk.{}.", config.n_layers + i));
    }
    check_image_bias(binder, weights);
    binder.check_all_taken();
    DSV4V_RETURN_IF_ERROR(binder.result());
    for (int32_t i = 0; i < config.n_hash_layers; ++i) {
        check_expert_table(binder, weights.layers[static_cast<size_t>(i)].ffn_gate_tid2eid,
                           config.n_experts);
    }
    DSV4V_RETURN_IF_ERROR(binder.result());
    return weights;
}

} // namespace dsv4v
