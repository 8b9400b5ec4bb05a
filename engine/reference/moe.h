// The feed-forward sub-block: router, routed experts and the shared expert.
#pragma once

#include <cstdint>

#include "engine/reference/step_context.h"

namespace dsv4v {

// The n_used experts with the largest scores[e] + bias[e], descending; equal: lower expert first.
// Always valid ids, also for NaN scores.
void choose_experts(const float* scores, const float* bias, int32_t n_experts, int32_t n_used,
                    int32_t* ids);

// weights[i] = scale * scores[ids[i]] / sum_k scores[ids[k]]: the unbiased scores.
void weigh_experts(const float* scores, const int32_t* ids, int32_t n_used, float scale,
                   float* weights);

// ws.y = feed-forward of ws.x.
void moe_block(const StepContext& ctx, const ReferenceLayer& layer);

} // namespace dsv4v
