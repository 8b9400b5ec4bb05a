#include "bench/synth/synth.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include <fmt/format.h>
#include <omp.h>

#include "bench/synth/gguf_writer.h"
#include "bench/synth/output_file.h"
#include "bench/synth/payload.h"
#include "bench/synth/projector.h"
#include "bench/synth/random.h"
#include "bench/synth/recipe.h"
#include "bench/synth/vocabulary.h"

namespace dsv4v {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{64} << 20;     // random blocks made once per kind
constexpr uint64_t kWriteBytes = uint64_t{8} << 20;     // one write
constexpr uint64_t kSparseMinBytes = uint64_t{1} << 20; // matrices from here on become holes
constexpr int32_t kMaxShards = 999;

struct Shard {
    std::string path;
    GgufKeys keys;
    std::vector<SynthTensor> tensors;
};

// A stretch of a tensor to be taken from a pool of ready-made blocks, starting at `pool_offset` and
// going round.
struct PoolWrite {
    uint64_t file_offset;
    uint64_t n_bytes;
    uint64_t pool_offset;
    const std::vector<std::byte>* pool;
};

std::span<const std::byte> as_bytes(const auto& values) {
    return std::as_bytes(std::span(values));
}

// Fills files. Matrices of one kind share a pool, and each starts at a random block of it: the
// writer then runs as fast as the disk.
class PayloadWriter {
  public:
    PayloadWriter(const SynthOptions& options, const ModelConfig& config)
        : options_(options), config_(config) {}

    Expected<uint64_t> write(const Shard& shard) {
        std::vector<GgufTensor> entries;
        for (const SynthTensor& tensor : shard.tensors) {
            entries.push_back(tensor.entry);
        }
        const GgufLayout layout = lay_out(shard.keys, entries);
        DSV4V_ASSIGN_OR_RETURN(const OutputFile file,
                               OutputFile::create(shard.path, layout.file_bytes));
        DSV4V_RETURN_IF_ERROR(file.write_at(0, as_bytes(layout.head)));
        std::vector<PoolWrite> writes;
        for (size_t i = 0; i < shard.tensors.size(); ++i) {
            const SynthTensor& tensor = shard.tensors[i];
            if (tensor.fill != Fill::kMatrix) {
                DSV4V_RETURN_IF_ERROR(write_small(file, layout.offsets[i], tensor));
            } else if (!options_.sparse || tensor.entry.n_bytes() < kSparseMinBytes) {
                plan_writes(tensor, layout.offsets[i], writes);
            }
        }
        DSV4V_RETURN_IF_ERROR(run(file, writes));
        return layout.file_bytes;
    }

  private:
    [[nodiscard]] uint64_t seed_of(const SynthTensor& tensor) const {
        return derive_seed(options_.seed, tensor.entry.name);
    }

    Expected<void> write_small(const OutputFile& file, uint64_t offset, const SynthTensor& tensor) {
        const size_t n = tensor.entry.n_elements();
        if (tensor.fill == Fill::kExpertTable) {
            return file.write_at(
                offset,
                as_bytes(expert_table(static_cast<size_t>(tensor.entry.ne[1]), config_.n_experts,
                                      config_.n_experts_used, seed_of(tensor))));
        }
        const std::vector<float> values =
            tensor.fill == Fill::kNorm    ? norm_weights(n, seed_of(tensor))
            : tensor.fill == Fill::kSmall ? small_normals(n, seed_of(tensor))
                                          : std::vector<float>(n, tensor.value);
        return file.write_at(offset, as_bytes(values));
    }

    // The pool for tensors like this one, made on first use. Its size depends on the first user, so
    // tensors of very different size do not share.
    const std::vector<std::byte>& pool_for(const SynthTensor& tensor) {
        const uint64_t block_bytes = quant_format_info(tensor.entry.format).block_bytes;
        const uint64_t n_bytes =
            std::min(tensor.entry.n_bytes(), kPoolBytes / block_bytes * block_bytes);
        const auto key = std::tuple(tensor.entry.format, tensor.value, n_bytes);
        std::vector<std::byte>& pool = pools_[key];
        if (pool.empty()) {
            pool.resize(n_bytes);
            const std::string kind = fmt::format(
                "{} {} {}", quant_format_info(tensor.entry.format).name, tensor.value, n_bytes);
            fill_blocks(tensor.entry.format, tensor.value, derive_seed(options_.seed, kind), pool);
        }
        return pool;
    }

    void plan_writes(const SynthTensor& tensor, uint64_t file_offset,
                     std::vector<PoolWrite>& writes) {
        const std::vector<std::byte>& pool = pool_for(tensor);
        const uint64_t block_bytes = quant_format_info(tensor.entry.format).block_bytes;
        const uint64_t start =
            SplitMix(seed_of(tensor)).below(pool.size() / block_bytes) * block_bytes;
        const uint64_t n_bytes = tensor.entry.n_bytes();
        for (uint64_t done = 0; done < n_bytes; done += kWriteBytes) {
            writes.push_back({file_offset + done, std::min(kWriteBytes, n_bytes - done),
                              (start + done) % pool.size(), &pool});
        }
    }

    static Expected<void> write_from_pool(const OutputFile& file, PoolWrite write) {
        const std::span<const std::byte> pool(*write.pool);
        while (write.n_bytes > 0) {
            const uint64_t n = std::min(write.n_bytes, pool.size() - write.pool_offset);
            DSV4V_RETURN_IF_ERROR(
                file.write_at(write.file_offset, pool.subspan(write.pool_offset, n)));
            write.file_offset += n;
            write.n_bytes -= n;
            write.pool_offset = 0;
        }
        return {};
    }

    static Expected<void> run(const OutputFile& file, const std::vector<PoolWrite>& writes) {
        std::mutex mutex;
        std::optional<Error> error;
#pragma omp parallel for schedule(dynamic)
        for (size_t i = 0; i < writes.size(); ++i) {
            if (auto result = write_from_pool(file, writes[i]); !result) {
                const std::lock_guard lock(mutex);
                error = std::move(result.error());
            }
        }
        if (error) {
            return tl::unexpected<Error>(std::move(*error));
        }
        return {};
    }

    const SynthOptions& options_;
    const ModelConfig& config_;
    std::map<std::tuple<QuantFormat, float, uint64_t>, std::vector<std::byte>> pools_;
};

void add_vocabulary_keys(GgufKeys& keys, const Vocab& vocab) {
    std::vector<int32_t> types;
    for (const TokenType type : vocab.types) {
        types.push_back(static_cast<int32_t>(type));
    }
    keys.add_string("tokenizer.ggml.model", "gpt2");
    keys.add_string("tokenizer.ggml.pre", "joyai-llm");
    keys.add_string_array("tokenizer.ggml.tokens", vocab.tokens);
    keys.add_i32_array("tokenizer.ggml.token_type", types);
    keys.add_string_array("tokenizer.ggml.merges", vocab.merges);
    keys.add_u32("tokenizer.ggml.bos_token_id", 0);
    keys.add_u32("tokenizer.ggml.eos_token_id", 1);
    keys.add_u32("tokenizer.ggml.padding_token_id", 2);
    keys.add_bool("tokenizer.ggml.add_bos_token", false);
    keys.add_bool("tokenizer.ggml.add_eos_token", false);
}

std::string shard_path(const SynthOptions& options, int32_t shard_idx) {
    if (options.n_shards == 1) {
        return options.prefix + ".gguf";
    }
    return fmt::format("{}-{:05}-of-{:05}.gguf", options.prefix, shard_idx + 1, options.n_shards);
}

// Deals the tensors out in order: of several shards the first gets the marked ones only, the others
// equal shares of the bytes.
std::vector<Shard> split(const SynthOptions& options, const std::vector<SynthTensor>& tensors,
                         GgufKeys keys) {
    std::vector<Shard> shards(static_cast<size_t>(options.n_shards));
    shards[0].keys = std::move(keys);
    uint64_t total = 0;
    for (const SynthTensor& tensor : tensors) {
        total += tensor.entry.n_bytes();
    }
    const uint64_t share = total / std::max<uint64_t>(shards.size() - 1, 1) + 1;
    uint64_t done = 0;
    for (const SynthTensor& tensor : tensors) {
        const bool first = shards.size() == 1 || tensor.in_first_shard;
        shards[first ? 0 : 1 + done / share].tensors.push_back(tensor);
        done += tensor.entry.n_bytes();
    }
    for (int32_t i = 0; i < options.n_shards; ++i) {
        Shard& shard = shards[static_cast<size_t>(i)];
        shard.path = shard_path(options, i);
        if (options.n_shards > 1) {
            shard.keys.add_u16("split.no", static_cast<uint16_t>(i));
            shard.keys.add_u16("split.count", static_cast<uint16_t>(options.n_shards));
            shard.keys.add_i32("split.tensors.count", static_cast<int32_t>(tensors.size()));
        }
    }
    return shards;
}

Expected<void> check(const SynthOptions& options) {
    if (options.prefix.empty()) {
        return make_error(ErrorCode::kInvalidArgument, "--out is missing");
    }
    if (options.n_shards < 1 || options.n_shards > kMaxShards) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("--split is {}, wanted 1 to {}",
                                                                   options.n_shards, kMaxShards));
    }
    if (options.vocab != "small" && options.vocab != "real") {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--vocab is {}, wanted small or real", options.vocab));
    }
    if (options.vocab == "real" && options.vocab_file.empty()) {
        return make_error(ErrorCode::kInvalidArgument, "--vocab real wants --vocab-file");
    }
    if (!options.projector.empty() && options.projector != "split" &&
        options.projector != "fused") {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--mmproj is {}, wanted split or fused", options.projector));
    }
    return {};
}

Expected<void> write_projector(const SynthOptions& options, int32_t hidden, PayloadWriter& writer,
                               SynthReport& report) {
    Shard file;
    file.path = options.prefix + "-mmproj.gguf";
    add_projector_keys(file.keys, hidden);
    file.tensors = projector_tensors(hidden, options.projector == "fused" ? ProjectorForm::kFused
                                                                          : ProjectorForm::kSplit);
    DSV4V_RETURN_IF_ERROR(writer.write(file));
    report.paths.push_back(file.path);
    return {};
}

} // namespace

Expected<SynthReport> write_synthetic_model(const SynthOptions& options) {
    DSV4V_RETURN_IF_ERROR(check(options));
    if (options.n_threads > 0) {
        omp_set_num_threads(options.n_threads);
    }
    Vocab vocab = small_vocabulary();
    if (options.vocab == "real") {
        DSV4V_ASSIGN_OR_RETURN(vocab, read_vocabulary(options.vocab_file));
    }
    DSV4V_ASSIGN_OR_RETURN(
        const SynthModel model,
        make_recipe(options.recipe, options.n_layers, static_cast<int32_t>(vocab.tokens.size())));
    GgufKeys keys;
    add_model_keys(keys, model, options.recipe);
    add_vocabulary_keys(keys, vocab);
    PayloadWriter writer(options, model.config);
    SynthReport report;
    report.n_tensors = model.tensors.size();
    for (const Shard& shard : split(options, model.tensors, std::move(keys))) {
        DSV4V_ASSIGN_OR_RETURN(const uint64_t n_bytes, writer.write(shard));
        report.n_bytes += n_bytes;
        report.paths.push_back(shard.path);
    }
    if (!options.projector.empty()) {
        DSV4V_RETURN_IF_ERROR(write_projector(options, model.config.hidden, writer, report));
    }
    return report;
}

} // namespace dsv4v
