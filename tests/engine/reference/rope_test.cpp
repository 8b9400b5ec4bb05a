#include "engine/reference/rope.h"

#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

const YarnParams kRealYarn{16, 65536, 32, 1};

void expect_angle(const std::vector<double>& frequencies, int64_t position, size_t pair, float cos,
                  float sin) {
    std::vector<float> angles(frequencies.size() * 2);
    rope_angles(frequencies, position, angles.data());
    EXPECT_NEAR(angles[2 * pair], cos, 1e-6f) << pair;
    EXPECT_NEAR(angles[2 * pair + 1], sin, 1e-6f) << pair;
}

TEST(Rope, PlainSpotValues) {
    const std::vector<double> f = rope_frequencies(64, 10000);
    ASSERT_EQ(f.size(), 32u);
    expect_angle(f, 1000, 1, -0.5845793f, 0.8113366f);
    expect_angle(f, 1000, 16, -0.8390715f, -0.5440211f);
    expect_angle(f, 1000, 31, 0.9911218f, 0.1329573f);
}

TEST(Rope, YarnFrequencies) {
    const std::vector<double> f = yarn_rope_frequencies(64, 160000, kRealYarn);
    const std::vector<double> from_15 = {
        3.635538584e-3, 2.265625000e-3, 1.396801295e-3, 8.496897268e-4, 5.080819630e-4,
        2.969777783e-4, 1.681799886e-4, 9.086784295e-5, 4.544423230e-5, 1.953125000e-5,
        5.372312671e-6, 3.694303160e-6, 2.540409815e-6, 1.746928107e-6, 1.201285633e-6,
        8.260712996e-7, 5.680529037e-7};
    const std::vector<double> plain = rope_frequencies(64, 160000);
    for (size_t i = 0; i < 15; ++i) {
        EXPECT_DOUBLE_EQ(f[i], plain[i]) << i;
    }
    for (size_t i = 15; i < 32; ++i) {
        EXPECT_NEAR(f[i] / from_15[i - 15], 1, 1e-9) << i;
    }
}

TEST(Rope, YarnSpotValues) {
    const std::vector<double> f = yarn_rope_frequencies(64, 160000, kRealYarn);
    expect_angle(f, 1000, 1, -0.9384196f, 0.3454978f);
    expect_angle(f, 1000, 16, -0.6402538f, 0.7681634f);
    expect_angle(f, 1000, 20, 0.9562253f, 0.2926316f);
    expect_angle(f, 1000, 31, 0.9999998f, 0.0005681f);
}

TEST(Rope, AdjacentPairsTurn) {
    const std::vector<float> quarter = {0, 1, 1, 0}; // first pair by 90 degrees, second not
    std::vector<float> x = {1, 2, 3, 4};
    rope_apply(x.data(), quarter.data(), 4);
    EXPECT_EQ(x, (std::vector<float>{-2, 1, 3, 4}));
}

TEST(Rope, InverseRestoresAndAmplitudeIsOne) {
    const std::vector<double> f = yarn_rope_frequencies(64, 160000, kRealYarn);
    std::vector<float> angles(64);
    rope_angles(f, 1048575, angles.data());
    std::vector<float> x(64);
    for (size_t i = 0; i < 64; ++i) {
        x[i] = std::sin(static_cast<float>(i) * 1.7f);
    }
    std::vector<float> turned = x;
    rope_apply(turned.data(), angles.data(), 64);
    EXPECT_GT(std::fabs(turned[0] - x[0]), 1e-3f);
    for (size_t i = 0; i < 64; i += 2) {
        EXPECT_NEAR(std::hypot(turned[i], turned[i + 1]), std::hypot(x[i], x[i + 1]), 1e-6f);
    }
    rope_invert(turned.data(), angles.data(), 64);
    for (size_t i = 0; i < 64; ++i) {
        EXPECT_NEAR(turned[i], x[i], 1e-6f) << i;
    }
}

} // namespace
} // namespace dsv4v
