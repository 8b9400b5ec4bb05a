#include "engine/reference/moe.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/ops.h"

namespace dsv4v {
namespace {

TEST(Router, BiasChoosesButDoesNotWeigh) {
    const std::vector<float> scores = {1, 2, 3, 4};
    const std::vector<float> bias = {10, 0, 0, -9};
    std::vector<int32_t> ids(2);
    choose_experts(scores.data(), bias.data(), 4, 2, ids.data());
    EXPECT_EQ(ids, (std::vector<int32_t>{0, 2}));
    std::vector<float> weights(2);
    weigh_experts(scores.data(), ids.data(), 2, 1.5f, weights.data());
    EXPECT_FLOAT_EQ(weights[0], 1.5f * 1 / 4);
    EXPECT_FLOAT_EQ(weights[1], 1.5f * 3 / 4);
}

TEST(Router, TiesTakeTheLowerExpert) {
    const std::vector<float> scores = {1, 5, 5, 5, 7, 5};
    const std::vector<float> bias(6);
    std::vector<int32_t> ids(3);
    choose_experts(scores.data(), bias.data(), 6, 3, ids.data());
    EXPECT_EQ(ids, (std::vector<int32_t>{4, 1, 2}));
}

TEST(Router, TwoBiasesChooseDifferently) {
    const std::vector<float> scores = {1, 1.1f, 1.2f};
    const std::vector<float> text_bias = {0.5f, 0, 0};
    const std::vector<float> other_bias = {0, 0.5f, 0};
    int32_t id = -1;
    choose_experts(scores.data(), text_bias.data(), 3, 1, &id);
    EXPECT_EQ(id, 0);
    choose_experts(scores.data(), other_bias.data(), 3, 1, &id);
    EXPECT_EQ(id, 1);
}

TEST(Router, VeryNegativeLogitsGiveFiniteWeights) {
    std::vector<float> scores(8, sqrt_softplus(-50));
    const std::vector<float> bias(8);
    std::vector<int32_t> ids(4);
    std::vector<float> weights(4);
    choose_experts(scores.data(), bias.data(), 8, 4, ids.data());
    weigh_experts(scores.data(), ids.data(), 4, 1.5f, weights.data());
    for (const float weight : weights) {
        EXPECT_TRUE(std::isfinite(weight));
    }
    scores.assign(8, 0.0f);
    weigh_experts(scores.data(), ids.data(), 4, 1.5f, weights.data());
    EXPECT_EQ(weights, std::vector<float>(4));
}

TEST(Router, NanStillGivesValidExperts) {
    const std::vector<float> scores(6, NAN);
    const std::vector<float> bias(6);
    std::vector<int32_t> ids(4);
    choose_experts(scores.data(), bias.data(), 6, 4, ids.data());
    EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 2, 3}));
}

} // namespace
} // namespace dsv4v
