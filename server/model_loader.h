// From options to a model that can serve: files, memory plan, backend, engine.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/memory_plan.h"
#include "loaders/base/error.h"
#include "loaders/gguf_file.h"
#include "loaders/model_config.h"
#include "loaders/weights.h"
#include "server/options.h"
#include "server/serving_context.h"

namespace dsv4v {

// The files of a model, read and checked. `weights` points into `file`.
struct ModelFiles {
    GgufFile file;
    ModelConfig config;
    Weights weights;
    bool has_projector = false;
};

// Opens --model and --mmproj and checks kind, keys, and names, formats and shapes of all tensors.
[[nodiscard]] Expected<ModelFiles> open_model_files(const Options& options);

// What the model needs under these options.
[[nodiscard]] Expected<MemoryPlan> plan_memory(const ModelFiles& files, const Options& options);

// Loads everything, starts the engine and runs one token through it. `progress` is told fractions.
[[nodiscard]] Expected<std::unique_ptr<LoadedModel>>
load_model(const Options& options, const std::function<void(double)>& progress);

} // namespace dsv4v
