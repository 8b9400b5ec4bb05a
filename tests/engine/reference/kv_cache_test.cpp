#include "engine/reference/kv_cache.h"

#include <set>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

ModelConfig small_config() {
    ModelConfig config;
    config.n_layers = 3;
    config.compress_ratios = {0, 4, 128};
    config.head_dim = 8;
    config.indexer_dim = 4;
    config.sliding_window = 16;
    return config;
}

TEST(KvCache, EveryRowHasItsOwnPlace) {
    KvCache cache(small_config(), 2, 3);
    const std::vector<int32_t> pages = {2, 0, 1};
    std::set<float*> seen;
    for (int64_t row = 0; row < 96; ++row) {
        seen.insert(cache.compressed_row(1, CompressorKind::kAttention, pages, row));
        seen.insert(cache.compressed_row(1, CompressorKind::kIndexer, pages, row));
    }
    for (int64_t row = 0; row < 3; ++row) {
        seen.insert(cache.compressed_row(2, CompressorKind::kAttention, pages, row));
    }
    EXPECT_EQ(seen.size(), 96u * 2 + 3);
    // Row 32 is the first of the second page, which is page 0.
    float* first = cache.compressed_row(1, CompressorKind::kAttention, std::vector<int32_t>{0}, 0);
    EXPECT_EQ(cache.compressed_row(1, CompressorKind::kAttention, pages, 32), first);
    EXPECT_EQ(cache.compressed_row(1, CompressorKind::kAttention, pages, 33), first + 8);
}

TEST(KvCache, RingsHoldWindowAndRollback) {
    KvCache cache(small_config(), 2, 1);
    std::set<float*> raw;
    for (int64_t position = 100; position < 100 + 16 + kRollbackTokens; ++position) {
        raw.insert(cache.raw_row(0, 1, position));
    }
    EXPECT_EQ(raw.size(), 16u + kRollbackTokens);
    EXPECT_EQ(cache.raw_row(0, 1, 100), cache.raw_row(0, 1, 100 + 16 + kRollbackTokens));
    EXPECT_FALSE(raw.contains(cache.raw_row(0, 0, 100)));
    const CompressorInput input = cache.compressor_input(2, CompressorKind::kAttention, 0, 5);
    EXPECT_EQ(input.gate - input.value, 8);
    EXPECT_EQ(
        cache.compressor_input(2, CompressorKind::kAttention, 0, 5 + 128 + kRollbackTokens).value,
        input.value);
}

TEST(KvCache, ResetClearsOneSlot) {
    KvCache cache(small_config(), 2, 1);
    for (const int32_t slot : {0, 1}) {
        *cache.raw_row(0, slot, 3) = 1;
        *cache.compressor_input(1, CompressorKind::kAttention, slot, 3).value = 2;
        *cache.compressor_input(1, CompressorKind::kIndexer, slot, 3).gate = 3;
    }
    cache.reset_slot(0);
    EXPECT_EQ(*cache.raw_row(0, 0, 3), 0);
    EXPECT_EQ(*cache.compressor_input(1, CompressorKind::kAttention, 0, 3).value, 0);
    EXPECT_EQ(*cache.compressor_input(1, CompressorKind::kIndexer, 0, 3).gate, 0);
    EXPECT_EQ(*cache.raw_row(0, 1, 3), 1);
    EXPECT_EQ(*cache.compressor_input(1, CompressorKind::kAttention, 1, 3).value, 2);
    EXPECT_EQ(*cache.compressor_input(1, CompressorKind::kIndexer, 1, 3).gate, 3);
}

TEST(KvCache, CopiesWholePages) {
    KvCache cache(small_config(), 1, 2);
    const std::vector<int32_t> from = {0};
    const std::vector<int32_t> to = {1};
    cache.compressed_row(1, CompressorKind::kAttention, from, 31)[7] = 1;
    cache.compressed_row(1, CompressorKind::kIndexer, from, 31)[3] = 2;
    cache.compressed_row(2, CompressorKind::kAttention, from, 0)[7] = 3;
    cache.copy_page({0, 1});
    EXPECT_EQ(cache.compressed_row(1, CompressorKind::kAttention, to, 31)[7], 1);
    EXPECT_EQ(cache.compressed_row(1, CompressorKind::kIndexer, to, 31)[3], 2);
    EXPECT_EQ(cache.compressed_row(2, CompressorKind::kAttention, to, 0)[7], 3);
}

TEST(KvCache, IsAsLargeAsPlanned) {
    ModelConfig config = small_config();
    config.context_length = 1024;
    MemoryRequest request;
    request.max_sequences = 3;
    const auto plan = MemoryPlan::make(config, request);
    ASSERT_TRUE(plan.has_value());
    const KvCache cache(config, 3, plan->n_pages);
    EXPECT_EQ(cache.pages_bytes(), plan->pages_bytes());
    EXPECT_EQ(cache.slots_bytes(), plan->slots_bytes());
    EXPECT_EQ(plan->raw_ring_rows, raw_ring_length(16));
    EXPECT_EQ(plan->csa_ring_rows, compressor_ring_length(4));
    EXPECT_EQ(plan->hca_ring_rows, compressor_ring_length(128));
}

} // namespace
} // namespace dsv4v
