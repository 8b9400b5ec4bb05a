#include "loaders/quant/quant_format.h"

#include <array>

#include "loaders/base/check.h"

namespace dsv4v {
namespace {

constexpr std::array kFormats = {
    QuantFormatInfo{QuantFormat::kF32, "F32", 1, 4},
    QuantFormatInfo{QuantFormat::kF16, "F16", 1, 2},
    QuantFormatInfo{QuantFormat::kQ4_0, "Q4_0", 32, 18},
    QuantFormatInfo{QuantFormat::kQ4_1, "Q4_1", 32, 20},
    QuantFormatInfo{QuantFormat::kQ5_0, "Q5_0", 32, 22},
    QuantFormatInfo{QuantFormat::kQ5_1, "Q5_1", 32, 24},
    QuantFormatInfo{QuantFormat::kQ8_0, "Q8_0", 32, 34},
    QuantFormatInfo{QuantFormat::kQ2_K, "Q2_K", 256, 84},
    QuantFormatInfo{QuantFormat::kQ3_K, "Q3_K", 256, 110},
    QuantFormatInfo{QuantFormat::kQ4_K, "Q4_K", 256, 144},
    QuantFormatInfo{QuantFormat::kQ5_K, "Q5_K", 256, 176},
    QuantFormatInfo{QuantFormat::kQ6_K, "Q6_K", 256, 210},
    QuantFormatInfo{QuantFormat::kIQ2_XXS, "IQ2_XXS", 256, 66},
    QuantFormatInfo{QuantFormat::kIQ2_XS, "IQ2_XS", 256, 74},
    QuantFormatInfo{QuantFormat::kIQ3_XXS, "IQ3_XXS", 256, 98},
    QuantFormatInfo{QuantFormat::kIQ1_S, "IQ1_S", 256, 50},
    QuantFormatInfo{QuantFormat::kIQ4_NL, "IQ4_NL", 32, 18},
    QuantFormatInfo{QuantFormat::kIQ3_S, "IQ3_S", 256, 110},
    QuantFormatInfo{QuantFormat::kIQ2_S, "IQ2_S", 256, 82},
    QuantFormatInfo{QuantFormat::kIQ4_XS, "IQ4_XS", 256, 136},
    QuantFormatInfo{QuantFormat::kI32, "I32", 1, 4},
    QuantFormatInfo{QuantFormat::kIQ1_M, "IQ1_M", 256, 56},
    QuantFormatInfo{QuantFormat::kBF16, "BF16", 1, 2},
    QuantFormatInfo{QuantFormat::kTQ1_0, "TQ1_0", 256, 54},
    QuantFormatInfo{QuantFormat::kTQ2_0, "TQ2_0", 256, 66},
    QuantFormatInfo{QuantFormat::kMXFP4, "MXFP4", 32, 17},
    QuantFormatInfo{QuantFormat::kNVFP4, "NVFP4", 64, 36},
};

} // namespace

std::span<const QuantFormatInfo> quant_formats() { return kFormats; }

const QuantFormatInfo* find_quant_format(uint32_t gguf_type_id) {
    for (const QuantFormatInfo& info : kFormats) {
        if (static_cast<uint32_t>(info.format) == gguf_type_id) {
            return &info;
        }
    }
    return nullptr;
}

const QuantFormatInfo& quant_format_info(QuantFormat format) {
    const QuantFormatInfo* info = find_quant_format(static_cast<uint32_t>(format));
    DSV4V_CHECK(info != nullptr);
    return *info;
}

} // namespace dsv4v
