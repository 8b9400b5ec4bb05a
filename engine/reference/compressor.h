// Compressors: blocks of positions pooled into one row each, by a softmax over the positions of
// every channel. Ratio 4 overlaps (the previous block's first halves join), ratio 128 does not.
#pragma once

#include <span>

#include "engine/reference/step_context.h"

namespace dsv4v {

// Per channel ch < width: row[ch] = sum_j softmax_j(gate_j[ch]) * value_j[ch], j in order.
// `scratch` holds 2 * width floats.
void pool_block(std::span<const CompressorInput> entries, int32_t width, float* scratch,
                float* row);

// Projects this step's rows, completes every block whose last position is among them, stores the
// finished rows in the pages and the newest inputs in the rings. Runs before attention, so a block
// is visible from its own last token on. Attention rows get FP8sim64, indexer rows the Hadamard
// rotation and FP4sim32.
void compress(const StepContext& ctx, const ReferenceLayer& layer, CompressorKind kind);

} // namespace dsv4v
