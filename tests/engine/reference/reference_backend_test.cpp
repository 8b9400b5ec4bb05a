#include "engine/reference/reference_backend.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/reference/logit_compare.h"
#include "tests/engine/reference/model_runner.h"

namespace dsv4v::testing {
namespace {

std::vector<int32_t> prompt(size_t n_tokens) {
    std::vector<int32_t> tokens =
        as_ids(GoldenFile(unpacked("models/tiny-a.logits700.safetensors")).at("tokens").values);
    tokens.resize(n_tokens);
    return tokens;
}

Error create_error(const ModelConfig& config, const Weights& weights) {
    const auto backend = ReferenceBackend::create(config, weights, {});
    EXPECT_FALSE(backend.has_value());
    return backend.has_value() ? Error{} : backend.error();
}

TEST(ReferenceBackend, RefusesWhatItCannotCompute) {
    const LoadedModel& model = load_model(kTinyA);
    ModelConfig config = model.config;
    config.n_hc_streams = 9;
    EXPECT_NE(create_error(config, model.weights).message.find("hyper_connection.count is 9"),
              std::string::npos);
    config = model.config;
    config.rope_dim = 15;
    EXPECT_NE(create_error(config, model.weights).message.find("rope.dimension_count is 15"),
              std::string::npos);
    config = model.config;
    config.indexer_dim = 48;
    EXPECT_NE(create_error(config, model.weights).message.find("indexer.key_length is 48"),
              std::string::npos);
    EXPECT_EQ(create_error(config, model.weights).code, ErrorCode::kUnsupported);
}

TEST(ReferenceBackend, RefusesHashTablesOutOfRange) {
    const LoadedModel& model = load_model(kTinyA);
    Weights weights = model.weights;
    TensorView& table = weights.layers[1].ffn_gate_tid2eid;
    std::vector<std::byte> bytes(table.data, table.data + table.n_bytes());
    table.data = bytes.data();
    for (const int32_t bad_id : {16, -1}) {
        std::memcpy(bytes.data() + 40, &bad_id, sizeof(bad_id));
        const Error error = create_error(model.config, weights);
        EXPECT_EQ(error.code, ErrorCode::kCorrupt);
        EXPECT_NE(error.message.find("blk.1.ffn_gate_tid2eid.weight"), std::string::npos)
            << error.message;
        EXPECT_NE(error.message.find(std::to_string(bad_id)), std::string::npos);
    }
}

TEST(ReferenceBackend, ReportsLimitsAndDescription) {
    const auto backend = make_backend(kTinyA, {Numerics::kPlain, 3, 4, 64, 256, 1});
    EXPECT_EQ(backend->limits().max_sequences, 3);
    EXPECT_EQ(backend->limits().n_pages, 4);
    EXPECT_EQ(backend->limits().max_batch_tokens, 64);
    EXPECT_EQ(backend->limits().context_length, 256);
    EXPECT_EQ(backend->limits().vocab_size, 512);
    EXPECT_EQ(backend->description(), "cpu reference, float32, plain numerics, 1 threads");
}

TEST(ReferenceBackend, SamplesOnlyTheRowsAskedFor) {
    const auto backend = make_backend(kTinyA, one_sequence(Numerics::kPlain));
    const std::vector<int32_t> tokens = prompt(20);
    const std::vector<float> all = run_alone(*backend, tokens, 20);
    const std::vector<int32_t> pages = {0};
    Batch batch;
    append_chunk(batch, {0, pages, tokens, 0, 20});
    batch.sample_rows = {batch.sample_rows[3], batch.sample_rows[3], batch.sample_rows[17]};
    batch.sample_rows[1].forced_token = 77;
    CollectingProbe probe({"logits"});
    backend->set_probe(&probe);
    StepResult result;
    ASSERT_TRUE(backend->step(batch, result).has_value());
    ASSERT_EQ(result.tokens.size(), 3u);
    EXPECT_EQ(result.tokens[0].token_id, static_cast<int32_t>(argmax(&all[3 * 512], 512)));
    EXPECT_EQ(result.tokens[1].token_id, 77);
    EXPECT_EQ(result.tokens[2].token_id, static_cast<int32_t>(argmax(&all[17 * 512], 512)));
    EXPECT_TRUE(std::equal(all.begin() + 17 * 512, all.begin() + 18 * 512,
                           probe.at("logits").begin() + 2 * 512));
}

TEST(ReferenceBackend, StepWithoutSamplesAdvancesTheState) {
    const auto backend = make_backend(kTinyA, one_sequence(Numerics::kPlain));
    const std::vector<int32_t> tokens = prompt(150);
    const std::vector<float> all = run_alone(*backend, tokens, 150);
    const std::vector<int32_t> pages = {4, 3};
    Batch batch;
    append_chunk(batch, {0, pages, tokens, 0, 149});
    batch.sample_rows.clear();
    StepResult result;
    ASSERT_TRUE(backend->step(batch, result).has_value());
    EXPECT_TRUE(result.tokens.empty());
    batch.clear();
    append_chunk(batch, {0, pages, tokens, 149, 1});
    ASSERT_TRUE(backend->step(batch, result).has_value());
    EXPECT_EQ(result.tokens.at(0).token_id, static_cast<int32_t>(argmax(&all[149 * 512], 512)));
}

// A sequence goes on in a copy of its first page while the original is overwritten.
TEST(ReferenceBackend, CopiedPagesServeLikeTheOriginal) {
    const auto backend = make_backend(kTinyA, {Numerics::kAuthor, 2, 8, 768, 1024, 1});
    const std::vector<int32_t> tokens = prompt(260);
    const std::vector<float> all = run_alone(*backend, tokens, 260);
    CollectingProbe probe({"logits"});
    const std::vector<int32_t> before = {0, 1};
    Batch batch;
    append_chunk(batch, {1, before, tokens, 0, 200}, true);
    StepResult result;
    ASSERT_TRUE(backend->step(batch, result).has_value());
    const std::vector<PageCopy> copies = {{0, 6}, {1, 5}};
    backend->copy_pages(copies);
    const std::vector<int32_t> other_tokens(200, 9);
    batch.clear();
    append_chunk(batch, {0, before, other_tokens, 0, 200}, true);
    ASSERT_TRUE(backend->step(batch, result).has_value());
    const std::vector<int32_t> after = {6, 5, 2};
    batch.clear();
    append_chunk(batch, {1, after, tokens, 200, 60});
    backend->set_probe(&probe);
    ASSERT_TRUE(backend->step(batch, result).has_value());
    EXPECT_TRUE(std::equal(all.begin() + 200 * 512, all.end(), probe.at("logits").begin()));
}

TEST(ReferenceBackend, SlotsAreReusedWithoutTrace) {
    const auto backend = make_backend(kTinyB, one_sequence(Numerics::kPlain));
    const std::vector<int32_t> tokens = prompt(40);
    const std::vector<float> fresh = run_alone(*backend, tokens, 40);
    run_alone(*backend, prompt(300), 128);
    backend->reset_slot(0);
    EXPECT_EQ(run_alone(*backend, tokens, 9), fresh);
}

TEST(ReferenceBackendDeathTest, BatchesThatBreakTheRules) {
    const auto backend = make_backend(kTinyA, {Numerics::kPlain, 2, 2, 16, 256, 1});
    const std::vector<int32_t> tokens = prompt(16);
    const std::vector<int32_t> pages = {0};
    StepResult result;
    Batch good;
    append_chunk(good, {0, pages, tokens, 0, 4});
    Batch batch = good;
    batch.token_ids[2] = 512;
    EXPECT_DEATH((void)backend->step(batch, result), "vocab_size");
    batch = good;
    batch.page_table[0] = 2;
    EXPECT_DEATH((void)backend->step(batch, result), "n_pages");
    batch = good;
    batch.chunks[0].first_position = 126; // needs a second page
    EXPECT_DEATH((void)backend->step(batch, result), "kPageTokens");
    batch = good;
    append_chunk(batch, {0, pages, tokens, 0, 4});
    EXPECT_DEATH((void)backend->step(batch, result), "slot_taken");
}

} // namespace
} // namespace dsv4v::testing
