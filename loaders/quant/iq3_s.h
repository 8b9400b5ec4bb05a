// IQ3_S (110 bytes): 256 elements in runs of 4 from a codebook of 512. d f16 at 0; low[64] at 2:
// index bits 0 .. 7; high[8] at 66: bit 8 of the eight runs of a group of 32; signs[32] at 74:
// eight plain sign bits; scales[4] at 106: a 4-bit scale s per 32, low nibble first. y = d * (2s +
// 1) * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"
#include "loaders/quant/signed_grid.h"

namespace dsv4v {

struct BlockIQ3_S {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ3_S;
    static constexpr int kElements = 256;

    StoredF16 d;
    uint8_t low[64];
    uint8_t high[8];
    uint8_t signs[32];
    uint8_t scales[4];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d.value();
        for (int g = 0; g < 8; ++g) {
            const int s = scales[g / 2] >> (4 * (g % 2)) & 15;
            const float scale = scale_unit * static_cast<float>(2 * s + 1);
            for (int p = 0; p < 8; ++p) {
                const int index = low[8 * g + p] | (high[g] >> p & 1) << 8;
                const uint32_t run_signs = signs[4 * g + p / 2] >> (4 * (p % 2));
                decode_signed(books.iq3_s + 4 * index, 4, run_signs, scale, out + 32 * g + 4 * p);
            }
        }
    }
};
static_assert(sizeof(BlockIQ3_S) == 110 && alignof(BlockIQ3_S) == 1);

} // namespace dsv4v
