// The storage formats of GGUF tensors: one table and one visitor, the only list of formats on the
// host. The bit layout of each format is described in its own header beside this one.
#pragma once

#include <cstdint>
#include <span>

namespace dsv4v {

// Enumerators carry the GGUF type id.
enum class QuantFormat : uint32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ2_K = 10,
    kQ3_K = 11,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kIQ2_XXS = 16,
    kIQ2_XS = 17,
    kIQ3_XXS = 18,
    kIQ1_S = 19,
    kIQ4_NL = 20,
    kIQ3_S = 21,
    kIQ2_S = 22,
    kIQ4_XS = 23,
    kI32 = 26,
    kIQ1_M = 29,
    kBF16 = 30,
    kTQ1_0 = 34,
    kTQ2_0 = 35,
    kMXFP4 = 39,
    kNVFP4 = 40,
};

struct QuantFormatInfo {
    QuantFormat format;
    const char* name;        // field's spelling: "Q8_0", "IQ2_XXS", ...
    uint32_t block_elements; // elements per block along ne[0]
    uint32_t block_bytes;    // bytes per block in the file
};

// All supported formats in ascending id order.
[[nodiscard]] std::span<const QuantFormatInfo> quant_formats();

// Row of the table for a GGUF type id, or nullptr for ids that are unknown, removed or never
// stored (activation formats 9 and 15).
[[nodiscard]] const QuantFormatInfo* find_quant_format(uint32_t gguf_type_id);

// Row of the table for a known format.
[[nodiscard]] const QuantFormatInfo& quant_format_info(QuantFormat format);

// Decodes `n_elements` (a multiple of the block size) starting at block-aligned `blocks` to
// float32. Bit-exact by construction: see docs/formats.md. I32 converts each value.
void decode_row(QuantFormat format, const void* blocks, int64_t n_elements, float* out);

} // namespace dsv4v
