// Device decoding of every format against the reference values, bit for bit.
#include "cuda/dequantize.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "tests/golden.h"

namespace dsv4v {
namespace {

namespace fs = std::filesystem;

bool has_gpu() {
    int n_devices = 0;
    return cudaGetDeviceCount(&n_devices) == cudaSuccess && n_devices > 0;
}

std::vector<std::string> block_files() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(testing::unpacked("quants/blocks"))) {
        names.push_back(entry.path().stem().string());
    }
    return names;
}

uint32_t word(const std::string& bytes, size_t offset) {
    uint32_t value;
    std::memcpy(&value, bytes.data() + offset, 4);
    return value;
}

bool same_value(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || (a == 0 && b == 0) || std::memcmp(&a, &b, 4) == 0;
}

class DequantizeOnDevice : public ::testing::TestWithParam<std::string> {};

TEST_P(DequantizeOnDevice, EqualsTheReferenceBits) {
    if (!has_gpu()) {
        GTEST_SKIP() << "no CUDA device on this machine";
    }
    const std::string file =
        testing::read_whole_file(testing::unpacked("quants/blocks/" + GetParam() + ".qtv"));
    const uint32_t n_blocks = word(file, 16);
    const size_t n_bytes = size_t{n_blocks} * word(file, 12);
    const size_t n_elements = size_t{n_blocks} * word(file, 8);
    const size_t values_offset = (32 + n_bytes + 15) / 16 * 16;

    const DeviceCodebooks codebooks;
    void* d_blocks = nullptr;
    float* d_out = nullptr;
    ASSERT_EQ(cudaMalloc(&d_blocks, n_bytes), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&d_out, n_elements * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(d_blocks, file.data() + 32, n_bytes, cudaMemcpyHostToDevice), cudaSuccess);
    launch_dequantize({.format = static_cast<QuantFormat>(word(file, 4)),
                       .d_blocks = d_blocks,
                       .n_elements = static_cast<int64_t>(n_elements),
                       .d_out = d_out,
                       .d_codebooks = codebooks.view()},
                      nullptr);
    std::vector<float> actual(n_elements);
    ASSERT_EQ(cudaMemcpy(actual.data(), d_out, n_elements * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (size_t i = 0; i < n_elements; ++i) {
        float expected;
        std::memcpy(&expected, file.data() + values_offset + 4 * i, 4);
        ASSERT_TRUE(same_value(actual[i], expected))
            << "element " << i << ": " << actual[i] << " instead of " << expected;
    }
    cudaFree(d_blocks);
    cudaFree(d_out);
}

INSTANTIATE_TEST_SUITE_P(AllFormats, DequantizeOnDevice, ::testing::ValuesIn(block_files()),
                         [](const auto& instance) { return instance.param; });

} // namespace
} // namespace dsv4v
