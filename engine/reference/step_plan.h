// What one step computes, derived from its Batch alone: position of every row, what each row may
// see, and which compressed blocks complete. Integer arithmetic only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch.h"
#include "loaders/model_config.h"

namespace dsv4v {

struct RawRange {
    int64_t first = 0;
    int64_t last = 0; // inclusive
};

// Positions of the raw rows that a text token at `position` attends to, itself included.
[[nodiscard]] RawRange visible_raw_rows(int64_t position, int32_t sliding_window);

// Compressed rows 0..n-1 are visible at `position`: block c from its own last token on.
[[nodiscard]] int64_t n_visible_blocks(int64_t position, int32_t ratio);

struct PlannedRow {
    int32_t chunk_idx = 0;
    int32_t position = 0;
    int32_t token_id = 0;
};

// A block of `ratio` positions whose last one is a row of this step.
struct PlannedBlock {
    int32_t chunk_idx = 0;
    int32_t block_idx = 0;
};

struct StepPlan {
    std::span<const SequenceChunk> chunks;
    std::span<const int32_t> page_table; // of all chunks
    std::vector<PlannedRow> rows;
    std::vector<PlannedBlock> csa_blocks; // ratio 4
    std::vector<PlannedBlock> hca_blocks; // ratio 128
    bool indexer_must_choose = false;     // some row sees more blocks than the indexer may keep

    // Rebuilds the plan; keeps references into `batch`.
    void assign(const Batch& batch, const ModelConfig& config);

    [[nodiscard]] int64_t n_rows() const { return static_cast<int64_t>(rows.size()); }
    [[nodiscard]] const SequenceChunk& chunk(int32_t chunk_idx) const {
        return chunks[static_cast<size_t>(chunk_idx)];
    }
    [[nodiscard]] const PlannedRow& row(int64_t row_idx) const {
        return rows[static_cast<size_t>(row_idx)];
    }
    [[nodiscard]] std::span<const int32_t> pages(const SequenceChunk& of) const {
        return page_table.subspan(static_cast<size_t>(of.first_page_entry),
                                  static_cast<size_t>(of.n_pages));
    }
    [[nodiscard]] const std::vector<PlannedBlock>& blocks(int32_t ratio) const {
        return ratio == 4 ? csa_blocks : hca_blocks;
    }
};

} // namespace dsv4v
