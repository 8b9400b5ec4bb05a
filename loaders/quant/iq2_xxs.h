// IQ2_XXS (66 bytes): 256 elements in runs of 8 from a codebook of 256. d f16 at 0, then for each
// group of 32: four index bytes and a u32 with four 7-bit sign codes and, on top, a 4-bit scale s.
// y = d * (2s + 1) / 8 * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"
#include "loaders/quant/signed_grid.h"

namespace dsv4v {

struct BlockIQ2_XXS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ2_XXS;
    static constexpr int kElements = 256;

    struct Group {
        uint8_t indices[4];
        StoredU32 signs_and_scale;
    };
    StoredF16 d;
    Group groups[8];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        const float scale_unit = d.value() * 0.125f;
        for (int g = 0; g < 8; ++g) {
            const uint32_t word = groups[g].signs_and_scale.value();
            const float scale = scale_unit * static_cast<float>(2 * (word >> 28) + 1);
            for (int l = 0; l < 4; ++l) {
                decode_signed(books.iq2_xxs + 8 * groups[g].indices[l], 8,
                              expand_signs(word >> (7 * l) & 127u), scale, out + 32 * g + 8 * l);
            }
        }
    }
};
static_assert(sizeof(BlockIQ2_XXS) == 66 && alignof(BlockIQ2_XXS) == 1);

} // namespace dsv4v
