// Little-endian numbers as they lie in files. Byte alignment, so that a struct made of them can be
// laid over any address without undefined behaviour.
#pragma once

#include <cstdint>

#include "loaders/base/host_device.h"
#include "loaders/base/narrow_float.h"

namespace dsv4v {

struct StoredU16 {
    uint8_t bytes[2];
    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE uint32_t value() const {
        return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
    }
};

struct StoredU32 {
    uint8_t bytes[4];
    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE uint32_t value() const {
        return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
               static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
    }
};

struct StoredF16 {
    StoredU16 bits;
    [[nodiscard]] DSV4V_HOST_DEVICE DSV4V_INLINE float value() const {
        return float_from_f16(static_cast<uint16_t>(bits.value()));
    }
};

} // namespace dsv4v
