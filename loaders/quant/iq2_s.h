// IQ2_S (82 bytes): 256 elements in runs of 8 from a codebook of 1024. d f16 at 0; low[32] at 2:
// index bits 0 .. 7 of each run; signs[32] at 34: eight plain sign bits; high[8] at 66: two upper
// index bits per run, four runs a byte; scales[8] at 74 as in IQ2_XS. y = d * (2s + 1) / 8 *
// grid[index][k], signed
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/code_group.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockIQ2_S {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ2_S;
    static constexpr int kElements = 256;
    static constexpr bool kHasSigns = true;

    StoredF16 d;
    uint8_t low[32];
    uint8_t signs[32];
    uint8_t high[8];
    uint8_t scales[8];

    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE CodeGroup group(const Codebooks& books,
                                                                 int g) const {
        CodeGroup group = {};

        const float scale_unit = d.value() * 0.125f;
        group.scales[0] = scale_unit * static_cast<float>(2 * (scales[g] & 15) + 1);
        group.scales[1] = scale_unit * static_cast<float>(2 * (scales[g] >> 4) + 1);
        for (int l = 0; l < 4; ++l) {
            const int index = low[4 * g + l] | (high[g] >> (2 * l) & 3) << 8;
            std::memcpy(group.codes + 8 * l, books.iq2_s + 8 * index, 8);
            group.signs |= static_cast<uint32_t>(signs[4 * g + l]) << (8 * l);
        }
        return group;
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks& books, float* out) const {
        decode_groups(*this, books, out);
    }
};
static_assert(sizeof(BlockIQ2_S) == 82 && alignof(BlockIQ2_S) == 1);

} // namespace dsv4v
