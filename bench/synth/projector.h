// Synthetic image projector files of the deepseek4v shape.
#pragma once

#include <vector>

#include "bench/synth/recipe.h"

namespace dsv4v {

enum class ProjectorForm {
    kSplit, // attn_q, attn_k, attn_v, as published
    kFused, // attn_qkv, as the stock converter writes
};

// Tensors of a projector whose rows fit a language model of width `hidden`: the published geometry
// (32 blocks of width 1024) for 4096, a small one (2 blocks of 128) for any other width.
[[nodiscard]] std::vector<SynthTensor> projector_tensors(int32_t hidden, ProjectorForm form);

void add_projector_keys(GgufKeys& keys, int32_t hidden);

} // namespace dsv4v
