// Q2_K (84 bytes): 256 elements, 2-bit codes with scale and minimum per 16.
// scales[16] at 0: scale in the low, minimum in the high nibble of byte i / 16
// codes[64] at 16: element i is bits 2g of byte 32n + l, n = i / 128, g = i / 32 % 4, l = i % 32
// d f16 at 80, dmin f16 at 82
// y = d * scale * code - dmin * minimum
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockQ2_K {
    static constexpr QuantFormat kFormat = QuantFormat::kQ2_K;
    static constexpr int kElements = 256;

    uint8_t scales[16];
    uint8_t codes[64];
    StoredF16 d;
    StoredF16 dmin;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale_unit = d.value();
        const float min_unit = dmin.value();
        for (int group = 0; group < 16; ++group) { // of 16 elements
            const float scale = scale_unit * static_cast<float>(scales[group] & 15);
            const float minimum = min_unit * static_cast<float>(scales[group] >> 4);
            const uint8_t* bytes = codes + 32 * (group / 8) + 16 * (group % 2);
            const int shift = 2 * (group / 2 % 4);
            for (int j = 0; j < 16; ++j) {
                const int code = bytes[j] >> shift & 3;
                out[16 * group + j] = scale * static_cast<float>(code) - minimum;
            }
        }
    }
};
static_assert(sizeof(BlockQ2_K) == 84 && alignof(BlockQ2_K) == 1);

} // namespace dsv4v
