// The CPU backend: the model of docs/model.md in float32, in executable form. It is what the other
// backends are compared with, and fast enough to serve small models.
#pragma once

#include <memory>
#include <string>

#include "engine/backend.h"
#include "engine/reference/kv_cache.h"
#include "engine/reference/reference_model.h"
#include "engine/reference/step_context.h"
#include "engine/reference/step_plan.h"
#include "engine/reference/worker_pool.h"

namespace dsv4v {

struct ReferenceOptions {
    Numerics numerics = Numerics::kAuthor;
    int32_t max_sequences = 1;
    int32_t n_pages = 1;
    int32_t max_batch_tokens = 128;
    int32_t context_length = 128;
    int32_t n_threads = 0; // 0 = one per core
};

// Used by one thread at a time; has its own worker threads.
class ReferenceBackend : public Backend {
  public:
    // Copies `config` and the views of `weights`; the mapped file behind them must outlive the
    // backend. Fails when a number of the model is not supported (kUnsupported), a table of it is
    // out of range (kCorrupt) or memory is short (kResourceExhausted).
    [[nodiscard]] static Expected<std::unique_ptr<ReferenceBackend>>
    create(const ModelConfig& config, const Weights& weights, const ReferenceOptions& options);

    [[nodiscard]] const BackendLimits& limits() const override { return limits_; }
    [[nodiscard]] Expected<void> step(const Batch& batch, StepResult& result) override;
    void copy_pages(std::span<const PageCopy> copies) override;
    void reset_slot(int32_t slot) override;
    void set_probe(Probe* probe) override { probe_ = probe; }
    [[nodiscard]] std::string description() const override;

  private:
    ReferenceBackend(ReferenceModel model, const ReferenceOptions& options, int32_t n_threads);

    ReferenceModel model_;
    BackendLimits limits_;
    WorkerPool workers_;
    KvCache cache_;
    Workspace workspace_;
    StepPlan plan_;
    Probe* probe_ = nullptr;
};

} // namespace dsv4v
