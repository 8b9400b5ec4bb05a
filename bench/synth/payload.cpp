#include "bench/synth/payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/synth/random.h"
#include "loaders/base/narrow_float.h"
#include "loaders/quant/block_visitor.h"

namespace dsv4v {
namespace {

constexpr size_t kPieceBlocks = 4096; // unit of work and of seeding
constexpr float kJitter = 0.2f;       // block scales differ by this much, either way

StoredF16 stored_f16(float value) {
    const uint16_t bits = f16_from_float(value);
    return {{{static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)}}};
}

// Half of the largest code: subtracting that many scales centres the values on zero.
template <class Block>
constexpr float code_centre() {
    switch (Block::kFormat) {
    case QuantFormat::kQ2_K:
        return 1.5f;
    case QuantFormat::kQ4_1:
    case QuantFormat::kQ4_K:
        return 7.5f;
    default: // Q5_1, Q5_K
        return 15.5f;
    }
}

// Overwrites the scale fields of a block of random bytes.
template <class Block>
void set_scale(Block& block, float scale) {
    if constexpr (Block::kFormat == QuantFormat::kMXFP4) {
        block.exponent = static_cast<uint8_t>(127 + std::lround(std::log2(scale)));
    } else if constexpr (Block::kFormat == QuantFormat::kNVFP4) {
        std::fill(std::begin(block.scales), std::end(block.scales), e4m3_from_float(scale));
    } else if constexpr (Block::kFormat == QuantFormat::kIQ1_M) {
        const uint16_t bits = f16_from_float(scale);
        for (int j = 0; j < 4; ++j) { // a nibble in the top of each u16
            uint8_t& top = block.scales[j].bytes[1];
            top = static_cast<uint8_t>((top & 15) | (bits >> (4 * j) & 15) << 4);
        }
    } else {
        block.d = stored_f16(scale);
        if constexpr (requires { block.dmin; }) {
            block.dmin = stored_f16(scale * code_centre<Block>());
        } else if constexpr (requires { block.m; }) {
            block.m = stored_f16(-scale * code_centre<Block>());
        }
    }
}

void fill_random_bytes(SplitMix& random, std::byte* out, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
        const uint64_t word = random.next();
        std::memcpy(out + i, &word, std::min(sizeof(word), n_bytes - i));
    }
}

// Root mean square of decoded random blocks whose scale is 1.
template <class Block>
float unit_rms() {
    constexpr size_t kSamples = 256;
    std::vector<Block> blocks(kSamples);
    SplitMix random(1);
    fill_random_bytes(random, reinterpret_cast<std::byte*>(blocks.data()),
                      blocks.size() * sizeof(Block));
    for (Block& block : blocks) {
        set_scale(block, 1.0f);
    }
    std::vector<float> values(kSamples * Block::kElements);
    decode_row(Block::kFormat, blocks.data(), static_cast<int64_t>(values.size()), values.data());
    double sum = 0;
    for (const float value : values) {
        sum += static_cast<double>(value) * value;
    }
    return static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
}

void store(BlockF32& out, float value) {
    std::memcpy(&out, &value, sizeof(out));
}
void store(BlockF16& out, float value) {
    out.x = stored_f16(value);
}
void store(BlockBF16& out, float value) {
    const uint16_t bits = bf16_from_float(value);
    out.bits = {{static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)}};
}
void store(BlockI32& out, float value) { // only reachable for a format that has no sigma
    const auto integer = static_cast<int32_t>(value);
    std::memcpy(&out, &integer, sizeof(out));
}

template <class Block>
void fill_piece(SplitMix random, float scale, Block* blocks, size_t n) {
    if constexpr (Block::kElements == 1) {
        const float limit = scale * std::sqrt(3.0f); // of a uniform distribution
        for (size_t i = 0; i < n; ++i) {
            store(blocks[i], random.uniform(-limit, limit));
        }
    } else {
        fill_random_bytes(random, reinterpret_cast<std::byte*>(blocks), n * sizeof(Block));
        for (size_t i = 0; i < n; ++i) {
            set_scale(blocks[i], scale * random.uniform(1.0f - kJitter, 1.0f + kJitter));
        }
    }
}

} // namespace

void fill_blocks(QuantFormat format, float sigma, uint64_t seed, std::span<std::byte> out) {
    visit_block(format, [&]<class Block>(std::type_identity<Block>) {
        float scale = sigma;
        if constexpr (Block::kElements > 1) {
            scale = sigma / unit_rms<Block>();
        }
        auto* blocks = reinterpret_cast<Block*>(out.data());
        const size_t n_blocks = out.size() / sizeof(Block);
        const size_t n_pieces = (n_blocks + kPieceBlocks - 1) / kPieceBlocks;
#pragma omp parallel for schedule(static)
        for (size_t piece = 0; piece < n_pieces; ++piece) {
            const size_t begin = piece * kPieceBlocks;
            fill_piece(SplitMix(derive_seed(seed, "piece", piece)), scale, blocks + begin,
                       std::min(kPieceBlocks, n_blocks - begin));
        }
    });
}

std::vector<float> norm_weights(size_t n, uint64_t seed) {
    SplitMix random(seed);
    std::vector<float> values(n);
    std::generate(values.begin(), values.end(), [&] { return random.uniform(0.95f, 1.05f); });
    return values;
}

std::vector<float> small_normals(size_t n, uint64_t seed) {
    SplitMix random(seed);
    std::vector<float> values(n);
    std::generate(values.begin(), values.end(), [&] { return 0.01f * random.normal(); });
    return values;
}

std::vector<int32_t> expert_table(size_t n_tokens, int32_t n_experts, int32_t n_used,
                                  uint64_t seed) {
    SplitMix random(seed);
    std::vector<int32_t> table;
    table.reserve(n_tokens * static_cast<size_t>(n_used));
    for (size_t token = 0; token < n_tokens; ++token) {
        const auto row = static_cast<std::ptrdiff_t>(table.size());
        while (table.size() < static_cast<size_t>(row + n_used)) {
            const auto expert =
                static_cast<int32_t>(random.below(static_cast<uint64_t>(n_experts)));
            if (std::find(table.begin() + row, table.end(), expert) == table.end()) {
                table.push_back(expert);
            }
        }
    }
    return table;
}

} // namespace dsv4v
