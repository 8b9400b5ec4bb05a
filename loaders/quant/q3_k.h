// Q3_K (110 bytes): 256 elements, 3-bit codes -4 .. 3 with a 6-bit scale per 16.
// high[32] at 0: a clear bit 4n + g of byte l subtracts 4 (n, g, l as in Q2_K)
// codes[64] at 32: low two bits, placed as in Q2_K
// scales[12] at 96: of group j = i / 16, four low bits in nibble j / 8 of byte j % 8, two high bits
// in bits 2(j / 4) of byte 8 + j % 4; 32 is subtracted d f16 at 108 y = d * scale * code
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockQ3_K {
    static constexpr QuantFormat kFormat = QuantFormat::kQ3_K;
    static constexpr int kElements = 256;

    uint8_t high[32];
    uint8_t codes[64];
    uint8_t scales[12];
    StoredF16 d;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale_unit = d.value();
        for (int group = 0; group < 16; ++group) {
            const int low = scales[group & 7] >> (4 * (group >> 3)) & 15;
            const int top = scales[8 + (group & 3)] >> (2 * (group >> 2)) & 3;
            const float scale = scale_unit * static_cast<float>((low | top << 4) - 32);
            const int half = 16 * (group % 2);
            const uint8_t* bytes = codes + 32 * (group / 8) + half;
            const int shift = 2 * (group / 2 % 4);
            const int high_shift = group / 2;
            for (int j = 0; j < 16; ++j) {
                const int keep = high[half + j] >> high_shift & 1;
                const int code = (bytes[j] >> shift & 3) - 4 + 4 * keep;
                out[16 * group + j] = scale * static_cast<float>(code);
            }
        }
    }
};
static_assert(sizeof(BlockQ3_K) == 110 && alignof(BlockQ3_K) == 1);

} // namespace dsv4v
