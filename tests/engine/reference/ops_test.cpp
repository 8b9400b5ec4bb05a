#include "engine/reference/ops.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

TEST(Ops, RmsNormScalesByWeight) {
    const std::vector<float> x = {3, -4, 0, 5};
    const std::vector<float> weight = {1, 2, 3, -1};
    std::vector<float> out(4);
    rms_norm(x.data(), weight.data(), 4, 0.5f, out.data());
    const float scale = 1 / std::sqrt(50.0f / 4 + 0.5f);
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_FLOAT_EQ(out[i], x[i] * scale * weight[i]) << i;
    }
    rms_norm(x.data(), nullptr, 4, 0.5f, out.data());
    EXPECT_FLOAT_EQ(out[1], -4 * scale);
}

TEST(Ops, TinyEpsilonSurvives) {
    const std::vector<float> zeros(8);
    EXPECT_FLOAT_EQ(inverse_rms(zeros.data(), 8, 1e-20f), 1e10f);
}

TEST(Ops, SqrtSoftplusCheckValues) {
    EXPECT_NEAR(sqrt_softplus(-20), 4.54e-5f, 1e-8f);
    EXPECT_NEAR(sqrt_softplus(-5), 0.0819472f, 1e-7f);
    EXPECT_NEAR(sqrt_softplus(0), 0.8325546f, 1e-7f);
    EXPECT_NEAR(sqrt_softplus(1), 1.1459763f, 1e-7f);
    EXPECT_NEAR(sqrt_softplus(20), 4.4721360f, 1e-6f);
    EXPECT_GT(sqrt_softplus(-50), 0.0f);
    EXPECT_FLOAT_EQ(sqrt_softplus(400), 20.0f);
}

TEST(Ops, SwigluClampsBeforeTheActivation) {
    const std::vector<float> gates = {1, 30, -30, -1};
    const std::vector<float> ups = {2, 1, 1, -30};
    std::vector<float> gate = gates;
    swiglu(gate.data(), ups.data(), 4, 10);
    EXPECT_FLOAT_EQ(gate[0], 2 * sigmoid(1));
    EXPECT_FLOAT_EQ(gate[1], 10 * sigmoid(10));
    EXPECT_FLOAT_EQ(gate[2], -30 * sigmoid(-30)); // the gate has no lower bound
    EXPECT_FLOAT_EQ(gate[3], -1 * sigmoid(-1) * -10);
    gate = gates;
    swiglu(gate.data(), ups.data(), 4, 0); // no clamp
    EXPECT_FLOAT_EQ(gate[1], 30 * sigmoid(30));
    EXPECT_FLOAT_EQ(gate[3], -1 * sigmoid(-1) * -30);
}

} // namespace
} // namespace dsv4v
