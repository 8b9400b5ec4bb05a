// MXFP4 (17 bytes): 32 e2m1 codes under one power of two. exponent byte e at 0; codes at 1, byte j
// holding element j in its low and element j + 16 in its high nibble.
// y = 2^(e - 127) * e2m1. Computed with the doubled integer levels and 2^(e - 128): the levels are
// then integers, e = 0 and 1 give subnormal multipliers, and e = 255 (not a number in the standard,
// and in no valid file) is an ordinary power here.
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockMXFP4 {
    static constexpr QuantFormat kFormat = QuantFormat::kMXFP4;
    static constexpr int kElements = 32;

    uint8_t exponent;
    uint8_t codes[16];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE float scale() const {
        const uint32_t e = exponent;
        return float_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float factor = scale();
        for (int j = 0; j < 16; ++j) {
            out[j] = factor * static_cast<float>(doubled_e2m1(codes[j] & 15u));
            out[j + 16] = factor * static_cast<float>(doubled_e2m1(codes[j] >> 4));
        }
    }
};
static_assert(sizeof(BlockMXFP4) == 17 && alignof(BlockMXFP4) == 1);

} // namespace dsv4v
