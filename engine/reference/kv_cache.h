// The memory of all sequences. What grows lives in pages, what slides in rings (docs/model.md,
// "State"):
// - compressed rows, keyed by page: a page of 128 tokens holds 32 attention and 32 indexer rows of
//   every ratio-4 layer and one row of every ratio-128 layer. Row c of a sequence lies in its page
//   c / (128 / ratio).
// - raw window and compressor inputs, keyed by slot and by position modulo the ring length, so
//   that dropping up to kRollbackTokens tokens is a length change.
// Everything is zero at first: masked reads must meet finite values. Not thread-safe, except that
// different rows may be written at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/memory_plan.h"
#include "loaders/model_config.h"

namespace dsv4v {

// Which of a layer's compressors: the attention one (ratio 4 and 128) or the indexer's (ratio 4).
enum class CompressorKind { kAttention, kIndexer };

// Ring lengths in positions; MemoryPlan counts with the same.
[[nodiscard]] constexpr int32_t raw_ring_length(int32_t sliding_window) {
    return sliding_window + kRollbackTokens;
}
[[nodiscard]] constexpr int32_t compressor_ring_length(int32_t ratio) {
    return (ratio == 4 ? 8 : ratio) + kRollbackTokens; // an overlapping block reads 8 positions
}

// The inputs of a compressor at one position, c * width values each.
struct CompressorInput {
    float* value = nullptr;
    float* gate = nullptr; // position term already added
};

class KvCache {
  public:
    KvCache(const ModelConfig& config, int32_t max_sequences, int32_t n_pages);

    // Raw row [head_dim] of `position` in the slot's ring.
    [[nodiscard]] float* raw_row(int32_t layer_idx, int32_t slot, int64_t position);
    [[nodiscard]] CompressorInput compressor_input(int32_t layer_idx, CompressorKind kind,
                                                   int32_t slot, int64_t position);
    // Compressed row `row_idx` ([head_dim] or [indexer_dim]) of the sequence with that page table.
    [[nodiscard]] float* compressed_row(int32_t layer_idx, CompressorKind kind,
                                        std::span<const int32_t> page_table, int64_t row_idx);

    // Storage of all pages and all rings, as MemoryPlan::pages_bytes and slots_bytes.
    [[nodiscard]] uint64_t pages_bytes() const;
    [[nodiscard]] uint64_t slots_bytes() const;

    void copy_page(PageCopy copy);
    void reset_slot(int32_t slot);

  private:
    struct CompressorStore {
        int64_t width = 0;         // of a row
        int64_t input_width = 0;   // c * width
        int64_t rows_per_page = 0; // 128 / ratio
        int64_t ring_length = 0;
        std::vector<float> rows;   // [n_pages, rows_per_page, width]
        std::vector<float> inputs; // [max_sequences, ring_length, 2, input_width]
    };
    struct LayerStore {
        std::vector<float> raw; // [max_sequences, raw ring, head_dim]
        CompressorStore attention;
        CompressorStore indexer;
    };

    static CompressorStore make_store(int32_t ratio, int32_t width, int32_t max_sequences,
                                      int32_t n_pages);
    [[nodiscard]] CompressorStore& store(int32_t layer_idx, CompressorKind kind);

    int64_t head_dim_;
    int64_t raw_ring_length_;
    int32_t max_sequences_;
    std::vector<LayerStore> layers_;
};

} // namespace dsv4v
