// Q4_K and Q5_K: 256 elements, 6-bit scale and minimum per 32.
// Q4_K (144 bytes): d f16 at 0, dmin f16 at 2, scales[12] at 4, codes[128] at 16.
// Q5_K (176 bytes): d f16 at 0, dmin f16 at 2, scales[12] at 4, high[32] at 16, codes[128] at 48.
// Low four bits of element i (group j = i / 32, l = i % 32): nibble j % 2 of codes[32 * (j / 2) +
// l]; fifth bit in Q5_K: bit j of high[l]. y = d * scale * code - dmin * minimum
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

// The packed 6-bit scale and minimum of each group of 32 in Q4_K and Q5_K: groups 0 .. 3 lie in the
// low bits of bytes 0 .. 3 and 4 .. 7; of groups 4 .. 7 the low nibbles lie in bytes 8 .. 11 and
// the top bits in the top two bits of bytes 0 .. 7.
struct PackedScales {
    uint8_t bytes[12];
    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE int scale(int group) const {
        return group < 4 ? bytes[group] & 63 : (bytes[group + 4] & 15) | bytes[group - 4] >> 6 << 4;
    }
    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE int minimum(int group) const {
        return group < 4 ? bytes[group + 4] & 63 : bytes[group + 4] >> 4 | bytes[group] >> 6 << 4;
    }
};

struct BlockQ4_K {
    static constexpr QuantFormat kFormat = QuantFormat::kQ4_K;
    static constexpr int kElements = 256;

    StoredF16 d;
    StoredF16 dmin;
    PackedScales scales;
    uint8_t codes[128];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale_unit = d.value();
        const float min_unit = dmin.value();
        for (int group = 0; group < 8; ++group) {
            const float scale = scale_unit * static_cast<float>(scales.scale(group));
            const float minimum = min_unit * static_cast<float>(scales.minimum(group));
            const uint8_t* bytes = codes + 32 * (group / 2);
            const int shift = 4 * (group % 2);
            for (int j = 0; j < 32; ++j) {
                const int code = bytes[j] >> shift & 15;
                out[32 * group + j] = scale * static_cast<float>(code) - minimum;
            }
        }
    }
};
static_assert(sizeof(BlockQ4_K) == 144 && alignof(BlockQ4_K) == 1);

struct BlockQ5_K {
    static constexpr QuantFormat kFormat = QuantFormat::kQ5_K;
    static constexpr int kElements = 256;

    StoredF16 d;
    StoredF16 dmin;
    PackedScales scales;
    uint8_t high[32];
    uint8_t codes[128];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale_unit = d.value();
        const float min_unit = dmin.value();
        for (int group = 0; group < 8; ++group) {
            const float scale = scale_unit * static_cast<float>(scales.scale(group));
            const float minimum = min_unit * static_cast<float>(scales.minimum(group));
            const uint8_t* bytes = codes + 32 * (group / 2);
            const int shift = 4 * (group % 2);
            for (int j = 0; j < 32; ++j) {
                const int code = (bytes[j] >> shift & 15) | (high[j] >> group & 1) << 4;
                out[32 * group + j] = scale * static_cast<float>(code) - minimum;
            }
        }
    }
};
static_assert(sizeof(BlockQ5_K) == 176 && alignof(BlockQ5_K) == 1);

} // namespace dsv4v
