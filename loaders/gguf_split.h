// Names of the files of a split model: PREFIX-00001-of-00003.gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dsv4v {

struct ShardName {
    std::string prefix;  // directory and name up to the number
    uint32_t number = 0; // 1-based
    uint32_t n_shards = 0;
};

// Nothing when `path` does not end in -NNNNN-of-NNNNN.gguf with 1 <= number <= count.
[[nodiscard]] std::optional<ShardName> parse_shard_name(std::string_view path);

[[nodiscard]] std::string shard_path(const std::string& prefix, uint32_t number, uint32_t n_shards);

} // namespace dsv4v
