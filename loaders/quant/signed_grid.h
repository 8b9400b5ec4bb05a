// What the IQ2 and IQ3 formats share: runs of codebook magnitudes with a sign bit each.
#pragma once

#include <cstdint>

#include "loaders/base/host_device.h"

namespace dsv4v {

// Eight sign bits from a stored 7-bit code: the eighth makes the number of minus signs even.
DSV4V_HOST_DEVICE DSV4V_INLINE uint32_t expand_signs(uint32_t code) {
    uint32_t parity = code ^ code >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return code | (parity & 1u) << 7;
}

// out[k] = scale * grid[k], negated where bit k of `signs` is set, k < n.
DSV4V_HOST_DEVICE DSV4V_INLINE void decode_signed(const int8_t* grid, int n, uint32_t signs,
                                                  float scale, float* out) {
    for (int k = 0; k < n; ++k) {
        const float value = scale * static_cast<float>(grid[k]);
        out[k] = (signs >> k & 1u) != 0 ? -value : value;
    }
}

} // namespace dsv4v
