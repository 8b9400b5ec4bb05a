// Rotary position embedding: interleaved pairs (x[2i], x[2i+1]) turned by position * f_i, with unit
// amplitude. It covers the last rope_dim elements of a row; callers pass a pointer to those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dsv4v {

struct YarnParams {
    double factor = 1;
    double original_context = 0; // positions
    double beta_fast = 32;
    double beta_slow = 1;
};

// f_i = base^(-2i/rope_dim), i < rope_dim/2: layers without compression.
std::vector<double> rope_frequencies(int32_t rope_dim, double base);

// The same with YaRN interpolation of the slow pairs: every layer with compression, for queries,
// raw rows, compressed rows and the indexer. No amplitude or softmax factor belongs to it.
std::vector<double> yarn_rope_frequencies(int32_t rope_dim, double base, const YarnParams& yarn);

// cos_sin[2i], cos_sin[2i+1] = cos, sin of position * f_i, computed in double: at a million
// positions a float product is off by up to 0.06 rad.
void rope_angles(std::span<const double> frequencies, int64_t position, float* cos_sin);

// Rotates x[0..rope_dim) by the angles.
void rope_apply(float* x, const float* cos_sin, int32_t rope_dim);

// Rotates by the negative angles.
void rope_invert(float* x, const float* cos_sin, int32_t rope_dim);

} // namespace dsv4v
