// Q6_K (210 bytes): 256 elements, 6-bit codes with a signed 8-bit scale per 16.
// low[128] at 0: low nibble of element i (n = i / 128, g = i / 32 % 4, l = i % 32) is nibble g / 2
// of byte 64n + 32(g % 2) + l high[64] at 128: its upper two bits are bits 2g of byte 32n + l
// scales[16] at 192, one signed byte per 16 elements; d f16 at 208
// y = d * scale * (code - 32)
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockQ6_K {
    static constexpr QuantFormat kFormat = QuantFormat::kQ6_K;
    static constexpr int kElements = 256;

    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    StoredF16 d;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale_unit = d.value();
        for (int group = 0; group < 16; ++group) {
            const float scale = scale_unit * static_cast<float>(scales[group]);
            const int n = group / 8;
            const int g = group / 2 % 4;
            const uint8_t* low_bytes = low + 64 * n + 32 * (g % 2) + 16 * (group % 2);
            const uint8_t* high_bytes = high + 32 * n + 16 * (group % 2);
            for (int j = 0; j < 16; ++j) {
                const int code =
                    (low_bytes[j] >> (4 * (g / 2)) & 15) | (high_bytes[j] >> (2 * g) & 3) << 4;
                out[16 * group + j] = scale * static_cast<float>(code - 32);
            }
        }
    }
};
static_assert(sizeof(BlockQ6_K) == 210 && alignof(BlockQ6_K) == 1);

} // namespace dsv4v
