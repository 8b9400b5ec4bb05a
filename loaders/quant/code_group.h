// What the codebook formats share: a group of 32 elements as small integers with a scale per 16
// and, in the IQ2 and IQ3 formats, a sign bit each. Their blocks describe a group; scalar and
// vector decoders both start from it.
#pragma once

#include <cstdint>
#include <cstring>

#include "loaders/base/host_device.h"
#include "loaders/quant/codebooks.h"

namespace dsv4v {

// Element i is scales[i / 16] * codes[i], negated where bit i of `signs` is set. `signs` is 0 for
// blocks whose kHasSigns is false.
struct CodeGroup {
    int8_t codes[32];
    uint32_t signs;
    float scales[2];
};

// Eight sign bits from a stored 7-bit code: the eighth makes the number of minus signs even.
DSV4V_HOST_DEVICE DSV4V_INLINE uint32_t expand_signs(uint32_t code) {
    uint32_t parity = code ^ code >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return code | (parity & 1u) << 7;
}

DSV4V_HOST_DEVICE DSV4V_INLINE void decode_group(const CodeGroup& group, float* out) {
    for (int i = 0; i < 32; ++i) {
        const float value = group.scales[i / 16] * static_cast<float>(group.codes[i]);
        out[i] = (group.signs >> i & 1u) != 0 ? -value : value;
    }
}

// All eight groups of a block of 256.
template <class Block>
DSV4V_HOST_DEVICE DSV4V_INLINE void decode_groups(const Block& block, const Codebooks& books,
                                                  float* out) {
    for (int g = 0; g < 8; ++g) {
        decode_group(block.group(books, g), out + 32 * g);
    }
}

} // namespace dsv4v
