#include "engine/reference/compressor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/reference/matmul.h"
#include "engine/reference/ops.h"
#include "engine/reference/parallel.h"
#include "engine/reference/rope.h"

namespace dsv4v {
namespace {

struct CompressorRun {
    const StepContext& ctx;
    const CompressorWeights& weights;
    int32_t layer_idx;
    CompressorKind kind;
};

void project(const CompressorRun& run) {
    Workspace& ws = run.ctx.ws;
    const CompressorWeights& w = run.weights;
    const int64_t n_rows = run.ctx.plan.n_rows();
    const int64_t hidden = run.ctx.model.config.hidden;
    matmul({w.kv, 0, w.input_width, ws.x.data(), hidden, n_rows, ws.compressor_value.data(),
            w.input_width});
    matmul({w.gate, 0, w.input_width, ws.x.data(), hidden, n_rows, ws.compressor_gate.data(),
            w.input_width});
    parallel_for(n_rows, w.input_width, [&](int64_t row, int) {
        const int64_t phase = run.ctx.plan.row(row).position % w.ratio;
        const float* ape = w.ape.data() + phase * w.input_width;
        float* gate = ws.compressor_gate.data() + row * w.input_width;
        for (int32_t i = 0; i < w.input_width; ++i) {
            gate[i] += ape[i];
        }
    });
}

// Inputs at `position` of a chunk's sequence: from this step's rows, or from the ring.
CompressorInput input_at(const CompressorRun& run, const SequenceChunk& chunk, int64_t position) {
    if (position < chunk.first_position) {
        return run.ctx.cache.compressor_input(run.layer_idx, run.kind, chunk.slot, position);
    }
    const int64_t row = chunk.first_row + position - chunk.first_position;
    const int64_t offset = row * run.weights.input_width;
    return {run.ctx.ws.compressor_value.data() + offset,
            run.ctx.ws.compressor_gate.data() + offset};
}

void pool_planned(const CompressorRun& run, const PlannedBlock& block, float* scratch, float* row) {
    const SequenceChunk& chunk = run.ctx.plan.chunk(block.chunk_idx);
    const CompressorWeights& w = run.weights;
    const int64_t first = int64_t{block.block_idx} * w.ratio;
    std::array<CompressorInput, 128> entries;
    size_t n = 0;
    const bool overlaps = w.ratio == 4;
    // The sequence's first block has no previous one: no entry, which is weight zero.
    for (int64_t p = first - w.ratio; overlaps && first > 0 && p < first; ++p) {
        entries[n++] = input_at(run, chunk, p);
    }
    const int64_t current_half = overlaps ? w.width : 0;
    for (int64_t p = first; p < first + w.ratio; ++p) {
        const CompressorInput input = input_at(run, chunk, p);
        entries[n++] = {input.value + current_half, input.gate + current_half};
    }
    pool_block(std::span(entries).first(n), w.width, scratch, row);
}

void make_block_rows(const CompressorRun& run) {
    const ModelConfig& config = run.ctx.model.config;
    const CompressorWeights& w = run.weights;
    Workspace& ws = run.ctx.ws;
    const std::vector<float>& angles = w.ratio == 4 ? ws.cos_sin_csa_blocks : ws.cos_sin_hca_blocks;
    const std::vector<PlannedBlock>& blocks = run.ctx.plan.blocks(w.ratio);
    const int64_t block_work = int64_t{w.width} * (w.ratio == 4 ? 8 : w.ratio) * kExpWork;
    parallel_for(static_cast<int64_t>(blocks.size()), block_work, [&](int64_t i, int thread) {
        float* row = ws.block_rows.data() + i * w.width;
        float* scratch = ws.threads[static_cast<size_t>(thread)].pool.data();
        pool_planned(run, blocks[static_cast<size_t>(i)], scratch, row);
        rms_norm(row, w.norm.data(), w.width, config.rms_eps, row);
        rope_apply(row + w.width - config.rope_dim, angles.data() + i * config.rope_dim,
                   config.rope_dim);
    });
}

void finish_row(const CompressorRun& run, float* row) {
    const bool author = run.ctx.model.numerics == Numerics::kAuthor;
    if (run.kind == CompressorKind::kIndexer) {
        hadamard(row, run.weights.width);
        if (author) {
            fp4_sim32(row, run.weights.width);
        }
    } else if (author) {
        fp8_sim64(row, run.weights.width - run.ctx.model.config.rope_dim);
    }
}

void store_block_rows(const CompressorRun& run) {
    const StepPlan& plan = run.ctx.plan;
    const int64_t width = run.weights.width;
    const std::vector<PlannedBlock>& blocks = plan.blocks(run.weights.ratio);
    for (size_t i = 0; i < blocks.size(); ++i) {
        float* row = run.ctx.ws.block_rows.data() + static_cast<int64_t>(i) * width;
        finish_row(run, row);
        const SequenceChunk& chunk = plan.chunk(blocks[i].chunk_idx);
        std::copy_n(row, width,
                    run.ctx.cache.compressed_row(run.layer_idx, run.kind, plan.pages(chunk),
                                                 blocks[i].block_idx));
    }
}

// Keeps the inputs of the newest positions for blocks that complete in later steps.
void commit_inputs(const CompressorRun& run) {
    const int64_t width = run.weights.input_width;
    const int32_t ring = compressor_ring_length(run.weights.ratio);
    for (const SequenceChunk& chunk : run.ctx.plan.chunks) {
        const int64_t end = int64_t{chunk.first_position} + chunk.n_rows;
        for (int64_t p = std::max<int64_t>(chunk.first_position, end - ring); p < end; ++p) {
            const CompressorInput from = input_at(run, chunk, p);
            const CompressorInput to =
                run.ctx.cache.compressor_input(run.layer_idx, run.kind, chunk.slot, p);
            std::copy_n(from.value, width, to.value);
            std::copy_n(from.gate, width, to.gate);
        }
    }
}

void announce(const CompressorRun& run, const char* name) {
    const auto n = static_cast<int64_t>(run.ctx.plan.blocks(run.weights.ratio).size());
    if (run.ctx.probe.on() && n > 0) {
        run.ctx.probe.layer_value(run.layer_idx, name, run.ctx.ws.block_rows,
                                  {n, run.weights.width});
    }
}

} // namespace

void pool_block(std::span<const CompressorInput> entries, int32_t width, float* scratch,
                float* row) {
    float* largest = scratch;
    float* sum = scratch + width;
    std::copy_n(entries[0].gate, width, largest);
    for (const CompressorInput& entry : entries.subspan(1)) {
        for (int32_t ch = 0; ch < width; ++ch) {
            largest[ch] = std::max(largest[ch], entry.gate[ch]);
        }
    }
    std::fill_n(sum, width, 0.0f);
    std::fill_n(row, width, 0.0f);
    for (const CompressorInput& entry : entries) {
        for (int32_t ch = 0; ch < width; ++ch) {
            const float weight = std::exp(entry.gate[ch] - largest[ch]);
            sum[ch] += weight;
            row[ch] += weight * entry.value[ch];
        }
    }
    for (int32_t ch = 0; ch < width; ++ch) {
        row[ch] /= sum[ch];
    }
}

void compress(const StepContext& ctx, const ReferenceLayer& layer, CompressorKind kind) {
    const bool indexer = kind == CompressorKind::kIndexer;
    const CompressorRun run{ctx, indexer ? layer.indexer_compressor : layer.compressor,
                            layer.layer_idx, kind};
    project(run);
    make_block_rows(run);
    announce(run, indexer ? "lid_rows_pre_hadamard" : "compressed_rows_rope");
    store_block_rows(run);
    announce(run, indexer ? "lid_rows" : layer.ratio == 4 ? "csa_rows" : "hca_rows");
    commit_inputs(run);
}

} // namespace dsv4v
