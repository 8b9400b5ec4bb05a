#include "loaders/gguf_shard.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "loaders/base/checked_math.h"
#include "loaders/base/printable.h"
#include "loaders/gguf_cursor.h"

namespace dsv4v {
namespace {

constexpr uint64_t kMaxKeys = 65'536;
constexpr uint64_t kMaxTensors = 65'536;
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4; // length, one letter, type
constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8; // length, letter, n_dims, ne, type, offset
constexpr uint64_t kMaxKeyLength = 64 * 1024;
constexpr uint64_t kMaxStringLength = 16 * 1024 * 1024;
constexpr uint64_t kMaxArrayStringLength = 1024 * 1024;
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 26;
constexpr uint64_t kMaxTensorNameLength = 63;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxDim = uint64_t{1} << 40;
constexpr uint32_t kMinAlignment = 8;
constexpr uint32_t kMaxAlignment = 1024 * 1024;
constexpr const char* kAlignmentKey = "general.alignment";

// A tensor as the directory describes it, before its place in the file is known.
struct TensorEntry {
    TensorView view;
    uint64_t offset = 0;
    uint64_t n_bytes = 0;
};

class ShardParser {
  public:
    ShardParser(std::string path, std::span<const std::byte> bytes)
        : bytes_(bytes), cursor_(bytes) {
        shard_.metadata = GgufMetadata(path);
        shard_.path = std::move(path);
    }

    Expected<GgufShard> parse() {
        DSV4V_RETURN_IF_ERROR(parse_header());
        for (uint64_t i = 0; i < n_keys_; ++i) {
            DSV4V_RETURN_IF_ERROR(parse_key_value(i));
        }
        DSV4V_RETURN_IF_ERROR(read_alignment());
        for (uint64_t i = 0; i < n_tensors_; ++i) {
            DSV4V_RETURN_IF_ERROR(parse_tensor_entry(i));
        }
        DSV4V_RETURN_IF_ERROR(place_tensors());
        return std::move(shard_);
    }

  private:
    // "PATH: MESSAGE"
    [[nodiscard]] tl::unexpected<Error> corrupt(const std::string& message) const {
        return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", shard_.path, message));
    }

    [[nodiscard]] Expected<void> parse_header() {
        const auto magic = cursor_.take(4);
        if (!magic || as_text(*magic) != "GGUF") {
            return corrupt(
                fmt::format("not a GGUF file: starts with \"{}\", wanted magic \"GGUF\"",
                            printable(as_text(bytes_.first(std::min<size_t>(4, bytes_.size()))))));
        }
        const auto version = cursor_.read<uint32_t>();
        const auto n_tensors = cursor_.read<uint64_t>();
        const auto n_keys = cursor_.read<uint64_t>();
        if (!version || !n_tensors || !n_keys) {
            return corrupt(
                fmt::format("the header is cut off after {} bytes, wanted 24", bytes_.size()));
        }
        if ((*version & 0xffff) == 0 && *version != 0) {
            return corrupt("big-endian file; only little-endian GGUF is supported");
        }
        if (*version != 2 && *version != 3) {
            return corrupt(fmt::format("version {} is not supported, wanted 2 or 3", *version));
        }
        shard_.version = *version;
        n_tensors_ = *n_tensors;
        n_keys_ = *n_keys;
        DSV4V_RETURN_IF_ERROR(check_count("n_kv", n_keys_, kMinKeyBytes, kMaxKeys));
        return check_count("n_tensors", n_tensors_, kMinTensorBytes, kMaxTensors);
    }

    // A count is believed only as far as the bytes left could hold that many entries.
    [[nodiscard]] Expected<void> check_count(const char* field, uint64_t count,
                                             uint64_t min_entry_bytes, uint64_t limit) const {
        const uint64_t most = std::min(limit, cursor_.remaining() / min_entry_bytes);
        if (count > most) {
            return corrupt(fmt::format("{} is {}, at most {} are possible in {} bytes", field,
                                       count, most, bytes_.size()));
        }
        return {};
    }

    [[nodiscard]] Expected<void> parse_key_value(uint64_t key_idx) {
        const auto key_length = cursor_.read<uint64_t>();
        if (!key_length) {
            return corrupt(
                fmt::format("key {} of {} lies past the end of the file", key_idx, n_keys_));
        }
        if (*key_length == 0 || *key_length > kMaxKeyLength) {
            return corrupt(fmt::format("key {} of {} has a name of {} bytes, wanted 1 to {}",
                                       key_idx, n_keys_, *key_length, kMaxKeyLength));
        }
        const auto key_bytes = cursor_.take(*key_length);
        if (!key_bytes) {
            return corrupt(fmt::format("key {} of {}: its name of {} bytes runs past the end of "
                                       "the file",
                                       key_idx, n_keys_, *key_length));
        }
        const std::string_view key = as_text(*key_bytes);
        DSV4V_ASSIGN_OR_RETURN(const GgufType type, read_type(key, "type"));
        DSV4V_ASSIGN_OR_RETURN(const GgufValue value, read_value(key, type));
        if (!shard_.metadata.insert(key, value)) {
            return corrupt(fmt::format("key {} occurs twice", printable(key)));
        }
        return {};
    }

    [[nodiscard]] Expected<GgufType> read_type(std::string_view key, const char* field) {
        const auto id = cursor_.read<uint32_t>();
        if (!id) {
            return cut_off(key);
        }
        if (*id > static_cast<uint32_t>(GgufType::kF64)) {
            return corrupt(
                fmt::format("key {} has {} {}, wanted 0 to 12", printable(key), field, *id));
        }
        return static_cast<GgufType>(*id);
    }

    [[nodiscard]] tl::unexpected<Error> cut_off(std::string_view key) const {
        return corrupt(
            fmt::format("the value of key {} runs past the end of the file", printable(key)));
    }

    [[nodiscard]] Expected<GgufValue> read_value(std::string_view key, GgufType type) {
        if (type == GgufType::kString) {
            DSV4V_ASSIGN_OR_RETURN(const auto text, read_string(key, kMaxStringLength));
            return GgufValue{type, type, 1, text};
        }
        if (type == GgufType::kArray) {
            return read_array(key);
        }
        const auto scalar = cursor_.take(gguf_scalar_bytes(type));
        if (!scalar) {
            return cut_off(key);
        }
        const auto first_byte = std::to_integer<uint32_t>((*scalar)[0]);
        if (type == GgufType::kBool && first_byte > 1) {
            return corrupt(fmt::format("key {} is a bool of value {}, wanted 0 or 1",
                                       printable(key), first_byte));
        }
        return GgufValue{type, type, 1, *scalar};
    }

    [[nodiscard]] Expected<std::span<const std::byte>> read_string(std::string_view key,
                                                                   uint64_t max_length) {
        const auto length = cursor_.read<uint64_t>();
        if (!length) {
            return cut_off(key);
        }
        if (*length > max_length) {
            return corrupt(fmt::format("key {} holds a string of {} bytes, at most {} are allowed",
                                       printable(key), *length, max_length));
        }
        const auto text = cursor_.take(*length);
        if (!text) {
            return cut_off(key);
        }
        return *text;
    }

    [[nodiscard]] Expected<GgufValue> read_array(std::string_view key) {
        DSV4V_ASSIGN_OR_RETURN(const GgufType element_type, read_type(key, "element type"));
        if (element_type == GgufType::kArray) {
            return corrupt(fmt::format("key {} is an array of arrays, which is not supported",
                                       printable(key)));
        }
        const auto count = cursor_.read<uint64_t>();
        if (!count) {
            return cut_off(key);
        }
        const bool strings = element_type == GgufType::kString;
        const uint64_t min_element_bytes = strings ? 8 : gguf_scalar_bytes(element_type);
        const uint64_t most = std::min(kMaxArrayElements, cursor_.remaining() / min_element_bytes);
        if (*count > most) {
            return corrupt(fmt::format("key {} is an array of {} elements, at most {} are possible",
                                       printable(key), *count, most));
        }
        const uint64_t begin = cursor_.position();
        if (strings) {
            for (uint64_t i = 0; i < *count; ++i) {
                DSV4V_RETURN_IF_ERROR(read_string(key, kMaxArrayStringLength));
            }
        } else if (!cursor_.take(*count * min_element_bytes)) {
            return cut_off(key);
        }
        return GgufValue{GgufType::kArray, element_type, *count,
                         bytes_.subspan(begin, cursor_.position() - begin)};
    }

    [[nodiscard]] Expected<void> read_alignment() {
        const GgufValue* value = shard_.metadata.find(kAlignmentKey);
        if (value == nullptr) {
            return {};
        }
        if (value->type != GgufType::kU32) {
            return corrupt(fmt::format("key {} has type {}, wanted u32", kAlignmentKey,
                                       gguf_type_name(value->type)));
        }
        DSV4V_ASSIGN_OR_RETURN(const int64_t alignment, shard_.metadata.get_int(kAlignmentKey));
        if (!std::has_single_bit(static_cast<uint64_t>(alignment)) || alignment < kMinAlignment ||
            alignment > kMaxAlignment) {
            return corrupt(fmt::format("key {} is {}, wanted a power of two from {} to {}",
                                       kAlignmentKey, alignment, kMinAlignment, kMaxAlignment));
        }
        shard_.alignment = static_cast<uint32_t>(alignment);
        return {};
    }

    [[nodiscard]] Expected<std::string_view> read_tensor_name(uint64_t tensor_idx) {
        const auto length = cursor_.read<uint64_t>();
        if (!length) {
            return corrupt(fmt::format("tensor {} of {} lies past the end of the file", tensor_idx,
                                       n_tensors_));
        }
        if (*length == 0 || *length > kMaxTensorNameLength) {
            return corrupt(fmt::format("tensor {} of {} has a name of {} bytes, wanted 1 to {}",
                                       tensor_idx, n_tensors_, *length, kMaxTensorNameLength));
        }
        const auto bytes = cursor_.take(*length);
        if (!bytes) {
            return corrupt(fmt::format("tensor {} of {}: its name runs past the end of the file",
                                       tensor_idx, n_tensors_));
        }
        const std::string_view name = as_text(*bytes);
        const bool odd = std::any_of(name.begin(), name.end(), [](char c) {
            const auto byte = static_cast<unsigned char>(c);
            return byte < 0x20 || byte == 0x7f || byte == '/';
        });
        if (odd) {
            return corrupt(fmt::format("tensor {} of {}: name \"{}\" holds a control byte or '/'",
                                       tensor_idx, n_tensors_, printable(name)));
        }
        return name;
    }

    [[nodiscard]] Expected<void> parse_tensor_entry(uint64_t tensor_idx) {
        DSV4V_ASSIGN_OR_RETURN(const std::string_view name, read_tensor_name(tensor_idx));
        if (!tensor_names_.insert(name).second) {
            return corrupt(fmt::format("tensor {} occurs twice", printable(name)));
        }
        TensorEntry entry;
        entry.view.name = name;
        DSV4V_RETURN_IF_ERROR(read_shape(entry.view));
        const auto type_id = cursor_.read<uint32_t>();
        const auto offset = cursor_.read<uint64_t>();
        if (!type_id || !offset) {
            return directory_cut_off(name);
        }
        const QuantFormatInfo* format = find_quant_format(*type_id);
        if (format == nullptr) {
            return corrupt(fmt::format("tensor {} has type id {}, which is unknown, removed or not "
                                       "a storage type",
                                       printable(name), *type_id));
        }
        entry.view.format = format->format;
        entry.offset = *offset;
        DSV4V_ASSIGN_OR_RETURN(entry.n_bytes, tensor_bytes(entry.view, *format));
        entries_.push_back(entry);
        return {};
    }

    [[nodiscard]] tl::unexpected<Error> directory_cut_off(std::string_view name) const {
        return corrupt(fmt::format("the directory entry of tensor {} runs past the end of the file",
                                   printable(name)));
    }

    [[nodiscard]] Expected<void> read_shape(TensorView& view) {
        const auto n_dims = cursor_.read<uint32_t>();
        if (!n_dims) {
            return directory_cut_off(view.name);
        }
        if (*n_dims == 0 || *n_dims > kMaxDims) {
            return corrupt(fmt::format("tensor {} has {} dimensions (n_dims), wanted 1 to {}",
                                       printable(view.name), *n_dims, kMaxDims));
        }
        for (uint32_t i = 0; i < *n_dims; ++i) {
            const auto dim = cursor_.read<uint64_t>();
            if (!dim) {
                return directory_cut_off(view.name);
            }
            if (*dim == 0 || *dim > kMaxDim) {
                return corrupt(fmt::format("tensor {}: ne[{}] is {}, wanted 1 to {}",
                                           printable(view.name), i, *dim, kMaxDim));
            }
            view.ne[i] = static_cast<int64_t>(*dim);
        }
        return {};
    }

    // Bytes of a whole tensor. Elements and bytes must both fit int64.
    [[nodiscard]] Expected<uint64_t> tensor_bytes(const TensorView& view,
                                                  const QuantFormatInfo& format) const {
        const auto width = static_cast<uint64_t>(view.ne[0]);
        if (width % format.block_elements != 0) {
            return corrupt(fmt::format("tensor {}: ne[0] is {}, wanted a multiple of {}, the block "
                                       "of {}",
                                       printable(view.name), width, format.block_elements,
                                       format.name));
        }
        std::optional<uint64_t> n_elements = width;
        std::optional<uint64_t> n_bytes =
            checked_mul(width / format.block_elements, format.block_bytes);
        for (size_t i = 1; i < view.ne.size(); ++i) {
            const auto dim = static_cast<uint64_t>(view.ne[i]);
            n_elements = n_elements ? checked_mul(*n_elements, dim) : std::nullopt;
            n_bytes = n_bytes ? checked_mul(*n_bytes, dim) : std::nullopt;
        }
        if (!n_elements || *n_elements > INT64_MAX || !n_bytes || *n_bytes > INT64_MAX) {
            return corrupt(fmt::format("tensor {}: the size of shape [{}, {}, {}, {}] overflows",
                                       printable(view.name), view.ne[0], view.ne[1], view.ne[2],
                                       view.ne[3]));
        }
        return *n_bytes;
    }

    // Turns offsets into pointers once the start of the data section is known.
    [[nodiscard]] Expected<void> place_tensors() {
        if (entries_.empty()) {
            return {};
        }
        // Cannot wrap: the position is at most the file size, the alignment at most 1 MiB.
        const uint64_t data_begin = *checked_align_up(cursor_.position(), shard_.alignment);
        for (TensorEntry& entry : entries_) {
            DSV4V_RETURN_IF_ERROR(place_tensor(entry, data_begin));
            shard_.tensors.push_back(entry.view);
        }
        return check_overlap();
    }

    [[nodiscard]] Expected<void> place_tensor(TensorEntry& entry, uint64_t data_begin) const {
        if (entry.offset % shard_.alignment != 0) {
            return corrupt(fmt::format("tensor {}: offset {} is not a multiple of the alignment {}",
                                       printable(entry.view.name), entry.offset, shard_.alignment));
        }
        const std::optional<uint64_t> begin = checked_add(data_begin, entry.offset);
        const std::optional<uint64_t> end =
            begin ? checked_add(*begin, entry.n_bytes) : std::nullopt;
        if (!end || *end > bytes_.size()) {
            return corrupt(fmt::format("tensor {} needs {} bytes at offset {} of the data section, "
                                       "past the end of the file of {} bytes (truncated download?)",
                                       printable(entry.view.name), entry.n_bytes, entry.offset,
                                       bytes_.size()));
        }
        entry.view.data = bytes_.data() + *begin;
        return {};
    }

    // Gaps between tensors and any order are harmless and accepted; shared bytes are not.
    [[nodiscard]] Expected<void> check_overlap() const {
        std::vector<size_t> order(entries_.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::sort(order.begin(), order.end(),
                  [this](size_t a, size_t b) { return entries_[a].offset < entries_[b].offset; });
        for (size_t i = 1; i < order.size(); ++i) {
            const TensorEntry& before = entries_[order[i - 1]];
            const TensorEntry& after = entries_[order[i]];
            if (before.offset + before.n_bytes > after.offset) {
                return corrupt(fmt::format("tensors {} and {} overlap at offset {}",
                                           printable(before.view.name), printable(after.view.name),
                                           after.offset));
            }
        }
        return {};
    }

    std::span<const std::byte> bytes_;
    GgufCursor cursor_;
    GgufShard shard_;
    uint64_t n_keys_ = 0;
    uint64_t n_tensors_ = 0;
    std::vector<TensorEntry> entries_;
    std::unordered_set<std::string_view> tensor_names_;
};

} // namespace

Expected<GgufShard> parse_gguf_shard(std::string path, std::span<const std::byte> bytes) {
    return ShardParser(std::move(path), bytes).parse();
}

} // namespace dsv4v
