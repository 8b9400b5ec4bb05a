#include "engine/reference/matmul.h"

#include <algorithm>
#include <cstring>

#include "engine/reference/parallel.h"
#include "hwy/aligned_allocator.h"
#include "loaders/base/check.h"

// Instruction sets that would only repeat another one here, and those without fixed-size vectors.
#define HWY_DISABLED_TARGETS                                                                       \
    (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/reference/matmul.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h: compiled once per instruction set.
#include "engine/reference/row_chunks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dsv4v::HWY_NAMESPACE {

// The one summation order of this file: product k goes to partial sum k % 32, the 32 partial sums
// are then added pairwise, k with k + 16, k + 8, ... Vector width therefore does not matter.
class Accumulator {
  public:
    HWY_INLINE Accumulator() {
        for (auto& v : sum_.v) {
            v = hn::Zero(kFloats);
        }
    }
    HWY_INLINE void add(const Chunk& weights, const float* x) {
        for (int64_t i = 0; i < kVecs; ++i) {
            sum_.v[i] = hn::MulAdd(weights.v[i], hn::LoadU(kFloats, x + i * kLanes), sum_.v[i]);
        }
    }
    // The same for an incomplete chunk: `n` values of x, zeros after them.
    HWY_INLINE void add_tail(const Chunk& weights, const float* x, int64_t n) {
        HWY_ALIGN float padded[kChunk] = {};
        std::memcpy(padded, x, static_cast<size_t>(n) * sizeof(float));
        add(weights, padded);
    }
    [[nodiscard]] HWY_INLINE float total() {
        for (int64_t half = kVecs / 2; half > 0; half /= 2) {
            for (int64_t i = 0; i < half; ++i) {
                sum_.v[i] = hn::Add(sum_.v[i], sum_.v[i + half]);
            }
        }
        HWY_ALIGN float lanes[kLanes];
        hn::Store(sum_.v[0], kFloats, lanes);
        for (int64_t half = kLanes / 2; half > 0; half /= 2) {
            for (int64_t i = 0; i < half; ++i) {
                lanes[i] += lanes[i + half];
            }
        }
        return lanes[0];
    }

  private:
    Chunk sum_;
};

// Multiplies chunks as they are decoded: the single-vector path.
struct DotConsumer {
    const float* x;
    int64_t n;
    Accumulator sum = {};
    HWY_INLINE void full(int64_t k, const Chunk& chunk) { sum.add(chunk, x + k); }
    HWY_INLINE void tail(int64_t k, const Chunk& chunk) { sum.add_tail(chunk, x + k, n - k); }
};

// Stores chunks; `out` has room for whole chunks.
struct StoreConsumer {
    float* out;
    HWY_INLINE void full(int64_t k, const Chunk& chunk) { store_chunk(chunk, out + k); }
    HWY_INLINE void tail(int64_t k, const Chunk& chunk) { store_chunk(chunk, out + k); }
};

template <class Block>
HWY_NOINLINE void multiply_single(const MatmulArgs& args, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
        const auto* row = reinterpret_cast<const Block*>(args.weight.row(args.first_row + r));
        DotConsumer product{args.x, args.weight.width()};
        for_each_chunk(row, args.weight.width(), product);
        args.out[r] = product.sum.total();
    }
}

template <class Block>
HWY_NOINLINE void decode_rows(const MatmulArgs& args, int64_t begin, int64_t end, int64_t padded,
                              float* rows) {
    for (int64_t r = begin; r < end; ++r, rows += padded) {
        StoreConsumer store{rows};
        for_each_chunk(reinterpret_cast<const Block*>(args.weight.row(args.first_row + r)),
                       args.weight.width(), store);
    }
}

// out[j * out_stride] = decoded row . x[j], j < kColumns.
template <int64_t kColumns>
HWY_INLINE void dot_columns(const float* row, int64_t n, const float* x, int64_t x_stride,
                            float* out, int64_t out_stride) {
    Accumulator sums[kColumns];
    int64_t k = 0;
    for (; k + kChunk <= n; k += kChunk) {
        const Chunk weights = load_chunk(row + k);
        for (int64_t j = 0; j < kColumns; ++j) {
            sums[j].add(weights, x + j * x_stride + k);
        }
    }
    for (int64_t j = 0; j < kColumns; ++j) {
        if (k < n) {
            sums[j].add_tail(load_chunk(row + k), x + j * x_stride + k, n - k);
        }
        out[j * out_stride] = sums[j].total();
    }
}

// All inputs against the decoded rows [begin, end). Three columns at once is what 16 vector
// registers hold beside the weights.
HWY_NOINLINE void multiply_decoded(const MatmulArgs& args, int64_t begin, int64_t end,
                                   int64_t padded, const float* rows) {
    constexpr int64_t kColumns = 3;
    const int64_t width = args.weight.width();
    for (int64_t t = 0; t < args.n;) {
        const bool full = t + kColumns <= args.n;
        const float* x = args.x + t * args.x_stride;
        for (int64_t r = begin; r < end; ++r) {
            const float* row = rows + (r - begin) * padded;
            float* out = args.out + t * args.out_stride + r;
            if (full) {
                dot_columns<kColumns>(row, width, x, args.x_stride, out, args.out_stride);
            } else {
                dot_columns<1>(row, width, x, args.x_stride, out, args.out_stride);
            }
        }
        t += full ? kColumns : 1;
    }
}

// Output rows [begin, end). `rows` holds their decoded values, `padded` floats each; unused if n
// is 1.
void multiply_rows(const MatmulArgs& args, int64_t begin, int64_t end, int64_t padded,
                   float* rows) {
    visit_block(args.weight.format, [&]<class Block>(std::type_identity<Block>) {
        if (args.n == 1) {
            multiply_single<Block>(args, begin, end);
        } else {
            decode_rows<Block>(args, begin, end, padded, rows);
        }
    });
    if (args.n > 1) {
        multiply_decoded(args, begin, end, padded, rows);
    }
}

float dot_floats(const float* a, const float* b, int64_t n) {
    DotConsumer product{b, n};
    for_each_chunk(reinterpret_cast<const BlockF32*>(a), n, product);
    return product.sum.total();
}

void scale_add_floats(float* acc, float weight, const float* values, int64_t n) {
    const auto w = hn::Set(kFloats, weight);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const auto sum = hn::MulAdd(w, hn::LoadU(kFloats, values + i), hn::LoadU(kFloats, acc + i));
        hn::StoreU(sum, kFloats, acc + i);
    }
    if (i < n) { // through whole vectors too, so that every element is rounded alike
        HWY_ALIGN float padded_acc[kLanes] = {};
        HWY_ALIGN float padded_values[kLanes] = {};
        const size_t n_bytes = static_cast<size_t>(n - i) * sizeof(float);
        std::memcpy(padded_acc, acc + i, n_bytes);
        std::memcpy(padded_values, values + i, n_bytes);
        const auto sum =
            hn::MulAdd(w, hn::Load(kFloats, padded_values), hn::Load(kFloats, padded_acc));
        hn::Store(sum, kFloats, padded_acc);
        std::memcpy(acc + i, padded_acc, n_bytes);
    }
}

} // namespace dsv4v::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dsv4v {
namespace {

HWY_EXPORT(multiply_rows);
HWY_EXPORT(dot_floats);
HWY_EXPORT(scale_add_floats);

// Decoded rows of a tile stay in the second-level cache while all inputs pass over them.
constexpr int64_t kTileFloats = 32768;
constexpr int64_t kMaxTileRows = 16;

// This thread's room for decoded rows; grows to the widest tile seen and stays.
float* tile_buffer(int64_t n_floats) {
    thread_local hwy::AlignedFreeUniquePtr<float[]> buffer;
    thread_local int64_t capacity = 0;
    if (n_floats > capacity) {
        buffer = hwy::AllocateAligned<float>(static_cast<size_t>(n_floats));
        DSV4V_CHECK(buffer != nullptr);
        capacity = n_floats;
    }
    return buffer.get();
}

} // namespace

void matmul(const MatmulArgs& args) {
    const int64_t width = args.weight.width();
    DSV4V_CHECK(args.first_row >= 0 && args.first_row + args.n_out <= args.weight.n_rows());
    DSV4V_CHECK(args.x_stride >= width || args.n <= 1);
    DSV4V_CHECK(args.out_stride >= args.n_out || args.n <= 1);
    if (args.n <= 0) {
        return;
    }
    const int64_t padded = (width + 31) / 32 * 32;
    const int64_t tile_rows = std::clamp<int64_t>(kTileFloats / padded, 1, kMaxTileRows);
    const int64_t n_tiles = (args.n_out + tile_rows - 1) / tile_rows;
    parallel_for(n_tiles, tile_rows * width * args.n, [&](int64_t tile, int32_t) {
        const int64_t begin = tile * tile_rows;
        const int64_t end = std::min(begin + tile_rows, args.n_out);
        float* rows = args.n > 1 ? tile_buffer(tile_rows * padded) : nullptr;
        HWY_DYNAMIC_DISPATCH(multiply_rows)(args, begin, end, padded, rows);
    });
}

float dot(const float* a, const float* b, int64_t n) {
    return HWY_DYNAMIC_DISPATCH(dot_floats)(a, b, n);
}

void scale_add(float* acc, float weight, const float* values, int64_t n) {
    HWY_DYNAMIC_DISPATCH(scale_add_floats)(acc, weight, values, n);
}

} // namespace dsv4v
#endif // HWY_ONCE
