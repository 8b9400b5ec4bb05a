#include "loaders/gguf_split.h"

#include <algorithm>

#include <fmt/format.h>

namespace dsv4v {
namespace {

std::optional<uint32_t> parse_five_digits(std::string_view digits) {
    uint32_t number = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9') {
            return std::nullopt;
        }
        number = number * 10 + static_cast<uint32_t>(c - '0');
    }
    return number;
}

} // namespace

std::optional<ShardName> parse_shard_name(std::string_view path) {
    constexpr std::string_view kPattern = "-#####-of-#####.gguf";
    if (path.size() <= kPattern.size()) {
        return std::nullopt;
    }
    const std::string_view suffix = path.substr(path.size() - kPattern.size());
    const bool matches =
        std::equal(suffix.begin(), suffix.end(), kPattern.begin(),
                   [](char c, char pattern) { return pattern == '#' || c == pattern; });
    const std::optional<uint32_t> number = parse_five_digits(suffix.substr(1, 5));
    const std::optional<uint32_t> n_shards = parse_five_digits(suffix.substr(10, 5));
    if (!matches || !number || !n_shards || *number == 0 || *number > *n_shards) {
        return std::nullopt;
    }
    return ShardName{std::string(path.substr(0, path.size() - kPattern.size())), *number,
                     *n_shards};
}

std::string shard_path(const std::string& prefix, uint32_t number, uint32_t n_shards) {
    return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, n_shards);
}

} // namespace dsv4v
