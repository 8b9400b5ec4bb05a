// Small float32 operations of the forward pass. Each works on one row, in a fixed order, and is
// safe to call from several threads.
#pragma once

#include <cstdint>

namespace dsv4v {

// 1 / sqrt(mean(x^2) + eps) over x[0..n).
float inverse_rms(const float* x, int64_t n, float eps);

// out = x * inverse_rms(x) * weight, each [n]; a null weight means 1. `out` may be `x`.
void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out);

// 1 / (1 + e^-x).
float sigmoid(float x);

// sqrt(softplus(x)), the router's activation; finite and positive far below and above zero.
float sqrt_softplus(float x);

// gate[i] = silu(min(gate[i], clamp)) * clip(up[i], -clamp, clamp), in place over [n]. A clamp of
// at most 1e-6 means none. The gate has no lower bound.
void swiglu(float* gate, const float* up, int64_t n, float clamp);

} // namespace dsv4v
