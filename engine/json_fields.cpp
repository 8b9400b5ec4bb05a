#include "engine/json_fields.h"

namespace dsv4v {

std::string_view describe_type(const JsonValue& value) {
    switch (value.type) {
    case JsonValue::Type::kNull:
        return "null";
    case JsonValue::Type::kBool:
        return "a boolean";
    case JsonValue::Type::kNumber:
        return "a number";
    case JsonValue::Type::kString:
        return "a string";
    case JsonValue::Type::kArray:
        return "an array";
    case JsonValue::Type::kObject:
        return "an object";
    }
    return "unknown";
}

tl::unexpected<Error> type_error(const std::string& path, std::string_view wanted,
                                 const JsonValue& got) {
    std::string message = path + " must be ";
    message.append(wanted).append(", got ").append(describe_type(got));
    return make_error(ErrorCode::kInvalidArgument, std::move(message), path);
}

tl::unexpected<Error> missing_error(const std::string& path) {
    return make_error(ErrorCode::kInvalidArgument, path + " is required", path);
}

const JsonValue* find_present(const JsonValue& object, std::string_view name) {
    const JsonValue* value = object.find(name);
    return value != nullptr && value->is_null() ? nullptr : value;
}

Expected<std::string_view> optional_string(const JsonValue& object, std::string_view name,
                                           const std::string& path) {
    const JsonValue* value = find_present(object, name);
    if (value == nullptr) {
        return std::string_view();
    }
    if (!value->is_string()) {
        return type_error(path + "." + std::string(name), "a string", *value);
    }
    return std::string_view(value->text);
}

Expected<std::string_view> required_string(const JsonValue& object, std::string_view name,
                                           const std::string& path) {
    if (find_present(object, name) == nullptr) {
        return missing_error(path + "." + std::string(name));
    }
    return optional_string(object, name, path);
}

std::string index_path(std::string_view path, size_t index) {
    return std::string(path) + "[" + std::to_string(index) + "]";
}

} // namespace dsv4v
