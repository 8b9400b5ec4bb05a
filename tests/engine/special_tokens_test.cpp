#include "engine/special_tokens.h"

#include <cstddef>
#include <string_view>
#include <tuple>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

TEST(SpecialTokens, TakesTheLeftmostThenTheLongest) {
    SpecialTokens tokens;
    tokens.add("<a>", 1);
    tokens.add("<a><b>", 2);
    tokens.add("b>x", 3);
    const auto found = [&](std::string_view text, size_t from) {
        const auto match = tokens.find_first(text, from);
        return match ? std::tuple{match->token_id, match->offset, match->n_bytes}
                     : std::tuple{-1, size_t{0}, size_t{0}};
    };
    EXPECT_EQ(found("..<a><b>x", 0), std::tuple(2, size_t{2}, size_t{6}));
    EXPECT_EQ(found("..<a><b", 0), std::tuple(1, size_t{2}, size_t{3}));
    EXPECT_EQ(found("..<a><b>x", 3), std::tuple(3, size_t{6}, size_t{3}));
    EXPECT_EQ(found("..<a><b>x", 7), std::tuple(-1, size_t{0}, size_t{0}));
    EXPECT_EQ(found("", 0), std::tuple(-1, size_t{0}, size_t{0}));
}

TEST(SpecialTokens, FirstOfEqualSpellingsCounts) {
    SpecialTokens tokens;
    tokens.add("<a>", 5);
    tokens.add("<a>", 6);
    EXPECT_EQ(tokens.find_exact("<a>"), 5);
    EXPECT_EQ(tokens.find_exact("<a"), std::nullopt);
    EXPECT_EQ(tokens.find_exact("<a>b"), std::nullopt);
}

} // namespace
} // namespace dsv4v
