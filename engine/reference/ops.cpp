#include "engine/reference/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/reference/matmul.h"

namespace dsv4v {

float inverse_rms(const float* x, int64_t n, float eps) {
    return 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
    const float scale = inverse_rms(x, n, eps);
    if (weight == nullptr) {
        for (int64_t i = 0; i < n; ++i) {
            out[i] = x[i] * scale;
        }
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        out[i] = x[i] * scale * weight[i];
    }
}

float sigmoid(float x) {
    return 1.0f / (1.0f + std::exp(-x));
}

float sqrt_softplus(float x) {
    // log(1 + e^x) alone loses everything below -17 and overflows above 88.
    return std::sqrt(std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))));
}

void swiglu(float* gate, const float* up, int64_t n, float clamp) {
    const float limit = clamp > 1e-6f ? clamp : std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < n; ++i) {
        const float g = std::min(gate[i], limit);
        const float u = std::clamp(up[i], -limit, limit);
        gate[i] = g * sigmoid(g) * u;
    }
}

} // namespace dsv4v
