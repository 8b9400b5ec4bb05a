// The tensor list: each tensor missing, misshapen, misformatted or unknown is named.
#include "loaders/weights.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loaders/gguf_file.h"
#include "tests/gguf_builder.h"
#include "tests/golden.h"

namespace dsv4v {
namespace {

using testing::encode;
using testing::GgufBuilder;
using ::testing::HasSubstr;

// tiny-a without its matrix data (zeros instead): only the expert tables are looked at.
const GgufBuilder& tiny_a() {
    static const GgufBuilder builder = [] {
        GgufBuilder copy =
            GgufBuilder::copy_of(*GgufFile::open(testing::unpacked("models/tiny-a-bf16.gguf")));
        for (GgufBuilder::Tensor& tensor : copy.tensors) {
            if (!tensor.name.ends_with("tid2eid.weight")) {
                tensor.data.clear();
            }
        }
        return copy;
    }();
    return builder;
}

using Change = std::function<void(GgufBuilder&)>;

std::string bind(const Change& change, const std::function<void(const Weights&)>& look = {}) {
    GgufBuilder builder = tiny_a();
    change(builder);
    const std::string bytes = builder.build();
    const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "test.gguf");
    if (!file) {
        return file.error().message;
    }
    const auto config = ModelConfig::from_gguf(*file);
    if (!config) {
        return config.error().message;
    }
    const auto weights = Weights::bind(*file, *config);
    if (weights && look) {
        look(*weights);
    }
    return weights ? "accepted" : weights.error().message;
}

bool is_optional(const std::string& name) {
    return name.ends_with("exp_probs_b_vl.bias");
}

TEST(Weights, AcceptsTheModelThatTheBrokenOnesStartFrom) {
    EXPECT_EQ(bind([](auto&) {}), "accepted");
}

TEST(Weights, NamesEveryMissingTensor) {
    for (size_t i = 0; i < tiny_a().tensors.size(); ++i) {
        const std::string name = tiny_a().tensors[i].name;
        const std::string message = bind([&](GgufBuilder& b) { b.erase_tensor(name); });
        EXPECT_THAT(message, HasSubstr("tensor " + name + " is missing"));
    }
}

TEST(Weights, NamesEveryMisshapenTensor) {
    for (size_t i = 0; i < tiny_a().tensors.size(); ++i) {
        const std::string name = tiny_a().tensors[i].name;
        const std::string message = bind([&](GgufBuilder& b) {
            GgufBuilder::Tensor& tensor = b.tensor(name);
            tensor.ne.back() *= 2;
            tensor.n_bytes *= 2;
        });
        EXPECT_THAT(message, HasSubstr(name));
        EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("wanted"), HasSubstr("rows")));
    }
}

TEST(Weights, NamesATransposedMatrix) {
    EXPECT_THAT(bind([](auto& b) {
                    b.tensor("blk.4.attn_kv.weight").ne = {64, 128};
                }),
                HasSubstr("tensor blk.4.attn_kv.weight has shape [64, 128], wanted [128, 64]"));
}

TEST(Weights, NamesUnknownTensors) {
    for (const char* name : {"blk.0.attn_kv_b.weight", "blk.7.attn_norm.weight", "mtp.0.e_proj",
                             "dspark.fc.weight", "rope_freqs.weight"}) {
        EXPECT_THAT(bind([&](GgufBuilder& b) { b.add(name, {64}, QuantFormat::kF32); }),
                    HasSubstr(std::string("tensor ") + name + " is not part of this model"));
    }
}

TEST(Weights, ChecksFormats) {
    const auto with_format = [](const char* name, QuantFormat format) {
        return bind([&](GgufBuilder& b) {
            const std::vector<uint64_t> ne = b.tensor(name).ne;
            b.erase_tensor(name);
            b.add(name, ne, format);
        });
    };
    EXPECT_THAT(with_format("output_norm.weight", QuantFormat::kQ8_0),
                HasSubstr("tensor output_norm.weight has format Q8_0, wanted F32, F16 or BF16"));
    EXPECT_THAT(with_format("blk.3.ffn_gate_inp.weight", QuantFormat::kQ8_0),
                HasSubstr("tensor blk.3.ffn_gate_inp.weight has format Q8_0"));
    EXPECT_THAT(with_format("blk.3.exp_probs_b.bias", QuantFormat::kI32),
                HasSubstr("tensor blk.3.exp_probs_b.bias has format I32"));
    EXPECT_THAT(
        with_format("blk.3.attn_kv.weight", QuantFormat::kI32),
        HasSubstr("tensor blk.3.attn_kv.weight has format I32, wanted a format of weights"));
    EXPECT_THAT(with_format("blk.0.ffn_gate_tid2eid.weight", QuantFormat::kF32),
                HasSubstr("tensor blk.0.ffn_gate_tid2eid.weight has format F32, wanted I32"));
    // Generic quantizers turn every other matrix into the base format, hyper-connections included.
    EXPECT_EQ(with_format("blk.3.hc_attn_fn.weight", QuantFormat::kIQ1_S), "accepted");
    EXPECT_EQ(with_format("blk.3.attn_compressor_ape.weight", QuantFormat::kQ8_0), "accepted");
}

TEST(Weights, AcceptsAStackedOutputMatrixInThreeDimensions) {
    const std::string result = bind(
        [](auto& b) {
            b.tensor("blk.1.attn_output_a.weight").ne = {128, 32, 2};
        },
        [](const Weights& w) {
            EXPECT_EQ(w.layers[1].attn_output_a.ne, (std::array<int64_t, 4>{128, 64, 1, 1}));
        });
    EXPECT_EQ(result, "accepted");
    EXPECT_THAT(bind([](auto& b) {
                    b.tensor("blk.1.attn_output_a.weight").ne = {128, 16, 4};
                }),
                HasSubstr("tensor blk.1.attn_output_a.weight has shape [128, 16, 4]"));
}

TEST(Weights, ImageBiasComesWithAllLayersOrNone) {
    const auto text_only = [](GgufBuilder& b) {
        std::erase_if(b.tensors, [](const auto& t) { return is_optional(t.name); });
    };
    EXPECT_EQ(bind(text_only, [](const Weights& w) { EXPECT_FALSE(w.has_image_bias); }),
              "accepted");
    EXPECT_THAT(bind([](auto& b) { b.erase_tensor("blk.5.exp_probs_b_vl.bias"); }),
                HasSubstr("tensor blk.5.exp_probs_b_vl.bias is missing"));
}

TEST(Weights, BiasOfAHashLayerIsAcceptedAndNotUsed) {
    const std::string result =
        bind([](auto& b) { b.add("blk.0.exp_probs_b.bias", {16}, QuantFormat::kF32); },
             [](const Weights& w) { EXPECT_TRUE(w.layers[0].exp_probs_b.empty()); });
    EXPECT_EQ(result, "accepted");
    EXPECT_THAT(bind([](auto& b) { b.add("blk.0.exp_probs_b.bias", {17}, QuantFormat::kF32); }),
                HasSubstr("tensor blk.0.exp_probs_b.bias has shape [17], wanted [16]"));
}

TEST(Weights, ExpertTableIndexesExistingDistinctExperts) {
    const auto with_entry = [](size_t entry, int32_t expert) {
        return bind([&](GgufBuilder& b) {
            b.tensor("blk.1.ffn_gate_tid2eid.weight").data.replace(entry * 4, 4, encode(expert));
        });
    };
    const std::string at = "tensor blk.1.ffn_gate_tid2eid.weight: row ";
    EXPECT_THAT(with_entry(0, 16), HasSubstr(at + "0 holds expert 16, wanted 0 to 15"));
    EXPECT_THAT(with_entry(2047, -1), HasSubstr(at + "511 holds expert -1"));
    EXPECT_THAT(with_entry(9, INT32_MAX), HasSubstr(at + "2 holds expert 2147483647"));
    EXPECT_THAT(bind([](GgufBuilder& b) {
                    std::string& data = b.tensor("blk.1.ffn_gate_tid2eid.weight").data;
                    data.replace(4, 4, data.substr(0, 4));
                }),
                HasSubstr(at + "0 holds expert"));
}

TEST(Weights, DraftLayerTensorsAreIgnored) {
    EXPECT_EQ(bind([](GgufBuilder& b) {
                  b.add("blk.7.nextn.eh_proj.weight", {256, 128}, QuantFormat::kF32);
                  b.add("blk.7.attn_norm.weight", {128}, QuantFormat::kF32);
              }),
              "accepted");
}

} // namespace
} // namespace dsv4v
