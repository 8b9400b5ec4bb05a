// Rows of any stored format to float32 on the device: row gather, tests, and the fallback of every
// format without a kernel of its own.
#pragma once

#include <cstdint>

#include "loaders/quant/codebooks.h"
#include "loaders/quant/quant_format.h"

struct CUstream_st; // cudaStream_t, so that this header needs no CUDA

namespace dsv4v {

struct DequantizeParams {
    QuantFormat format;
    const void* d_blocks;  // n_elements / block elements packed blocks, byte aligned
    int64_t n_elements;    // multiple of the format's block size
    float* d_out;          // [n_elements]
    Codebooks d_codebooks; // device copies of the host codebooks
};

// out[i] = decode(blocks)[i], bit-equal to decode_row. One thread decodes one block; no workspace,
// deterministic, not synchronised. Moves the block bytes plus 4 bytes an element.
void launch_dequantize(const DequantizeParams& params, CUstream_st* stream);

// The codebooks in device memory; lives as long as the process uses the device.
class DeviceCodebooks {
  public:
    DeviceCodebooks(); // allocates and copies 25 KiB; check the runtime's last error afterwards
    ~DeviceCodebooks();
    DeviceCodebooks(const DeviceCodebooks&) = delete;
    DeviceCodebooks& operator=(const DeviceCodebooks&) = delete;
    [[nodiscard]] const Codebooks& view() const { return view_; }

  private:
    Codebooks view_ = {};
    void* d_memory_ = nullptr;
};

} // namespace dsv4v
