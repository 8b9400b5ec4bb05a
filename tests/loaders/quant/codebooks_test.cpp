#include "loaders/quant/codebooks.h"

#include "loaders/quant/code_group.h"
#include "loaders/quant/iq4.h"
#include "loaders/quant/mxfp4.h"
#include "loaders/quant/nvfp4.h"
#include "tests/quant_golden.h"

namespace dsv4v {
namespace {

// Offsets of the reference tables in tables.bin, as tables.json lists them.
constexpr size_t kIq2XxsAt = 0;
constexpr size_t kIq2XsAt = 2048;
constexpr size_t kIq2SAt = 6144;
constexpr size_t kIq3XxsAt = 14336;
constexpr size_t kIq3SAt = 15360;
constexpr size_t kIq1At = 17408;
constexpr size_t kSignsAt = 33792;
constexpr size_t kIq4At = 33920;
constexpr size_t kFp4At = 33936;

std::string tables() {
    return testing::read_whole_file(testing::unpacked("quants/tables.bin"));
}

void expect_table(const int8_t* actual, size_t n, size_t offset) {
    const std::string reference = tables();
    for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(actual[i], static_cast<int8_t>(reference[offset + i])) << "byte " << i;
    }
}

TEST(Codebooks, MatchTheReferenceTables) {
    const Codebooks& books = host_codebooks();
    expect_table(books.iq2_xxs, 256 * 8, kIq2XxsAt);
    expect_table(books.iq2_xs, 512 * 8, kIq2XsAt);
    expect_table(books.iq2_s, 1024 * 8, kIq2SAt);
    expect_table(books.iq3_xxs, 256 * 4, kIq3XxsAt);
    expect_table(books.iq3_s, 512 * 4, kIq3SAt);
    expect_table(books.iq1, 2048 * 8, kIq1At);
}

TEST(Codebooks, SignCodesMakeEvenParity) {
    const std::string reference = tables();
    for (uint32_t code = 0; code < 128; ++code) {
        EXPECT_EQ(expand_signs(code), static_cast<uint8_t>(reference[kSignsAt + code])) << code;
    }
}

TEST(Codebooks, FourBitLevels) {
    const std::string reference = tables();
    for (uint32_t code = 0; code < 16; ++code) {
        EXPECT_EQ(iq4_level(code), static_cast<int8_t>(reference[kIq4At + code])) << code;
        EXPECT_EQ(doubled_e2m1(code), static_cast<int8_t>(reference[kFp4At + code])) << code;
    }
}

} // namespace
} // namespace dsv4v
