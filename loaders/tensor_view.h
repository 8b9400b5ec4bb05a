// A non-owning view of one tensor inside a mapped file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "loaders/quant/quant_format.h"

namespace dsv4v {

// `ne` in GGUF order: ne[0] is the contiguous input width; missing dimensions are 1. Rows of ne[0]
// elements follow each other without padding, then slices of ne[1] rows (one per expert). The data
// pointer has no alignment beyond that of the file: read it through decode_row or memcpy.
struct TensorView {
    const std::byte* data = nullptr;
    QuantFormat format = QuantFormat::kF32;
    std::array<int64_t, 4> ne = {0, 1, 1, 1};
    std::string_view name; // owned by the GgufFile

    [[nodiscard]] bool empty() const { return data == nullptr; }
    [[nodiscard]] int64_t width() const { return ne[0]; }
    [[nodiscard]] int64_t n_rows() const { return ne[1] * ne[2] * ne[3]; }
    [[nodiscard]] int64_t n_elements() const { return ne[0] * n_rows(); }
    [[nodiscard]] int64_t row_bytes() const {
        const QuantFormatInfo& info = quant_format_info(format);
        return ne[0] / info.block_elements * info.block_bytes;
    }
    [[nodiscard]] int64_t n_bytes() const { return row_bytes() * n_rows(); }
    // Row `row_idx` counted over all slices (row r of expert e is e * ne[1] + r).
    [[nodiscard]] const std::byte* row(int64_t row_idx) const {
        return data + row_idx * row_bytes();
    }
};

} // namespace dsv4v
