#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/backend.h"

namespace dsv4v {
namespace {

using ::testing::HasSubstr;

// The published model's numbers.
ModelConfig real_config() {
    ModelConfig c;
    c.n_layers = 43;
    c.context_length = 1048576;
    c.hidden = 4096;
    c.vocab_size = 129280;
    c.n_heads = 64;
    c.head_dim = 512;
    c.q_lora_rank = 1024;
    c.sliding_window = 128;
    c.n_output_groups = 8;
    c.output_lora_rank = 1024;
    c.n_indexer_heads = 64;
    c.indexer_dim = 128;
    c.indexer_top_k = 512;
    c.compress_ratios = {0, 0};
    for (int32_t i = 2; i < c.n_layers; ++i) {
        c.compress_ratios.push_back(i % 2 == 0 ? 4 : 128);
    }
    c.n_hc_streams = 4;
    c.n_experts = 256;
    c.n_experts_used = 6;
    c.expert_ffn = 2048;
    return c;
}

MemoryPlan plan(const MemoryRequest& request) {
    const Expected<MemoryPlan> made = MemoryPlan::make(real_config(), request);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made.value_or(MemoryPlan{});
}

TEST(MemoryPlan, PageOfTheRealModelInSixteenBits) {
    const MemoryPlan p = plan({.ctx_size = 128, .kv_element_bytes = 2});
    EXPECT_EQ(p.page_bytes(), 880640U);
    EXPECT_EQ(p.csa_page_bytes, 21U * 32 * 512 * 2);
    EXPECT_EQ(p.indexer_page_bytes, 21U * 32 * 128 * 2);
    EXPECT_EQ(p.hca_page_bytes, 20U * 512 * 2);
    EXPECT_EQ(p.n_pages, 1);
}

TEST(MemoryPlan, FullContextOfTheRealModelInSixteenBits) {
    const MemoryPlan p = plan({.kv_budget_bytes = uint64_t{8} << 30, .kv_element_bytes = 2});
    EXPECT_EQ(p.n_pages, 8192);
    EXPECT_EQ(p.context_length, 1048576);
    EXPECT_EQ(p.pages_bytes(), uint64_t{6880} * 1048576);
    EXPECT_EQ(format_bytes(p.pages_bytes()), "6.72 GiB");
}

TEST(MemoryPlan, RingsOfTheRealModel) {
    const MemoryPlan p = plan({.ctx_size = 128, .kv_element_bytes = 2});
    EXPECT_EQ(p.raw_ring_rows, 136);
    EXPECT_EQ(p.raw_ring_bytes, 43U * 136 * 1024);
    EXPECT_EQ(p.csa_state_bytes, 21U * 16 * 8192);
    EXPECT_EQ(p.indexer_state_bytes, 21U * 16 * 2048);
    EXPECT_EQ(p.hca_state_bytes, 20U * 136 * 4096);
}

TEST(MemoryPlan, BudgetCapsPagesAndContext) {
    const MemoryPlan p = plan(
        {.max_sequences = 4, .kv_budget_bytes = uint64_t{10} * 1761280, .kv_element_bytes = 4});
    EXPECT_EQ(p.n_pages, 10);
    EXPECT_EQ(p.context_length, 10 * kPageTokens);
}

TEST(MemoryPlan, DefaultBudgetIsWhatTheSlotsCanUseUpToFourGibibytes) {
    const MemoryPlan small = plan({.ctx_size = 1000, .max_sequences = 3});
    EXPECT_EQ(small.n_pages, 3 * 8);
    EXPECT_EQ(small.context_length, 1000);
    const MemoryPlan large = plan({.max_sequences = 16});
    EXPECT_LE(large.pages_bytes(), uint64_t{4} << 30);
    EXPECT_EQ(large.n_pages, 2438);
    // Never too small to give every slot a page.
    const MemoryPlan many = plan({.max_sequences = 5000});
    EXPECT_EQ(many.n_pages, 5000);
}

TEST(MemoryPlan, RefusesImpossibleRequests) {
    const auto message = [](const MemoryRequest& request) {
        const Expected<MemoryPlan> made = MemoryPlan::make(real_config(), request);
        return made ? std::string("accepted") : made.error().message;
    };
    EXPECT_THAT(message({.ctx_size = 1048577}), HasSubstr("ctx-size is 1048577"));
    EXPECT_THAT(message({.ctx_size = -1}), HasSubstr("ctx-size is -1"));
    EXPECT_THAT(message({.max_sequences = 0}), HasSubstr("parallel is 0"));
    EXPECT_THAT(message({.max_batch_tokens = 0}), HasSubstr("max-batch-tokens is 0"));
    EXPECT_THAT(message({.max_sequences = 2, .kv_budget_bytes = 1761280}),
                HasSubstr("hold 1 page(s) of 1.68 MiB, wanted at least 2"));
}

TEST(MemoryPlan, TotalIsTheSumOfItsParts) {
    const MemoryPlan p = plan({.ctx_size = 4096, .max_sequences = 2, .weights_bytes = 1000});
    EXPECT_EQ(p.total_bytes(), 1000 + p.pages_bytes() + 2 * p.slot_bytes() + p.workspace_bytes);
    EXPECT_GT(p.workspace_bytes, uint64_t{512} * 2 * 4 * 4096 * 4);
}

TEST(MemoryPlan, PrintsEveryPart) {
    const std::string table = plan({.ctx_size = 4096, .max_sequences = 2}).to_string();
    for (const char* part :
         {"weights", "KV pages", "ratio-4 rows", "indexer rows", "ratio-128 rows", "raw window",
          "workspace", "total", "2 sequences, up to 4096 tokens each"}) {
        EXPECT_THAT(table, HasSubstr(part));
    }
}

TEST(FormatBytes, ChoosesTheUnit) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(uint64_t{77} << 30), "77.00 GiB");
}

} // namespace
} // namespace dsv4v
