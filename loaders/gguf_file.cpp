#include "loaders/gguf_file.h"

#include <utility>

#include <fmt/format.h>

#include "loaders/base/printable.h"
#include "loaders/gguf_split.h"

namespace dsv4v {
namespace {

constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitNo = "split.no";
constexpr const char* kSplitTensorsCount = "split.tensors.count";
constexpr uint32_t kMaxShards = 999;

tl::unexpected<Error> corrupt(const std::string& path, const std::string& message) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", path, message));
}

// Number of files of the set this one says it belongs to; 1 without the key.
Expected<uint32_t> split_count(const GgufShard& shard) {
    if (shard.metadata.find(kSplitCount) == nullptr) {
        return 1;
    }
    DSV4V_ASSIGN_OR_RETURN(const int64_t count, shard.metadata.get_int(kSplitCount));
    if (count < 0 || count > kMaxShards) {
        return corrupt(shard.path,
                       fmt::format("key {} is {}, wanted 0 to {}", kSplitCount, count, kMaxShards));
    }
    return count == 0 ? 1 : static_cast<uint32_t>(count);
}

Expected<void> check_split_key(const GgufShard& shard, const char* key, int64_t wanted) {
    DSV4V_ASSIGN_OR_RETURN(const int64_t got, shard.metadata.get_int(key));
    if (got != wanted) {
        return corrupt(shard.path, fmt::format("key {} is {}, wanted {}", key, got, wanted));
    }
    return {};
}

} // namespace

Expected<GgufFile> GgufFile::open(const std::string& path) {
    const std::optional<ShardName> name = parse_shard_name(path);
    GgufFile file;
    DSV4V_RETURN_IF_ERROR(
        file.add_mapped_shard(name ? shard_path(name->prefix, 1, name->n_shards) : path));
    DSV4V_RETURN_IF_ERROR(file.add_remaining_shards(path));
    DSV4V_RETURN_IF_ERROR(file.merge_directories());
    return file;
}

Expected<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
    GgufFile file;
    DSV4V_ASSIGN_OR_RETURN(GgufShard shard, parse_gguf_shard(std::move(name), bytes));
    file.n_bytes_ = bytes.size();
    file.shards_.push_back(std::move(shard));
    DSV4V_ASSIGN_OR_RETURN(const uint32_t n_shards, split_count(file.shards_.front()));
    if (n_shards > 1) {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("{}: key {} is {}, wanted a model of one file", file.path(),
                                      kSplitCount, n_shards));
    }
    DSV4V_RETURN_IF_ERROR(file.merge_directories());
    return file;
}

Expected<void> GgufFile::add_mapped_shard(const std::string& path) {
    DSV4V_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, MappedFile::open(path));
    DSV4V_ASSIGN_OR_RETURN(GgufShard shard,
                           parse_gguf_shard(printable(path, 4096), mapping->bytes()));
    n_bytes_ += mapping->bytes().size();
    mappings_.push_back(std::move(mapping));
    shards_.push_back(std::move(shard));
    return {};
}

// File names only ever come from the path the user gave, never from inside a file.
Expected<void> GgufFile::add_remaining_shards(const std::string& named_path) {
    const std::optional<ShardName> name = parse_shard_name(named_path);
    DSV4V_ASSIGN_OR_RETURN(const uint32_t n_shards, split_count(shards_.front()));
    if (n_shards == 1) {
        if (name && name->number != 1) {
            return corrupt(path(),
                           fmt::format("key {} is absent or 1, but shard {} of {} was asked "
                                       "for",
                                       kSplitCount, name->number, name->n_shards));
        }
        return {};
    }
    if (!name || name->n_shards != n_shards) {
        return corrupt(path(), fmt::format("key {} is {}, so the file name must end in "
                                           "-00001-of-{:05}.gguf",
                                           kSplitCount, n_shards, n_shards));
    }
    DSV4V_RETURN_IF_ERROR(check_split_key(shards_.front(), kSplitNo, 0));
    DSV4V_ASSIGN_OR_RETURN(const int64_t n_tensors, metadata().get_int(kSplitTensorsCount));
    for (uint32_t number = 2; number <= n_shards; ++number) {
        DSV4V_RETURN_IF_ERROR(add_mapped_shard(shard_path(name->prefix, number, n_shards)));
        const GgufShard& added = shards_.back();
        DSV4V_RETURN_IF_ERROR(check_split_key(added, kSplitNo, number - 1));
        DSV4V_RETURN_IF_ERROR(check_split_key(added, kSplitCount, n_shards));
        DSV4V_RETURN_IF_ERROR(check_split_key(added, kSplitTensorsCount, n_tensors));
    }
    return {};
}

Expected<void> GgufFile::merge_directories() {
    for (const GgufShard& shard : shards_) {
        for (const TensorView& tensor : shard.tensors) {
            if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
                return corrupt(shard.path, fmt::format("tensor {} is already in an earlier shard",
                                                       printable(tensor.name)));
            }
            tensors_.push_back(tensor);
        }
    }
    if (shards_.size() > 1) {
        return check_split_key(shards_.front(), kSplitTensorsCount,
                               static_cast<int64_t>(tensors_.size()));
    }
    return {};
}

const TensorView* GgufFile::find_tensor(std::string_view name) const {
    const auto found = tensor_index_.find(name);
    return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

uint64_t GgufFile::n_tensor_bytes() const {
    uint64_t n_bytes = 0;
    for (const TensorView& tensor : tensors_) {
        n_bytes += static_cast<uint64_t>(tensor.n_bytes());
    }
    return n_bytes;
}

bool GgufFile::has(std::string_view key) const {
    return metadata().find(key) != nullptr;
}

bool GgufFile::is_array(std::string_view key) const {
    const GgufValue* value = metadata().find(key);
    return value != nullptr && value->type == GgufType::kArray;
}

Expected<int64_t> GgufFile::get_int(std::string_view key) const {
    return metadata().get_int(key);
}

Expected<double> GgufFile::get_float(std::string_view key) const {
    return metadata().get_float(key);
}

Expected<bool> GgufFile::get_bool(std::string_view key) const {
    return metadata().get_bool(key);
}

Expected<std::string> GgufFile::get_string(std::string_view key) const {
    return metadata().get_string(key);
}

Expected<std::vector<int64_t>> GgufFile::get_int_array(std::string_view key) const {
    return metadata().get_int_array(key);
}

Expected<std::vector<double>> GgufFile::get_float_array(std::string_view key) const {
    return metadata().get_float_array(key);
}

Expected<std::vector<std::string>> GgufFile::get_string_array(std::string_view key) const {
    return metadata().get_string_array(key);
}

Expected<uint64_t> GgufFile::get_array_length(std::string_view key) const {
    return metadata().get_array_length(key);
}

std::span<const std::string_view> GgufFile::keys() const {
    return metadata().keys();
}

} // namespace dsv4v
