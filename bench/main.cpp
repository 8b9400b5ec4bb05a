// dsv4v-bench: synthetic models and timings.
#include <cstdio>

#include <CLI/CLI.hpp>

#include "bench/matmul_bench.h"
#include "bench/synth/synth.h"

namespace {

int report(const dsv4v::Expected<void>& result) {
    if (!result) {
        std::fprintf(stderr, "dsv4v-bench: %s\n", result.error().message.c_str());
        return 1;
    }
    return 0;
}

int run_synth(const dsv4v::SynthOptions& options) {
    const auto result = dsv4v::write_synthetic_model(options);
    if (!result) {
        return report(tl::unexpected<dsv4v::Error>(result.error()));
    }
    for (const std::string& path : result->paths) {
        std::printf("%s\n", path.c_str());
    }
    std::printf("%zu tensors, %.2f GiB\n", result->n_tensors,
                static_cast<double>(result->n_bytes) / (1024.0 * 1024.0 * 1024.0));
    return 0;
}

void add_synth_options(CLI::App& command, dsv4v::SynthOptions& synth) {
    command.add_option("--out", synth.prefix, "prefix of the files")->required();
    command.add_option("--recipe", synth.recipe, "tiny, ds4-q2, ud-iq1_s, mxfp4 or q8_0");
    command.add_option("--layers", synth.n_layers, "0: the recipe's own number");
    command.add_option("--split", synth.n_shards, "number of files");
    command.add_option("--vocab", synth.vocab, "small or real");
    command.add_option("--vocab-file", synth.vocab_file,
                       "for real: tests/data/tokenizer/dsv4_vocab.txt.gz");
    command.add_option("--mmproj", synth.projector, "also write a projector: split or fused");
    command.add_option("--seed", synth.seed);
    command.add_flag("--sparse", synth.sparse, "leave large tensors as holes (zero weights)");
    command.add_option("--threads", synth.n_threads, "0: all");
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

    dsv4v::SynthOptions synth;
    CLI::App* synth_command = app.add_subcommand("synth", "write a model with random weights");
    add_synth_options(*synth_command, synth);

    CLI11_PARSE(app, argc, argv);
    if (synth_command->parsed()) {
        return run_synth(synth);
    }
    return report(dsv4v::run_matmul_bench(matmul));
}
