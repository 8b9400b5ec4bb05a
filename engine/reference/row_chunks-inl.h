// Vector decoding of weight rows, compiled once per instruction set. A row is walked in chunks of
// 32 values held in registers; the consumer decides whether they are stored or multiplied. Values
// are those of Block::decode, bit for bit.

#include <array>

#include "hwy/highway.h"
#include "loaders/quant/block_visitor.h"
#include "loaders/quant/codebooks.h"

// Include guard per instruction set, as Highway's own -inl headers have it.
#if defined(DSV4V_ROW_CHUNKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DSV4V_ROW_CHUNKS_INL_H_
#undef DSV4V_ROW_CHUNKS_INL_H_
#else
#define DSV4V_ROW_CHUNKS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace dsv4v::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kChunk = 32;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;
using SignedByteTag = hn::Rebind<int8_t, FloatTag>;
using WordTag = hn::Rebind<uint16_t, FloatTag>;

constexpr FloatTag kFloats;
constexpr IntTag kInts;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));
constexpr int64_t kVecs = kChunk / kLanes;

// Value k of the chunk is lane k % kLanes of vector k / kLanes.
struct Chunk {
    FloatVec v[kVecs];
};

HWY_INLINE Chunk load_chunk(const float* values) {
    Chunk chunk;
    for (int64_t i = 0; i < kVecs; ++i) {
        chunk.v[i] = hn::LoadU(kFloats, values + i * kLanes);
    }
    return chunk;
}

HWY_INLINE void store_chunk(const Chunk& chunk, float* out) {
    for (int64_t i = 0; i < kVecs; ++i) {
        hn::StoreU(chunk.v[i], kFloats, out + i * kLanes);
    }
}

// kLanes bytes, widened.
HWY_INLINE hn::Vec<IntTag> load_bytes(const uint8_t* bytes) {
    return hn::PromoteTo(kInts, hn::LoadU(ByteTag(), bytes));
}

// `n` values (at most 32), the rest of the chunk zero.
template <class Block>
HWY_INLINE Chunk decode_tail(const Block* elements, int64_t n) {
    HWY_ALIGN float values[kChunk] = {};
    for (int64_t i = 0; i < n; ++i) {
        elements[i].decode(host_codebooks(), values + i);
    }
    return load_chunk(values);
}

// Chunks of unquantized elements.
HWY_INLINE Chunk decode_elements(const BlockF32* elements) {
    return load_chunk(reinterpret_cast<const float*>(elements));
}

HWY_INLINE Chunk decode_elements(const BlockBF16* elements) {
    Chunk chunk;
    const auto* words = reinterpret_cast<const uint16_t*>(elements);
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto bits = hn::PromoteTo(hn::RebindToUnsigned<FloatTag>(),
                                        hn::LoadU(WordTag(), words + i * kLanes));
        chunk.v[i] = hn::BitCast(kFloats, hn::ShiftLeft<16>(bits));
    }
    return chunk;
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_INLINE Chunk decode_elements(const BlockF16* elements) {
    Chunk chunk;
    const auto* words = reinterpret_cast<const uint16_t*>(elements);
    const hn::Rebind<hwy::float16_t, FloatTag> half_tag;
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto bits = hn::LoadU(WordTag(), words + i * kLanes);
        chunk.v[i] = hn::PromoteTo(kFloats, hn::BitCast(half_tag, bits));
    }
    return chunk;
}
#endif

template <class Block>
HWY_INLINE Chunk decode_elements(const Block* elements) {
    return decode_tail(elements, kChunk);
}

// Chunk `c` of one block, for the formats worth writing out.
HWY_INLINE Chunk decode_chunk(const BlockQ8_0& block, int64_t) {
    Chunk chunk;
    const auto scale = hn::Set(kFloats, block.d.value());
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto code =
            hn::PromoteTo(kInts, hn::LoadU(SignedByteTag(), block.codes + i * kLanes));
        chunk.v[i] = hn::Mul(scale, hn::ConvertTo(kFloats, code));
    }
    return chunk;
}

HWY_INLINE Chunk decode_chunk(const BlockQ4_K& block, int64_t c) {
    Chunk chunk;
    const int group = static_cast<int>(c);
    const auto scale =
        hn::Set(kFloats, block.d.value() * static_cast<float>(block.scales.scale(group)));
    const auto minimum =
        hn::Set(kFloats, block.dmin.value() * static_cast<float>(block.scales.minimum(group)));
    const uint8_t* bytes = block.codes + 32 * (group / 2);
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto pair = load_bytes(bytes + i * kLanes);
        const auto code =
            group % 2 == 0 ? hn::And(pair, hn::Set(kInts, 15)) : hn::ShiftRight<4>(pair);
        chunk.v[i] = hn::Sub(hn::Mul(scale, hn::ConvertTo(kFloats, code)), minimum);
    }
    return chunk;
}

HWY_INLINE Chunk decode_chunk(const BlockQ6_K& block, int64_t c) {
    Chunk chunk;
    const int64_t n = c / 4;
    const int g = static_cast<int>(c % 4);
    const uint8_t* low = block.low + 64 * n + 32 * (g % 2);
    const uint8_t* high = block.high + 32 * n;
    const float d = block.d.value();
    const FloatVec scales[2] = {hn::Set(kFloats, d * static_cast<float>(block.scales[2 * c])),
                                hn::Set(kFloats, d * static_cast<float>(block.scales[2 * c + 1]))};
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto low_bits = hn::And(hn::ShiftRightSame(load_bytes(low + i * kLanes), 4 * (g / 2)),
                                      hn::Set(kInts, 15));
        const auto high_bits =
            hn::And(hn::ShiftRightSame(load_bytes(high + i * kLanes), 2 * g), hn::Set(kInts, 3));
        const auto code =
            hn::Sub(hn::Or(low_bits, hn::ShiftLeft<4>(high_bits)), hn::Set(kInts, 32));
        chunk.v[i] = hn::Mul(scales[i * kLanes / 16], hn::ConvertTo(kFloats, code));
    }
    return chunk;
}

template <class Block>
concept HasCodeGroups = requires {
    Block::kHasSigns;
};

// The codebook formats.
template <HasCodeGroups Block>
HWY_INLINE Chunk decode_chunk(const Block& block, int64_t c) {
    const CodeGroup group = block.group(host_codebooks(), static_cast<int>(c));
    const hn::RebindToUnsigned<FloatTag> bits;
    Chunk chunk;
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto code =
            hn::PromoteTo(kInts, hn::LoadU(SignedByteTag(), group.codes + i * kLanes));
        const auto scale = hn::Set(kFloats, group.scales[i * kLanes / 16]);
        chunk.v[i] = hn::Mul(scale, hn::ConvertTo(kFloats, code));
        if constexpr (Block::kHasSigns) { // bit k of this vector's signs moves to the top of lane k
            const auto signs = hn::Set(bits, group.signs >> (i * kLanes));
            const auto places = hn::Sub(hn::Set(bits, 31), hn::Iota(bits, 0));
            const auto minus = hn::And(hn::Shl(signs, places), hn::Set(bits, 0x80000000u));
            chunk.v[i] = hn::Xor(chunk.v[i], hn::BitCast(kFloats, minus));
        }
    }
    return chunk;
}

#if HWY_TARGET != HWY_SCALAR // which has no vectors of 16 bytes
constexpr std::array<int8_t, 16> level_table(int32_t (*level)(uint32_t)) {
    std::array<int8_t, 16> table{};
    for (uint32_t code = 0; code < 16; ++code) {
        table[code] = static_cast<int8_t>(level(code));
    }
    return table;
}

constexpr auto kIq4Levels = level_table(iq4_level);
constexpr auto kDoubledE2m1 = level_table(doubled_e2m1);

// 16 bytes of code pairs, element j in the low and j + 16 in the high nibble of byte j, that choose
// among 16 signed levels.
HWY_INLINE Chunk decode_levels(const uint8_t* pairs, const int8_t* levels, float scale) {
    const hn::FixedTag<int8_t, 16> bytes;
    const auto table = hn::LoadU(bytes, levels);
    const auto codes = hn::LoadU(hn::FixedTag<uint8_t, 16>(), pairs);
    const auto low = hn::And(codes, hn::Set(hn::FixedTag<uint8_t, 16>(), 15));
    const auto high = hn::ShiftRight<4>(codes);
    HWY_ALIGN int8_t values[kChunk];
    hn::Store(hn::TableLookupBytes(table, hn::BitCast(bytes, low)), bytes, values);
    hn::Store(hn::TableLookupBytes(table, hn::BitCast(bytes, high)), bytes, values + 16);
    const auto factor = hn::Set(kFloats, scale);
    Chunk chunk;
    for (int64_t i = 0; i < kVecs; ++i) {
        const auto value = hn::PromoteTo(kInts, hn::LoadU(SignedByteTag(), values + i * kLanes));
        chunk.v[i] = hn::Mul(factor, hn::ConvertTo(kFloats, value));
    }
    return chunk;
}

HWY_INLINE Chunk decode_chunk(const BlockIQ4_NL& block, int64_t) {
    return decode_levels(block.codes, kIq4Levels.data(), block.d.value());
}

HWY_INLINE Chunk decode_chunk(const BlockIQ4_XS& block, int64_t c) {
    return decode_levels(block.codes + 16 * c, kIq4Levels.data(), block.scale(static_cast<int>(c)));
}

HWY_INLINE Chunk decode_chunk(const BlockMXFP4& block, int64_t) {
    return decode_levels(block.codes, kDoubledE2m1.data(), block.scale());
}

#endif

template <class Block>
concept HasChunkDecoder = requires(const Block& block) {
    decode_chunk(block, int64_t{0});
};

// Walks `n` values from `blocks` and calls consume.full(k, chunk) for every 32 from value k on, and
// consume.tail(k, chunk) for a last incomplete chunk, whose missing values are zero.
template <class Block, class Consumer>
HWY_INLINE void for_each_chunk(const Block* blocks, int64_t n, Consumer& consume) {
    if constexpr (Block::kElements == 1) {
        int64_t k = 0;
        for (; k + kChunk <= n; k += kChunk) {
            consume.full(k, decode_elements(blocks + k));
        }
        if (k < n) {
            consume.tail(k, decode_tail(blocks + k, n - k));
        }
    } else if constexpr (HasChunkDecoder<Block>) {
        for (int64_t k = 0; k < n; ++blocks) {
            for (int64_t c = 0; c < Block::kElements / kChunk; ++c, k += kChunk) {
                consume.full(k, decode_chunk(*blocks, c));
            }
        }
    } else {
        HWY_ALIGN float values[Block::kElements];
        for (int64_t k = 0; k < n; ++blocks) {
            blocks->decode(host_codebooks(), values);
            for (int64_t c = 0; c < Block::kElements / kChunk; ++c, k += kChunk) {
                consume.full(k, load_chunk(values + c * kChunk));
            }
        }
    }
}

} // namespace dsv4v::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif // include guard
