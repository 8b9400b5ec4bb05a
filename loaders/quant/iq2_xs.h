// IQ2_XS (74 bytes): 256 elements in runs of 8 from a codebook of 512. d f16 at 0; 32 u16 at 2:
// 9-bit index, 7-bit sign code; scales[8] at 66: a 4-bit scale s per 16 elements, low nibble first.
// y = d * (2s + 1) / 8 * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"
#include "loaders/quant/signed_grid.h"

namespace dsv4v {

struct BlockIQ2_XS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ2_XS;
    static constexpr int kElements = 256;

    StoredF16 d;
    StoredU16 codes[32];
    uint8_t scales[8];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d.value() * 0.125f;
        for (int run = 0; run < 32; ++run) {
            const uint32_t code = codes[run].value();
            const int s = scales[run / 4] >> (4 * (run / 2 % 2)) & 15;
            decode_signed(books.iq2_xs + 8 * (code & 511u), 8, expand_signs(code >> 9),
                          scale_unit * static_cast<float>(2 * s + 1), out + 8 * run);
        }
    }
};
static_assert(sizeof(BlockIQ2_XS) == 74 && alignof(BlockIQ2_XS) == 1);

} // namespace dsv4v
