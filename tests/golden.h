// Readers for the reference data under tests/data: whole files, safetensors, and the comparison
// that prints where two float arrays differ most.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/json_value.h"

namespace dsv4v::testing {

// Root of the source tree.
std::string source_root();
// Path of a file that was unpacked from an archive ("models/tiny-a-bf16.gguf").
std::string unpacked(const std::string& name);
// Path of a file that lies in tests/data as it is ("gguf/ok_min.gguf").
std::string source_data(const std::string& name);

inline std::string read_whole_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in.good()) << "cannot read " << path;
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// One tensor of a .safetensors file, converted to float (values of every integer type used there
// are exactly representable).
struct GoldenTensor {
    std::vector<int64_t> shape; // slowest axis first
    std::vector<float> values;
};

class GoldenFile {
  public:
    explicit GoldenFile(const std::string& path) {
        const std::string bytes = read_whole_file(path);
        uint64_t header_bytes = 0;
        std::memcpy(&header_bytes, bytes.data(), 8);
        auto header = parse_json(std::string_view(bytes).substr(8, header_bytes));
        EXPECT_TRUE(header.has_value()) << path;
        for (const auto& [name, entry] : header->members) {
            if (name != "__metadata__") {
                tensors_[name] = read_tensor(entry, bytes.data() + 8 + header_bytes);
            }
        }
    }
    [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }
    [[nodiscard]] const GoldenTensor& at(const std::string& name) const {
        EXPECT_TRUE(has(name)) << name;
        return tensors_.at(name);
    }
    [[nodiscard]] const std::map<std::string, GoldenTensor>& tensors() const { return tensors_; }

  private:
    template <class T>
    static void append(std::vector<float>& out, const char* data, size_t n) {
        for (size_t i = 0; i < n; ++i) {
            T value;
            std::memcpy(&value, data + i * sizeof(T), sizeof(T));
            out.push_back(static_cast<float>(value));
        }
    }
    static GoldenTensor read_tensor(const JsonValue& entry, const char* data) {
        GoldenTensor tensor;
        size_t n = 1;
        for (const JsonValue& dim : entry.find("shape")->items) {
            tensor.shape.push_back(*dim.as_int());
            n *= static_cast<size_t>(*dim.as_int());
        }
        data += *entry.find("data_offsets")->items[0].as_int();
        const std::string& dtype = entry.find("dtype")->text;
        if (dtype == "F32") {
            append<float>(tensor.values, data, n);
        } else if (dtype == "I32") {
            append<int32_t>(tensor.values, data, n);
        } else if (dtype == "I16") {
            append<int16_t>(tensor.values, data, n);
        } else if (dtype == "U8") {
            append<uint8_t>(tensor.values, data, n);
        } else {
            ADD_FAILURE() << "dtype " << dtype;
        }
        return tensor;
    }
    std::map<std::string, GoldenTensor> tensors_;
};

// sqrt(sum (a-b)^2 / sum b^2)
inline double relative_l2(std::span<const float> actual, std::span<const float> expected) {
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        const double d = static_cast<double>(actual[i]) - expected[i];
        error += d * d;
        norm += static_cast<double>(expected[i]) * expected[i];
    }
    return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

} // namespace dsv4v::testing
