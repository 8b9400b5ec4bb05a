// IQ2_XS (74 bytes): 256 elements in runs of 8 from a codebook of 512. d f16 at 0; 32 u16 at 2:
// 9-bit index, 7-bit sign code; scales[8] at 66: a 4-bit scale s per 16 elements, low nibble first.
// y = d * (2s + 1) / 8 * grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/code_group.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockIQ2_XS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ2_XS;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = true;

    StoredF16 d;
    StoredU16 codes[32];
    uint8_t scales[8];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const float scale_unit = d.value() * 0.125f;
        group.scales[0] = scale_unit * static_cast<float>(2 * (scales[g] & 15) + 1);
        group.scales[1] = scale_unit * static_cast<float>(2 * (scales[g] >> 4) + 1);
        for (int l = 0; l < 4; ++l) {
            const uint32_t code = codes[4 * g + l].value();
            std::memcpy(group.codes + 8 * l, books.iq2_xs + 8 * (code & 511u), 8);
            group.signs |= expand_signs(code >> 9) << (8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ2_XS) == 74 && alignof(BlockIQ2_XS) == 1);

} // namespace dsv4v
