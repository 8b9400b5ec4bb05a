// Q4_0 and Q4_1: 32 elements, 4-bit codes. Byte j of `codes` holds element j in its low and element
// j + 16 in its high nibble.
// Q4_0 (18 bytes): d f16 at 0, codes at 2. y = d * (code - 8)
// Q4_1 (20 bytes): d f16 at 0, m f16 at 2, codes at 4. y = d * code + m
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockQ4_0 {
    static constexpr QuantFormat kFormat = QuantFormat::kQ4_0;
    static constexpr int kElements = 32;

    StoredF16 d;
    uint8_t codes[16];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        for (int j = 0; j < 16; ++j) {
            out[j] = scale * static_cast<float>((codes[j] & 15) - 8);
            out[j + 16] = scale * static_cast<float>((codes[j] >> 4) - 8);
        }
    }
};
static_assert(sizeof(BlockQ4_0) == 18 && alignof(BlockQ4_0) == 1);

struct BlockQ4_1 {
    static constexpr QuantFormat kFormat = QuantFormat::kQ4_1;
    static constexpr int kElements = 32;

    StoredF16 d;
    StoredF16 m;
    uint8_t codes[16];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        const float offset = m.value();
        for (int j = 0; j < 16; ++j) {
            out[j] = scale * static_cast<float>(codes[j] & 15) + offset;
            out[j + 16] = scale * static_cast<float>(codes[j] >> 4) + offset;
        }
    }
};
static_assert(sizeof(BlockQ4_1) == 20 && alignof(BlockQ4_1) == 1);

} // namespace dsv4v
