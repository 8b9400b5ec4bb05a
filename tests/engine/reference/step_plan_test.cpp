#include "engine/reference/step_plan.h"

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

TEST(StepPlan, WindowHoldsExactlyItsWidthWithSelf) {
    for (const int64_t position : {0, 1, 126, 127, 128, 129, 5000}) {
        const RawRange range = visible_raw_rows(position, 128);
        EXPECT_EQ(range.last, position);
        EXPECT_EQ(range.last - range.first + 1, std::min<int64_t>(position + 1, 128)) << position;
    }
}

TEST(StepPlan, BlocksAreVisibleFromTheirLastToken) {
    const std::vector<std::array<int64_t, 3>> edges = {
        // position, ratio 4, ratio 128
        {0, 0, 0},    {2, 0, 0},    {3, 1, 0},    {4, 1, 0},       {126, 31, 0},   {127, 32, 1},
        {128, 32, 1}, {254, 63, 1}, {255, 64, 2}, {2050, 512, 16}, {2051, 513, 16}};
    for (const auto& [position, csa, hca] : edges) {
        EXPECT_EQ(n_visible_blocks(position, 4), csa) << position;
        EXPECT_EQ(n_visible_blocks(position, 128), hca) << position;
    }
}

Batch make_batch(std::vector<SequenceChunk> chunks) {
    Batch batch;
    int32_t n_rows = 0;
    for (SequenceChunk& chunk : chunks) {
        chunk.first_row = n_rows;
        n_rows += chunk.n_rows;
    }
    batch.chunks = std::move(chunks);
    for (int32_t i = 0; i < n_rows; ++i) {
        batch.token_ids.push_back(100 + i);
    }
    return batch;
}

TEST(StepPlan, BlocksThatCompleteInTheStep) {
    ModelConfig config;
    config.indexer_top_k = 64;
    const Batch batch = make_batch({{.slot = 3, .n_rows = 3, .first_position = 0},
                                    {.slot = 1, .n_rows = 1, .first_position = 127},
                                    {.slot = 0, .n_rows = 9, .first_position = 250}});
    StepPlan plan;
    plan.assign(batch, config);
    ASSERT_EQ(plan.n_rows(), 13);
    EXPECT_EQ(plan.row(3).position, 127);
    EXPECT_EQ(plan.row(3).chunk_idx, 1);
    EXPECT_EQ(plan.row(5).position, 251);
    EXPECT_EQ(plan.row(5).token_id, 105);

    std::vector<std::pair<int32_t, int32_t>> csa;
    for (const PlannedBlock& block : plan.csa_blocks) {
        csa.emplace_back(block.chunk_idx, block.block_idx);
    }
    EXPECT_EQ(csa, (std::vector<std::pair<int32_t, int32_t>>{{1, 31}, {2, 62}, {2, 63}}));
    ASSERT_EQ(plan.hca_blocks.size(), 2u);
    EXPECT_EQ(plan.hca_blocks[0].block_idx, 0);
    EXPECT_EQ(plan.hca_blocks[1].block_idx, 1);
    EXPECT_FALSE(plan.indexer_must_choose);
}

TEST(StepPlan, IndexerChoosesOnlyBeyondTopK) {
    ModelConfig config;
    config.indexer_top_k = 64;
    StepPlan plan;
    plan.assign(make_batch({{.n_rows = 1, .first_position = 258}}), config); // 64 blocks
    EXPECT_FALSE(plan.indexer_must_choose);
    plan.assign(make_batch({{.n_rows = 1, .first_position = 259}}), config); // 65 blocks
    EXPECT_TRUE(plan.indexer_must_choose);
}

} // namespace
} // namespace dsv4v
