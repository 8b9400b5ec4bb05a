// The published model's keys, tensor names, shapes and formats, with holes for weights: what only
// reads headers can be tested at full size.
#pragma once

#include <string>
#include <vector>

#include "tests/gguf_builder.h"

namespace dsv4v::testing {

inline constexpr uint64_t kRealLayers = 43;
inline constexpr uint64_t kRealVocab = 129280;

inline uint64_t real_compress_ratio(uint64_t layer_idx) {
    return layer_idx < 2 ? 0 : layer_idx % 2 == 0 ? 4 : 128;
}

inline void add_real_keys(GgufBuilder& b) {
    b.set_string("general.architecture", "deepseek4");
    b.set_string("general.name", "full size");
    const std::pair<const char*, uint32_t> integers[] = {
        {"block_count", 43},
        {"context_length", 1048576},
        {"embedding_length", 4096},
        {"vocab_size", 129280},
        {"attention.head_count", 64},
        {"attention.head_count_kv", 1},
        {"attention.key_length", 512},
        {"attention.value_length", 512},
        {"rope.dimension_count", 64},
        {"rope.scaling.original_context_length", 65536},
        {"attention.q_lora_rank", 1024},
        {"attention.sliding_window", 128},
        {"attention.output_group_count", 8},
        {"attention.output_lora_rank", 1024},
        {"attention.indexer.head_count", 64},
        {"attention.indexer.key_length", 128},
        {"attention.indexer.top_k", 512},
        {"hyper_connection.count", 4},
        {"hyper_connection.sinkhorn_iterations", 20},
        {"hash_layer_count", 3},
        {"expert_count", 256},
        {"expert_used_count", 6},
        {"expert_shared_count", 1},
        {"expert_feed_forward_length", 2048},
        {"expert_gating_func", 4},
    };
    const std::pair<const char*, float> floats[] = {
        {"rope.freq_base", 1e4F},
        {"attention.compress_rope_freq_base", 1.6e5F},
        {"rope.scaling.factor", 16},
        {"attention.layer_norm_rms_epsilon", 1e-20F},
        {"hyper_connection.epsilon", 1e-6F},
        {"expert_weights_scale", 1.5F},
    };
    for (const auto& [key, value] : integers) {
        b.set_u32(std::string("deepseek4.") + key, value);
    }
    for (const auto& [key, value] : floats) {
        b.set_f32(std::string("deepseek4.") + key, value);
    }
    b.set_bool("deepseek4.expert_weights_norm", true);
    b.set_string("deepseek4.rope.scaling.type", "yarn");
    b.set_f32_array("deepseek4.swiglu_clamp_exp", std::vector<float>(kRealLayers, 10));
    std::vector<int32_t> ratios;
    for (uint64_t i = 0; i < kRealLayers; ++i) {
        ratios.push_back(static_cast<int32_t>(real_compress_ratio(i)));
    }
    ratios.insert(ratios.end(), 3, 0); // draft stages, as published
    b.set_i32_array("deepseek4.attention.compress_ratios", ratios);
}

inline void add_real_vocab(GgufBuilder& b) {
    std::vector<std::string> tokens = {"<｜begin▁of▁sentence｜>",
                                       "<｜end▁of▁sentence｜>",
                                       "<｜User｜>",
                                       "<｜Assistant｜>",
                                       "<think>",
                                       "</think>"};
    while (tokens.size() < kRealVocab) {
        tokens.push_back("token" + std::to_string(tokens.size()));
    }
    b.set_string("tokenizer.ggml.model", "gpt2");
    b.set_string("tokenizer.ggml.pre", "joyai-llm");
    b.set_string_array("tokenizer.ggml.tokens", tokens);
    b.set_i32_array("tokenizer.ggml.token_type", std::vector<int32_t>(kRealVocab, 1));
    b.set_string_array("tokenizer.ggml.merges", std::vector<std::string>(127741, "left right"));
    b.set_u32("tokenizer.ggml.bos_token_id", 0);
    b.set_u32("tokenizer.ggml.eos_token_id", 1);
}

// Row t holds six distinct experts.
inline std::string real_expert_table() {
    std::string data;
    data.reserve(kRealVocab * 24);
    for (uint64_t token_id = 0; token_id < kRealVocab; ++token_id) {
        for (uint64_t i = 0; i < 6; ++i) {
            data += encode(static_cast<int32_t>((token_id + 41 * i) % 256));
        }
    }
    return data;
}

inline void add_real_layer(GgufBuilder& b, uint64_t layer_idx) {
    const std::string prefix = "blk." + std::to_string(layer_idx) + ".";
    const auto add = [&](const char* name, const std::vector<uint64_t>& ne,
                         QuantFormat format) -> GgufBuilder::Tensor& {
        return b.add(prefix + name, ne, format);
    };
    const auto f32 = QuantFormat::kF32;
    const auto q8_0 = QuantFormat::kQ8_0;
    const auto bf16 = QuantFormat::kBF16;
    for (const char* name : {"attn_norm.weight", "ffn_norm.weight"}) {
        add(name, {4096}, f32);
    }
    add("attn_q_a.weight", {4096, 1024}, q8_0);
    add("attn_q_a_norm.weight", {1024}, f32);
    add("attn_q_b.weight", {1024, 32768}, q8_0);
    add("attn_kv.weight", {4096, 512}, q8_0);
    add("attn_kv_a_norm.weight", {512}, f32);
    add("attn_sinks.weight", {64}, f32);
    add("attn_output_a.weight", {4096, 8192}, q8_0);
    add("attn_output_b.weight", {8192, 4096}, q8_0);
    for (const char* half : {"hc_attn_", "hc_ffn_"}) {
        add((std::string(half) + "fn.weight").c_str(), {16384, 24}, f32);
        add((std::string(half) + "base.weight").c_str(), {24}, f32);
        add((std::string(half) + "scale.weight").c_str(), {3}, f32);
    }
    add("ffn_gate_inp.weight", {4096, 256}, bf16);
    add("ffn_gate_exps.weight", {4096, 2048, 256}, QuantFormat::kIQ2_XXS);
    add("ffn_up_exps.weight", {4096, 2048, 256}, QuantFormat::kIQ2_XXS);
    add("ffn_down_exps.weight", {2048, 4096, 256}, QuantFormat::kIQ3_XXS);
    add("ffn_gate_shexp.weight", {4096, 2048}, q8_0);
    add("ffn_up_shexp.weight", {4096, 2048}, q8_0);
    add("ffn_down_shexp.weight", {2048, 4096}, q8_0);
    add("exp_probs_b_vl.bias", {256}, f32);
    if (layer_idx < 3) {
        static const std::string table = real_expert_table();
        add("ffn_gate_tid2eid.weight", {6, kRealVocab}, QuantFormat::kI32).data = table;
    } else {
        add("exp_probs_b.bias", {256}, f32);
    }
    const uint64_t ratio = real_compress_ratio(layer_idx);
    if (ratio == 0) {
        return;
    }
    const uint64_t width = ratio == 4 ? 1024 : 512;
    add("attn_compressor_kv.weight", {4096, width}, bf16);
    add("attn_compressor_gate.weight", {4096, width}, bf16);
    add("attn_compressor_ape.weight", {width, ratio}, f32);
    add("attn_compressor_norm.weight", {512}, f32);
    if (ratio == 4) {
        add("indexer.attn_q_b.weight", {1024, 8192}, q8_0);
        add("indexer.proj.weight", {4096, 64}, bf16);
        add("indexer_compressor_kv.weight", {4096, 256}, bf16);
        add("indexer_compressor_gate.weight", {4096, 256}, bf16);
        add("indexer_compressor_ape.weight", {256, 4}, f32);
        add("indexer_compressor_norm.weight", {128}, f32);
    }
}

inline GgufBuilder real_size_model() {
    GgufBuilder b;
    add_real_keys(b);
    add_real_vocab(b);
    b.add("token_embd.weight", {4096, kRealVocab}, QuantFormat::kQ8_0);
    b.add("output.weight", {4096, kRealVocab}, QuantFormat::kQ8_0);
    b.add("output_norm.weight", {4096}, QuantFormat::kF32);
    b.add("output_hc_fn.weight", {16384, 4}, QuantFormat::kF32);
    b.add("output_hc_base.weight", {4}, QuantFormat::kF32);
    b.add("output_hc_scale.weight", {1}, QuantFormat::kF32);
    for (uint64_t i = 0; i < kRealLayers; ++i) {
        add_real_layer(b, i);
    }
    return b;
}

} // namespace dsv4v::testing
