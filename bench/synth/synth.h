// Writes whole synthetic models: valid files of any size with random weights, for speed, memory,
// load and soak tests on machines that have no real ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

struct SynthOptions {
    std::string prefix;          // PREFIX.gguf, or PREFIX-00001-of-0000K.gguf and so on
    std::string recipe = "tiny"; // see recipe_names()
    int32_t n_layers = 0;        // 0: the recipe's own
    int32_t n_shards = 1;        // from 2 on, the first holds metadata and exp_probs_b_vl only
    std::string vocab = "small"; // small, or real (read from vocab_file)
    std::string vocab_file;      // as tests/data/tokenizer/dsv4_vocab.txt.gz
    std::string projector;       // empty, split or fused: also write PREFIX-mmproj.gguf
    uint64_t seed = 1;
    bool sparse = false;   // leave large tensors as holes: zero weights, next to no disk
    int32_t n_threads = 0; // 0: all; the bytes do not depend on it
};

struct SynthReport {
    std::vector<std::string> paths; // shards in order, then the projector
    size_t n_tensors = 0;           // of the language model
    uint64_t n_bytes = 0;           // of the language model's files
};

[[nodiscard]] Expected<SynthReport> write_synthetic_model(const SynthOptions& options);

} // namespace dsv4v
