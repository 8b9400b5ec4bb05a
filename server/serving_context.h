// What request handlers share: options, metrics, readiness, and the model once it is loaded.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "engine/tokenizer.h"
#include "loaders/base/check.h"
#include "loaders/model_config.h"
#include "server/error_reply.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/request_registry.h"

namespace dsv4v {

enum class ServingState { kLoading, kReady, kDraining, kFailed };

// Everything that exists only after loading. Members are destroyed bottom up: the engine first.
struct LoadedModel {
    std::shared_ptr<const void> storage; // what the backend reads from
    ModelConfig config;
    Tokenizer tokenizer;
    std::unique_ptr<Engine> engine;
    std::string digest; // SHA-256 of the file's head, hex
    std::string quant;  // most frequent weight format
    uint64_t n_params = 0;
    uint64_t size_bytes = 0;
    uint64_t kv_bytes = 0;
    std::string backend;        // Backend::description()
    bool has_projector = false; // a vision file was given and is of the right kind
};

// Lives as long as the server. Setters: the application only. Getters: any thread.
class ServingContext {
  public:
    ServingContext(const Options& server_options, Metrics& server_metrics)
        : options(server_options),
          metrics(server_metrics), error_style{.int_codes = server_options.error_code_int,
                                               .deepseek_status_codes =
                                                   server_options.deepseek_status_codes} {}

    const Options& options;
    Metrics& metrics;
    const ErrorStyle error_style;
    RequestRegistry requests;
    const std::chrono::system_clock::time_point started_at = std::chrono::system_clock::now();

    // Null until loaded; afterwards the same pointer for ever. Routes with needs_model never see
    // null.
    [[nodiscard]] const LoadedModel* loaded() const {
        return published_.load(std::memory_order_acquire);
    }
    [[nodiscard]] const LoadedModel& model() const {
        const LoadedModel* model = loaded();
        DSV4V_CHECK(model != nullptr);
        return *model;
    }
    [[nodiscard]] Engine& engine() const { return *model().engine; }

    [[nodiscard]] ServingState state() const { return state_.load(std::memory_order_acquire); }
    [[nodiscard]] double progress() const { return progress_.load(std::memory_order_relaxed); }

    void set_state(ServingState state) { state_.store(state, std::memory_order_release); }
    // Only from `from`; false otherwise.
    bool change_state(ServingState from, ServingState to) {
        return state_.compare_exchange_strong(from, to);
    }
    void set_progress(double fraction) { progress_.store(fraction, std::memory_order_relaxed); }
    // Once. The state becomes kReady unless draining has begun meanwhile.
    void publish(std::unique_ptr<LoadedModel> model) {
        owned_ = std::move(model);
        published_.store(owned_.get(), std::memory_order_release);
        progress_.store(1.0, std::memory_order_relaxed);
        ServingState expected = ServingState::kLoading;
        state_.compare_exchange_strong(expected, ServingState::kReady);
    }

  private:
    std::unique_ptr<LoadedModel> owned_;
    std::atomic<const LoadedModel*> published_{nullptr};
    std::atomic<ServingState> state_{ServingState::kLoading};
    std::atomic<double> progress_{0};
};

} // namespace dsv4v
