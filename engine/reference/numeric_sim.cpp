#include "engine/reference/numeric_sim.h"

#include <algorithm>
#include <cmath>

namespace dsv4v {
namespace {

// Rounds to `mantissa_bits` below the leading bit; exponents under `min_exponent` share its grid.
float round_to_grid(float x, int min_exponent, int mantissa_bits) {
    int exponent = 0;
    std::frexp(x, &exponent); // |x| in [2^(exponent-1), 2^exponent)
    const float step = std::ldexp(1.0f, std::max(exponent - 1, min_exponent) - mantissa_bits);
    return std::nearbyint(x / step) * step; // division by a power of two is exact
}

// Smallest power of two that is at least `ratio`; exact, unlike a rounded log2.
float power_of_two_at_least(double ratio) {
    int exponent = 0;
    const double mantissa = std::frexp(ratio, &exponent);
    return std::ldexp(1.0f, mantissa == 0.5 ? exponent - 1 : exponent);
}

float largest_magnitude(const float* values, int64_t n, float at_least) {
    float largest = at_least;
    for (int64_t i = 0; i < n; ++i) {
        largest = std::max(largest, std::fabs(values[i]));
    }
    return largest;
}

void round_trip(float* values, int64_t n, float floor, float limit, float (*round)(float)) {
    const float largest = largest_magnitude(values, n, floor);
    if (!std::isfinite(largest)) {
        return; // nothing sensible to round; the row ends as a non-finite logit
    }
    const float scale = power_of_two_at_least(static_cast<double>(largest) / limit);
    for (int64_t i = 0; i < n; ++i) {
        values[i] = scale * round(std::clamp(values[i] / scale, -limit, limit));
    }
}

} // namespace

float round_e4m3(float x) {
    return round_to_grid(x, -6, 3);
}

float round_e2m1(float x) {
    return round_to_grid(x, 0, 1);
}

void fp8_sim(float* values, int64_t n, int64_t block_width) {
    for (int64_t begin = 0; begin < n; begin += block_width) {
        round_trip(values + begin, std::min(block_width, n - begin), 1e-4f, 448.0f, round_e4m3);
    }
}

void fp8_sim64(float* values, int64_t n) {
    fp8_sim(values, n, 64);
}

void fp4_sim32(float* values, int64_t n) {
    constexpr float kFloor = 6.0f * 0x1p-126f;
    for (int64_t begin = 0; begin < n; begin += 32) {
        round_trip(values + begin, std::min<int64_t>(32, n - begin), kFloor, 6.0f, round_e2m1);
    }
}

void hadamard(float* values, int64_t n) {
    for (int64_t stride = 1; stride < n; stride *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * stride) {
            for (int64_t i = begin; i < begin + stride; ++i) {
                const float a = values[i];
                const float b = values[i + stride];
                values[i] = a + b;
                values[i + stride] = a - b;
            }
        }
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(n));
    for (int64_t i = 0; i < n; ++i) {
        values[i] *= scale;
    }
}

} // namespace dsv4v
