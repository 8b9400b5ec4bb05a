// IQ1_S and IQ1_M: 256 elements in runs of 8 from a codebook of 2048 with values -1, 0, 1, shifted
// by delta = +-1/8. IQ1_S (50 bytes): d f16 at 0; low[32] at 2: index bits 0 .. 7; eight u16 at 34,
// one per group of 32: three upper index bits of run l at 3l, 3-bit scale s at 12, bit 15 set for a
// negative delta. IQ1_M (56 bytes): low[32] at 0; high[16] at 32: a nibble per run, three upper
// index bits, then the sign of delta; four u16 at 48: 3-bit scales s of four groups of 16 each, and
// in their top nibbles (first one lowest) the bits of the f16 d. y = d * (2s + 1) * (grid[index][k]
// + delta)
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

// out[k] = scale * (grid[k] + delta), k < 8.
DSV4V_HOST_DEVICE DSV4V_INLINE void decode_shifted(const int8_t* grid, float delta, float scale,
                                                   float* out) {
    for (int k = 0; k < 8; ++k) {
        out[k] = scale * (static_cast<float>(grid[k]) + delta);
    }
}

struct BlockIQ1_S {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ1_S;
    static constexpr int kElements = 256;

    StoredF16 d;
    uint8_t low[32];
    StoredU16 groups[8];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d.value();
        for (int g = 0; g < 8; ++g) {
            const uint32_t word = groups[g].value();
            const float scale = scale_unit * static_cast<float>(2 * (word >> 12 & 7u) + 1);
            const float delta = (word >> 15) != 0 ? -0.125f : 0.125f;
            for (int l = 0; l < 4; ++l) {
                const uint32_t index = low[4 * g + l] | (word >> (3 * l) & 7u) << 8;
                decode_shifted(books.iq1 + 8 * index, delta, scale, out + 32 * g + 8 * l);
            }
        }
    }
};
static_assert(sizeof(BlockIQ1_S) == 50 && alignof(BlockIQ1_S) == 1);

struct BlockIQ1_M {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ1_M;
    static constexpr int kElements = 256;

    uint8_t low[32];
    uint8_t high[16];
    StoredU16 scales[4];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE float d() const {
        uint32_t bits = 0;
        for (int j = 0; j < 4; ++j) {
            bits |= scales[j].value() >> 12 << (4 * j);
        }
        return float_from_f16(static_cast<uint16_t>(bits));
    }

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d();
        for (int run = 0; run < 32; ++run) {
            const uint32_t s = scales[run / 8].value() >> (3 * (run / 2 % 4)) & 7u;
            const uint32_t nibble = static_cast<uint32_t>(high[run / 2]) >> (4 * (run % 2)) & 15u;
            const uint32_t index = low[run] | (nibble & 7u) << 8;
            decode_shifted(books.iq1 + 8 * index, (nibble & 8u) != 0 ? -0.125f : 0.125f,
                           scale_unit * static_cast<float>(2 * s + 1), out + 8 * run);
        }
    }
};
static_assert(sizeof(BlockIQ1_M) == 56 && alignof(BlockIQ1_M) == 1);

} // namespace dsv4v
