// Exact conversions between float32 and the narrow float formats of weights and caches: f16 (IEEE
// half), bf16, FP8 e4m3 (no infinities, 0x7f is NaN) and FP4 e2m1. Widening is exact; narrowing
// rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

#include "loaders/base/host_device.h"

namespace dsv4v {

DSV4V_HOST_DEVICE DSV4V_INLINE float float_from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

DSV4V_HOST_DEVICE DSV4V_INLINE uint32_t bits_from_float(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

// Branch-free, and independent of flush-to-zero modes: subnormal halves are normal floats.
DSV4V_HOST_DEVICE DSV4V_INLINE float float_from_f16(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7fffu;
    const uint32_t rebias = magnitude >= 0x7c00u ? 2u * (112u << 23) : 112u << 23;
    const uint32_t normal = (magnitude << 13) + rebias;
    const uint32_t subnormal =
        bits_from_float(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    return float_from_bits(sign | (magnitude < 0x0400u ? subnormal : normal));
}

// Overflow gives infinity; a NaN stays a NaN.
DSV4V_HOST_DEVICE DSV4V_INLINE uint16_t f16_from_float(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { // 65520 and above round to infinity
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { // below the smallest normal half
        // Adding 0.5 leaves the value in units of 2^-24 in the low mantissa bits, rounded to even.
        const float shifted = float_from_bits(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (bits_from_float(shifted) - 0x3f000000u));
    }
    const uint32_t odd = magnitude >> 13 & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

DSV4V_HOST_DEVICE DSV4V_INLINE float float_from_bf16(uint16_t bits) {
    return float_from_bits(static_cast<uint32_t>(bits) << 16);
}

// A NaN stays a NaN: its quiet bit is set, so that dropping low bits cannot make an infinity.
DSV4V_HOST_DEVICE DSV4V_INLINE uint16_t bf16_from_float(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40u : rounded);
}

DSV4V_HOST_DEVICE DSV4V_INLINE float float_from_e4m3(uint8_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
    const uint32_t magnitude = code & 0x7fu;
    if (magnitude == 0x7fu) {
        return float_from_bits(sign | 0x7fc00000u);
    }
    if (magnitude < 8u) { // subnormal: multiples of 2^-9
        const float value = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f;
        return float_from_bits(sign | bits_from_float(value));
    }
    return float_from_bits(sign | ((magnitude << 20) + (120u << 23)));
}

// Saturates to +-448; a NaN gives 0x7f with its sign.
DSV4V_HOST_DEVICE DSV4V_INLINE uint8_t e4m3_from_float(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint32_t sign = bits >> 24 & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return static_cast<uint8_t>(sign | 0x7fu);
    }
    if (magnitude >= 0x43e00000u) { // 448 and above
        return static_cast<uint8_t>(sign | 0x7eu);
    }
    if (magnitude < 0x3c800000u) { // below 2^-6: multiples of 2^-9
        // 2^14 has a last mantissa bit of 2^-9: the addition rounds to it.
        const float shifted = float_from_bits(magnitude) + 0x1p14f;
        return static_cast<uint8_t>(sign | (bits_from_float(shifted) - 0x46800000u));
    }
    const uint32_t odd = magnitude >> 20 & 1u;
    return static_cast<uint8_t>(sign | ((magnitude - (120u << 23) + 0x7ffffu + odd) >> 20));
}

// Twice the value of a 4-bit e2m1 code, an integer: 0 1 2 3 4 6 8 12, bit 3 negates (-0 reads 0).
DSV4V_HOST_DEVICE DSV4V_INLINE constexpr int32_t doubled_e2m1(uint32_t code) {
    const uint32_t magnitude = code & 7u;
    const uint32_t exponent = magnitude >> 1;
    const int32_t doubled =
        static_cast<int32_t>(magnitude < 2u ? magnitude : (2u | (magnitude & 1u)) << exponent >> 1);
    return (code & 8u) != 0 ? -doubled : doubled;
}

DSV4V_HOST_DEVICE DSV4V_INLINE float float_from_e2m1(uint32_t code) {
    return 0.5f * static_cast<float>(doubled_e2m1(code));
}

// Saturates to +-6; a NaN saturates too, the format has none.
DSV4V_HOST_DEVICE DSV4V_INLINE uint8_t e2m1_from_float(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint32_t sign = bits >> 28 & 8u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x40a00000u) { // 5 and above: ties between 4 and 6 go to 4, the even code
        return static_cast<uint8_t>(sign | (magnitude == 0x40a00000u ? 6u : 7u));
    }
    if (magnitude < 0x3f800000u) { // below 1: multiples of 0.5
        const float shifted = float_from_bits(magnitude) + 0x1p22f;
        return static_cast<uint8_t>(sign | (bits_from_float(shifted) - 0x4a800000u));
    }
    const uint32_t odd = magnitude >> 22 & 1u;
    return static_cast<uint8_t>(sign | ((magnitude - (126u << 23) + 0x1fffffu + odd) >> 22));
}

} // namespace dsv4v
