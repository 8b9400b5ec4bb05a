#include "engine/reference/hyper_connection.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/ops.h"

namespace dsv4v {
namespace {

// The worked example, and how far an iteration more or less moves it.
TEST(HyperConnection, SinkhornValues) {
    const std::vector<float> start = {.5f, -1, .25f, 2,   1.5f, 0,    -.5f,   -2,
                                      -1,  1,  0,    .5f, 0,    .75f, -1.25f, 1};
    const std::vector<float> expected = {.156826f, .038168f, .307625f, .497380f, .622811f, .151578f,
                                         .212300f, .013310f, .052418f, .422457f, .358879f, .166245f,
                                         .167944f, .387796f, .121194f, .323065f};
    std::vector<float> comb = start;
    sinkhorn(comb.data(), 4, 20, 1e-6f);
    for (size_t i = 0; i < 16; ++i) {
        EXPECT_NEAR(comb[i], expected[i], 2e-6f) << i;
    }
    std::vector<float> fewer = start;
    sinkhorn(fewer.data(), 4, 3, 1e-6f);
    EXPECT_GT(std::fabs(fewer[0] - expected[0]), 1e-5f);
}

// One iteration is softmax plus eps, then columns only: their sums are one, row sums are not.
TEST(HyperConnection, SinkhornEndsOnColumns) {
    std::vector<float> comb = {0, 1, 2, 5};
    sinkhorn(comb.data(), 2, 1, 0.0f);
    const float a = sigmoid(-1);
    const float c = sigmoid(-3);
    EXPECT_NEAR(comb[0], a / (a + c), 1e-6f);
    EXPECT_NEAR(comb[1], (1 - a) / (2 - a - c), 1e-6f);
    EXPECT_NEAR(comb[0] + comb[2], 1, 1e-6f);
    sinkhorn(comb.data(), 2, 20, 1e-2f);
    EXPECT_NEAR(comb[0] + comb[2], 1, 2e-2f);
    EXPECT_LT(comb[0] + comb[2], 1 - 1e-3f); // eps stays in every denominator
}

TEST(HyperConnection, CoefficientsSplitTheMixes) {
    const std::vector<float> mixes = {.1f, .2f, .3f, .4f, 1, 2, 3, 4};
    const std::vector<float> base = {.5f, 0, .25f, 0, 0, 0, 0, 1};
    const std::vector<float> scale = {2, 3, 4};
    std::vector<float> pre(2);
    std::vector<float> post(2);
    std::vector<float> comb(4);
    hc_coefficients({mixes.data(), base.data(), scale.data(), 2, 20, .01f, pre.data(), post.data(),
                     comb.data()});
    EXPECT_FLOAT_EQ(pre[0], sigmoid(.1f * 2 + .5f) + .01f);
    EXPECT_FLOAT_EQ(pre[1], sigmoid(.2f * 2) + .01f);
    EXPECT_FLOAT_EQ(post[0], 2 * sigmoid(.3f * 3 + .25f));
    EXPECT_FLOAT_EQ(post[1], 2 * sigmoid(.4f * 3));
    std::vector<float> expected = {4, 8, 12, 17};
    sinkhorn(expected.data(), 2, 20, .01f);
    EXPECT_EQ(comb, expected);
}

TEST(HyperConnection, HeadHasNoNormalization) {
    const std::vector<float> mixes = {1, -1};
    const std::vector<float> base = {0, .5f};
    std::vector<float> pre(2);
    hc_head_weights(mixes.data(), base.data(), 3, 2, .125f, pre.data());
    EXPECT_FLOAT_EQ(pre[0], sigmoid(3) + .125f);
    EXPECT_FLOAT_EQ(pre[1], sigmoid(-2.5f) + .125f);
}

TEST(HyperConnection, StreamsMixAndSpread) {
    const std::vector<float> streams = {1, 2, 10, 20}; // two streams of width 2
    const std::vector<float> pre = {3, .5f};
    std::vector<float> mixed(2);
    hc_mix(streams.data(), pre.data(), 2, 2, mixed.data());
    EXPECT_EQ(mixed, (std::vector<float>{8, 16}));

    const std::vector<float> y = {100, 200};
    const std::vector<float> post = {1, 2};
    const std::vector<float> comb = {1, 2, 3, 4}; // source-major
    std::vector<float> next(4);
    hc_post(streams.data(), y.data(), post.data(), comb.data(), 2, 2, next.data());
    EXPECT_EQ(next, (std::vector<float>{131, 262, 242, 484}));
}

} // namespace
} // namespace dsv4v
