#include "loaders/quant/quant_format.h"

#include <cmath>

#include "tests/quant_golden.h"

namespace dsv4v {
namespace {

using testing::golden_name;
using testing::GoldenCursor;

class BlockGolden : public ::testing::TestWithParam<QuantFormatInfo> {};

TEST_P(BlockGolden, DecodesBitExactly) {
    const QuantFormatInfo& info = GetParam();
    GoldenCursor file(
        testing::read_whole_file(testing::unpacked("quants/blocks/" + golden_name(info) + ".qtv")));
    file.skip(4);
    ASSERT_EQ(file.take_u32(), static_cast<uint32_t>(info.format));
    ASSERT_EQ(file.take_u32(), info.block_elements);
    ASSERT_EQ(file.take_u32(), info.block_bytes);
    const size_t n_blocks = file.take_u32();
    file.skip(12);
    const auto blocks = file.take<uint8_t>(n_blocks * info.block_bytes);
    file.align();
    const auto expected = file.take<float>(n_blocks * info.block_elements);
    ASSERT_TRUE(file.at_end());

    // One byte off, as blocks in a file may be.
    std::vector<uint8_t> shifted(blocks.size() + 1);
    std::memcpy(shifted.data() + 1, blocks.data(), blocks.size());
    std::vector<float> actual(expected.size());
    decode_row(info.format, shifted.data() + 1, static_cast<int64_t>(actual.size()), actual.data());

    for (size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i])) {
            ASSERT_TRUE(std::isnan(actual[i])) << "element " << i << " is " << actual[i];
        } else {
            // == also compares infinities; only the sign of a zero is free.
            ASSERT_EQ(actual[i], expected[i])
                << "block " << i / info.block_elements << " element " << i % info.block_elements;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllFormats, BlockGolden,
                         ::testing::ValuesIn(quant_formats().begin(), quant_formats().end()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(QuantFormatTable, AscendsAndFindsItself) {
    ASSERT_EQ(quant_formats().size(), 27u);
    uint32_t previous = 0;
    for (const QuantFormatInfo& info : quant_formats()) {
        const auto id = static_cast<uint32_t>(info.format);
        EXPECT_TRUE(id > previous || id == 0) << info.name;
        previous = id;
        EXPECT_EQ(find_quant_format(id), &info);
        EXPECT_EQ(&quant_format_info(info.format), &info);
    }
}

TEST(QuantFormatTable, RefusesRemovedActivationAndUnknownIds) {
    for (const uint32_t id : {4u, 5u, 9u, 15u, 24u, 25u, 27u, 28u, 31u, 36u, 38u, 41u, ~0u}) {
        EXPECT_EQ(find_quant_format(id), nullptr) << id;
    }
}

} // namespace
} // namespace dsv4v
