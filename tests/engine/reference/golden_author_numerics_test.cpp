// The author's FP8 and FP4 round trips against golden outputs. Rounding turns a last-bit difference
// into a grid step, so two correct float32 programs agree exactly only until the first such flip.
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/numeric_sim.h"
#include "tests/engine/reference/logit_compare.h"
#include "tests/engine/reference/model_runner.h"

namespace dsv4v::testing {
namespace {

GoldenFile golden() {
    return GoldenFile(unpacked("models/tiny-b.qat700.safetensors"));
}

std::vector<int32_t> prompt() {
    return as_ids(GoldenFile(unpacked("models/tiny-b.logits700.safetensors")).at("tokens").values);
}

std::vector<float> run(Numerics numerics) {
    const auto backend = make_backend(kTinyB, one_sequence(numerics));
    return run_alone(*backend, prompt(), 700);
}

TEST(GoldenAuthorNumerics, LogitsOf700Tokens) {
    const GoldenFile file = golden();
    const std::vector<float> logits = run(Numerics::kAuthor);
    const GoldenTensor& positions = file.at("positions");
    const GoldenTensor& expected = file.at("logits");
    const std::vector<float> worst = worst_per_position(positions, expected, logits);
    double divergence = 0;
    size_t n_exact = 0;
    for (size_t i = 0; i < worst.size(); ++i) {
        const auto position = static_cast<size_t>(positions.values[i]);
        if (position <= 17) {
            EXPECT_LE(worst[i], 1e-4f) << position;
            ++n_exact;
        }
        divergence +=
            kl_divergence(expected.values.data() + i * 512, logits.data() + position * 512, 512);
    }
    EXPECT_GE(n_exact, 10u);
    EXPECT_LE(median(worst), 0.05f);
    EXPECT_LE(divergence / static_cast<double>(worst.size()), 2e-3);
    int n_equal = 0;
    for (size_t position = 0; position < 700; ++position) {
        n_equal += static_cast<float>(argmax(logits.data() + position * 512, 512)) ==
                   file.at("argmax_all").values[position];
    }
    EXPECT_GE(n_equal, 679); // 97 %
    RecordProperty("median_difference", std::to_string(median(worst)));
    RecordProperty("top1_equal", n_equal);
}

// The switch works in both directions: plain numerics are far from these goldens.
TEST(GoldenAuthorNumerics, PlainIsSomethingElse) {
    const GoldenFile file = golden();
    EXPECT_GT(
        median(worst_per_position(file.at("positions"), file.at("logits"), run(Numerics::kPlain))),
        0.2f);
}

TEST(GoldenAuthorNumerics, RoundedRows) {
    const GoldenFile file = golden();
    const auto backend = make_backend(kTinyB, one_sequence(Numerics::kAuthor));
    CollectingProbe probe;
    const std::vector<int32_t> tokens = prompt();
    run_alone(*backend, std::span(tokens).first(256), 256, &probe);
    // Rows of the first positions come before any flip; a ratio-128 row pools 128 positions.
    struct Rows {
        const char* golden;
        const char* name;
        double equal_share;
    };
    const std::vector<Rows> all_rows = {{"L2.kv_rows_t0_7", "L02.kv_rows", 0.995},
                                        {"L3.kv_rows_t0_7", "L03.kv_rows", 0.995},
                                        {"L2.csa_rows_0_7", "L02.csa_rows", 0.995},
                                        {"L3.hca_rows_0_1", "L03.hca_rows", 0.8},
                                        {"L2.lid_rows_0_7", "L02.lid_rows", 0.995}};
    for (const auto& [golden_name, name, equal_share] : all_rows) {
        const std::vector<float>& expected = file.at(golden_name).values;
        const std::vector<float>& actual = probe.at(name);
        size_t n_equal = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
            n_equal += std::fabs(actual[i] - expected[i]) <= 1e-5f * (1 + std::fabs(expected[i]));
        }
        EXPECT_GE(static_cast<double>(n_equal), equal_share * static_cast<double>(expected.size()))
            << name;
        EXPECT_LE(relative_l2(std::span(actual).first(expected.size()), expected), 2e-2) << name;
    }
    // Query of position 31: golden before rounding, probe after.
    std::vector<float> query = file.at("L2.lid_q_t31_before_fp4").values;
    fp4_sim32(query.data(), static_cast<int64_t>(query.size()));
    const std::vector<float>& queries = probe.at("L02.lid_q");
    size_t n_equal = 0;
    for (size_t i = 0; i < query.size(); ++i) {
        n_equal += queries[31 * query.size() + i] == query[i];
    }
    EXPECT_GE(static_cast<double>(n_equal), 0.995 * static_cast<double>(query.size()));
}

} // namespace
} // namespace dsv4v::testing
