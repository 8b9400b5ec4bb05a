// NVFP4 (36 bytes): 64 e2m1 codes, an e4m3 scale per 16. scales[4] at 0; codes[32] at 4: in
// sub-block s, byte 8s + j holds element j in its low and element j + 8 in its high nibble. y =
// scale * e2m1. The sign bit of a scale is ignored and the NaN code 0x7f reads as 0, but 0xff as
// 480: the file format's reference reads them so, and no valid file has either.
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

DSV4V_HOST_DEVICE DSV4V_INLINE float nvfp4_half_scale(uint32_t code) {
    const uint32_t mantissa = code & 7u;
    const uint32_t exponent = code >> 3 & 15u;
    if (code == 0x7fu) {
        return 0.0f;
    }
    if (exponent == 0) { // half of a multiple of 2^-9
        return static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-10f;
    }
    return float_from_bits((exponent + 119u) << 23 | mantissa << 20);
}

struct BlockNVFP4 {
    static constexpr QuantFormat kFormat = QuantFormat::kNVFP4;
    static constexpr int kElements = 64;

    uint8_t scales[4];
    uint8_t codes[32];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        for (int s = 0; s < 4; ++s) {
            const float scale = nvfp4_half_scale(scales[s]);
            for (int j = 0; j < 8; ++j) {
                const uint32_t pair = codes[8 * s + j];
                out[16 * s + j] = scale * static_cast<float>(doubled_e2m1(pair & 15u));
                out[16 * s + j + 8] = scale * static_cast<float>(doubled_e2m1(pair >> 4));
            }
        }
    }
};
static_assert(sizeof(BlockNVFP4) == 36 && alignof(BlockNVFP4) == 1);

} // namespace dsv4v
