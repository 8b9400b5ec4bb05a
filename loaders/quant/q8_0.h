// Q8_0 (34 bytes): 32 elements. d f16 at 0, 32 signed bytes at 2. y = d * code
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockQ8_0 {
    static constexpr QuantFormat kFormat = QuantFormat::kQ8_0;
    static constexpr int kElements = 32;

    StoredF16 d;
    int8_t codes[32];

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        const float scale = d.value();
        for (int j = 0; j < 32; ++j) {
            out[j] = scale * static_cast<float>(codes[j]);
        }
    }
};
static_assert(sizeof(BlockQ8_0) == 34 && alignof(BlockQ8_0) == 1);

} // namespace dsv4v
