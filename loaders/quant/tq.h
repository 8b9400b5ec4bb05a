// TQ1_0 and TQ2_0: 256 ternary elements. y = d * (digit - 1)
// TQ1_0 (54 bytes): base-3 digits. fives[48] at 0, fours[4] at 48, d f16 at 52. Digit n of byte b
// is (b * 3^n mod 256) * 3 / 256. Order: digits 0 .. 4 over bytes 0 .. 31, digits 0 .. 4 over bytes
// 32 .. 47, digits 0 .. 3 over `fours`.
// TQ2_0 (66 bytes): 2-bit digits. codes[64] at 0, placed as in Q2_K; d f16 at 64.
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

// out[n * n_bytes + m] = scale * (digit n of bytes[m] - 1), n < n_digits.
DSV4V_HOST_DEVICE DSV4V_INLINE void decode_base3(const uint8_t* bytes, int n_bytes, int n_digits,
                                                 float scale, float* out) {
    uint32_t power = 1;
    for (int n = 0; n < n_digits; ++n) {
        for (int m = 0; m < n_bytes; ++m) {
            const uint32_t fraction = bytes[m] * power & 255u;
            const int digit = static_cast<int>(fraction * 3u >> 8) - 1;
            out[n * n_bytes + m] = scale * static_cast<float>(digit);
        }
        power *= 3;
    }
}

struct BlockTQ1_0 {
    static constexpr QuantFormat kFormat = QuantFormat::kTQ1_0;
    static constexpr int kElements = 256;

    uint8_t fives[48];
    uint8_t fours[4];
    StoredF16 d;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        decode_base3(fives, 32, 5, scale, out);
        decode_base3(fives + 32, 16, 5, scale, out + 160);
        decode_base3(fours, 4, 4, scale, out + 240);
    }
};
static_assert(sizeof(BlockTQ1_0) == 54 && alignof(BlockTQ1_0) == 1);

struct BlockTQ2_0 {
    static constexpr QuantFormat kFormat = QuantFormat::kTQ2_0;
    static constexpr int kElements = 256;

    uint8_t codes[64];
    StoredF16 d;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        for (int g = 0; g < 8; ++g) {
            for (int l = 0; l < 32; ++l) {
                const int digit = (codes[32 * (g / 4) + l] >> (2 * (g % 4)) & 3) - 1;
                out[32 * g + l] = scale * static_cast<float>(digit);
            }
        }
    }
};
static_assert(sizeof(BlockTQ2_0) == 66 && alignof(BlockTQ2_0) == 1);

} // namespace dsv4v
