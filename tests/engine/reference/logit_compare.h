// Comparisons of logits with golden files.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/golden.h"

namespace dsv4v::testing {

// Largest difference of each golden position's logits.
inline std::vector<float> worst_per_position(const GoldenTensor& positions,
                                             const GoldenTensor& golden,
                                             const std::vector<float>& logits) {
    std::vector<float> worst;
    const auto vocab = static_cast<size_t>(golden.shape[1]);
    for (size_t i = 0; i < positions.values.size(); ++i) {
        const float* actual = logits.data() + static_cast<size_t>(positions.values[i]) * vocab;
        float largest = 0;
        for (size_t v = 0; v < vocab; ++v) {
            const float d = std::fabs(actual[v] - golden.values[i * vocab + v]);
            largest = d <= largest ? largest : d; // NaN counts as a difference
        }
        worst.push_back(largest);
    }
    return worst;
}

inline float median(std::vector<float> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

inline size_t argmax(const float* values, size_t n) {
    return static_cast<size_t>(std::max_element(values, values + n) - values);
}

// KL(golden || actual) of two rows of logits, in nats.
inline double kl_divergence(const float* golden, const float* actual, size_t n) {
    const auto log_sum = [n](const float* logits) {
        const double largest = *std::max_element(logits, logits + n);
        double sum = 0;
        for (size_t i = 0; i < n; ++i) {
            sum += std::exp(logits[i] - largest);
        }
        return largest + std::log(sum);
    };
    const double golden_log_sum = log_sum(golden);
    const double actual_log_sum = log_sum(actual);
    double divergence = 0;
    for (size_t i = 0; i < n; ++i) {
        const double log_p = golden[i] - golden_log_sum;
        divergence += std::exp(log_p) * (log_p - (actual[i] - actual_log_sum));
    }
    return divergence;
}

} // namespace dsv4v::testing
