// IQ4_NL and IQ4_XS: 4-bit codes that choose one of 16 uneven levels. In each run of 32 byte j
// holds element j in its low and element j + 16 in its high nibble. IQ4_NL (18 bytes): 32 elements,
// d f16 at 0, codes at 2. y = d * level[code] IQ4_XS (136 bytes): 256 elements, d f16 at 0, high
// u16 at 2, low[4] at 4, codes[128] at 8; the 6-bit scale of group g of 32 is nibble g % 2 of low[g
// / 2] with bits 2g of `high` on top. y = d * (scale - 32) * level[code]
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

DSV4V_HOST_DEVICE DSV4V_INLINE constexpr int32_t iq4_level(uint32_t code) {
    constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
    return kLevels[code];
}

DSV4V_HOST_DEVICE DSV4V_INLINE void decode_iq4_run(const uint8_t* codes, float scale, float* out) {
    for (int j = 0; j < 16; ++j) {
        out[j] = scale * static_cast<float>(iq4_level(codes[j] & 15u));
        out[j + 16] = scale * static_cast<float>(iq4_level(static_cast<uint32_t>(codes[j]) >> 4));
    }
}

struct BlockIQ4_NL {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ4_NL;
    static constexpr int kElements = 32;

    StoredF16 d;
    uint8_t codes[16];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        decode_iq4_run(codes, d.value(), out);
    }
};
static_assert(sizeof(BlockIQ4_NL) == 18 && alignof(BlockIQ4_NL) == 1);

struct BlockIQ4_XS {
    static constexpr QuantFormat kFormat = QuantFormat::kIQ4_XS;
    static constexpr int kElements = 256;

    StoredF16 d;
    StoredU16 high;
    uint8_t low[4];
    uint8_t codes[128];

    // Of group g of 32.
    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE float scale(int g) const {
        const int bits = (low[g / 2] >> (4 * (g % 2)) & 15) |
                         static_cast<int>(high.value() >> (2 * g) & 3u) << 4;
        return d.value() * static_cast<float>(bits - 32);
    }
    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        for (int g = 0; g < 8; ++g) {
            decode_iq4_run(codes + 16 * g, scale(g), out + 32 * g);
        }
    }
};
static_assert(sizeof(BlockIQ4_XS) == 136 && alignof(BlockIQ4_XS) == 1);

} // namespace dsv4v
