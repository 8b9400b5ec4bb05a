// The model author's quantize-dequantize round trips of cached values, and the Hadamard rotation
// that precedes one of them. The weights were trained with these. Values stay float32.
// Formulas and block rules: docs/model.md, "Numerics".
#pragma once

#include <cstdint>

namespace dsv4v {

enum class Numerics {
    kAuthor, // FP8 and FP4 round trips of cache rows, as the author's inference code
    kPlain,  // none of them; the Hadamard rotation stays
};

// Nearest E4M3 value, ties to even code; |x| must be at most 448.
float round_e4m3(float x);

// Nearest E2M1 value (0, .5, 1, 1.5, 2, 3, 4, 6 with sign), ties to even code; |x| at most 6.
float round_e2m1(float x);

// E4M3 round trip in place over blocks of 64 with a power-of-two scale each. A last block shorter
// than 64 is a block of its own width (rows whose unrotated part is no multiple of 64).
void fp8_sim64(float* values, int64_t n);

// The same with blocks of any width.
void fp8_sim(float* values, int64_t n, int64_t block_width);

// E2M1 round trip in place over blocks of 32 with a power-of-two scale each.
void fp4_sim32(float* values, int64_t n);

// Walsh-Hadamard transform in natural order, in place, scaled by 1/sqrt(n); n is a power of two.
void hadamard(float* values, int64_t n);

} // namespace dsv4v
