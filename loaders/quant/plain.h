// Unquantized formats: a block is one element.
// F32 little-endian binary32 | F16 binary16 | BF16 upper half of a binary32 | I32 two's complement.
#pragma once

#include "loaders/base/host_device.h"
#include "loaders/base/unaligned.h"
#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

namespace dsv4v {

struct BlockF32 {
    static constexpr QuantFormat kFormat = QuantFormat::kF32;
    static constexpr int kElements = 1;

    StoredU32 bits;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        *out = float_from_bits(bits.value());
    }
};
static_assert(sizeof(BlockF32) == 4 && alignof(BlockF32) == 1);

struct BlockF16 {
    static constexpr QuantFormat kFormat = QuantFormat::kF16;
    static constexpr int kElements = 1;

    StoredF16 x;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        *out = x.value();
    }
};
static_assert(sizeof(BlockF16) == 2 && alignof(BlockF16) == 1);

struct BlockBF16 {
    static constexpr QuantFormat kFormat = QuantFormat::kBF16;
    static constexpr int kElements = 1;

    StoredU16 bits;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        *out = float_from_bf16(static_cast<uint16_t>(bits.value()));
    }
};
static_assert(sizeof(BlockBF16) == 2 && alignof(BlockBF16) == 1);

struct BlockI32 {
    static constexpr QuantFormat kFormat = QuantFormat::kI32;
    static constexpr int kElements = 1;

    StoredU32 bits;

    DSV4V_HOST_DEVICE DSV4V_INLINE void decode(const Codebooks&, float* out) const {
        *out = static_cast<float>(static_cast<int32_t>(bits.value()));
    }
};
static_assert(sizeof(BlockI32) == 4 && alignof(BlockI32) == 1);

} // namespace dsv4v
