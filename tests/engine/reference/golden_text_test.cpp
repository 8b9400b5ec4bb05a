// The language model against the golden outputs of the small models: text, plain numerics.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/reference/logit_compare.h"
#include "tests/engine/reference/model_runner.h"

namespace dsv4v::testing {
namespace {

struct GoldenCase {
    const char* label;
    const char* model;
    const char* prefix; // of the golden files
};

std::ostream& operator<<(std::ostream& out, const GoldenCase& golden) {
    return out << golden.label;
}

class GoldenText : public ::testing::TestWithParam<GoldenCase> {
  protected:
    [[nodiscard]] GoldenFile golden(const std::string& kind) const {
        return GoldenFile(
            unpacked(std::string("models/") + GetParam().prefix + "." + kind + ".safetensors"));
    }
    [[nodiscard]] const ModelConfig& config() const { return load_model(GetParam().model).config; }
    [[nodiscard]] std::string layer_name(int32_t layer_idx, const std::string& name) const {
        std::string full_name = "L0";
        full_name += std::to_string(layer_idx);
        return full_name + '.' + name;
    }
    // Per position, over all layers: how close the nearest choice of experts or rows was.
    [[nodiscard]] std::vector<float> smallest_margins() const {
        std::vector<float> smallest(700, INFINITY);
        const GoldenFile file = golden("decisions700");
        for (const auto& [name, tensor] : file.tensors()) {
            for (size_t i = 0; name.ends_with("_margin") && i < smallest.size(); ++i) {
                smallest[i] = std::min(smallest[i], tensor.values[i]);
            }
        }
        return smallest;
    }
};

INSTANTIATE_TEST_SUITE_P(TinyModels, GoldenText,
                         ::testing::Values(GoldenCase{"a_bf16", kTinyA, "tiny-a"},
                                           GoldenCase{"a_mixed", kTinyAMixed, "tiny-a"},
                                           GoldenCase{"b_quantized", kTinyB, "tiny-b"}),
                         [](const auto& param) { return std::string(param.param.label); });

TEST_P(GoldenText, LogitsOf700Tokens) {
    const GoldenFile file = golden("logits700");
    const std::vector<int32_t> tokens = as_ids(file.at("tokens").values);
    ASSERT_EQ(tokens.size(), 700u);
    const auto backend = make_backend(GetParam().model, one_sequence(Numerics::kPlain));
    const std::vector<float> logits = run_alone(*backend, tokens, 700);

    const std::vector<float> worst =
        worst_per_position(file.at("positions"), file.at("logits"), logits);
    const float largest = *std::max_element(worst.begin(), worst.end());
    RecordProperty("max_abs_difference", std::to_string(largest));
    RecordProperty("median_difference", std::to_string(median(worst)));
    EXPECT_LE(largest, 2e-3f);
    EXPECT_LE(median(worst), 1e-4f);

    const auto vocab = static_cast<size_t>(config().vocab_size);
    const std::vector<float> margin = smallest_margins();
    int n_compared = 0;
    for (size_t position = 0; position < 700; ++position) {
        const float* row = logits.data() + position * vocab;
        if (margin[position] > 1e-5f) { // else an equally good choice of experts or rows
            EXPECT_NEAR(*std::max_element(row, row + vocab),
                        file.at("max_logit_all").values[position], 2e-3f)
                << position;
        }
        if (file.at("top1_minus_top2_all").values[position] > 5e-3f) {
            EXPECT_EQ(static_cast<float>(argmax(row, vocab)),
                      file.at("argmax_all").values[position])
                << position;
            ++n_compared;
        }
    }
    EXPECT_GT(n_compared, 650);
}

// Experts or rows chosen at one position: equal as sets.
std::vector<float> sorted_entry(const std::vector<float>& values, size_t position, size_t width) {
    const auto begin = values.begin() + static_cast<int64_t>(position * width);
    std::vector<float> entry(begin, begin + static_cast<int64_t>(width));
    std::sort(entry.begin(), entry.end());
    return entry;
}

// Returns how many positions had a margin above 1e-4; those must agree.
int compare_choices(const GoldenTensor& golden, const GoldenTensor* margin,
                    const std::vector<float>& actual, const std::string& name) {
    const auto width = static_cast<size_t>(golden.shape[1]);
    EXPECT_EQ(actual.size(), golden.values.size()) << name;
    int n_compared = 0;
    for (size_t position = 0; position < 700; ++position) {
        if (margin != nullptr && margin->values[position] <= 1e-4f) {
            continue;
        }
        EXPECT_EQ(sorted_entry(actual, position, width),
                  sorted_entry(golden.values, position, width))
            << name << " at " << position;
        ++n_compared;
    }
    return n_compared;
}

// Every `stride`-th row of `actual`, as many as the golden has.
double compressed_row_error(const GoldenTensor& golden, const std::vector<float>& actual,
                            size_t stride) {
    const auto width = static_cast<size_t>(golden.shape[1]);
    std::vector<float> picked;
    for (size_t row = 0; row < static_cast<size_t>(golden.shape[0]); ++row) {
        const auto begin = actual.begin() + static_cast<int64_t>(row * stride * width);
        picked.insert(picked.end(), begin, begin + static_cast<int64_t>(width));
    }
    return relative_l2(picked, golden.values);
}

TEST_P(GoldenText, DecisionsOf700Tokens) {
    const GoldenFile file = golden("decisions700");
    const std::vector<int32_t> tokens = as_ids(golden("logits700").at("tokens").values);
    const auto backend = make_backend(GetParam().model, one_sequence(Numerics::kPlain));
    CollectingProbe probe;
    run_alone(*backend, tokens, 700, &probe);
    for (int32_t i = 0; i < config().n_layers; ++i) {
        std::string layer = std::to_string(i);
        layer = 'L' + layer + '.';
        const bool hash = config().is_hash_layer(i);
        const std::vector<float>& ids = probe.at(layer_name(i, "expert_ids"));
        const GoldenTensor* margin = hash ? nullptr : &file.at(layer + "router_margin");
        EXPECT_GT(compare_choices(file.at(layer + "expert_ids"), margin, ids, layer + "expert_ids"),
                  690);
        if (hash) {
            EXPECT_EQ(ids, file.at(layer + "expert_ids").values) << layer; // table order
        }
        if (config().layer_kind(i) == LayerKind::kCsa) {
            EXPECT_GT(compare_choices(
                          file.at(layer + "indexer_selected"), &file.at(layer + "indexer_margin"),
                          probe.at(layer_name(i, "indexer_selected")), layer + "indexer_selected"),
                      690);
            EXPECT_LE(compressed_row_error(file.at(layer + "csa_rows_every8"),
                                           probe.at(layer_name(i, "csa_rows")), 8),
                      1e-5)
                << layer;
            EXPECT_LE(compressed_row_error(file.at(layer + "lid_rows_every8"),
                                           probe.at(layer_name(i, "lid_rows")), 8),
                      1e-5)
                << layer;
        }
        if (config().layer_kind(i) == LayerKind::kHca) {
            EXPECT_LE(compressed_row_error(file.at(layer + "hca_rows"),
                                           probe.at(layer_name(i, "hca_rows")), 1),
                      1e-5)
                << layer;
        }
    }
}

// "L2.attn_norm" -> "L02.attn_norm"; the last golden name differs.
std::string probe_name(const std::string& golden_name) {
    if (golden_name == "result_output") {
        return "logits";
    }
    std::string name = golden_name;
    if (name[0] == 'L') {
        name.insert(1, 1, '0');
    }
    return name;
}

TEST_P(GoldenText, EveryIntermediateValue) {
    const bool is_a = std::string(GetParam().prefix) == "tiny-a";
    const GoldenFile file = golden(is_a ? "trace12" : "trace8");
    const std::vector<int32_t> tokens = as_ids(file.at("tokens").values);
    const auto backend = make_backend(GetParam().model, one_sequence(Numerics::kPlain));
    CollectingProbe probe;
    run_alone(*backend, tokens, 700, &probe);
    int n_compared = 0;
    for (const auto& [name, tensor] : file.tensors()) {
        if (name == "tokens") {
            continue;
        }
        const std::vector<float>& actual = probe.at(probe_name(name));
        ASSERT_EQ(actual.size(), tensor.values.size()) << name;
        const bool is_comb = name.find("_hc.comb") != std::string::npos;
        EXPECT_LE(relative_l2(actual, tensor.values), is_comb ? 1e-6 : 1e-5) << name;
        ++n_compared;
    }
    EXPECT_GT(n_compared, 90);
}

} // namespace
} // namespace dsv4v::testing
