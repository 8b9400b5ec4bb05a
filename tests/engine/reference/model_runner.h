// Runs token sequences through a ReferenceBackend in chosen chunks and keeps what the probe saw.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/reference_backend.h"
#include "loaders/gguf_file.h"
#include "loaders/model_config.h"
#include "loaders/weights.h"
#include "tests/golden.h"

namespace dsv4v::testing {

struct LoadedModel {
    GgufFile file;
    ModelConfig config;
    Weights weights;
};

// Loads "tiny-a-bf16.gguf" and the like, once per process and name.
inline const LoadedModel& load_model(const std::string& name) {
    static std::map<std::string, std::unique_ptr<LoadedModel>> models;
    std::unique_ptr<LoadedModel>& model = models[name];
    if (!model) {
        auto file = GgufFile::open(unpacked("models/" + name));
        EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message);
        auto config = ModelConfig::from_gguf(*file);
        EXPECT_TRUE(config.has_value()) << (config ? "" : config.error().message);
        auto weights = Weights::bind(*file, *config);
        EXPECT_TRUE(weights.has_value()) << (weights ? "" : weights.error().message);
        model = std::make_unique<LoadedModel>(
            LoadedModel{std::move(*file), std::move(*config), std::move(*weights)});
    }
    return *model;
}

inline constexpr const char* kTinyA = "tiny-a-bf16.gguf";
inline constexpr const char* kTinyAMixed = "tiny-a-mixf.gguf";
inline constexpr const char* kTinyB = "tiny-b-mixed-00001-of-00003.gguf";

inline std::unique_ptr<ReferenceBackend> make_backend(const std::string& model_name,
                                                      const ReferenceOptions& options) {
    const LoadedModel& model = load_model(model_name);
    auto backend = ReferenceBackend::create(model.config, model.weights, options);
    EXPECT_TRUE(backend.has_value()) << (backend ? "" : backend.error().message);
    return std::move(*backend);
}

inline ReferenceOptions one_sequence(Numerics numerics, int32_t max_batch_tokens = 768) {
    return {numerics, 1, 8, max_batch_tokens, 1024, 1};
}

// Appends the values of every name over all steps.
class CollectingProbe : public Probe {
  public:
    // Only names for which `wanted` is empty or contains them are kept.
    explicit CollectingProbe(std::vector<std::string> wanted = {}) : wanted_(std::move(wanted)) {}

    void record(std::string_view name, std::span<const float> values,
                std::initializer_list<int64_t>) override {
        append(name, values);
    }
    void record(std::string_view name, std::span<const int32_t> values,
                std::initializer_list<int64_t>) override {
        append(name, values);
    }
    [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }
    [[nodiscard]] const std::vector<float>& at(const std::string& name) const {
        EXPECT_TRUE(has(name)) << name;
        return values_.at(name);
    }
    void clear() { values_.clear(); }

  private:
    template <class T>
    void append(std::string_view name, std::span<const T> values) {
        std::string key(name);
        if (!wanted_.empty() && std::find(wanted_.begin(), wanted_.end(), key) == wanted_.end()) {
            return;
        }
        std::vector<float>& all = values_[key];
        for (const T value : values) {
            all.push_back(static_cast<float>(value));
        }
    }
    std::vector<std::string> wanted_;
    std::map<std::string, std::vector<float>> values_;
};

// One sequence's share of a step: tokens[first_position .. +n_rows) with every row sampled.
struct ChunkSpec {
    int32_t slot = 0;
    std::span<const int32_t> pages;
    std::span<const int32_t> tokens;
    int32_t first_position = 0;
    int32_t n_rows = 0;
};

inline const SamplingParams& greedy_params() {
    static const SamplingParams params = [] {
        SamplingParams greedy;
        greedy.temperature = 0;
        return greedy;
    }();
    return params;
}

inline void append_chunk(Batch& batch, const ChunkSpec& spec, bool last_row_only = false) {
    SequenceChunk chunk;
    chunk.slot = spec.slot;
    chunk.first_row = static_cast<int32_t>(batch.token_ids.size());
    chunk.n_rows = spec.n_rows;
    chunk.first_position = spec.first_position;
    chunk.first_page_entry = static_cast<int32_t>(batch.page_table.size());
    chunk.n_pages = static_cast<int32_t>(spec.pages.size());
    for (const int32_t page : spec.pages) {
        batch.page_table.push_back(page);
    }
    for (int32_t i = 0; i < spec.n_rows; ++i) {
        const auto position = static_cast<size_t>(spec.first_position + i);
        batch.token_ids.push_back(spec.tokens[position]);
        if (!last_row_only || i + 1 == spec.n_rows) {
            SampleRow sample;
            sample.row = chunk.first_row + i;
            sample.params = &greedy_params();
            sample.history = spec.tokens.first(position + 1);
            sample.n_prompt_tokens = static_cast<int32_t>(position + 1);
            batch.sample_rows.push_back(sample);
        }
    }
    batch.chunks.push_back(chunk);
}

// Logits [tokens.size(), vocab] of a sequence alone in `backend`, fed `chunk_size` rows a step.
inline std::vector<float> run_alone(ReferenceBackend& backend, std::span<const int32_t> tokens,
                                    int32_t chunk_size, Probe* probe = nullptr) {
    CollectingProbe logits({"logits"});
    backend.set_probe(probe != nullptr ? probe : &logits);
    std::vector<int32_t> pages(static_cast<size_t>(backend.limits().n_pages));
    for (size_t i = 0; i < pages.size(); ++i) {
        pages[i] = static_cast<int32_t>(pages.size() - 1 - i);
    }
    const auto n_tokens = static_cast<int32_t>(tokens.size());
    for (int32_t begin = 0; begin < n_tokens; begin += chunk_size) {
        Batch batch;
        append_chunk(batch, {0, pages, tokens, begin, std::min(chunk_size, n_tokens - begin)});
        StepResult result;
        EXPECT_TRUE(backend.step(batch, result).has_value());
        EXPECT_EQ(result.tokens.size(), batch.sample_rows.size());
    }
    backend.set_probe(nullptr);
    return probe != nullptr ? std::vector<float>() : logits.at("logits");
}

inline std::vector<int32_t> as_ids(const std::vector<float>& values) {
    return {values.begin(), values.end()};
}

} // namespace dsv4v::testing
