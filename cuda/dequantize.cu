#include "cuda/dequantize.h"

#include <array>

#include <cuda_runtime.h>

#include "loaders/quant/block_visitor.h"

namespace dsv4v {
namespace {

constexpr int kThreads = 128;

template <class Block>
__global__ void dequantize_kernel(const Block* blocks, int64_t n_blocks, Codebooks codebooks,
                                  float* out) {
    const int64_t block_idx = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (block_idx < n_blocks) {
        blocks[block_idx].decode(codebooks, out + block_idx * Block::kElements);
    }
}

struct Table {
    const int8_t* Codebooks::*member;
    size_t n_bytes;
};

constexpr std::array<Table, 6> kTables = {{{&Codebooks::iq2_xxs, 256 * 8},
                                           {&Codebooks::iq2_xs, 512 * 8},
                                           {&Codebooks::iq2_s, 1024 * 8},
                                           {&Codebooks::iq3_xxs, 256 * 4},
                                           {&Codebooks::iq3_s, 512 * 4},
                                           {&Codebooks::iq1, 2048 * 8}}};

} // namespace

void launch_dequantize(const DequantizeParams& params, CUstream_st* stream) {
    visit_block(params.format, [&]<class Block>(std::type_identity<Block>) {
        DSV4V_CHECK(params.n_elements % Block::kElements == 0);
        const int64_t n_blocks = params.n_elements / Block::kElements;
        if (n_blocks == 0) {
            return;
        }
        const auto grid = static_cast<unsigned>((n_blocks + kThreads - 1) / kThreads);
        dequantize_kernel<Block><<<grid, kThreads, 0, stream>>>(
            static_cast<const Block*>(params.d_blocks), n_blocks, params.d_codebooks, params.d_out);
    });
}

DeviceCodebooks::DeviceCodebooks() {
    size_t n_bytes = 0;
    for (const Table& table : kTables) {
        n_bytes += table.n_bytes;
    }
    if (cudaMalloc(&d_memory_, n_bytes) != cudaSuccess) {
        return;
    }
    auto* next = static_cast<int8_t*>(d_memory_);
    for (const Table& table : kTables) {
        cudaMemcpy(next, host_codebooks().*table.member, table.n_bytes, cudaMemcpyHostToDevice);
        view_.*table.member = next;
        next += table.n_bytes;
    }
}

DeviceCodebooks::~DeviceCodebooks() {
    cudaFree(d_memory_);
}

} // namespace dsv4v
