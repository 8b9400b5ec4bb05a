// IQ2_S (82 bytes): 256 elements in runs of 8 from a codebook of 1024. d f16 at 0; low[32] at 2:
// index bits 0 .. 7 of each run; signs[32] at 34: eight plain sign bits; high[8] at 66: two upper
// index bits per run, four runs a byte; scales[8] at 74 as in IQ2_XS. y = d * (2s + 1) / 8 *
// grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"
#include "loaders/quant/signed_grid.h"

namespace dsv4v {

struct BlockIQ2_S {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ2_S;
    static constexpr int kElements = 256;

    StoredF16 d;
    uint8_t low[32];
    uint8_t signs[32];
    uint8_t high[8];
    uint8_t scales[8];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d.value() * 0.125f;
        for (int run = 0; run < 32; ++run) {
            const int index = low[run] | (high[run / 4] >> (2 * (run % 4)) & 3) << 8;
            const int s = scales[run / 4] >> (4 * (run / 2 % 2)) & 15;
            decode_signed(books.iq2_s + 8 * index, 8, signs[run],
                          scale_unit * static_cast<float>(2 * s + 1), out + 8 * run);
        }
    }
};
static_assert(sizeof(BlockIQ2_S) == 82 && alignof(BlockIQ2_S) == 1);

} // namespace dsv4v
