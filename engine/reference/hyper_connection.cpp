#include "engine/reference/hyper_connection.h"

#include <algorithm>
#include <cmath>

#include "engine/reference/matmul.h"
#include "engine/reference/ops.h"

namespace dsv4v {
namespace {

void softmax_rows(float* comb, int32_t n, float eps) {
    for (int32_t j = 0; j < n; ++j) {
        float* row = comb + j * n;
        const float largest = *std::max_element(row, row + n);
        float sum = 0;
        for (int32_t k = 0; k < n; ++k) {
            row[k] = std::exp(row[k] - largest);
            sum += row[k];
        }
        for (int32_t k = 0; k < n; ++k) {
            row[k] = row[k] / sum + eps;
        }
    }
}

// Divides the n values at `first`, `stride` apart, by their sum plus eps.
void normalize(float* first, int32_t n, int32_t stride, float eps) {
    float sum = 0;
    for (int32_t i = 0; i < n; ++i) {
        sum += first[i * stride];
    }
    for (int32_t i = 0; i < n; ++i) {
        first[i * stride] /= sum + eps;
    }
}

} // namespace

void sinkhorn(float* comb, int32_t n, int32_t n_iterations, float eps) {
    softmax_rows(comb, n, eps);
    for (int32_t iteration = 0; iteration < n_iterations; ++iteration) {
        for (int32_t j = 0; j < n && iteration > 0; ++j) {
            normalize(comb + j * n, n, 1, eps);
        }
        for (int32_t k = 0; k < n; ++k) {
            normalize(comb + k, n, n, eps);
        }
    }
}

void hc_coefficients(const HcCoefficientsArgs& args) {
    const int32_t s = args.n_streams;
    for (int32_t i = 0; i < s; ++i) {
        args.pre[i] = sigmoid(args.mixes[i] * args.scale[0] + args.base[i]) + args.eps;
        args.post[i] = 2.0f * sigmoid(args.mixes[s + i] * args.scale[1] + args.base[s + i]);
    }
    for (int32_t i = 0; i < s * s; ++i) {
        args.comb[i] = args.mixes[2 * s + i] * args.scale[2] + args.base[2 * s + i];
    }
    sinkhorn(args.comb, s, args.n_sinkhorn_iterations, args.eps);
}

void hc_head_weights(const float* mixes, const float* base, float scale, int32_t n_streams,
                     float eps, float* pre) {
    for (int32_t i = 0; i < n_streams; ++i) {
        pre[i] = sigmoid(mixes[i] * scale + base[i]) + eps;
    }
}

void hc_mix(const float* streams, const float* pre, int32_t n_streams, int64_t hidden, float* out) {
    std::fill(out, out + hidden, 0.0f);
    for (int32_t s = 0; s < n_streams; ++s) {
        scale_add(out, pre[s], streams + s * hidden, hidden);
    }
}

void hc_post(const float* streams, const float* y, const float* post, const float* comb,
             int32_t n_streams, int64_t hidden, float* next) {
    for (int32_t k = 0; k < n_streams; ++k) {
        float* out = next + k * hidden;
        std::fill(out, out + hidden, 0.0f);
        scale_add(out, post[k], y, hidden);
        for (int32_t j = 0; j < n_streams; ++j) {
            scale_add(out, comb[j * n_streams + k], streams + j * hidden, hidden);
        }
    }
}

} // namespace dsv4v
