#include "engine/reference/attention.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

std::vector<float> attend_all(const std::vector<float>& q,
                              const std::vector<std::vector<float>>& rows, float sink) {
    std::vector<const float*> keys;
    for (const std::vector<float>& row : rows) {
        keys.push_back(row.data());
    }
    std::vector<float> scores(rows.size());
    std::vector<float> out(q.size());
    attend(q.data(), keys, static_cast<int32_t>(q.size()), 0.5f, sink, scores.data(), out.data());
    return out;
}

TEST(Attention, SinkTakesWeightAndGivesNothing) {
    const std::vector<float> out = attend_all({1, 2}, {{1, 0}, {0, 1}}, 0.25f);
    const float a = std::exp(0.5f);
    const float b = std::exp(1.0f);
    const float sum = a + b + std::exp(0.25f);
    EXPECT_NEAR(out[0], a / sum, 1e-6f);
    EXPECT_NEAR(out[1], b / sum, 1e-6f);
}

TEST(Attention, LargeLogitsStayFinite) {
    EXPECT_NEAR(attend_all({1000, 0}, {{2, 0}, {0, 3}}, -5)[0], 2, 1e-6f);
    EXPECT_EQ(attend_all({1000, 0}, {{2, 0}}, 5000)[0], 0);
    EXPECT_NEAR(attend_all({-1000, 0}, {{2, 7}}, -3000)[1], 7, 1e-5f);
}

} // namespace
} // namespace dsv4v
