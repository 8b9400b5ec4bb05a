// Parser of one GGUF file: header, key-values, tensor directory. Refuses every broken length, type,
// shape, offset and name with a message that says which; docs/formats.md lists the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loaders/base/error.h"
#include "loaders/gguf_metadata.h"
#include "loaders/tensor_view.h"

namespace dsv4v {

struct GgufShard {
    std::string path;
    uint32_t version = 0;
    uint32_t alignment = 32;
    GgufMetadata metadata;
    std::vector<TensorView> tensors; // file order; every view lies inside the file, none overlap
};

// `bytes` is the whole file and must outlive the result, which points into it. `path` only appears
// in error messages.
[[nodiscard]] Expected<GgufShard> parse_gguf_shard(std::string path,
                                                   std::span<const std::byte> bytes);

} // namespace dsv4v
