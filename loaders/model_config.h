// Every number of the language model, read once from the GGUF keys, cross-checked, then const.
// docs/model.md explains each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

class GgufFile;

enum class LayerKind {
    kSwa, // compress ratio 0: sliding window only
    kCsa, // ratio 4: overlapping blocks of 4, top-k of them chosen by the indexer
    kHca, // ratio 128: every block of 128 visible
};

struct ModelConfig {
    std::string name;        // general.name, may be empty
    std::string description; // general.description, may be empty

    int32_t n_layers = 0;                 // block_count
    int32_t n_draft_layers = 0;           // layers after these that hold draft tensors; ignored
    int32_t context_length = 0;           // context_length
    int32_t hidden = 0;                   // embedding_length
    int32_t vocab_size = 0;               // rows of token_embd
    int32_t n_heads = 0;                  // attention.head_count; one shared KV head
    int32_t head_dim = 0;                 // attention.key_length == value_length
    int32_t rope_dim = 0;                 // rope.dimension_count: the last dims of each row
    int32_t q_lora_rank = 0;              // attention.q_lora_rank
    int32_t sliding_window = 0;           // attention.sliding_window
    int32_t n_output_groups = 0;          // attention.output_group_count
    int32_t output_lora_rank = 0;         // attention.output_lora_rank, per group
    int32_t n_indexer_heads = 0;          // attention.indexer.head_count
    int32_t indexer_dim = 0;              // attention.indexer.key_length
    int32_t indexer_top_k = 0;            // attention.indexer.top_k
    std::vector<int32_t> compress_ratios; // [n_layers], each 0, 4 or 128

    float rms_eps = 0;                 // attention.layer_norm_rms_epsilon
    float rope_freq_base = 0;          // rope.freq_base: ratio-0 layers
    float compress_rope_freq_base = 0; // attention.compress_rope_freq_base: all other layers
    float rope_scaling_factor = 0;     // YaRN, compressed layers only
    int32_t rope_original_context = 0; // rope.scaling.original_context_length
    float yarn_beta_fast = 32;
    float yarn_beta_slow = 1;

    int32_t n_hc_streams = 0;          // hyper_connection.count
    int32_t n_sinkhorn_iterations = 0; // hyper_connection.sinkhorn_iterations
    float hc_eps = 0;                  // hyper_connection.epsilon

    int32_t n_hash_layers = 0;             // hash_layer_count: these route by ffn_gate_tid2eid
    int32_t n_experts = 0;                 // expert_count
    int32_t n_experts_used = 0;            // expert_used_count
    int32_t expert_ffn = 0;                // expert_feed_forward_length
    float expert_weights_scale = 0;        // expert_weights_scale
    std::vector<float> swiglu_clamp_exp;   // [n_layers]; <= 1e-6 means no clamp
    std::vector<float> swiglu_clamp_shexp; // [n_layers]

    std::vector<std::string> warnings; // things a loader accepted but a person should read

    [[nodiscard]] LayerKind layer_kind(int32_t layer_idx) const {
        const int32_t ratio = compress_ratios[static_cast<size_t>(layer_idx)];
        return ratio == 0 ? LayerKind::kSwa : ratio == 4 ? LayerKind::kCsa : LayerKind::kHca;
    }
    [[nodiscard]] bool is_hash_layer(int32_t layer_idx) const { return layer_idx < n_hash_layers; }

    // Reads and cross-checks all keys. Errors name the key, what it holds and what is allowed.
    [[nodiscard]] static Expected<ModelConfig> from_gguf(const GgufFile& file);
};

} // namespace dsv4v
