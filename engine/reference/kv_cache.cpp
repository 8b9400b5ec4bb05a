#include "engine/reference/kv_cache.h"

#include <algorithm>

namespace dsv4v {
namespace {

int64_t compressor_inputs(int32_t ratio) {
    return ratio == 4 ? 2 : 1;
} // overlapping or not

int64_t page_floats(int32_t ratio, int64_t width) {
    return kPageTokens / ratio * width;
}

int64_t ring_floats(int32_t ratio, int64_t width) {
    return compressor_ring_length(ratio) * 2 * compressor_inputs(ratio) * width;
}

void zero_slot(std::vector<float>& values, int32_t slot, int32_t n_slots) {
    const auto length = static_cast<int64_t>(values.size()) / n_slots;
    std::fill_n(values.begin() + slot * length, length, 0.0f);
}

} // namespace

KvCache::KvCache(const ModelConfig& config, int32_t max_sequences, int32_t n_pages)
    : head_dim_(config.head_dim), raw_ring_length_(raw_ring_length(config.sliding_window)),
      max_sequences_(max_sequences) {
    for (const int32_t ratio : config.compress_ratios) {
        LayerStore& layer = layers_.emplace_back();
        layer.raw.resize(static_cast<size_t>(max_sequences * raw_ring_length_ * head_dim_));
        if (ratio != 0) {
            layer.attention = make_store(ratio, config.head_dim, max_sequences, n_pages);
        }
        if (ratio == 4) {
            layer.indexer = make_store(ratio, config.indexer_dim, max_sequences, n_pages);
        }
    }
}

KvCache::CompressorStore KvCache::make_store(int32_t ratio, int32_t width, int32_t max_sequences,
                                             int32_t n_pages) {
    CompressorStore store;
    store.width = width;
    store.input_width = compressor_inputs(ratio) * width;
    store.rows_per_page = kPageTokens / ratio;
    store.ring_length = compressor_ring_length(ratio);
    store.rows.resize(static_cast<size_t>(n_pages * page_floats(ratio, width)));
    store.inputs.resize(static_cast<size_t>(max_sequences * ring_floats(ratio, width)));
    return store;
}

KvCache::CompressorStore& KvCache::store(int32_t layer_idx, CompressorKind kind) {
    LayerStore& layer = layers_[static_cast<size_t>(layer_idx)];
    return kind == CompressorKind::kAttention ? layer.attention : layer.indexer;
}

float* KvCache::raw_row(int32_t layer_idx, int32_t slot, int64_t position) {
    const int64_t entry = slot * raw_ring_length_ + position % raw_ring_length_;
    return layers_[static_cast<size_t>(layer_idx)].raw.data() + entry * head_dim_;
}

CompressorInput KvCache::compressor_input(int32_t layer_idx, CompressorKind kind, int32_t slot,
                                          int64_t position) {
    CompressorStore& from = store(layer_idx, kind);
    const int64_t entry = slot * from.ring_length + position % from.ring_length;
    float* value = from.inputs.data() + entry * 2 * from.input_width;
    return {value, value + from.input_width};
}

float* KvCache::compressed_row(int32_t layer_idx, CompressorKind kind,
                               std::span<const int32_t> page_table, int64_t row_idx) {
    CompressorStore& from = store(layer_idx, kind);
    const int64_t page = page_table[static_cast<size_t>(row_idx / from.rows_per_page)];
    const int64_t entry = page * from.rows_per_page + row_idx % from.rows_per_page;
    return from.rows.data() + entry * from.width;
}

uint64_t KvCache::pages_bytes() const {
    uint64_t n_values = 0;
    for (const LayerStore& layer : layers_) {
        n_values += layer.attention.rows.size() + layer.indexer.rows.size();
    }
    return n_values * sizeof(float);
}

uint64_t KvCache::slots_bytes() const {
    uint64_t n_values = 0;
    for (const LayerStore& layer : layers_) {
        n_values += layer.raw.size() + layer.attention.inputs.size() + layer.indexer.inputs.size();
    }
    return n_values * sizeof(float);
}

void KvCache::copy_page(PageCopy copy) {
    const auto copy_rows = [&](CompressorStore& in) {
        const int64_t length = in.rows_per_page * in.width;
        std::copy_n(in.rows.begin() + copy.from_page * length, length,
                    in.rows.begin() + copy.to_page * length);
    };
    for (LayerStore& layer : layers_) {
        copy_rows(layer.attention);
        copy_rows(layer.indexer);
    }
}

void KvCache::reset_slot(int32_t slot) {
    for (LayerStore& layer : layers_) {
        zero_slot(layer.raw, slot, max_sequences_);
        zero_slot(layer.attention.inputs, slot, max_sequences_);
        zero_slot(layer.indexer.inputs, slot, max_sequences_);
    }
}

} // namespace dsv4v
