#include "bench/matmul_bench.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "engine/reference/matmul.h"
#include "engine/reference/worker_pool.h"

namespace dsv4v {
namespace {

constexpr double kActiveWeights = 13.3e9; // per token of the full-size model
constexpr int kRuns = 9;

// Bytes below 64 in every position give finite scales in every format.
std::vector<std::byte> random_blocks(int64_t n_bytes) {
    std::mt19937 generator(1);
    std::vector<std::byte> bytes(static_cast<size_t>(n_bytes));
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(generator() >> 26);
    }
    return bytes;
}

double median_seconds(const MatmulArgs& args) {
    std::vector<double> seconds;
    matmul(args); // wakes the threads, fills the caches
    for (int i = 0; i < kRuns; ++i) {
        const auto start = std::chrono::steady_clock::now();
        matmul(args);
        seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
    return seconds[kRuns / 2];
}

void bench_format(const QuantFormatInfo& info, const MatmulBenchOptions& options) {
    const int64_t n_bytes =
        options.n_rows * (options.width / info.block_elements) * info.block_bytes;
    const std::vector<std::byte> blocks = random_blocks(n_bytes);
    const std::vector<float> x(static_cast<size_t>(options.n * options.width), 0.5f);
    std::vector<float> out(static_cast<size_t>(options.n * options.n_rows));
    TensorView weight;
    weight.data = blocks.data();
    weight.format = info.format;
    weight.ne = {options.width, options.n_rows, 1, 1};
    const double seconds = median_seconds({.weight = weight,
                                           .first_row = 0,
                                           .n_out = options.n_rows,
                                           .x = x.data(),
                                           .x_stride = options.width,
                                           .n = options.n,
                                           .out = out.data(),
                                           .out_stride = options.n_rows});
    const auto n_weights = static_cast<double>(options.width * options.n_rows);
    const auto n_products = n_weights * static_cast<double>(options.n);
    fmt::print("{:8} {:7} {:7} {:5} {:10.3f} {:10.2f} {:8.2f} {:8.2f}\n", info.name, options.width,
               options.n_rows, options.n, seconds * 1e3, n_products / seconds / 1e9,
               static_cast<double>(n_bytes) / seconds / 1e9, n_products / seconds / kActiveWeights);
}

} // namespace

Expected<void> run_matmul_bench(const MatmulBenchOptions& options) {
    if (options.width <= 0 || options.width % 256 != 0 || options.n_rows <= 0 || options.n <= 0) {
        return make_error(ErrorCode::kInvalidArgument,
                          "--width must be a multiple of 256, --rows and --n at least 1");
    }
    const auto n_cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    WorkerPool workers(options.n_threads > 0 ? options.n_threads : n_cores);
    const WorkerPoolScope scope(workers);
    fmt::print("{} threads, median of {} runs\n", workers.n_threads(), kRuns);
    fmt::print("{:8} {:>7} {:>7} {:>5} {:>10} {:>10} {:>8} {:>8}\n", "format", "K", "rows", "n",
               "ms", "Gweight/s", "GB/s", "tok/s");
    bool found = false;
    for (const QuantFormatInfo& info : quant_formats()) {
        if (options.format == "all" || options.format == info.name) {
            found = true;
            bench_format(info, options);
        }
    }
    if (!found) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--format {} is not a format", options.format));
    }
    return {};
}

} // namespace dsv4v
