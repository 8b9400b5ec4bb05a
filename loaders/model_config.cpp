#include "loaders/model_config.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "loaders/architecture.h"
#include "loaders/base/printable.h"
#include "loaders/gguf_file.h"
#include "loaders/key_reader.h"

namespace dsv4v {
namespace {

constexpr std::string_view kPrefix = "deepseek4.";
constexpr int32_t kMaxLayers = 512;
constexpr int32_t kMaxPositions = 1 << 24;
constexpr int32_t kMaxVocab = 1 << 22;
constexpr int32_t kMaxWidth = 1 << 16; // of any activation but the per-head ones
constexpr int32_t kSqrtSoftplusGating = 4;
constexpr float kDefaultRopeFactor = 16;
constexpr int32_t kDefaultOriginalContext = 65'536;
constexpr double kMaxEpsilon = 0.1;
// Above 0 also as a float32; the smallest value seen in published files is 1e-20.
constexpr double kMinEpsilon = std::numeric_limits<float>::min();

// Everything a published file of this architecture carries; another name is worth a warning, since
// it may stand for a change of the graph.
constexpr std::array<std::string_view, 46> kKnownKeys = {
    "block_count",
    "context_length",
    "embedding_length",
    "embedding_length_out",
    "vocab_size",
    "feed_forward_length",
    "nextn_predict_layers",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.q_lora_rank",
    "attention.sliding_window",
    "attention.output_group_count",
    "attention.output_lora_rank",
    "attention.compress_ratios",
    "attention.compress_rope_freq_base",
    "attention.indexer.head_count",
    "attention.indexer.key_length",
    "attention.indexer.top_k",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "hyper_connection.count",
    "hyper_connection.sinkhorn_iterations",
    "hyper_connection.epsilon",
    "hash_layer_count",
    "expert_count",
    "expert_used_count",
    "expert_shared_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_weights_scale",
    "expert_weights_norm",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "swiglu_clamp_exp",
    "swiglu_clamp_shexp",
    "reap.enabled",
    "leading_dense_block_count",
};

class ConfigReader {
  public:
    explicit ConfigReader(const GgufFile& file) : file_(file), keys_(file, std::string(kPrefix)) {}

    Expected<ModelConfig> read() {
        DSV4V_RETURN_IF_ERROR(require_language_model(file_));
        DSV4V_RETURN_IF_ERROR(refuse_variants());
        read_layers();
        DSV4V_RETURN_IF_ERROR(keys_.result());
        read_vocab_size();
        read_attention();
        read_indexer();
        read_rope();
        read_hyper_connections();
        read_experts();
        read_clamps();
        DSV4V_RETURN_IF_ERROR(keys_.result());
        cross_check();
        DSV4V_RETURN_IF_ERROR(keys_.result());
        add_warnings();
        return std::move(config_);
    }

  private:
    // Community variants that share the architecture name but not the graph.
    [[nodiscard]] Expected<void> refuse_variants() const {
        for (const std::string_view key : file_.keys()) {
            std::string_view name = key;
            if (name.starts_with(kPrefix)) {
                name.remove_prefix(kPrefix.size());
            }
            if (name == "reap.enabled" && !is_off(key)) {
                return unsupported_variant(key, "experts pruned per layer (REAP)");
            }
            if (name.starts_with("dspark.")) {
                return unsupported_variant(key, "an embedded DSpark draft model");
            }
        }
        return {};
    }

    [[nodiscard]] bool is_off(std::string_view key) const {
        return file_.get_bool(key).value_or(true) == false || file_.get_int(key).value_or(1) == 0;
    }

    [[nodiscard]] tl::unexpected<Error> unsupported_variant(std::string_view key,
                                                            const char* what) const {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("{}: key {} says this file holds {}, which is not supported",
                                      file_.path(), printable(key), what));
    }

    [[nodiscard]] bool is_draft_layer(int32_t layer_idx) const {
        return file_.find_tensor(fmt::format("blk.{}.nextn.eh_proj.weight", layer_idx)) != nullptr;
    }

    // block_count may or may not include the draft layers of a file that embeds them; only their
    // tensors tell. nextn_predict_layers alone does not: text files carry it without the tensors.
    void read_layers() {
        config_.name = file_.get_string("general.name").value_or("");
        config_.description = file_.get_string("general.description").value_or("");
        const int32_t block_count = keys_.integer("block_count", 1, kMaxLayers);
        config_.n_layers = block_count;
        for (int32_t i = 1; i <= block_count; ++i) {
            if (is_draft_layer(i)) {
                config_.n_layers = i;
                break;
            }
        }
        int32_t end = config_.n_layers;
        while (end < kMaxLayers && is_draft_layer(end)) {
            ++end;
        }
        config_.n_draft_layers = std::max(end, block_count) - config_.n_layers;
        if (config_.n_draft_layers > 0) {
            warn(fmt::format("{} draft layer(s) from blk.{} on are ignored", config_.n_draft_layers,
                             config_.n_layers));
        }
    }

    void read_vocab_size() {
        const TensorView* embedding = file_.find_tensor("token_embd.weight");
        if (embedding == nullptr) {
            keys_.fail(Error{ErrorCode::kCorrupt,
                             fmt::format("{}: tensor token_embd.weight is missing", file_.path())});
            return;
        }
        const int64_t n_rows = embedding->ne[1];
        if (n_rows > kMaxVocab) {
            keys_.fail(Error{ErrorCode::kCorrupt,
                             fmt::format("{}: tensor token_embd.weight has {} rows, wanted 1 to {}",
                                         file_.path(), n_rows, kMaxVocab)});
            return;
        }
        config_.vocab_size = static_cast<int32_t>(n_rows);
        if (keys_.integer_or("vocab_size", 1, kMaxVocab, config_.vocab_size) !=
            config_.vocab_size) {
            keys_.fail("vocab_size",
                       fmt::format("differs from the {} rows of token_embd.weight", n_rows));
        }
    }

    void read_attention() {
        ModelConfig& c = config_;
        c.hidden = keys_.integer("embedding_length", 1, kMaxWidth);
        c.n_heads = keys_.integer("attention.head_count", 1, 1024);
        (void)keys_.integer("attention.head_count_kv", 1, 1); // one KV row serves all heads
        c.head_dim = keys_.integer("attention.key_length", 2, 4096);
        if (keys_.integer("attention.value_length", 2, 4096) != c.head_dim) {
            keys_.fail("attention.value_length",
                       fmt::format("differs from attention.key_length, which is {}", c.head_dim));
        }
        c.q_lora_rank = keys_.integer("attention.q_lora_rank", 1, kMaxWidth);
        c.sliding_window = keys_.integer("attention.sliding_window", 1, 4096);
        c.n_output_groups = keys_.integer("attention.output_group_count", 1, 1024);
        c.output_lora_rank = keys_.integer("attention.output_lora_rank", 1, kMaxWidth);
        c.rms_eps = keys_.number("attention.layer_norm_rms_epsilon", kMinEpsilon, kMaxEpsilon);
        c.compress_ratios =
            keys_.integers("attention.compress_ratios", static_cast<size_t>(c.n_layers), 0, 128);
        for (size_t i = 0; i < c.compress_ratios.size(); ++i) {
            const int32_t ratio = c.compress_ratios[i];
            if (ratio != 0 && ratio != 4 && ratio != 128) {
                keys_.fail("attention.compress_ratios",
                           fmt::format("element {} is {}, wanted 0, 4 or 128", i, ratio));
            }
        }
    }

    void read_indexer() {
        config_.n_indexer_heads = keys_.integer("attention.indexer.head_count", 1, 1024);
        config_.indexer_dim = keys_.integer("attention.indexer.key_length", 32, 1024);
        config_.indexer_top_k = keys_.integer("attention.indexer.top_k", 1, 1 << 16);
    }

    void read_rope() {
        ModelConfig& c = config_;
        c.rope_dim = keys_.integer("rope.dimension_count", 2, 4096);
        c.rope_freq_base = keys_.number("rope.freq_base", 2, 1e9);
        c.compress_rope_freq_base = keys_.number("attention.compress_rope_freq_base", 2, 1e9);
        if (keys_.has("rope.scaling.type")) {
            const std::string type = keys_.text("rope.scaling.type");
            if (type != "yarn") {
                keys_.fail("rope.scaling.type",
                           fmt::format("is \"{}\", wanted \"yarn\"", printable(type)));
            }
        }
        warn_if_missing("rope.scaling.factor", kDefaultRopeFactor);
        warn_if_missing("rope.scaling.original_context_length", kDefaultOriginalContext);
        c.rope_scaling_factor = keys_.number_or("rope.scaling.factor", 1, 4096, kDefaultRopeFactor);
        c.rope_original_context = keys_.integer_or("rope.scaling.original_context_length", 1,
                                                   kMaxPositions, kDefaultOriginalContext);
        c.yarn_beta_fast = keys_.number_or("rope.scaling.yarn_beta_fast", 1e-3, 1e4, 32);
        c.yarn_beta_slow = keys_.number_or("rope.scaling.yarn_beta_slow", 1e-3, 1e4, 1);
        const double scaled = static_cast<double>(c.rope_original_context) * c.rope_scaling_factor;
        const auto derived = static_cast<int32_t>(std::min<double>(scaled, kMaxPositions));
        c.context_length = keys_.integer_or("context_length", 1, kMaxPositions, derived);
    }

    void warn_if_missing(std::string_view key, double value) {
        if (!keys_.has(key)) {
            warn(
                fmt::format("key {}{} is missing (a converter dropped it?): {} is assumed; if that "
                            "is wrong, long contexts are wrong",
                            kPrefix, key, value));
        }
    }

    void read_hyper_connections() {
        config_.n_hc_streams = keys_.integer("hyper_connection.count", 4, 4);
        config_.n_sinkhorn_iterations =
            keys_.integer("hyper_connection.sinkhorn_iterations", 1, 1000);
        config_.hc_eps = keys_.number("hyper_connection.epsilon", kMinEpsilon, kMaxEpsilon);
    }

    void read_experts() {
        ModelConfig& c = config_;
        c.n_hash_layers = keys_.integer("hash_layer_count", 0, c.n_layers);
        c.n_experts = keys_.integer("expert_count", 1, 1024);
        c.n_experts_used = keys_.integer("expert_used_count", 1, c.n_experts);
        (void)keys_.integer("expert_shared_count", 1, 1);
        c.expert_weights_scale = keys_.number("expert_weights_scale", 1e-6, 1e6);
        if (!keys_.boolean("expert_weights_norm")) {
            keys_.fail("expert_weights_norm", "is false, wanted true");
        }
        (void)keys_.integer("expert_gating_func", kSqrtSoftplusGating, kSqrtSoftplusGating);
        (void)keys_.integer_or("expert_group_count", 0, 1, 0); // routing is ungrouped
        (void)keys_.integer_or("expert_group_used_count", 0, 1, 0);
        const std::vector<int32_t> widths = keys_.integers_or_scalar(
            "expert_feed_forward_length", static_cast<size_t>(c.n_layers), 1, kMaxWidth);
        c.expert_ffn = widths.front();
        const auto odd = std::find_if(widths.begin(), widths.end(),
                                      [&](int32_t width) { return width != c.expert_ffn; });
        if (odd != widths.end()) {
            keys_.fail("expert_feed_forward_length",
                       fmt::format("element {} is {}, wanted the same for all layers ({})",
                                   odd - widths.begin(), *odd, c.expert_ffn));
        }
    }

    void read_clamps() {
        constexpr double kAny = std::numeric_limits<float>::max();
        const auto n_layers = static_cast<size_t>(config_.n_layers);
        config_.swiglu_clamp_exp =
            keys_.numbers_or_scalar("swiglu_clamp_exp", n_layers, -kAny, kAny);
        config_.swiglu_clamp_shexp =
            keys_.has("swiglu_clamp_shexp")
                ? keys_.numbers_or_scalar("swiglu_clamp_shexp", n_layers, -kAny, kAny)
                : config_.swiglu_clamp_exp;
    }

    void cross_check() {
        const ModelConfig& c = config_;
        if (c.n_heads % c.n_output_groups != 0) {
            keys_.fail("attention.output_group_count",
                       fmt::format("is {}, which does not divide the {} heads", c.n_output_groups,
                                   c.n_heads));
        }
        if (c.rope_dim % 2 != 0 || c.rope_dim > std::min(c.head_dim, c.indexer_dim)) {
            keys_.fail("rope.dimension_count",
                       fmt::format("is {}, wanted an even number up to the head width {} and the "
                                   "indexer width {}",
                                   c.rope_dim, c.head_dim, c.indexer_dim));
        }
        // The indexer rotates its rows by a Hadamard transform.
        if (!std::has_single_bit(static_cast<uint32_t>(c.indexer_dim))) {
            keys_.fail("attention.indexer.key_length",
                       fmt::format("is {}, wanted a power of two", c.indexer_dim));
        }
        if (c.yarn_beta_fast <= c.yarn_beta_slow) {
            keys_.fail("rope.scaling.yarn_beta_fast",
                       fmt::format("is {}, wanted more than yarn_beta_slow, which is {}",
                                   c.yarn_beta_fast, c.yarn_beta_slow));
        }
    }

    void add_warnings() {
        if (file_.find_tensor("blk.0.exp_probs_b_vl.bias") != nullptr &&
            config_.rms_eps > 0.9e-6F && config_.rms_eps < 1.1e-6F) {
            warn(fmt::format("key {}attention.layer_norm_rms_epsilon is 1e-6, but vision "
                             "checkpoints were trained with 1e-20; the value of the file is used",
                             kPrefix));
        }
        std::vector<std::string> unknown;
        for (std::string_view key : file_.keys()) {
            if (key.starts_with(kPrefix)) {
                key.remove_prefix(kPrefix.size());
                if (std::find(kKnownKeys.begin(), kKnownKeys.end(), key) == kKnownKeys.end()) {
                    unknown.push_back(printable(key));
                }
            }
        }
        constexpr size_t kMaxListed = 8;
        const size_t n_unknown = unknown.size();
        if (n_unknown > 0) {
            unknown.resize(std::min(n_unknown, kMaxListed));
            warn(fmt::format("{} unknown key(s) under {} are ignored: {}{}", n_unknown, kPrefix,
                             fmt::join(unknown, ", "), n_unknown > kMaxListed ? ", ..." : ""));
        }
    }

    void warn(std::string text) { config_.warnings.push_back(std::move(text)); }

    const GgufFile& file_;
    KeyReader keys_;
    ModelConfig config_;
};

} // namespace

Expected<ModelConfig> ModelConfig::from_gguf(const GgufFile& file) {
    return ConfigReader(file).read();
}

} // namespace dsv4v
