// The key-value section of one GGUF file. Values stay where they are in the file and are decoded
// when asked for. docs/formats.md.
// Immutable after parsing; safe to share between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

// Enumerators carry the GGUF value type id.
enum class GgufType : uint32_t {
    kU8 = 0,
    kI8 = 1,
    kU16 = 2,
    kI16 = 3,
    kU32 = 4,
    kI32 = 5,
    kF32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kU64 = 10,
    kI64 = 11,
    kF64 = 12,
};

[[nodiscard]] const char* gguf_type_name(GgufType type);

// Bytes of one scalar; 0 for strings and arrays.
[[nodiscard]] uint32_t gguf_scalar_bytes(GgufType type);

// One value, checked to lie inside the file: `bytes` are the scalar, the text of a string, or the
// packed elements of an array (each string element with its own length in front).
struct GgufValue {
    GgufType type = GgufType::kU8;
    GgufType element_type = GgufType::kU8; // arrays only; never kArray
    uint64_t n_elements = 1;               // arrays only
    std::span<const std::byte> bytes;
};

class GgufMetadata {
  public:
    GgufMetadata() = default;
    // `path` only appears in error messages.
    explicit GgufMetadata(std::string path) : path_(std::move(path)) {}

    // False when the key is already there. `key` points into the file's bytes.
    [[nodiscard]] bool insert(std::string_view key, const GgufValue& value);

    // Keys in file order.
    [[nodiscard]] std::span<const std::string_view> keys() const { return keys_; }
    [[nodiscard]] const GgufValue* find(std::string_view key) const;

    // Typed getters. A missing key gives kNotFound, a wrong kind kCorrupt; both name file and key.
    // Integers are accepted in any width whose value fits, never from a float or a bool.
    [[nodiscard]] Expected<int64_t> get_int(std::string_view key) const;
    [[nodiscard]] Expected<double> get_float(std::string_view key) const;
    [[nodiscard]] Expected<bool> get_bool(std::string_view key) const;
    [[nodiscard]] Expected<std::string> get_string(std::string_view key) const;
    [[nodiscard]] Expected<std::vector<int64_t>> get_int_array(std::string_view key) const;
    [[nodiscard]] Expected<std::vector<double>> get_float_array(std::string_view key) const;
    [[nodiscard]] Expected<std::vector<std::string>> get_string_array(std::string_view key) const;
    // Number of elements, known without decoding any.
    [[nodiscard]] Expected<uint64_t> get_array_length(std::string_view key) const;

  private:
    [[nodiscard]] Expected<GgufValue> require(std::string_view key) const;
    [[nodiscard]] tl::unexpected<Error> wrong_kind(std::string_view key, const GgufValue& value,
                                                   const char* wanted) const;

    std::string path_;
    std::vector<std::string_view> keys_;
    std::unordered_map<std::string_view, GgufValue> values_;
};

} // namespace dsv4v
