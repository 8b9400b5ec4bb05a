#include "loaders/gguf_metadata.h"

#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "loaders/base/check.h"
#include "loaders/base/printable.h"
#include "loaders/gguf_cursor.h"

namespace dsv4v {
namespace {

template <class T>
T load(const std::byte* data) {
    T value;
    std::memcpy(&value, data, sizeof(T));
    return value;
}

bool is_integer(GgufType type) {
    switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
        return true;
    default:
        return false;
    }
}

bool is_float(GgufType type) {
    return type == GgufType::kF32 || type == GgufType::kF64;
}

// Nothing when a u64 is above the int64 range. `type` is an integer type.
std::optional<int64_t> load_integer(GgufType type, const std::byte* data) {
    switch (type) {
    case GgufType::kU8:
        return load<uint8_t>(data);
    case GgufType::kI8:
        return load<int8_t>(data);
    case GgufType::kU16:
        return load<uint16_t>(data);
    case GgufType::kI16:
        return load<int16_t>(data);
    case GgufType::kU32:
        return load<uint32_t>(data);
    case GgufType::kI32:
        return load<int32_t>(data);
    case GgufType::kI64:
        return load<int64_t>(data);
    default: {
        DSV4V_CHECK(type == GgufType::kU64);
        const auto value = load<uint64_t>(data);
        return value <= INT64_MAX ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
    }
    }
}

double load_float(GgufType type, const std::byte* data) {
    return type == GgufType::kF32 ? static_cast<double>(load<float>(data)) : load<double>(data);
}

std::string describe_kind(const GgufValue& value) {
    if (value.type != GgufType::kArray) {
        return gguf_type_name(value.type);
    }
    return fmt::format("array of {} {}", value.n_elements, gguf_type_name(value.element_type));
}

} // namespace

const char* gguf_type_name(GgufType type) {
    constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
    return kNames[static_cast<uint32_t>(type)];
}

uint32_t gguf_scalar_bytes(GgufType type) {
    constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return kBytes[static_cast<uint32_t>(type)];
}

bool GgufMetadata::insert(std::string_view key, const GgufValue& value) {
    if (!values_.emplace(key, value).second) {
        return false;
    }
    keys_.push_back(key);
    return true;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

Expected<GgufValue> GgufMetadata::require(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) {
        return make_error(ErrorCode::kNotFound,
                          fmt::format("{}: key {} is missing", path_, printable(key)));
    }
    return *value;
}

tl::unexpected<Error> GgufMetadata::wrong_kind(std::string_view key, const GgufValue& value,
                                               const char* wanted) const {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: key {} has type {}, wanted {}", path_, printable(key),
                                  describe_kind(value), wanted));
}

Expected<int64_t> GgufMetadata::get_int(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (!is_integer(value.type)) {
        return wrong_kind(key, value, "an integer");
    }
    const std::optional<int64_t> number = load_integer(value.type, value.bytes.data());
    if (!number) {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("{}: key {} is {}, above the 64-bit signed range", path_,
                                      printable(key), load<uint64_t>(value.bytes.data())));
    }
    return *number;
}

Expected<double> GgufMetadata::get_float(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (!is_float(value.type)) {
        return wrong_kind(key, value, "a float");
    }
    return load_float(value.type, value.bytes.data());
}

Expected<bool> GgufMetadata::get_bool(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (value.type != GgufType::kBool) {
        return wrong_kind(key, value, "a bool");
    }
    return load<uint8_t>(value.bytes.data()) != 0;
}

Expected<std::string> GgufMetadata::get_string(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (value.type != GgufType::kString) {
        return wrong_kind(key, value, "a string");
    }
    return std::string(as_text(value.bytes));
}

Expected<std::vector<int64_t>> GgufMetadata::get_int_array(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (value.type != GgufType::kArray || !is_integer(value.element_type)) {
        return wrong_kind(key, value, "an array of integers");
    }
    const uint32_t element_bytes = gguf_scalar_bytes(value.element_type);
    std::vector<int64_t> numbers;
    numbers.reserve(value.n_elements);
    for (size_t offset = 0; offset < value.bytes.size(); offset += element_bytes) {
        const std::optional<int64_t> number =
            load_integer(value.element_type, value.bytes.data() + offset);
        if (!number) {
            return make_error(ErrorCode::kCorrupt,
                              fmt::format("{}: key {}: element {} is above the 64-bit signed range",
                                          path_, printable(key), numbers.size()));
        }
        numbers.push_back(*number);
    }
    return numbers;
}

Expected<std::vector<double>> GgufMetadata::get_float_array(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (value.type != GgufType::kArray || !is_float(value.element_type)) {
        return wrong_kind(key, value, "an array of floats");
    }
    const uint32_t element_bytes = gguf_scalar_bytes(value.element_type);
    std::vector<double> numbers;
    numbers.reserve(value.n_elements);
    for (size_t offset = 0; offset < value.bytes.size(); offset += element_bytes) {
        numbers.push_back(load_float(value.element_type, value.bytes.data() + offset));
    }
    return numbers;
}

Expected<std::vector<std::string>> GgufMetadata::get_string_array(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (value.type != GgufType::kArray || value.element_type != GgufType::kString) {
        return wrong_kind(key, value, "an array of strings");
    }
    std::vector<std::string> strings;
    strings.reserve(value.n_elements);
    GgufCursor cursor(value.bytes);
    for (uint64_t i = 0; i < value.n_elements; ++i) {
        // The parser walked these lengths before, so they only fail when somebody writes to the
        // file while it is mapped.
        const std::optional<uint64_t> n_bytes = cursor.read<uint64_t>();
        const auto text = n_bytes ? cursor.take(*n_bytes) : std::nullopt;
        if (!text) {
            return make_error(ErrorCode::kCorrupt,
                              fmt::format("{}: key {}: the file changed while it was read", path_,
                                          printable(key)));
        }
        strings.emplace_back(as_text(*text));
    }
    return strings;
}

Expected<uint64_t> GgufMetadata::get_array_length(std::string_view key) const {
    DSV4V_ASSIGN_OR_RETURN(const GgufValue value, require(key));
    if (value.type != GgufType::kArray) {
        return wrong_kind(key, value, "an array");
    }
    return value.n_elements;
}

} // namespace dsv4v
