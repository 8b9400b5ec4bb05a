// What a person wants to know about a model file before serving it.
#pragma once

#include <string>

#include "loaders/gguf_file.h"
#include "loaders/model_config.h"
#include "loaders/weights.h"

namespace dsv4v {

// Several lines: files with sizes, the model's numbers, tensors by format, warnings. Reads headers
// and directories only, no tensor data.
[[nodiscard]] std::string model_report(const GgufFile& file, const ModelConfig& config,
                                       const Weights& weights);

// Opens `path` (any shard), checks keys, tensors and vocabulary, and reports. The error says what
// is wrong with the file.
[[nodiscard]] Expected<std::string> check_model(const std::string& path);

} // namespace dsv4v
