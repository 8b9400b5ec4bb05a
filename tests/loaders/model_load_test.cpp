// The golden models through ModelConfig, Weights and Vocab.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loaders/gguf_file.h"
#include "loaders/model_config.h"
#include "loaders/vocab.h"
#include "loaders/weights.h"
#include "tests/gguf_builder.h"
#include "tests/golden.h"

namespace dsv4v {
namespace {

using testing::unpacked;

struct Loaded {
    GgufFile file;
    ModelConfig config;
    Weights weights;
    Vocab vocab;
};

Expected<Loaded> load(const std::string& path) {
    DSV4V_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
    DSV4V_ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::from_gguf(file));
    DSV4V_ASSIGN_OR_RETURN(Weights weights, Weights::bind(file, config));
    DSV4V_ASSIGN_OR_RETURN(Vocab vocab, Vocab::from_gguf(file));
    return Loaded{std::move(file), std::move(config), std::move(weights), std::move(vocab)};
}

TEST(ModelLoad, ReadsTinyA) {
    for (const char* name : {"models/tiny-a-bf16.gguf", "models/tiny-a-mixf.gguf"}) {
        SCOPED_TRACE(name);
        const Expected<Loaded> model = load(unpacked(name));
        ASSERT_TRUE(model.has_value()) << model.error().message;
        const ModelConfig& c = model->config;
        EXPECT_EQ(c.name, "tiny-a");
        EXPECT_EQ(c.n_layers, 7);
        EXPECT_EQ(c.n_draft_layers, 0);
        EXPECT_EQ(c.context_length, 1024);
        EXPECT_EQ(c.hidden, 128);
        EXPECT_EQ(c.vocab_size, 512);
        EXPECT_EQ(c.n_heads, 4);
        EXPECT_EQ(c.head_dim, 64);
        EXPECT_EQ(c.rope_dim, 16);
        EXPECT_EQ(c.q_lora_rank, 64);
        EXPECT_EQ(c.sliding_window, 32);
        EXPECT_EQ(c.n_output_groups, 2);
        EXPECT_EQ(c.output_lora_rank, 32);
        EXPECT_EQ(c.n_indexer_heads, 16);
        EXPECT_EQ(c.indexer_dim, 64);
        EXPECT_EQ(c.indexer_top_k, 24);
        EXPECT_EQ(c.compress_ratios, (std::vector<int32_t>{0, 0, 4, 128, 4, 128, 4}));
        EXPECT_FLOAT_EQ(c.rms_eps, 1e-6F);
        EXPECT_FLOAT_EQ(c.rope_freq_base, 1e4F);
        EXPECT_FLOAT_EQ(c.compress_rope_freq_base, 1.6e5F);
        EXPECT_FLOAT_EQ(c.rope_scaling_factor, 4);
        EXPECT_EQ(c.rope_original_context, 256);
        EXPECT_FLOAT_EQ(c.yarn_beta_fast, 32);
        EXPECT_FLOAT_EQ(c.yarn_beta_slow, 1);
        EXPECT_EQ(c.n_hc_streams, 4);
        EXPECT_EQ(c.n_sinkhorn_iterations, 20);
        EXPECT_FLOAT_EQ(c.hc_eps, 1e-6F);
        EXPECT_EQ(c.n_hash_layers, 2);
        EXPECT_EQ(c.n_experts, 16);
        EXPECT_EQ(c.n_experts_used, 4);
        EXPECT_EQ(c.expert_ffn, 32);
        EXPECT_FLOAT_EQ(c.expert_weights_scale, 1.5F);
        EXPECT_EQ(c.swiglu_clamp_exp, std::vector<float>(7, 2.0F));
        EXPECT_EQ(c.swiglu_clamp_shexp, std::vector<float>(7, 2.0F));
        EXPECT_TRUE(model->weights.has_image_bias);
        EXPECT_EQ(model->weights.layers.size(), 7U);
        EXPECT_TRUE(model->weights.layers[0].exp_probs_b.empty());
        EXPECT_TRUE(model->weights.layers[0].attn_compressor_kv.empty());
        EXPECT_FALSE(model->weights.layers[2].indexer_proj.empty());
        EXPECT_TRUE(model->weights.layers[3].indexer_proj.empty());
        EXPECT_EQ(model->vocab.tokens.size(), 512U);
        EXPECT_EQ(model->vocab.merges.size(), 248U);
        EXPECT_EQ(model->vocab.types[0], TokenType::kControl);
        EXPECT_EQ(model->vocab.eos_id, 1);
    }
}

TEST(ModelLoad, ReadsTinyBFromThreeShards) {
    const Expected<Loaded> model = load(unpacked("models/tiny-b-mixed-00001-of-00003.gguf"));
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->config.n_layers, 6);
    EXPECT_EQ(model->config.head_dim, 512);
    EXPECT_EQ(model->config.context_length, 1048576);
    EXPECT_EQ(model->weights.token_embd.format, QuantFormat::kQ4_K);
    EXPECT_EQ(model->weights.output.format, QuantFormat::kQ6_K);
    EXPECT_EQ(model->weights.layers[2].ffn_down_exps.format, QuantFormat::kQ2_K);
    EXPECT_EQ(model->weights.layers[2].ffn_gate_tid2eid.ne[1], 512);
}

// The fuzzer starts from this small file to get past the parser; it has one layer of each kind.
TEST(ModelLoad, TheFuzzSeedIsAWholeModel) {
    const Expected<Loaded> model =
        load(testing::source_root() + "/tests/fuzz/seeds/gguf/whole-model.gguf");
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->config.compress_ratios, (std::vector<int32_t>{0, 4, 128}));
    EXPECT_TRUE(model->weights.has_image_bias);
}

// Damages one byte of the header at a time and loads the rest of the way.
TEST(ModelLoad, SurvivesByteFlipsOfAWholeModelHeader) {
    testing::GgufBuilder builder =
        testing::GgufBuilder::copy_of(*GgufFile::open(unpacked("models/tiny-a-bf16.gguf")));
    builder.erase_key("tokenizer.ggml.merges"); // long, and no different from the tokens
    builder.set_string_array("tokenizer.ggml.merges", {"a b"});
    for (testing::GgufBuilder::Tensor& tensor : builder.tensors) {
        tensor.data.clear();
    }
    std::string bytes = builder.build();
    const size_t n_header_bytes = builder.header().size();
    size_t n_refused = 0;
    for (size_t i = 0; i < n_header_bytes; i += 5) {
        const char before = bytes[i];
        bytes[i] = static_cast<char>(before ^ (i % 2 == 0 ? 0xff : 0x01));
        const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "test.gguf");
        if (!file) {
            ++n_refused;
        } else if (const auto config = ModelConfig::from_gguf(*file)) {
            n_refused += Weights::bind(*file, *config) && Vocab::from_gguf(*file) ? 0 : 1;
        }
        bytes[i] = before;
    }
    EXPECT_GT(n_refused, 100U);
}

} // namespace
} // namespace dsv4v
