#include "engine/reference/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dsv4v {
namespace {

// Index of the pair that turns `rotations` times within the original context.
double yarn_pair(int32_t rope_dim, double base, double original_context, double rotations) {
    return rope_dim * std::log(original_context / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(base));
}

} // namespace

std::vector<double> rope_frequencies(int32_t rope_dim, double base) {
    std::vector<double> frequencies(static_cast<size_t>(rope_dim / 2));
    for (size_t i = 0; i < frequencies.size(); ++i) {
        frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / rope_dim);
    }
    return frequencies;
}

std::vector<double> yarn_rope_frequencies(int32_t rope_dim, double base, const YarnParams& yarn) {
    const double last = rope_dim - 1;
    const double fast_pair = yarn_pair(rope_dim, base, yarn.original_context, yarn.beta_fast);
    const double slow_pair = yarn_pair(rope_dim, base, yarn.original_context, yarn.beta_slow);
    const double low = std::clamp(std::floor(fast_pair), 0.0, last);
    const double high = std::clamp(std::ceil(slow_pair), 0.0, last);
    const double width = high == low ? 0.001 : high - low;
    std::vector<double> frequencies = rope_frequencies(rope_dim, base);
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const double blend = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
        frequencies[i] *= (1 - blend) + blend / yarn.factor;
    }
    return frequencies;
}

void rope_angles(std::span<const double> frequencies, int64_t position, float* cos_sin) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const double angle = static_cast<double>(position) * frequencies[i];
        cos_sin[2 * i] = static_cast<float>(std::cos(angle));
        cos_sin[2 * i + 1] = static_cast<float>(std::sin(angle));
    }
}

void rope_apply(float* x, const float* cos_sin, int32_t rope_dim) {
    for (int32_t i = 0; i < rope_dim; i += 2) {
        const float a = x[i];
        const float b = x[i + 1];
        x[i] = a * cos_sin[i] - b * cos_sin[i + 1];
        x[i + 1] = a * cos_sin[i + 1] + b * cos_sin[i];
    }
}

void rope_invert(float* x, const float* cos_sin, int32_t rope_dim) {
    for (int32_t i = 0; i < rope_dim; i += 2) {
        const float a = x[i];
        const float b = x[i + 1];
        x[i] = a * cos_sin[i] + b * cos_sin[i + 1];
        x[i + 1] = b * cos_sin[i] - a * cos_sin[i + 1];
    }
}

} // namespace dsv4v
