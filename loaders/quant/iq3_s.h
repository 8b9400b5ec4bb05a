// IQ3_S (110 bytes): 256 elements in runs of 4 from a codebook of 512. d f16 at 0; low[64] at 2:
// index bits 0 .. 7; high[8] at 66: bit 8 of the eight runs of a group of 32; signs[32] at 74:
// eight plain sign bits; scales[4] at 106: a 4-bit scale s per 32, low nibble first. y = d * (2s +
// 1) * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/code_group.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockIQ3_S {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ3_S;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = true;

    StoredF16 d;
    uint8_t low[64];
    uint8_t high[8];
    uint8_t signs[32];
    uint8_t scales[4];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const int s = scales[g / 2] >> (4 * (g % 2)) & 15;
        group.scales[0] = d.value() * static_cast<float>(2 * s + 1);
        group.scales[1] = group.scales[0];
        for (int p = 0; p < 8; ++p) {
            const int index = low[8 * g + p] | (high[g] >> p & 1) << 8;
            std::memcpy(group.codes + 4 * p, books.iq3_s + 4 * index, 4);
        }
        for (int l = 0; l < 4; ++l) {
            group.signs |= static_cast<uint32_t>(signs[4 * g + l]) << (8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ3_S) == 110 && alignof(BlockIQ3_S) == 1);

} // namespace dsv4v
