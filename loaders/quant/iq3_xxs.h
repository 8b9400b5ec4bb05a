// IQ3_XXS (98 bytes): 256 elements in runs of 4 from a codebook of 256. d f16 at 0; indices[64] at
// 2; eight u32 at 66, one per group of 32: four 7-bit sign codes (8 elements each) and, on top, a
// 4-bit scale s. y = d * (2s + 1) / 4 * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/code_group.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockIQ3_XXS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ3_XXS;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = true;

    StoredF16 d;
    uint8_t indices[64];
    StoredU32 signs_and_scales[8];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const uint32_t word = signs_and_scales[g].value();
        group.scales[0] = d.value() * 0.25f * static_cast<float>(2 * (word >> 28) + 1);
        group.scales[1] = group.scales[0];
        for (int l = 0; l < 4; ++l) {
            const uint8_t* index = indices + 8 * g + 2 * l;
            std::memcpy(group.codes + 8 * l, books.iq3_xxs + 4 * index[0], 4);
            std::memcpy(group.codes + 8 * l + 4, books.iq3_xxs + 4 * index[1], 4);
            group.signs |= expand_signs(word >> (7 * l) & 127u) << (8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ3_XXS) == 98 && alignof(BlockIQ3_XXS) == 1);

} // namespace dsv4v
