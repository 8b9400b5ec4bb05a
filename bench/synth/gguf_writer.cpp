#include "bench/synth/gguf_writer.h"

#include <bit>

namespace dsv4v {
namespace {

constexpr uint64_t kAlignment = 32;
constexpr uint32_t kVersion = 3;

enum ValueType : uint32_t {
    kU16 = 2,
    kU32 = 4,
    kI32 = 5,
    kF32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
};

uint64_t align_up(uint64_t n) {
    return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Little-endian whatever the host.
template <class T>
void append_integer(std::string& bytes, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
        bytes.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xff));
    }
}

void append_float(std::string& bytes, float value) {
    append_integer(bytes, std::bit_cast<uint32_t>(value));
}

void append_string(std::string& bytes, std::string_view text) {
    append_integer(bytes, uint64_t{text.size()});
    bytes += text;
}

} // namespace

void GgufKeys::add_key(std::string_view key, uint32_t type) {
    ++count_;
    append_string(bytes_, key);
    append_integer(bytes_, type);
}

void GgufKeys::add_u16(std::string_view key, uint16_t value) {
    add_key(key, kU16);
    append_integer(bytes_, value);
}

void GgufKeys::add_u32(std::string_view key, uint32_t value) {
    add_key(key, kU32);
    append_integer(bytes_, value);
}

void GgufKeys::add_i32(std::string_view key, int32_t value) {
    add_key(key, kI32);
    append_integer(bytes_, value);
}

void GgufKeys::add_f32(std::string_view key, float value) {
    add_key(key, kF32);
    append_float(bytes_, value);
}

void GgufKeys::add_bool(std::string_view key, bool value) {
    add_key(key, kBool);
    bytes_.push_back(value ? 1 : 0);
}

void GgufKeys::add_string(std::string_view key, std::string_view value) {
    add_key(key, kString);
    append_string(bytes_, value);
}

void GgufKeys::add_i32_array(std::string_view key, std::span<const int32_t> values) {
    add_key(key, kArray);
    append_integer(bytes_, uint32_t{kI32});
    append_integer(bytes_, uint64_t{values.size()});
    for (const int32_t value : values) {
        append_integer(bytes_, value);
    }
}

void GgufKeys::add_f32_array(std::string_view key, std::span<const float> values) {
    add_key(key, kArray);
    append_integer(bytes_, uint32_t{kF32});
    append_integer(bytes_, uint64_t{values.size()});
    for (const float value : values) {
        append_float(bytes_, value);
    }
}

void GgufKeys::add_string_array(std::string_view key, std::span<const std::string> values) {
    add_key(key, kArray);
    append_integer(bytes_, uint32_t{kString});
    append_integer(bytes_, uint64_t{values.size()});
    for (const std::string& value : values) {
        append_string(bytes_, value);
    }
}

uint64_t GgufTensor::n_elements() const {
    uint64_t n = 1;
    for (const int64_t dim : ne) {
        n *= static_cast<uint64_t>(dim);
    }
    return n;
}

uint64_t GgufTensor::n_bytes() const {
    const QuantFormatInfo& info = quant_format_info(format);
    return n_elements() / info.block_elements * info.block_bytes;
}

GgufLayout lay_out(const GgufKeys& keys, std::span<const GgufTensor> tensors) {
    GgufLayout layout;
    std::string& head = layout.head;
    head = "GGUF";
    append_integer(head, kVersion);
    append_integer(head, uint64_t{tensors.size()});
    append_integer(head, keys.count());
    head += keys.bytes();
    uint64_t offset = 0;
    for (const GgufTensor& tensor : tensors) {
        append_string(head, tensor.name);
        append_integer(head, static_cast<uint32_t>(tensor.ne.size()));
        for (const int64_t dim : tensor.ne) {
            append_integer(head, dim);
        }
        append_integer(head, static_cast<uint32_t>(tensor.format));
        append_integer(head, offset);
        layout.offsets.push_back(offset);
        offset += align_up(tensor.n_bytes());
    }
    if (!tensors.empty()) {
        head.resize(align_up(head.size()), '\0');
    }
    for (uint64_t& start : layout.offsets) {
        start += head.size();
    }
    layout.file_bytes = head.size() + offset;
    return layout;
}

} // namespace dsv4v
