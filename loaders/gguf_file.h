// A GGUF model: key-values and tensor directory over one file or a set of shards. Parses untrusted
// bytes with a bounded cursor, refuses every hazard by name, computes nothing. docs/formats.md.
// Immutable after open; safe to share between threads. Views and keys point into the mapped files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "loaders/base/error.h"
#include "loaders/gguf_metadata.h"
#include "loaders/gguf_shard.h"
#include "loaders/mapped_file.h"
#include "loaders/tensor_view.h"

namespace dsv4v {

class GgufFile {
  public:
    // Opens `path` and, if it belongs to a set, all its shards (any shard may be named).
    [[nodiscard]] static Expected<GgufFile> open(const std::string& path);

    // The same over bytes in memory, for a model of one file. `bytes` must outlive the result;
    // `name` stands for the path in messages.
    [[nodiscard]] static Expected<GgufFile> parse(std::span<const std::byte> bytes,
                                                  std::string name);

    // Typed getters. A missing key gives kNotFound, a wrong kind kCorrupt; both name the key.
    // Integers are accepted in any width whose value fits.
    [[nodiscard]] bool has(std::string_view key) const;
    [[nodiscard]] Expected<int64_t> get_int(std::string_view key) const;
    [[nodiscard]] Expected<double> get_float(std::string_view key) const;
    [[nodiscard]] Expected<bool> get_bool(std::string_view key) const;
    [[nodiscard]] Expected<std::string> get_string(std::string_view key) const;
    [[nodiscard]] Expected<std::vector<int64_t>> get_int_array(std::string_view key) const;
    [[nodiscard]] Expected<std::vector<double>> get_float_array(std::string_view key) const;
    [[nodiscard]] Expected<std::vector<std::string>> get_string_array(std::string_view key) const;
    [[nodiscard]] bool is_array(std::string_view key) const;
    // Number of elements of an array, known without decoding any.
    [[nodiscard]] Expected<uint64_t> get_array_length(std::string_view key) const;
    // All keys in file order.
    [[nodiscard]] std::span<const std::string_view> keys() const;

    // All tensors of all shards, in file order.
    [[nodiscard]] std::span<const TensorView> tensors() const { return tensors_; }
    [[nodiscard]] const TensorView* find_tensor(std::string_view name) const;

    [[nodiscard]] size_t n_shards() const { return shards_.size(); }
    // Header facts of shard `shard_idx`, for reports.
    [[nodiscard]] const GgufShard& shard(size_t shard_idx) const { return shards_[shard_idx]; }
    [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; } // sum of file sizes
    [[nodiscard]] uint64_t n_tensor_bytes() const;              // sum over all tensors
    // The file that holds the key-values: shard 1 of a set, whichever shard was named.
    [[nodiscard]] const std::string& path() const { return shards_.front().path; }

  private:
    GgufFile() = default;
    [[nodiscard]] const GgufMetadata& metadata() const { return shards_.front().metadata; }
    [[nodiscard]] Expected<void> add_mapped_shard(const std::string& path);
    [[nodiscard]] Expected<void> add_remaining_shards(const std::string& named_path);
    [[nodiscard]] Expected<void> merge_directories();

    std::vector<std::unique_ptr<MappedFile>> mappings_; // empty when parsed from memory
    std::vector<GgufShard> shards_;
    uint64_t n_bytes_ = 0;
    std::vector<TensorView> tensors_;
    std::unordered_map<std::string_view, size_t> tensor_index_; // name -> index into tensors_
};

} // namespace dsv4v
