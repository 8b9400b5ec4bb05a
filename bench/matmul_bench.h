// Timing of the CPU matrix products.
#pragma once

#include <cstdint>
#include <string>

#include "loaders/base/error.h"

namespace dsv4v {

struct MatmulBenchOptions {
    std::string format = "all"; // a name of quant_formats(), or all
    int64_t width = 4096;
    int64_t n_rows = 4096;
    int64_t n = 1;     // input rows
    int n_threads = 0; // 0: all
};

// Prints one line per format to stdout: time (median of repeated runs), weights decoded and
// multiplied per second, bytes of weights read per second, and how many tokens per second the
// 13.3e9 active weights of the full-size model would make at that rate.
[[nodiscard]] Expected<void> run_matmul_bench(const MatmulBenchOptions& options);

} // namespace dsv4v
