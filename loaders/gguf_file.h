// A GGUF model: key-values and tensor directory over one file or a set of shards. Parses untrusted
// bytes with a bounded cursor, refuses every hazard by name, computes nothing. docs/formats.md.
// Immutable after open; safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "loaders/base/error.h"
#include "loaders/mapped_file.h"
#include "loaders/tensor_view.h"

namespace dsv4v {

class GgufFile {
  public:
    // Opens `path` and, if it belongs to a set, all its shards (any shard may be named).
    [[nodiscard]] static Expected<GgufFile> open(const std::string& path);

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

    // All tensors of all shards, in file order.
    [[nodiscard]] std::span<const TensorView> tensors() const { return tensors_; }
    [[nodiscard]] const TensorView* find_tensor(std::string_view name) const;

    [[nodiscard]] size_t n_shards() const { return shards_.size(); }
    [[nodiscard]] uint64_t n_bytes() const; // sum of file sizes
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    std::vector<std::unique_ptr<MappedFile>> shards_;
    std::vector<TensorView> tensors_;
};

} // namespace dsv4v
