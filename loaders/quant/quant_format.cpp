#include "loaders/quant/quant_format.h"

#include <array>

#include "loaders/base/check.h"
#include "loaders/quant/block_visitor.h"
#include "loaders/quant/codebooks.h"

namespace dsv4v {
namespace {

// Sizes come from the block structs, so the table cannot disagree with the decoders.
template <class Block>
constexpr QuantFormatInfo row(const char* name) {
    return {Block::kFormat, name, Block::kElements, sizeof(Block)};
}

constexpr std::array kFormats = {
    row<BlockF32>("F32"),         row<BlockF16>("F16"),       row<BlockQ4_0>("Q4_0"),
    row<BlockQ4_1>("Q4_1"),       row<BlockQ5_0>("Q5_0"),     row<BlockQ5_1>("Q5_1"),
    row<BlockQ8_0>("Q8_0"),       row<BlockQ2_K>("Q2_K"),     row<BlockQ3_K>("Q3_K"),
    row<BlockQ4_K>("Q4_K"),       row<BlockQ5_K>("Q5_K"),     row<BlockQ6_K>("Q6_K"),
    row<BlockIQ2_XXS>("IQ2_XXS"), row<BlockIQ2_XS>("IQ2_XS"), row<BlockIQ3_XXS>("IQ3_XXS"),
    row<BlockIQ1_S>("IQ1_S"),     row<BlockIQ4_NL>("IQ4_NL"), row<BlockIQ3_S>("IQ3_S"),
    row<BlockIQ2_S>("IQ2_S"),     row<BlockIQ4_XS>("IQ4_XS"), row<BlockI32>("I32"),
    row<BlockIQ1_M>("IQ1_M"),     row<BlockBF16>("BF16"),     row<BlockTQ1_0>("TQ1_0"),
    row<BlockTQ2_0>("TQ2_0"),     row<BlockMXFP4>("MXFP4"),   row<BlockNVFP4>("NVFP4"),
};

} // namespace

std::span<const QuantFormatInfo> quant_formats() {
    return kFormats;
}

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

void decode_row(QuantFormat format, const void* blocks, int64_t n_elements, float* out) {
    visit_block(format, [&]<class Block>(std::type_identity<Block>) {
        DSV4V_CHECK(n_elements % Block::kElements == 0);
        const auto* block = static_cast<const Block*>(blocks);
        const Codebooks& books = host_codebooks();
        for (int64_t i = 0; i < n_elements; i += Block::kElements) {
            (block++)->decode(books, out + i);
        }
    });
}

} // namespace dsv4v
