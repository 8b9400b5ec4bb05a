// Hyper-connections: the residual is S parallel streams; every sub-block reads a mixture of them
// and is written back through a doubly stochastic matrix. Row-level arithmetic, all float32.
#pragma once

#include <cstdint>

namespace dsv4v {

inline constexpr int32_t kMaxHcStreams = 8;

struct HcCoefficientsArgs {
    const float* mixes; // [2S + S*S]: fn . streams, times the inverse RMS of the streams
    const float* base;  // [2S + S*S]
    const float* scale; // [3]: pre, post, comb
    int32_t n_streams;
    int32_t n_sinkhorn_iterations;
    float eps;   // hyper_connection.epsilon
    float* pre;  // [S], out
    float* post; // [S], out
    float* comb; // [S, S] source-major, out
};

// pre = sigmoid + eps, post = 2 sigmoid, comb = Sinkhorn.
void hc_coefficients(const HcCoefficientsArgs& args);

// Makes the [n, n] matrix `comb` (source-major) nearly doubly stochastic, in place: softmax of each
// row plus eps, a column normalization, then iterations - 1 times rows and columns.
void sinkhorn(float* comb, int32_t n, int32_t n_iterations, float eps);

// Weights of the exit: pre[s] = sigmoid(mixes[s] * scale + base[s]) + eps. No normalization.
void hc_head_weights(const float* mixes, const float* base, float scale, int32_t n_streams,
                     float eps, float* pre);

// out[D] = sum_s pre[s] * streams[s][D].
void hc_mix(const float* streams, const float* pre, int32_t n_streams, int64_t hidden, float* out);

// next[k][D] = post[k] * y[D] + sum_j comb[j][k] * streams[j][D]; `next` must not be `streams`.
void hc_post(const float* streams, const float* y, const float* post, const float* comb,
             int32_t n_streams, int64_t hidden, float* next);

} // namespace dsv4v
