// IQ3_XXS (98 bytes): 256 elements in runs of 4 from a codebook of 256. d f16 at 0; indices[64] at
// 2; eight u32 at 66, one per group of 32: four 7-bit sign codes (8 elements each) and, on top, a
// 4-bit scale s. y = d * (2s + 1) / 4 * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"
#include "loaders/quant/signed_grid.h"

namespace dsv4v {

struct BlockIQ3_XXS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ3_XXS;
    static constexpr int kElements = 256;

    StoredF16 d;
    uint8_t indices[64];
    StoredU32 signs_and_scales[8];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d.value() * 0.25f;
        for (int g = 0; g < 8; ++g) {
            const uint32_t word = signs_and_scales[g].value();
            const float scale = scale_unit * static_cast<float>(2 * (word >> 28) + 1);
            for (int l = 0; l < 4; ++l) {
                const uint32_t signs = expand_signs(word >> (7 * l) & 127u);
                const uint8_t* index = indices + 8 * g + 2 * l;
                float* run = out + 32 * g + 8 * l;
                decode_signed(books.iq3_xxs + 4 * index[0], 4, signs, scale, run);
                decode_signed(books.iq3_xxs + 4 * index[1], 4, signs >> 4, scale, run + 4);
            }
        }
    }
};
static_assert(sizeof(BlockIQ3_XXS) == 98 && alignof(BlockIQ3_XXS) == 1);

} // namespace dsv4v
