#include "engine/philox.h"

#include <set>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

using Counter = std::array<uint32_t, 4>;

// The known answers published with the generator.
TEST(Philox, GivesThePublishedAnswers) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
              (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr uint32_t kOnes = 0xffffffff;
    EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(
        philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
        (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsDependOnSeedChoiceAndPosition) {
    std::set<double> draws;
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
        for (uint32_t choice = 0; choice < 3; ++choice) {
            for (uint32_t position = 0; position < 3; ++position) {
                const double u = uniform_draw(seed, choice, position);
                EXPECT_GE(u, 0.0);
                EXPECT_LT(u, 1.0);
                draws.insert(u);
            }
        }
    }
    EXPECT_EQ(draws.size(), 27u);
    EXPECT_EQ(uniform_draw(0, 0, 0), static_cast<double>(0x6627e8d5e169c58dULL >> 11) * 0x1p-53);
}

} // namespace
} // namespace dsv4v
