// Random tensor contents that a loader accepts and a model survives: finite block scales, and a
// standard deviation that the caller chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loaders/quant/quant_format.h"

namespace dsv4v {

// Fills whole blocks of any format but I32 with values of mean about 0 and standard deviation
// `sigma`. Deterministic for a seed whatever the number of threads.
void fill_blocks(QuantFormat format, float sigma, uint64_t seed, std::span<std::byte> out);

// Float32 contents of the small tensors.
[[nodiscard]] std::vector<float> norm_weights(size_t n, uint64_t seed);  // 1 +- 0.05
[[nodiscard]] std::vector<float> small_normals(size_t n, uint64_t seed); // deviation 0.01

// Routing table of a hash layer: `n_used` distinct experts for each token, row by row.
[[nodiscard]] std::vector<int32_t> expert_table(size_t n_tokens, int32_t n_experts, int32_t n_used,
                                                uint64_t seed);

} // namespace dsv4v
