// Products of stored weight rows with float32 vectors: the dense arithmetic of the CPU backend.
// Vector code for the best instruction set of this machine is chosen at run time; the current
// worker pool splits the rows. All functions are safe to call from several threads at once.
#pragma once

#include <cstdint>

#include "loaders/tensor_view.h"

namespace dsv4v {

struct MatmulArgs {
    TensorView weight;        // K = weight.width() inputs per row, any format
    int64_t first_row = 0;    // counted over all slices: row r of expert e is e * ne[1] + r
    int64_t n_out = 0;        // weight rows used, first_row .. first_row + n_out - 1
    const float* x = nullptr; // [n, K]
    int64_t x_stride = 0;     // floats between input rows, >= K
    int64_t n = 0;            // input rows
    float* out = nullptr;     // [n, n_out]; must not overlap x
    int64_t out_stride = 0;   // floats between output rows, >= n_out
};

// out[t * out_stride + r] = sum_k W[first_row + r][k] * x[t * x_stride + k], accumulated in float32
// within 1e-6 of the sum of absolute products. Weights are used at the exact values of decode_row.
// The bits of an output depend only on its weight row and its input row: not on n, on n_out, on
// the position in the batch or on the number of threads.
void matmul(const MatmulArgs& args);

// sum_k a[k] * b[k], in the same order and with the same bits as matmul with an F32 weight row.
[[nodiscard]] float dot(const float* a, const float* b, int64_t n);

// acc[i] += weight * values[i], i < n; one rounding or two, depending on the machine.
void scale_add(float* acc, float weight, const float* values, int64_t n);

} // namespace dsv4v
