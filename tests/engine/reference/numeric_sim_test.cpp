#include "engine/reference/numeric_sim.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/golden.h"

namespace dsv4v {
namespace {

// Non-negative values of a tiny float format in code order.
std::vector<float> grid(int mantissa_bits, int bias, int n_codes) {
    std::vector<float> values;
    for (int code = 0; code < n_codes; ++code) {
        const int exponent = code >> mantissa_bits;
        const int mantissa = code & ((1 << mantissa_bits) - 1);
        const int implicit = exponent > 0 ? 1 << mantissa_bits : 0;
        values.push_back(std::ldexp(static_cast<float>(implicit + mantissa),
                                    std::max(exponent, 1) - bias - mantissa_bits));
    }
    return values;
}

// Every code, every midpoint (ties to the even code) and both neighbours of every midpoint.
void check_rounding(const std::vector<float>& values, float (*round)(float)) {
    for (size_t code = 0; code < values.size(); ++code) {
        EXPECT_EQ(round(values[code]), values[code]) << code;
        EXPECT_EQ(round(-values[code]), -values[code]) << code;
        if (code + 1 == values.size()) {
            continue;
        }
        const float middle = (values[code] + values[code + 1]) / 2;
        EXPECT_EQ(round(middle), values[code + code % 2]) << code;
        EXPECT_EQ(round(-middle), -values[code + code % 2]) << code;
        EXPECT_EQ(round(std::nextafter(middle, 0.0f)), values[code]) << code;
        EXPECT_EQ(round(std::nextafter(middle, 1e9f)), values[code + 1]) << code;
    }
}

TEST(NumericSim, E4M3RoundsToEveryCode) {
    const std::vector<float> values = grid(3, 7, 127); // code 127 is NaN
    EXPECT_EQ(values.back(), 448.0f);
    EXPECT_EQ(values[1], 0x1p-9f);
    check_rounding(values, round_e4m3);
}

TEST(NumericSim, E2M1RoundsToEveryCode) {
    const std::vector<float> values = grid(1, 1, 8);
    EXPECT_EQ(values, (std::vector<float>{0, 0.5f, 1, 1.5f, 2, 3, 4, 6}));
    check_rounding(values, round_e2m1);
}

TEST(NumericSim, E2M1Ties) {
    const std::vector<std::pair<float, float>> ties = {
        {0.25f, 0}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2}, {2.5f, 2}, {3.5f, 4}, {5, 4}};
    for (const auto& [from, to] : ties) {
        EXPECT_EQ(round_e2m1(from), to) << from;
    }
}

// The scale shows as the spacing of the rounded block: smallest element that survives.
TEST(NumericSim, Fp8ScaleIsTheNextPowerOfTwo) {
    const std::vector<std::pair<float, float>> cases = {
        {448, 1}, {449, 2}, {5.1f, 0x1p-6f}, {447, 1}, {224, 0.5f}};
    for (const auto& [largest, scale] : cases) {
        std::vector<float> values = {largest, scale * 0x1p-9f, scale * 0x1p-11f};
        fp8_sim64(values.data(), 3);
        EXPECT_EQ(values[1], scale * 0x1p-9f) << largest; // smallest subnormal
        EXPECT_EQ(values[2], 0.0f) << largest;
    }
}

TEST(NumericSim, Fp8FloorOfTheScale) {
    std::vector<float> values = {0x1p-31f, 0x1p-33f}; // far below 1e-4: scale stays 2^-22
    fp8_sim64(values.data(), 2);
    EXPECT_EQ(values[0], 0x1p-31f);
    EXPECT_EQ(values[1], 0.0f);
}

TEST(NumericSim, Fp8BlocksAreIndependentAndTheLastMayBeShort) {
    std::vector<float> values(64 + 48, 0.0005f);
    values[3] = 400;
    fp8_sim64(values.data(), 112);
    EXPECT_EQ(values[3], 384.0f); // a tie between 384 and 416: even code
    EXPECT_EQ(values[4], 0.0f);   // below half of the smallest step of a block that holds 400
    EXPECT_NEAR(values[64], 0.0005f, 0.0005f / 16);
    EXPECT_NEAR(values[111], 0.0005f, 0.0005f / 16);
}

// Reference data of a quantizer with the same rule over groups of 128: 12 vectors of every kind.
TEST(NumericSim, Fp8MatchesReferenceData) {
    const std::string bytes = testing::read_whole_file(testing::unpacked("quants/act/act.qac"));
    std::array<uint32_t, 4> header{}; // magic, vectors, width, 0
    std::memcpy(header.data(), bytes.data(), sizeof(header));
    const size_t n = size_t{header[1]} * header[2];
    ASSERT_EQ(n, 12u * 512);
    std::vector<float> values(n);
    std::memcpy(values.data(), bytes.data() + sizeof(header), n * sizeof(float));
    const size_t golden_bytes = n / 128 * 129 * sizeof(float); // per group: scale, values
    std::vector<float> golden(golden_bytes / sizeof(float));
    std::memcpy(golden.data(), bytes.data() + bytes.size() - golden_bytes, golden_bytes);
    fp8_sim(values.data(), static_cast<int64_t>(n), 128);
    for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(values[i], golden[i / 128 * 129 + 1 + i % 128]) << i;
    }
}

TEST(NumericSim, Fp4RoundTrip) {
    std::vector<float> values(64, 1.2f);
    values[0] = 5.1f; // scale 1
    values[40] = 7;   // scale 2
    fp4_sim32(values.data(), 64);
    EXPECT_EQ(values[0], 6.0f);
    EXPECT_EQ(values[1], 1.0f);
    EXPECT_EQ(values[40], 8.0f);
    EXPECT_EQ(values[41], 1.0f);
    std::vector<float> zeros(32);
    fp4_sim32(zeros.data(), 32);
    EXPECT_EQ(zeros, std::vector<float>(32));
}

TEST(NumericSim, RoundTripsAreIdempotent) {
    std::vector<float> values(192);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<float>(i * i)) * std::exp2(static_cast<float>(i % 13));
    }
    std::vector<float> once = values;
    fp8_sim64(once.data(), 192);
    EXPECT_NE(once, values);
    std::vector<float> twice = once;
    fp8_sim64(twice.data(), 192);
    EXPECT_EQ(once, twice);
}

TEST(NumericSim, NonFiniteValuesStayVisible) {
    std::vector<float> values = {1, INFINITY, -2, NAN};
    fp8_sim64(values.data(), 4);
    EXPECT_TRUE(std::isinf(values[1]));
    EXPECT_TRUE(std::isnan(values[3]));
}

TEST(NumericSim, HadamardCheckValues) {
    std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
    hadamard(values.data(), 8);
    const std::vector<float> expected = {9.899495f, -1.414214f, -2.828427f, 0, -5.656854f, 0, 0, 0};
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(values[i], expected[i], 1e-6f) << i;
    }
    hadamard(values.data(), 8); // its own inverse
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(values[i], static_cast<float>(i), 1e-5f) << i;
    }
}

} // namespace
} // namespace dsv4v
