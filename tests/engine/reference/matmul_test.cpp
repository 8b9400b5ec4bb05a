#include "engine/reference/matmul.h"

#include <cmath>
#include <random>

#include "engine/reference/worker_pool.h"
#include "hwy/targets.h"
#include "tests/quant_golden.h"

namespace dsv4v {
namespace {

using testing::golden_name;
using testing::GoldenCursor;

// Weights one byte off, as they may lie in a file, and their view.
struct StoredMatrix {
    std::vector<uint8_t> bytes;
    TensorView view;
    StoredMatrix(QuantFormat format, int64_t width, int64_t n_rows, int64_t n_slices,
                 const std::vector<uint8_t>& blocks)
        : bytes(blocks.size() + 1) {
        std::memcpy(bytes.data() + 1, blocks.data(), blocks.size());
        view.data = reinterpret_cast<const std::byte*>(bytes.data()) + 1;
        view.format = format;
        view.ne = {width, n_rows, n_slices, 1};
    }
};

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

std::vector<float> gaussian(size_t n, uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& value : values) {
        value = normal(generator);
    }
    return values;
}

// Products of rows [first_row, first_row + n_out) with every row of x, output [n][n_out].
std::vector<float> multiply(const TensorView& weight, int64_t first_row, int64_t n_out,
                            const std::vector<float>& x) {
    const int64_t n = static_cast<int64_t>(x.size()) / weight.width();
    std::vector<float> out(static_cast<size_t>(n * n_out), NAN);
    matmul({.weight = weight,
            .first_row = first_row,
            .n_out = n_out,
            .x = x.data(),
            .x_stride = weight.width(),
            .n = n,
            .out = out.data(),
            .out_stride = n_out});
    return out;
}

// The same, one input at a time.
std::vector<float> multiply_singly(const TensorView& weight, int64_t first_row, int64_t n_out,
                                   const std::vector<float>& x) {
    std::vector<float> out;
    const auto width = static_cast<ptrdiff_t>(weight.width());
    for (auto row = x.begin(); row != x.end(); row += width) {
        const auto part = multiply(weight, first_row, n_out, {row, row + width});
        out.insert(out.end(), part.begin(), part.end());
    }
    return out;
}

// Exact products of decode_row's values in double.
std::vector<double> multiply_exactly(const TensorView& weight, const std::vector<float>& x) {
    const auto width = static_cast<size_t>(weight.width());
    std::vector<double> out;
    std::vector<float> row(width);
    for (size_t t = 0; t < x.size(); t += width) {
        for (int64_t r = 0; r < weight.n_rows(); ++r) {
            decode_row(weight.format, weight.row(r), weight.width(), row.data());
            double sum = 0;
            for (size_t k = 0; k < width; ++k) {
                sum += static_cast<double>(row[k]) * x[t + k];
            }
            out.push_back(sum);
        }
    }
    return out;
}

// Calls check() once for each instruction set that this build contains and this machine has.
template <class Check>
void for_each_instruction_set(Check check) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        SCOPED_TRACE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        check();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& expected,
                  const std::vector<double>& scale) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_LE(std::fabs(actual[i] - expected[i]), 1e-6 * scale[i]) << "output " << i;
    }
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

class MatmulFormats : public ::testing::TestWithParam<QuantFormatInfo> {};

bool has_product_golden(const QuantFormatInfo& info) {
    return info.format != QuantFormat::kI32;
}

std::vector<QuantFormatInfo> golden_formats() {
    std::vector<QuantFormatInfo> formats;
    std::copy_if(quant_formats().begin(), quant_formats().end(), std::back_inserter(formats),
                 has_product_golden);
    return formats;
}

void check_vector_case(const QuantFormatInfo& info, GoldenCursor& file) {
    const uint32_t letter = file.take_u32();
    const int64_t n_rows = file.take_u32();
    const int64_t width = file.take_u32();
    const int64_t n = file.take_u32();
    file.skip(16);
    SCOPED_TRACE(std::string("case ") + static_cast<char>(letter));
    const size_t n_bytes =
        static_cast<size_t>(n_rows * width / info.block_elements * info.block_bytes);
    const StoredMatrix weight(info.format, width, n_rows, 1, file.take<uint8_t>(n_bytes));
    file.align();
    const auto x = file.take<float>(static_cast<size_t>(n * width));
    const auto y = file.take<double>(static_cast<size_t>(n * n_rows));
    const auto y_abs = file.take<double>(static_cast<size_t>(n * n_rows));

    const auto together = multiply(weight.view, 0, n_rows, x);
    expect_close(together, y, y_abs);
    expect_close(together, multiply_exactly(weight.view, x), y_abs);
    expect_same_bits(together, multiply_singly(weight.view, 0, n_rows, x));
}

TEST_P(MatmulFormats, MatchesMatrixVectorGoldens) {
    GoldenCursor file(testing::read_whole_file(
        testing::unpacked("quants/matvec/" + golden_name(GetParam()) + ".qmv")));
    file.skip(4);
    ASSERT_EQ(file.take_u32(), static_cast<uint32_t>(GetParam().format));
    file.skip(8);
    const uint32_t n_cases = file.take_u32();
    ASSERT_EQ(n_cases, 4u);
    file.skip(12);
    for (uint32_t i = 0; i < n_cases; ++i) {
        check_vector_case(GetParam(), file);
    }
    EXPECT_TRUE(file.at_end());
}

// One-hot inputs read single weights: they must be those of decode_row, on both paths.
TEST_P(MatmulFormats, UsesTheValuesOfDecodeRow) {
    const QuantFormatInfo& info = GetParam();
    constexpr int64_t kWidth = 256;
    const size_t n_bytes = kWidth / info.block_elements * info.block_bytes;
    std::mt19937 generator(7);
    std::vector<uint8_t> blocks(n_bytes);
    std::vector<float> expected(kWidth);
    do { // until all weights are finite
        for (uint8_t& byte : blocks) {
            byte = static_cast<uint8_t>(generator() >> 13 & 0xbf);
        }
        decode_row(info.format, blocks.data(), kWidth, expected.data());
    } while (!std::all_of(expected.begin(), expected.end(),
                          [](float value) { return std::isfinite(value); }));
    const StoredMatrix weight(info.format, kWidth, 1, 1, blocks);
    std::vector<float> identity(kWidth * kWidth);
    for (size_t i = 0; i < kWidth; ++i) {
        identity[i * kWidth + i] = 1;
    }
    for_each_instruction_set([&] {
        EXPECT_EQ(multiply(weight.view, 0, 1, identity), expected);
        EXPECT_EQ(multiply_singly(weight.view, 0, 1, identity), expected);
    });
}

INSTANTIATE_TEST_SUITE_P(AllFormats, MatmulFormats, ::testing::ValuesIn(golden_formats()),
                         [](const auto& param) { return std::string(param.param.name); });

class MatmulExperts : public ::testing::TestWithParam<const char*> {};

TEST_P(MatmulExperts, MatchGroupedGoldens) {
    GoldenCursor file(testing::read_whole_file(
        testing::unpacked(std::string("quants/moe/") + GetParam() + ".qmi")));
    file.skip(4);
    const QuantFormatInfo* info = find_quant_format(file.take_u32());
    ASSERT_NE(info, nullptr);
    const int64_t n_experts = file.take_u32();
    const int64_t n_rows = file.take_u32();
    const int64_t width = file.take_u32();
    const int64_t n_tokens = file.take_u32();
    const int64_t n_used = file.take_u32();
    file.skip(4);
    const int64_t n_bytes = n_experts * n_rows * (width / info->block_elements) * info->block_bytes;
    const StoredMatrix weight(info->format, width, n_rows, n_experts,
                              file.take<uint8_t>(static_cast<size_t>(n_bytes)));
    file.align();
    const auto x = file.take<float>(static_cast<size_t>(n_tokens * width));
    const auto ids = file.take<int32_t>(static_cast<size_t>(n_tokens * n_used));
    file.align();
    const auto y = file.take<double>(static_cast<size_t>(n_tokens * n_used * n_rows));
    const auto y_abs = file.take<double>(y.size());

    std::vector<float> actual;
    for (int64_t i = 0; i < n_tokens * n_used; ++i) {
        const auto row = x.begin() + i / n_used * width;
        const auto part =
            multiply(weight.view, ids[static_cast<size_t>(i)] * n_rows, n_rows, {row, row + width});
        actual.insert(actual.end(), part.begin(), part.end());
    }
    expect_close(actual, y, y_abs);
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulExperts,
                         ::testing::Values("iq1_m", "iq1_s", "iq2_s", "iq2_xs", "iq2_xxs",
                                           "iq3_xxs", "mxfp4", "q2_K", "q4_K"));

TEST(Matmul, BitsDoNotDependOnThreads) {
    constexpr int64_t kWidth = 512;
    constexpr int64_t kRows = 300;
    const StoredMatrix weight(QuantFormat::kF32, kWidth, kRows, 1,
                              bytes_of(gaussian(kWidth * kRows, 1)));
    const auto x = gaussian(7 * kWidth, 2);
    WorkerPool one_thread(1);
    WorkerPool three_threads(3);
    const auto multiply_with = [&](WorkerPool& pool) {
        const WorkerPoolScope scope(pool);
        return multiply(weight.view, 0, kRows, x);
    };
    const auto one = multiply_with(one_thread);
    expect_same_bits(one, multiply_with(three_threads));
    expect_same_bits(one, multiply_singly(weight.view, 0, kRows, x));
}

TEST(Matmul, RowBitsDoNotDependOnTheRange) {
    constexpr int64_t kWidth = 96;
    const StoredMatrix weight(QuantFormat::kF32, kWidth, 40, 1, bytes_of(gaussian(kWidth * 40, 3)));
    const auto x = gaussian(kWidth, 4);
    const auto all = multiply(weight.view, 0, 40, x);
    for (int64_t r = 0; r < 40; ++r) {
        EXPECT_EQ(multiply(weight.view, r, 1, x)[0], all[static_cast<size_t>(r)]) << r;
    }
}

// Widths around the chunk of 32, on the formats that have no blocks.
TEST(Matmul, RaggedWidths) {
    for (const int64_t width : {1, 3, 20, 31, 33, 63, 100}) {
        const auto values = gaussian(static_cast<size_t>(width) * 5, 5);
        const StoredMatrix weight(QuantFormat::kF32, width, 5, 1, bytes_of(values));
        const auto x = gaussian(static_cast<size_t>(width) * 4, 6);
        const auto exact = multiply_exactly(weight.view, x);
        const auto actual = multiply(weight.view, 0, 5, x);
        for (size_t i = 0; i < exact.size(); ++i) {
            ASSERT_NEAR(actual[i], exact[i], 1e-5) << "width " << width << " output " << i;
        }
        expect_same_bits(actual, multiply_singly(weight.view, 0, 5, x));
        EXPECT_EQ(dot(values.data(), x.data(), width), actual[0]) << width;
    }
}

TEST(Matmul, StridesLeaveTheGapsAlone) {
    constexpr int64_t kWidth = 32;
    const StoredMatrix weight(QuantFormat::kF32, kWidth, 3, 1, bytes_of(gaussian(kWidth * 3, 8)));
    const auto x = gaussian(kWidth * 2, 9);
    std::vector<float> spaced(2 * (kWidth + 5), NAN);
    std::copy_n(x.begin(), kWidth, spaced.begin());
    std::copy_n(x.begin() + kWidth, kWidth, spaced.begin() + kWidth + 5);
    std::vector<float> out(2 * 4, -1.0f);
    matmul({.weight = weight.view,
            .n_out = 3,
            .x = spaced.data(),
            .x_stride = kWidth + 5,
            .n = 2,
            .out = out.data(),
            .out_stride = 4});
    const auto expected = multiply(weight.view, 0, 3, x);
    EXPECT_EQ(out, (std::vector<float>{expected[0], expected[1], expected[2], -1.0f, expected[3],
                                       expected[4], expected[5], -1.0f}));
}

TEST(Matmul, NoInputsTouchNothing) {
    const StoredMatrix weight(QuantFormat::kF32, 32, 1, 1, bytes_of(gaussian(32, 8)));
    float out = 5;
    matmul({.weight = weight.view, .n_out = 1, .out = &out, .out_stride = 1});
    EXPECT_EQ(out, 5);
}

TEST(ScaleAdd, EveryElementIsRoundedAlike) {
    const auto values = gaussian(64, 10);
    const auto start = gaussian(64, 11);
    auto whole = start;
    scale_add(whole.data(), 0.3f, values.data(), 64);
    for (const int64_t n : {1, 5, 16, 21, 63}) {
        auto part = start;
        scale_add(part.data(), 0.3f, values.data(), n);
        for (size_t i = 0; i < 64; ++i) {
            ASSERT_EQ(part[i], static_cast<int64_t>(i) < n ? whole[i] : start[i]) << n << " " << i;
        }
    }
    EXPECT_NEAR(whole[7], start[7] + 0.3 * values[7], 1e-6);
}

TEST(Matmul, EveryInstructionSetIsAccurateAndConsistent) {
    constexpr int64_t kWidth = 1024;
    const StoredMatrix weight(QuantFormat::kF32, kWidth, 8, 1, bytes_of(gaussian(kWidth * 8, 12)));
    const auto x = gaussian(kWidth * 2, 13);
    const auto exact = multiply_exactly(weight.view, x);
    for_each_instruction_set([&] {
        const auto actual = multiply(weight.view, 0, 8, x);
        for (size_t i = 0; i < exact.size(); ++i) {
            EXPECT_NEAR(actual[i], exact[i], 1e-4);
        }
        expect_same_bits(actual, multiply_singly(weight.view, 0, 8, x));
    });
}

} // namespace
} // namespace dsv4v
