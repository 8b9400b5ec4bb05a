#include "engine/reference/step_plan.h"

#include <algorithm>

namespace dsv4v {
namespace {

void append_blocks(const SequenceChunk& chunk, int32_t chunk_idx, int32_t ratio,
                   std::vector<PlannedBlock>& blocks) {
    const int32_t end = chunk.first_position + chunk.n_rows;
    for (int32_t b = chunk.first_position / ratio; b < end / ratio; ++b) {
        blocks.push_back({chunk_idx, b});
    }
}

} // namespace

RawRange visible_raw_rows(int64_t position, int32_t sliding_window) {
    return {std::max<int64_t>(0, position - sliding_window + 1), position};
}

int64_t n_visible_blocks(int64_t position, int32_t ratio) {
    return (position + 1) / ratio;
}

void StepPlan::assign(const Batch& batch, const ModelConfig& config) {
    chunks = batch.chunks;
    page_table = batch.page_table;
    rows.clear();
    csa_blocks.clear();
    hca_blocks.clear();
    indexer_must_choose = false;
    for (int32_t c = 0; c < static_cast<int32_t>(chunks.size()); ++c) {
        const SequenceChunk& chunk = chunks[static_cast<size_t>(c)];
        for (int32_t i = 0; i < chunk.n_rows; ++i) {
            const int32_t id = batch.token_ids[static_cast<size_t>(chunk.first_row + i)];
            rows.push_back({c, chunk.first_position + i, id});
        }
        append_blocks(chunk, c, 4, csa_blocks);
        append_blocks(chunk, c, 128, hca_blocks);
        const int64_t last_position = int64_t{chunk.first_position} + chunk.n_rows - 1;
        indexer_must_choose |= n_visible_blocks(last_position, 4) > config.indexer_top_k;
    }
}

} // namespace dsv4v
