// The forward pass of one step, stage after stage in the order of docs/model.md. float32, no
// fusion. Bits of a row depend on its own sequence only.
#pragma once

#include <cstdint>
#include <span>

#include "engine/batch.h"
#include "engine/reference/step_context.h"

namespace dsv4v {

// cos and sin of every row's position and of the first position of every completed block.
void compute_angles(const StepContext& ctx);

// Runs every layer over all rows of the plan; leaves the residual streams in ws.streams and the
// sequences' state advanced.
void run_layers(const StepContext& ctx);

// ws.logits [n_sample_rows, V] of the sampled rows, in order.
void run_exit(const StepContext& ctx, std::span<const SampleRow> sample_rows);

} // namespace dsv4v
