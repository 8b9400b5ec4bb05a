// The attention sub-block: one shared key-value row per position, a sliding window of raw rows
// plus compressed rows, one sink per head, de-rotated output, grouped output projection.
#pragma once

#include <cstdint>
#include <span>

#include "engine/reference/step_context.h"

namespace dsv4v {

// out = sum_n w_n key_n / (sum_n w_n + e^(sink - M)), w_n = e^(scale <q, key_n> - M), keys in
// order. `scores` holds keys.size() floats.
void attend(const float* q, std::span<const float* const> keys, int32_t width, float scale,
            float sink, float* scores, float* out);

// ws.y = attention of ws.x; completes compressed blocks and advances the rings.
void attention_block(const StepContext& ctx, const ReferenceLayer& layer);

} // namespace dsv4v
