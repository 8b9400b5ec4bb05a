// IQ2_XXS (66 bytes): 256 elements in runs of 8 from a codebook of 256. d f16 at 0, then for each
// group of 32: four index bytes and a u32 with four 7-bit sign codes and, on top, a 4-bit scale s.
// y = d * (2s + 1) / 8 * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/code_group.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockIQ2_XXS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ2_XXS;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = true;

    struct Group {
        uint8_t indices[4];
        StoredU32 signs_and_scale;
    };
    StoredF16 d;
    Group groups[8];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const uint32_t word = groups[g].signs_and_scale.value();
        group.scales[0] = d.value() * 0.125f * static_cast<float>(2 * (word >> 28) + 1);
        group.scales[1] = group.scales[0];
        for (int l = 0; l < 4; ++l) {
            std::memcpy(group.codes + 8 * l, books.iq2_xxs + 8 * groups[g].indices[l], 8);
            group.signs |= expand_signs(word >> (7 * l) & 127u) << (8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ2_XXS) == 66 && alignof(BlockIQ2_XXS) == 1);

} // namespace dsv4v
