// What a synthetic model looks like: its numbers and the name, format, shape and kind of contents
// of every tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/synth/gguf_writer.h"
#include "loaders/base/error.h"
#include "loaders/model_config.h"

namespace dsv4v {

enum class Fill {
    kMatrix,      // random, standard deviation `value`
    kNorm,        // 1 +- 0.05
    kSmall,       // normal, standard deviation 0.01
    kConstant,    // `value` everywhere
    kExpertTable, // distinct experts per token
};

struct SynthTensor {
    GgufTensor entry;
    Fill fill = Fill::kMatrix;
    float value = 0;
    bool in_first_shard = false; // beside the metadata, as published files have it
};

struct SynthModel {
    ModelConfig config;
    uint32_t file_type = 0; // general.file_type, a label
    std::vector<SynthTensor> tensors;
};

// tiny, ds4-q2, ud-iq1_s, mxfp4, q8_0
[[nodiscard]] std::span<const char* const> recipe_names();

// The language model of a recipe. `n_layers` 0 takes the recipe's own number (43 for the full-size
// ones, 5 for tiny). An unknown name or too many layers is kInvalidArgument.
[[nodiscard]] Expected<SynthModel> make_recipe(const std::string& name, int32_t n_layers,
                                               int32_t vocab_size);

// Keys of the language model, without vocabulary and split keys.
void add_model_keys(GgufKeys& keys, const SynthModel& model, const std::string& recipe);

} // namespace dsv4v
