#include "loaders/base/narrow_float.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Value of a float code with `mantissa_bits` and `exponent_bits`, by the definition of the format.
double value_of(uint32_t magnitude, int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const double mantissa = magnitude & ((1u << mantissa_bits) - 1);
    return exponent == 0
               ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
               : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST(NarrowFloat, EveryHalf) {
    for (uint32_t code = 0; code < 0x10000; ++code) {
        const float actual = float_from_f16(static_cast<uint16_t>(code));
        const uint32_t magnitude = code & 0x7fff;
        if (magnitude > 0x7c00) {
            ASSERT_TRUE(std::isnan(actual)) << code;
            ASSERT_TRUE(std::isnan(float_from_f16(f16_from_float(actual)))) << code;
            continue;
        }
        const double expected = magnitude == 0x7c00 ? kInfinity : value_of(magnitude, 5, 10);
        ASSERT_EQ(std::fabs(actual), expected) << code;
        ASSERT_EQ(std::signbit(actual), (code & 0x8000) != 0) << code;
        ASSERT_EQ(f16_from_float(actual), code);
    }
}

TEST(NarrowFloat, EveryBf16) {
    for (uint32_t code = 0; code < 0x10000; ++code) {
        const float actual = float_from_bf16(static_cast<uint16_t>(code));
        const uint32_t magnitude = code & 0x7fff;
        if (magnitude > 0x7f80) {
            ASSERT_TRUE(std::isnan(actual)) << code;
            ASSERT_TRUE(std::isnan(float_from_bf16(bf16_from_float(actual)))) << code;
            continue;
        }
        const double expected = magnitude == 0x7f80 ? kInfinity : value_of(magnitude, 8, 7);
        ASSERT_EQ(std::fabs(actual), expected) << code;
        ASSERT_EQ(bf16_from_float(actual), code);
    }
    // A NaN whose payload lies in the dropped bits.
    EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(float_from_bits(0x7f800001)))));
}

TEST(NarrowFloat, EveryE4m3) {
    for (uint32_t code = 0; code < 256; ++code) {
        const float actual = float_from_e4m3(static_cast<uint8_t>(code));
        if ((code & 0x7f) == 0x7f) {
            ASSERT_TRUE(std::isnan(actual)) << code;
        } else {
            ASSERT_EQ(std::fabs(actual), value_of(code & 0x7f, 4, 3)) << code;
            ASSERT_EQ(std::signbit(actual), code >= 0x80) << code;
        }
        ASSERT_EQ(e4m3_from_float(actual), code);
    }
    EXPECT_EQ(e4m3_from_float(1e30f), 0x7e);
    EXPECT_EQ(e4m3_from_float(-std::numeric_limits<float>::infinity()), 0xfe);
}

TEST(NarrowFloat, EveryE2m1) {
    for (uint32_t code = 0; code < 16; ++code) {
        const double magnitude = value_of(code & 7, 2, 1);
        ASSERT_EQ(float_from_e2m1(code), code >= 8 ? -magnitude : magnitude) << code;
        ASSERT_EQ(doubled_e2m1(code), 2 * (code >= 8 ? -magnitude : magnitude)) << code;
        if (code != 8) { // -0 reads as 0
            ASSERT_EQ(e2m1_from_float(float_from_e2m1(code)), code);
        }
    }
    EXPECT_EQ(e2m1_from_float(1e30f), 7);
    EXPECT_EQ(e2m1_from_float(-1e30f), 15);
}

// Between every two neighbouring codes: just below the midpoint, the midpoint (to the even code)
// and just above it.
template <class Narrow, class Widen>
void check_rounding(uint32_t last_code, Narrow narrow, Widen widen) {
    for (uint32_t code = 0; code < last_code; ++code) {
        const double below = widen(code);
        const double above = widen(code + 1);
        const auto middle = static_cast<float>((below + above) / 2);
        ASSERT_EQ(narrow(std::nextafterf(middle, -HUGE_VALF)), code) << middle;
        ASSERT_EQ(narrow(middle), code + code % 2) << middle;
        ASSERT_EQ(narrow(std::nextafterf(middle, HUGE_VALF)), code + 1) << middle;
    }
}

TEST(NarrowFloat, RoundsToNearestEven) {
    check_rounding(0x7bff, f16_from_float,
                   [](uint32_t code) { return float_from_f16(static_cast<uint16_t>(code)); });
    check_rounding(0x7f7f, bf16_from_float,
                   [](uint32_t code) { return float_from_bf16(static_cast<uint16_t>(code)); });
    check_rounding(0x7e, e4m3_from_float,
                   [](uint32_t code) { return float_from_e4m3(static_cast<uint8_t>(code)); });
    check_rounding(7, e2m1_from_float, [](uint32_t code) { return float_from_e2m1(code); });
}

TEST(NarrowFloat, HalfOverflowsAtTheMidpointAboveTheLargest) {
    EXPECT_EQ(f16_from_float(std::nextafterf(65520.0f, 0.0f)), 0x7bff);
    EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);
    EXPECT_EQ(f16_from_float(-1e10f), 0xfc00);
}

} // namespace
} // namespace dsv4v
