// Every key of the model: missing, of the wrong kind, out of range, inconsistent.
#include "loaders/model_config.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loaders/architecture.h"
#include "loaders/gguf_file.h"
#include "tests/gguf_builder.h"
#include "tests/golden.h"

namespace dsv4v {
namespace {

using ::testing::Contains;
using testing::encode;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const GgufBuilder& tiny_a() {
    static const GgufBuilder builder = [] {
        GgufBuilder copy =
            GgufBuilder::copy_of(*GgufFile::open(testing::unpacked("models/tiny-a-bf16.gguf")));
        // Reading keys needs the embedding's shape and no tensor data.
        std::erase_if(copy.tensors, [](const auto& t) { return t.name != "token_embd.weight"; });
        return copy;
    }();
    return builder;
}

using Change = std::function<void(GgufBuilder&)>;

Expected<ModelConfig> read(const Change& change) {
    GgufBuilder builder = tiny_a();
    change(builder);
    const std::string bytes = builder.build();
    const testing::ExactBytes exact(bytes);
    DSV4V_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(exact.span(), "test.gguf"));
    return ModelConfig::from_gguf(file);
}

std::string error_of(const Change& change) {
    const Expected<ModelConfig> config = read(change);
    return config ? "accepted" : config.error().message;
}

struct KeyRule {
    const char* name; // without "deepseek4."
    bool required;
};

constexpr KeyRule kKeys[] = {
    {"block_count", true},
    {"context_length", false},
    {"embedding_length", true},
    {"vocab_size", false},
    {"attention.head_count", true},
    {"attention.head_count_kv", true},
    {"attention.key_length", true},
    {"attention.value_length", true},
    {"attention.layer_norm_rms_epsilon", true},
    {"attention.q_lora_rank", true},
    {"attention.sliding_window", true},
    {"attention.output_group_count", true},
    {"attention.output_lora_rank", true},
    {"attention.compress_ratios", true},
    {"attention.compress_rope_freq_base", true},
    {"attention.indexer.head_count", true},
    {"attention.indexer.key_length", true},
    {"attention.indexer.top_k", true},
    {"rope.dimension_count", true},
    {"rope.freq_base", true},
    {"rope.scaling.type", false},
    {"rope.scaling.factor", false},
    {"rope.scaling.original_context_length", false},
    {"rope.scaling.yarn_beta_fast", false},
    {"rope.scaling.yarn_beta_slow", false},
    {"expert_count", true},
    {"expert_used_count", true},
    {"expert_shared_count", true},
    {"expert_feed_forward_length", true},
    {"expert_weights_scale", true},
    {"expert_weights_norm", true},
    {"expert_gating_func", true},
    {"swiglu_clamp_exp", true},
    {"swiglu_clamp_shexp", false},
    {"hash_layer_count", true},
    {"hyper_connection.count", true},
    {"hyper_connection.sinkhorn_iterations", true},
    {"hyper_connection.epsilon", true},
};

TEST(ModelConfig, EveryRequiredKeyIsMissed) {
    for (const KeyRule& rule : kKeys) {
        SCOPED_TRACE(rule.name);
        const std::string key = std::string("deepseek4.") + rule.name;
        const std::string message = error_of([&](GgufBuilder& b) { b.erase_key(key); });
        if (rule.required) {
            EXPECT_THAT(message, HasSubstr("key " + key + " is missing"));
        } else {
            EXPECT_EQ(message, "accepted");
        }
    }
}

TEST(ModelConfig, EveryKeyOfTheWrongKindIsRefused) {
    for (const KeyRule& rule : kKeys) {
        SCOPED_TRACE(rule.name);
        const std::string key = std::string("deepseek4.") + rule.name;
        const bool is_text = std::string(rule.name) == "rope.scaling.type";
        const std::string message = error_of(
            [&](GgufBuilder& b) { is_text ? b.set_u32(key, 1) : b.set_string(key, "seven"); });
        EXPECT_THAT(message, HasSubstr("key " + key + " has type"));
        EXPECT_THAT(error_of([&](GgufBuilder& b) {
                        b.set_string_array(key, {"0", "1", "2", "3", "4", "5", "6"});
                    }),
                    HasSubstr("key " + key + " has type array of 7 string"));
    }
}

TEST(ModelConfig, NumbersNeverCrossBetweenIntegersAndFloats) {
    EXPECT_THAT(error_of([](auto& b) { b.set_f32("deepseek4.block_count", 7); }),
                HasSubstr("key deepseek4.block_count has type f32, wanted an integer"));
    EXPECT_THAT(error_of([](auto& b) { b.set_u32("deepseek4.rope.freq_base", 10000); }),
                HasSubstr("key deepseek4.rope.freq_base has type u32, wanted a float"));
    EXPECT_THAT(error_of([](auto& b) { b.set_bool("deepseek4.expert_shared_count", true); }),
                HasSubstr("key deepseek4.expert_shared_count has type bool"));
    EXPECT_THAT(error_of([](auto& b) { b.set_u32("deepseek4.expert_weights_norm", 1); }),
                HasSubstr("key deepseek4.expert_weights_norm has type u32, wanted a bool"));
}

TEST(ModelConfig, IntegersAreAcceptedInEveryWidth) {
    EXPECT_EQ(error_of([](auto& b) { b.set_u16("deepseek4.block_count", 7); }), "accepted");
    EXPECT_EQ(error_of([](auto& b) { b.set_i32("deepseek4.block_count", 7); }), "accepted");
    EXPECT_EQ(error_of([](auto& b) { b.set_u64("deepseek4.block_count", 7); }), "accepted");
    EXPECT_EQ(error_of([](auto& b) { b.set("deepseek4.block_count", 0, encode<uint8_t>(7)); }),
              "accepted");
    EXPECT_EQ(error_of([](auto& b) {
                  b.set_array("deepseek4.attention.compress_ratios", 4,
                              std::vector<uint32_t>{0, 0, 4, 128, 4, 128, 4});
              }),
              "accepted");
}

template <class T>
Change set(const char* key, T value) {
    const std::string name = std::string("deepseek4.") + key;
    return [name, value](GgufBuilder& b) {
        if constexpr (std::is_same_v<T, float>) {
            b.set_f32(name, value);
        } else if constexpr (std::is_same_v<T, bool>) {
            b.set_bool(name, value);
        } else {
            b.set_i32(name, value);
        }
    };
}

TEST(ModelConfig, ValuesOutOfRangeAreRefused) {
    const struct {
        const char* key;
        Change change;
    } cases[] = {
        {"block_count", set("block_count", 0)},
        {"block_count", set("block_count", 513)},
        {"block_count", set("block_count", -1)},
        {"context_length", set("context_length", 0)},
        {"context_length", set("context_length", 1 << 25)},
        {"embedding_length", set("embedding_length", 0)},
        {"embedding_length", set("embedding_length", 1 << 20)},
        {"vocab_size", set("vocab_size", 511)},
        {"attention.head_count", set("attention.head_count", 0)},
        {"attention.head_count", set("attention.head_count", 1 << 30)},
        {"attention.head_count_kv", set("attention.head_count_kv", 4)},
        {"attention.key_length", set("attention.key_length", 1)},
        {"attention.value_length", set("attention.value_length", 32)},
        {"attention.layer_norm_rms_epsilon", set("attention.layer_norm_rms_epsilon", 0.0F)},
        {"attention.layer_norm_rms_epsilon", set("attention.layer_norm_rms_epsilon", -1e-6F)},
        {"attention.layer_norm_rms_epsilon", set("attention.layer_norm_rms_epsilon", NAN)},
        {"attention.layer_norm_rms_epsilon", set("attention.layer_norm_rms_epsilon", INFINITY)},
        {"attention.q_lora_rank", set("attention.q_lora_rank", 0)},
        {"attention.sliding_window", set("attention.sliding_window", 0)},
        {"attention.output_group_count", set("attention.output_group_count", 0)},
        {"attention.output_group_count", set("attention.output_group_count", 3)},
        {"attention.output_lora_rank", set("attention.output_lora_rank", 0)},
        {"attention.compress_rope_freq_base", set("attention.compress_rope_freq_base", 0.0F)},
        {"attention.indexer.head_count", set("attention.indexer.head_count", 0)},
        {"attention.indexer.key_length", set("attention.indexer.key_length", 96)},
        {"attention.indexer.key_length", set("attention.indexer.key_length", 16)},
        {"attention.indexer.top_k", set("attention.indexer.top_k", 0)},
        {"rope.dimension_count", set("rope.dimension_count", 15)},
        {"rope.dimension_count", set("rope.dimension_count", 66)},
        {"rope.freq_base", set("rope.freq_base", 1.0F)},
        {"rope.scaling.factor", set("rope.scaling.factor", 0.5F)},
        {"rope.scaling.original_context_length", set("rope.scaling.original_context_length", 0)},
        {"rope.scaling.yarn_beta_fast", set("rope.scaling.yarn_beta_fast", 0.5F)},
        {"rope.scaling.yarn_beta_slow", set("rope.scaling.yarn_beta_slow", 0.0F)},
        {"expert_count", set("expert_count", 1025)},
        {"expert_used_count", set("expert_used_count", 17)},
        {"expert_used_count", set("expert_used_count", 0)},
        {"expert_shared_count", set("expert_shared_count", 2)},
        {"expert_feed_forward_length", set("expert_feed_forward_length", 0)},
        {"expert_weights_scale", set("expert_weights_scale", 0.0F)},
        {"expert_weights_norm", set("expert_weights_norm", false)},
        {"expert_gating_func", set("expert_gating_func", 2)},
        {"expert_group_count", set("expert_group_count", 8)},
        {"expert_group_used_count", set("expert_group_used_count", 4)},
        {"swiglu_clamp_exp", set("swiglu_clamp_exp", NAN)},
        {"swiglu_clamp_shexp", set("swiglu_clamp_shexp", INFINITY)},
        {"hash_layer_count", set("hash_layer_count", 8)},
        {"hash_layer_count", set("hash_layer_count", -1)},
        {"hyper_connection.count", set("hyper_connection.count", 2)},
        {"hyper_connection.sinkhorn_iterations", set("hyper_connection.sinkhorn_iterations", 0)},
        {"hyper_connection.epsilon", set("hyper_connection.epsilon", 0.0F)},
    };
    for (const auto& bad : cases) {
        EXPECT_THAT(error_of(bad.change), HasSubstr(std::string("key deepseek4.") + bad.key + " "));
    }
}

TEST(ModelConfig, ArraysAreCheckedElementByElement) {
    const char* ratios = "deepseek4.attention.compress_ratios";
    EXPECT_THAT(error_of([&](auto& b) {
                    b.set_i32_array(ratios, {0, 0, 4, 128, 4, 128});
                }),
                HasSubstr("compress_ratios has 6 elements, wanted 7"));
    EXPECT_THAT(error_of([&](auto& b) {
                    b.set_i32_array(ratios, {0, 0, 4, 64, 4, 128, 4});
                }),
                HasSubstr("compress_ratios element 3 is 64, wanted 0, 4 or 128"));
    EXPECT_THAT(error_of([&](auto& b) {
                    b.set_i32_array(ratios, {0, 0, 4, -4, 4, 128, 4});
                }),
                HasSubstr("compress_ratios element 3 is -4"));
    EXPECT_THAT(error_of([&](auto& b) { b.set_i32_array(ratios, std::vector<int32_t>(5000, 4)); }),
                HasSubstr("compress_ratios has 5000 elements"));
    EXPECT_THAT(error_of([](auto& b) {
                    b.set_f32_array("deepseek4.swiglu_clamp_exp", {1, 2});
                }),
                HasSubstr("swiglu_clamp_exp has 2 elements"));
    EXPECT_THAT(error_of([](auto& b) {
                    b.set_f32_array("deepseek4.swiglu_clamp_exp", {1, 2, NAN, 4, 5, 6, 7});
                }),
                HasSubstr("swiglu_clamp_exp element 2 is nan"));
    EXPECT_THAT(
        error_of([](auto& b) {
            b.set_i32_array("deepseek4.expert_feed_forward_length", {32, 32, 32, 64, 32, 32, 32});
        }),
        HasSubstr("expert_feed_forward_length element 3 is 64"));
}

TEST(ModelConfig, TailOfCompressRatiosIsIgnored) {
    const auto config = read([](auto& b) {
        b.set_i32_array("deepseek4.attention.compress_ratios", {0, 0, 4, 128, 4, 128, 4, 0, 0, 0});
    });
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->compress_ratios.size(), 7U);
}

TEST(ModelConfig, ScalarsStandForPerLayerArrays) {
    const auto config = read([](auto& b) {
        b.set_f32("deepseek4.swiglu_clamp_exp", 10);
        b.erase_key("deepseek4.swiglu_clamp_shexp");
        b.set_i32_array("deepseek4.expert_feed_forward_length", std::vector<int32_t>(7, 48));
    });
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->swiglu_clamp_exp, std::vector<float>(7, 10.0F));
    EXPECT_EQ(config->swiglu_clamp_shexp, config->swiglu_clamp_exp); // never 0
    EXPECT_EQ(config->expert_ffn, 48);
}

TEST(ModelConfig, DroppedRopeKeysAreAssumedWithALoudWarning) {
    const auto config = read([](auto& b) {
        b.erase_key("deepseek4.rope.scaling.type");
        b.erase_key("deepseek4.rope.scaling.factor");
        b.erase_key("deepseek4.rope.scaling.original_context_length");
        b.erase_key("deepseek4.rope.scaling.yarn_beta_fast");
        b.erase_key("deepseek4.rope.scaling.yarn_beta_slow");
        b.erase_key("deepseek4.context_length");
    });
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_FLOAT_EQ(config->rope_scaling_factor, 16);
    EXPECT_EQ(config->rope_original_context, 65536);
    EXPECT_FLOAT_EQ(config->yarn_beta_fast, 32);
    EXPECT_FLOAT_EQ(config->yarn_beta_slow, 1);
    EXPECT_EQ(config->context_length, 1048576);
    EXPECT_THAT(config->warnings, Contains(HasSubstr("rope.scaling.factor is missing")));
    EXPECT_THAT(config->warnings,
                Contains(HasSubstr("rope.scaling.original_context_length is missing")));
    EXPECT_THAT(error_of([](auto& b) { b.set_string("deepseek4.rope.scaling.type", "linear"); }),
                HasSubstr("rope.scaling.type is \"linear\", wanted \"yarn\""));
}

TEST(ModelConfig, TheVisionEpsilonIsKeptExactly) {
    const auto config =
        read([](auto& b) { b.set_f32("deepseek4.attention.layer_norm_rms_epsilon", 1e-20F); });
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->rms_eps, 1e-20F);
    EXPECT_THAT(config->warnings, IsEmpty());
}

TEST(ModelConfig, WarnsOfATextEpsilonInAVisionCheckpoint) {
    const auto config =
        read([](auto& b) { b.add("blk.0.exp_probs_b_vl.bias", {16}, QuantFormat::kF32); });
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_THAT(config->warnings, Contains(HasSubstr("layer_norm_rms_epsilon is 1e-6")));
}

TEST(ModelConfig, WarnsOfUnknownKeys) {
    const auto config = read([](auto& b) { b.set_u32("deepseek4.engram.table_size", 5); });
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_THAT(config->warnings, Contains(HasSubstr("engram.table_size")));
}

TEST(ModelConfig, RefusesOtherArchitecturesAndVariants) {
    EXPECT_THAT(error_of([](auto& b) { b.set_string("general.architecture", "clip"); }),
                HasSubstr("key general.architecture is \"clip\", wanted \"deepseek4\"; this is an "
                          "image projector, pass it as --mmproj"));
    EXPECT_THAT(error_of([](auto& b) { b.set_string("general.architecture", "deepseek41"); }),
                HasSubstr("key general.architecture is \"deepseek41\""));
    EXPECT_THAT(error_of([](auto& b) { b.erase_key("general.architecture"); }),
                HasSubstr("key general.architecture is missing"));
    EXPECT_THAT(error_of([](auto& b) { b.set_bool("reap.enabled", true); }),
                HasSubstr("key reap.enabled"));
    EXPECT_THAT(error_of([](auto& b) { b.set_u32("deepseek4.reap.enabled", 1); }),
                HasSubstr("key deepseek4.reap.enabled"));
    EXPECT_EQ(error_of([](auto& b) { b.set_bool("reap.enabled", false); }), "accepted");
    EXPECT_THAT(error_of([](auto& b) { b.set_u32("dspark.block_size", 5); }),
                HasSubstr("key dspark.block_size"));
}

TEST(ModelConfig, RefusesALanguageModelAsProjector) {
    const auto file = GgufFile::open(testing::unpacked("models/tiny-a-bf16.gguf"));
    ASSERT_TRUE(file.has_value());
    EXPECT_TRUE(require_language_model(*file).has_value());
    const Expected<void> projector = require_image_projector(*file);
    ASSERT_FALSE(projector.has_value());
    EXPECT_THAT(projector.error().message, HasSubstr("pass it as --model"));
}

TEST(ModelConfig, NeedsTheEmbedding) {
    EXPECT_THAT(error_of([](auto& b) { b.tensors.clear(); }),
                HasSubstr("tensor token_embd.weight is missing"));
}

// block_count 8 with the draft tensors in blk.7, or 7 with the same: the model has 7 layers. A
// count of draft layers without their tensors means nothing.
TEST(ModelConfig, DraftLayersAreCountedByTheirTensors) {
    for (const int32_t block_count : {7, 8}) {
        const auto config = read([&](auto& b) {
            b.set_i32("deepseek4.block_count", block_count);
            b.add("blk.7.nextn.eh_proj.weight", {256, 128}, QuantFormat::kF32);
        });
        ASSERT_TRUE(config.has_value()) << config.error().message;
        EXPECT_EQ(config->n_layers, 7);
        EXPECT_EQ(config->n_draft_layers, 1);
        EXPECT_THAT(config->warnings, Contains(HasSubstr("1 draft layer(s) from blk.7")));
    }
    const auto text = read([](auto& b) { b.set_u32("deepseek4.nextn_predict_layers", 1); });
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(text->n_draft_layers, 0);
    EXPECT_THAT(text->warnings, IsEmpty());
}

} // namespace
} // namespace dsv4v
