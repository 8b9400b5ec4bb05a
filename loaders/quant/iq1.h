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
#include "loaders/quant/code_group.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

// codes[k] = 8 * (grid[k] + delta), k < 8: whole numbers, since delta is an eighth.
DSV4V_HOST_DEVICE DSV4V_INLINE void shift_grid(const int8_t* grid, bool minus, int8_t* codes) {
    const int delta = minus ? -1 : 1;
    for (int k = 0; k < 8; ++k) {
        codes[k] = static_cast<int8_t>(8 * grid[k] + delta);
    }
}

struct BlockIQ1_S {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ1_S;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = false;

    StoredF16 d;
    uint8_t low[32];
    StoredU16 groups[8];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const uint32_t word = groups[g].value();
        group.scales[0] = d.value() * 0.125f * static_cast<float>(2 * (word >> 12 & 7u) + 1);
        group.scales[1] = group.scales[0];
        for (int l = 0; l < 4; ++l) {
            const uint32_t index = low[4 * g + l] | (word >> (3 * l) & 7u) << 8;
            shift_grid(books.iq1 + 8 * index, (word >> 15) != 0, group.codes + 8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ1_S) == 50 && alignof(BlockIQ1_S) == 1);

struct BlockIQ1_M {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ1_M;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = false;

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

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const float scale_unit = d() * 0.125f;
        const uint32_t word = scales[g / 2].value() >> (6 * (g % 2));
        group.scales[0] = scale_unit * static_cast<float>(2 * (word & 7u) + 1);
        group.scales[1] = scale_unit * static_cast<float>(2 * (word >> 3 & 7u) + 1);
        for (int l = 0; l < 4; ++l) {
            const int nibble = high[2 * g + l / 2] >> (4 * (l % 2)) & 15;
            const int index = low[4 * g + l] | (nibble & 7) << 8;
            shift_grid(books.iq1 + 8 * index, (nibble & 8) != 0, group.codes + 8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ1_M) == 56 && alignof(BlockIQ1_M) == 1);

} // namespace dsv4v
