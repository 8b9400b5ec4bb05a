// dsv4v-bench: synthetic models and timings.
#include <cstdio>

#include <CLI/CLI.hpp>

#include "bench/matmul_bench.h"

namespace {

int report(const dsv4v::Expected<void>& result) {
    if (!result) {
        std::fprintf(stderr, "dsv4v-bench: %s\n", result.error().message.c_str());
        return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{"Synthetic models and timings for dsv4v-server", "dsv4v-bench"};
    app.require_subcommand(1);

    dsv4v::MatmulBenchOptions matmul;
    CLI::App* matmul_command = app.add_subcommand("matmul", "time the CPU matrix products");
    matmul_command->add_option("--format", matmul.format, "Q8_0, BF16, ... or all");
    matmul_command->add_option("--width", matmul.width, "inputs per row, a multiple of 256");
    matmul_command->add_option("--rows", matmul.n_rows, "rows");
    matmul_command->add_option("-n,--n", matmul.n, "input vectors");
    matmul_command->add_option("--threads", matmul.n_threads, "0: all");

    CLI11_PARSE(app, argc, argv);
    return report(dsv4v::run_matmul_bench(matmul));
}
