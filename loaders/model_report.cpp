#include "loaders/model_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "loaders/base/printable.h"
#include "loaders/vocab.h"

namespace dsv4v {
namespace {

std::string file_lines(const GgufFile& file) {
    std::string lines = fmt::format("files       {}, {} bytes, {} tensors\n", file.n_shards(),
                                    file.n_bytes(), file.tensors().size());
    for (size_t i = 0; i < file.n_shards(); ++i) {
        const GgufShard& shard = file.shard(i);
        lines += fmt::format("  {}: GGUF v{}, {} keys, {} tensors, alignment {}\n", shard.path,
                             shard.version, shard.metadata.keys().size(), shard.tensors.size(),
                             shard.alignment);
    }
    return lines;
}

std::string config_lines(const ModelConfig& c, const Weights& weights) {
    const auto count = [&](int32_t ratio) {
        return std::count(c.compress_ratios.begin(), c.compress_ratios.end(), ratio);
    };
    return fmt::format(
        "model       {}, architecture deepseek4\n"
        "layers      {} ({} window-only, {} ratio 4, {} ratio 128), {} hash-routed\n"
        "attention   hidden {}, {} heads x {}, {} rotary, q rank {}, window {}, output {} x {}\n"
        "indexer     {} heads x {}, top {}\n"
        "experts     {} of {} used, width {}, 1 shared, scale {}\n"
        "context     {} tokens, rope base {} / {}, YaRN {} x {}\n"
        "epsilon     rms {:g}, hyper-connections {:g} ({} streams, {} Sinkhorn iterations)\n"
        "vocabulary  {} tokens\n"
        "images      {}\n",
        c.name.empty() ? "(unnamed)" : printable(c.name), c.n_layers, count(0), count(4),
        count(128), c.n_hash_layers, c.hidden, c.n_heads, c.head_dim, c.rope_dim, c.q_lora_rank,
        c.sliding_window, c.n_output_groups, c.output_lora_rank, c.n_indexer_heads, c.indexer_dim,
        c.indexer_top_k, c.n_experts_used, c.n_experts, c.expert_ffn, c.expert_weights_scale,
        c.context_length, c.rope_freq_base, c.compress_rope_freq_base, c.rope_scaling_factor,
        c.rope_original_context, c.rms_eps, c.hc_eps, c.n_hc_streams, c.n_sinkhorn_iterations,
        c.vocab_size,
        weights.has_image_bias ? "routing biases present"
                               : "no routing biases: text only, image requests are refused");
}

std::string format_lines(const GgufFile& file) {
    struct Total {
        int64_t n_tensors = 0;
        int64_t n_elements = 0;
        int64_t n_bytes = 0;
    };
    std::map<QuantFormat, Total> totals;
    for (const TensorView& tensor : file.tensors()) {
        Total& total = totals[tensor.format];
        ++total.n_tensors;
        total.n_elements += tensor.n_elements();
        total.n_bytes += tensor.n_bytes();
    }
    std::string lines = "formats          tensors         weights           bytes\n";
    for (const auto& [format, total] : totals) {
        lines += fmt::format("  {:<10} {:>11} {:>15} {:>15}\n", quant_format_info(format).name,
                             total.n_tensors, total.n_elements, total.n_bytes);
    }
    return lines;
}

} // namespace

std::string model_report(const GgufFile& file, const ModelConfig& config, const Weights& weights) {
    std::string report = file_lines(file) + config_lines(config, weights) + format_lines(file);
    for (const std::string& warning : config.warnings) {
        report += "warning: " + warning + "\n";
    }
    return report;
}

Expected<std::string> check_model(const std::string& path) {
    DSV4V_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
    DSV4V_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::from_gguf(file));
    DSV4V_ASSIGN_OR_RETURN(const Weights weights, Weights::bind(file, config));
    DSV4V_RETURN_IF_ERROR(Vocab::from_gguf(file));
    return model_report(file, config, weights);
}

} // namespace dsv4v
