// Serialises the head of a GGUF file: key-values, tensor directory, padding. Version 3, the default
// alignment of 32. docs/formats.md describes the container.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loaders/quant/quant_format.h"

namespace dsv4v {

// Key-values in the order of the calls. Keys must differ; that is the caller's duty.
class GgufKeys {
  public:
    void add_u16(std::string_view key, uint16_t value);
    void add_u32(std::string_view key, uint32_t value);
    void add_i32(std::string_view key, int32_t value);
    void add_f32(std::string_view key, float value);
    void add_bool(std::string_view key, bool value);
    void add_string(std::string_view key, std::string_view value);
    void add_i32_array(std::string_view key, std::span<const int32_t> values);
    void add_f32_array(std::string_view key, std::span<const float> values);
    void add_string_array(std::string_view key, std::span<const std::string> values);

    [[nodiscard]] uint64_t count() const { return count_; }
    [[nodiscard]] const std::string& bytes() const { return bytes_; }

  private:
    void add_key(std::string_view key, uint32_t type);
    uint64_t count_ = 0;
    std::string bytes_;
};

// One entry of the tensor directory; `ne` in GGUF order, one to four dimensions.
struct GgufTensor {
    std::string name;
    QuantFormat format = QuantFormat::kF32;
    std::vector<int64_t> ne;

    [[nodiscard]] uint64_t n_elements() const;
    [[nodiscard]] uint64_t n_bytes() const;
};

// Where everything lies in one file.
struct GgufLayout {
    std::string head;              // everything before the tensor data
    std::vector<uint64_t> offsets; // of each tensor, from the start of the file
    uint64_t file_bytes = 0;       // with the last tensor padded
};

[[nodiscard]] GgufLayout lay_out(const GgufKeys& keys, std::span<const GgufTensor> tensors);

} // namespace dsv4v
