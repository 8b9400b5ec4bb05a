// Sums and products of numbers that come from a file: the result, or nothing when it does not fit.
#pragma once

#include <cstdint>
#include <optional>

namespace dsv4v {

[[nodiscard]] constexpr std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        return std::nullopt;
    }
    return sum;
}

[[nodiscard]] constexpr std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        return std::nullopt;
    }
    return product;
}

// Next multiple of `alignment`, a power of two.
[[nodiscard]] constexpr std::optional<uint64_t> checked_align_up(uint64_t value,
                                                                 uint64_t alignment) {
    const std::optional<uint64_t> sum = checked_add(value, alignment - 1);
    if (!sum) {
        return std::nullopt;
    }
    return *sum & ~(alignment - 1);
}

} // namespace dsv4v
