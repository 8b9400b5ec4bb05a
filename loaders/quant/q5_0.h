// Q5_0 and Q5_1: 32 elements, 5-bit codes: nibbles as in Q4_0, fifth bit of element i is bit i of
// `high`.
// Q5_0 (22 bytes): d f16 at 0, high u32 at 2, codes at 6. y = d * (code - 16)
// Q5_1 (24 bytes): d f16 at 0, m f16 at 2, high u32 at 4, codes at 8. y = d * code + m
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockQ5_0 {
    static constexpr QuantFormat kFormat = QuantFormat::kQ5_0;
    static constexpr int kElements = 32;

    StoredF16 d;
    StoredU32 high;
    uint8_t codes[16];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        const uint32_t bits = high.value();
        for (uint32_t j = 0; j < 16; ++j) {
            const uint32_t low = (codes[j] & 15u) | (bits >> j & 1u) << 4;
            const uint32_t top = (codes[j] >> 4) | (bits >> (j + 16) & 1u) << 4;
            out[j] = scale * static_cast<float>(static_cast<int32_t>(low) - 16);
            out[j + 16] = scale * static_cast<float>(static_cast<int32_t>(top) - 16);
        }
    }
};
static_assert(sizeof(BlockQ5_0) == 22 && alignof(BlockQ5_0) == 1);

struct BlockQ5_1 {
    static constexpr QuantFormat kFormat = QuantFormat::kQ5_1;
    static constexpr int kElements = 32;

    StoredF16 d;
    StoredF16 m;
    StoredU32 high;
    uint8_t codes[16];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        const float offset = m.value();
        const uint32_t bits = high.value();
        for (uint32_t j = 0; j < 16; ++j) {
            const uint32_t low = (codes[j] & 15u) | (bits >> j & 1u) << 4;
            const uint32_t top = (codes[j] >> 4) | (bits >> (j + 16) & 1u) << 4;
            out[j] = scale * static_cast<float>(static_cast<int32_t>(low)) + offset;
            out[j + 16] = scale * static_cast<float>(static_cast<int32_t>(top)) + offset;
        }
    }
};
static_assert(sizeof(BlockQ5_1) == 24 && alignof(BlockQ5_1) == 1);

} // namespace dsv4v
