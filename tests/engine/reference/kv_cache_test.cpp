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
    for (int64_t position = 100; position < 100 + 16 + kMaxRollback; ++position) {
        raw.insert(cache.raw_row(0, 1, position));
    }
    EXPECT_EQ(raw.size(), 16u + kMaxRollback);
    EXPECT_EQ(cache.raw_row(0, 1, 100), cache.raw_row(0, 1, 100 + 16 + kMaxRollback));
    EXPECT_FALSE(raw.contains(cache.raw_row(0, 0, 100)));
    const CompressorInput input = cache.compressor_input(2, CompressorKind::kAttention, 0, 5);
    EXPECT_EQ(input.gate - input.value, 8);
    EXPECT_EQ(
        cache.compressor_input(2, CompressorKind::kAttention, 0, 5 + 128 + kMaxRollback).value,
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

TEST(KvCache, BytesOfTheRealShape) {
    ModelConfig config;
    config.head_dim = 512;
    config.indexer_dim = 128;
    config.sliding_window = 128;
    config.compress_ratios = {0, 0};
    for (int32_t i = 0; i < 41; ++i) {
        config.compress_ratios.push_back(i % 2 == 0 ? 4 : 128);
    }
    const KvCacheBytes bytes = kv_cache_bytes(config, 1, 1);
    EXPECT_EQ(bytes.pages, 128 * 6880 * 2); // 6880 bytes a token at two bytes a value
    const int64_t raw = 43 * 136 * 512;
    const int64_t csa = 21 * 16 * 2 * (1024 + 256);
    const int64_t hca = 20 * 136 * 2 * 512;
    EXPECT_EQ(bytes.rings, 4 * (raw + csa + hca));
}

} // namespace
} // namespace dsv4v
