// Both compressors on random inputs: the formula over the whole sequence, any chunking, streaming,
// and rejected tokens.
#include "engine/reference/compressor.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/forward.h"
#include "engine/reference/rope.h"
#include "engine/reference/worker_pool.h"

namespace dsv4v {
namespace {

constexpr int32_t kHidden = 8;
constexpr int32_t kWidth = 16;
constexpr int32_t kRopeDim = 4;
constexpr int32_t kMaxRows = 320;

TensorView view(const std::vector<float>& values, int64_t n_rows) {
    TensorView tensor;
    tensor.data = reinterpret_cast<const std::byte*>(values.data());
    tensor.format = QuantFormat::kF32;
    tensor.ne = {static_cast<int64_t>(values.size()) / n_rows, n_rows, 1, 1};
    return tensor;
}

class CompressorFixture : public ::testing::TestWithParam<int32_t> {
  protected:
    CompressorFixture() {
        const int32_t c = ratio() == 4 ? 2 : 1;
        config_.n_layers = 1;
        config_.compress_ratios = {ratio()};
        config_.hidden = kHidden;
        config_.head_dim = kWidth;
        config_.indexer_dim = kWidth;
        config_.indexer_top_k = 8;
        config_.rope_dim = kRopeDim;
        config_.sliding_window = 8;
        config_.rms_eps = 1e-6f;
        config_.n_hc_streams = 1;
        kv_ = random_values(size_t(c) * kWidth * kHidden, 0.4f);
        gate_ = random_values(size_t(c) * kWidth * kHidden, 0.8f);
        x_ = random_values(size_t{kMaxRows} * kHidden, 1.0f);
        model_.config = config_;
        model_.numerics = Numerics::kPlain;
        model_.rope_plain = rope_frequencies(kRopeDim, 10000);
        model_.rope_compressed = rope_frequencies(kRopeDim, 160000);
        layer_.kind = config_.layer_kind(0);
        layer_.ratio = ratio();
        layer_.compressor = {view(kv_, c * kWidth),
                             view(gate_, c * kWidth),
                             random_values(size_t(ratio()) * c * kWidth, 0.5f),
                             random_values(kWidth, 1.0f),
                             ratio(),
                             kWidth,
                             c * kWidth};
    }

    [[nodiscard]] static int32_t ratio() { return GetParam(); }

    std::vector<float> random_values(size_t n, float scale) {
        std::normal_distribution<float> normal(0, scale);
        std::vector<float> values(n);
        for (float& value : values) {
            value = normal(random_);
        }
        return values;
    }

    // Feeds positions [first, first + n) with rows of `x`.
    void feed(KvCache& cache, int32_t first, int32_t n, const std::vector<float>& x) {
        Batch batch;
        batch.token_ids.assign(static_cast<size_t>(n), 0);
        batch.page_table = {2, 0, 1};
        batch.chunks = {{.slot = 1, .n_rows = n, .first_position = first, .n_pages = 3}};
        plan_.assign(batch, config_);
        std::copy_n(x.begin() + int64_t{first} * kHidden, n * kHidden, workspace_.x.begin());
        const Announcer silent;
        const StepContext ctx{model_, cache, workspace_, plan_, silent};
        compute_angles(ctx);
        compress(ctx, layer_, CompressorKind::kAttention);
    }

    std::vector<float> rows(KvCache& cache, int32_t n_tokens) {
        std::vector<float> all;
        const std::vector<int32_t> pages = {2, 0, 1};
        for (int32_t c = 0; c < n_tokens / ratio(); ++c) {
            const float* row = cache.compressed_row(0, CompressorKind::kAttention, pages, c);
            all.insert(all.end(), row, row + kWidth);
        }
        return all;
    }

    std::vector<float> rows_in_chunks(int32_t n_tokens, int32_t chunk_size) {
        KvCache cache(config_, 2, 3);
        for (int32_t first = 0; first < n_tokens; first += chunk_size) {
            feed(cache, first, std::min(chunk_size, n_tokens - first), x_);
        }
        return rows(cache, n_tokens);
    }

    // Value or gate (with position term) of one channel at one position, in double.
    [[nodiscard]] double input(const std::vector<float>& weights, int32_t p, int32_t channel,
                               bool with_ape) const {
        double sum = 0;
        for (int32_t i = 0; i < kHidden; ++i) {
            sum += double{weights[size_t(channel * kHidden + i)]} * x_[size_t(p * kHidden + i)];
        }
        const int32_t phase = p % ratio();
        return sum +
               (with_ape
                    ? layer_.compressor.ape[size_t(phase * layer_.compressor.input_width + channel)]
                    : 0);
    }

    // The definition, for one block.
    [[nodiscard]] std::vector<double> formula(int32_t block) const {
        std::vector<double> row;
        double square_sum = 0;
        for (int32_t ch = 0; ch < kWidth; ++ch) {
            double numerator = 0;
            double denominator = 0;
            const int32_t begin = ratio() == 4 ? 4 * (block - 1) : 128 * block;
            for (int32_t p = std::max(begin, 0); p < ratio() * (block + 1); ++p) {
                const bool second_half = ratio() == 4 && p >= 4 * block;
                const int32_t channel = ch + (second_half ? kWidth : 0);
                const double weight = std::exp(input(gate_, p, channel, true));
                numerator += weight * input(kv_, p, channel, false);
                denominator += weight;
            }
            row.push_back(numerator / denominator);
            square_sum += row.back() * row.back();
        }
        for (int32_t ch = 0; ch < kWidth; ++ch) {
            row[size_t(ch)] *=
                layer_.compressor.norm[size_t(ch)] / std::sqrt(square_sum / kWidth + 1e-6);
        }
        for (int32_t i = 0; i < kRopeDim; i += 2) {
            const double angle = ratio() * block * std::pow(160000.0, -double(i) / kRopeDim);
            double& a = row[size_t(kWidth - kRopeDim + i)];
            double& b = row[size_t(kWidth - kRopeDim + i + 1)];
            const double turned = a * std::cos(angle) - b * std::sin(angle);
            b = a * std::sin(angle) + b * std::cos(angle);
            a = turned;
        }
        return row;
    }

    std::mt19937 random_{11};
    ModelConfig config_;
    std::vector<float> kv_;
    std::vector<float> gate_;
    std::vector<float> x_;
    ReferenceModel model_;
    ReferenceLayer layer_;
    StepPlan plan_;
    Workspace workspace_ = Workspace(
        [] {
            ModelConfig config;
            config.hidden = kHidden;
            config.head_dim = kWidth;
            config.indexer_dim = kWidth;
            config.rope_dim = kRopeDim;
            config.n_hc_streams = 1;
            return config;
        }(),
        kMaxRows, kMaxRows, 2);
    WorkerPool workers_ = WorkerPool(2);
    WorkerPoolScope workers_scope_ = WorkerPoolScope(workers_);
};

INSTANTIATE_TEST_SUITE_P(Ratios, CompressorFixture, ::testing::Values(4, 128),
                         [](const auto& param) { return "r" + std::to_string(param.param); });

TEST_P(CompressorFixture, FollowsTheFormula) {
    const std::vector<float> actual = rows_in_chunks(300, 300);
    ASSERT_EQ(actual.size(), size_t(300 / ratio()) * kWidth);
    for (int32_t block = 0; block < 300 / ratio(); ++block) {
        const std::vector<double> expected = formula(block);
        for (size_t ch = 0; ch < kWidth; ++ch) {
            ASSERT_NEAR(actual[size_t(block) * kWidth + ch], expected[ch], 2e-5)
                << "block " << block << " channel " << ch;
        }
    }
}

TEST_P(CompressorFixture, AnyChunkingGivesTheSameBits) {
    for (const int32_t n_tokens : {0, 1, 2, 3, 4, 127, 128, 129, 255, 256, 257, 300}) {
        const std::vector<float> whole = rows_in_chunks(n_tokens, kMaxRows);
        for (const int32_t chunk_size : {1, 3, 7, 64, 130}) {
            EXPECT_EQ(rows_in_chunks(n_tokens, chunk_size), whole)
                << n_tokens << " tokens in chunks of " << chunk_size;
        }
    }
}

// Steps of up to kRollbackTokens + 1 tokens of which any but the first may be taken back.
TEST_P(CompressorFixture, RejectedTokensLeaveNoTrace) {
    const std::vector<float> whole = rows_in_chunks(300, 300);
    for (int trial = 0; trial < 20; ++trial) {
        KvCache cache(config_, 2, 3);
        int32_t n_tokens = 0;
        while (n_tokens < 300) {
            const int32_t left = 300 - n_tokens;
            const auto n =
                std::min(left, 1 + static_cast<int32_t>(random_() % (kRollbackTokens + 1)));
            const int32_t n_kept = 1 + static_cast<int32_t>(random_() % static_cast<uint32_t>(n));
            std::vector<float> x = x_;
            for (int32_t p = n_tokens + n_kept; p < n_tokens + n; ++p) {
                x[size_t(p * kHidden)] += 3; // a draft that turns out wrong
            }
            feed(cache, n_tokens, n, x);
            n_tokens += n_kept;
        }
        ASSERT_EQ(rows(cache, 300), whole) << "trial " << trial;
    }
}

TEST(Compressor, PoolsChannelByChannel) {
    std::vector<float> values = {1, 10, 3, 30};
    std::vector<float> gates = {0, 5, std::log(3.0f), 5};
    const std::vector<CompressorInput> entries = {{values.data(), gates.data()},
                                                  {values.data() + 2, gates.data() + 2}};
    std::vector<float> scratch(4);
    std::vector<float> row(2);
    pool_block(entries, 2, scratch.data(), row.data());
    EXPECT_NEAR(row[0], 2.5f, 1e-6f);
    EXPECT_NEAR(row[1], 20, 1e-5f);
}

} // namespace
} // namespace dsv4v
