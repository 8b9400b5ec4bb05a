#include "engine/reference/indexer.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

std::vector<int32_t> best_rows(const std::vector<float>& scores, int32_t n_best) {
    std::vector<int32_t> order(scores.size());
    std::vector<int32_t> selected(static_cast<size_t>(n_best));
    const int32_t n = select_best_rows(scores, n_best, order.data(), selected.data());
    selected.resize(static_cast<size_t>(n));
    return selected;
}

TEST(Indexer, SelectsTheLargestInRowOrder) {
    EXPECT_EQ(best_rows({1, 9, -3, 7, 8}, 3), (std::vector<int32_t>{1, 3, 4}));
    EXPECT_EQ(best_rows({1, 9, -3}, 3), (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(best_rows({5, 4}, 3), (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(best_rows({}, 3), (std::vector<int32_t>{}));
}

TEST(Indexer, TiesTakeTheLowerRow) {
    EXPECT_EQ(best_rows({0, 2, 0, 2, 0, 2}, 2), (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(best_rows(std::vector<float>(100, 0.0f), 4), (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(best_rows({0.0f, -0.0f, 0.0f}, 2), (std::vector<int32_t>{0, 1}));
}

TEST(Indexer, NanRanksLast) {
    EXPECT_EQ(best_rows({NAN, 1, NAN, -5}, 2), (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(best_rows({NAN, NAN, NAN}, 2), (std::vector<int32_t>{0, 1}));
}

} // namespace
} // namespace dsv4v
