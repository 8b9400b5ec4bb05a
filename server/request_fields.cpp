#include "server/request_fields.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/utf8.h"

namespace dsv4v {
namespace {

constexpr size_t kMaxQuotedBytes = 64;

std::string quoted(std::string_view text) {
    if (text.size() <= kMaxQuotedBytes) {
        return fmt::format("\"{}\"", text);
    }
    return fmt::format("\"{}\" ({} bytes)", replace_invalid_utf8(text.substr(0, kMaxQuotedBytes)),
                       text.size());
}

std::string range_text(const NumberRange& range) {
    return fmt::format("a number in {}{}, {}]", range.open_low ? "(" : "[", range.low, range.high);
}

bool in_range(double value, const NumberRange& range) {
    return (range.open_low ? value > range.low : value >= range.low) && value <= range.high;
}

} // namespace

std::string describe(const JsonValue& value) {
    switch (value.type) {
    case JsonValue::Type::kNull:
        return "null";
    case JsonValue::Type::kBool:
        return value.boolean ? "true" : "false";
    case JsonValue::Type::kNumber:
        return value.text.size() <= kMaxQuotedBytes ? value.text : "a very long number";
    case JsonValue::Type::kString:
        return quoted(value.text);
    case JsonValue::Type::kArray:
        return fmt::format("an array of {} items", value.items.size());
    case JsonValue::Type::kObject:
        return "an object";
    }
    return {};
}

std::string join_path(std::string_view path, std::string_view name) {
    return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

Error wrong_value(std::string_view path, const JsonValue& value, std::string_view wanted) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("'{}' must be {}, got {}", path, wanted, describe(value)),
            std::string(path)};
}

RequestFields::RequestFields(const JsonValue& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string RequestFields::path_of(std::string_view name) const {
    return join_path(path_, name);
}

void RequestFields::fail(Error error) {
    if (!error_) {
        error_ = std::move(error);
    }
}

void RequestFields::fail_value(std::string_view name, const JsonValue& value,
                               std::string_view wanted) {
    fail(wrong_value(path_of(name), value, wanted));
}

const JsonValue* RequestFields::get(std::string_view name) {
    known_.emplace(name);
    const JsonValue* value = object_.find(name);
    return error_ || value == nullptr || value->is_null() ? nullptr : value;
}

void RequestFields::ignore(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
        known_.emplace(name);
    }
}

bool RequestFields::read(std::string_view name, bool& out) {
    const JsonValue* value = get(name);
    if (value == nullptr) {
        return false;
    }
    if (!value->is_bool()) {
        fail_value(name, *value, "true or false");
        return false;
    }
    out = value->boolean;
    return true;
}

bool RequestFields::read(std::string_view name, int32_t& out, int32_t low, int32_t high) {
    const JsonValue* value = get(name);
    if (value == nullptr) {
        return false;
    }
    const std::optional<int64_t> integer = value->as_int();
    if (!integer || *integer < low || *integer > high) {
        fail_value(name, *value, fmt::format("an integer from {} to {}", low, high));
        return false;
    }
    out = static_cast<int32_t>(*integer);
    return true;
}

bool RequestFields::read(std::string_view name, double& out, const NumberRange& range) {
    const JsonValue* value = get(name);
    if (value == nullptr) {
        return false;
    }
    const std::optional<double> number = value->as_double();
    if (!number || !in_range(*number, range)) {
        fail_value(name, *value, range_text(range));
        return false;
    }
    out = *number;
    return true;
}

bool RequestFields::read(std::string_view name, float& out, const NumberRange& range) {
    double number = 0;
    if (!read(name, number, range)) {
        return false;
    }
    out = static_cast<float>(number);
    return true;
}

bool RequestFields::read(std::string_view name, std::string& out, size_t max_bytes) {
    const JsonValue* value = get(name);
    if (value == nullptr) {
        return false;
    }
    if (!value->is_string() || value->text.size() > max_bytes) {
        fail_value(name, *value, fmt::format("a string of at most {} bytes", max_bytes));
        return false;
    }
    out = value->text;
    return true;
}

bool RequestFields::read_choice(std::string_view name,
                                std::initializer_list<std::string_view> allowed, size_t& out) {
    const JsonValue* value = get(name);
    if (value == nullptr) {
        return false;
    }
    const auto* found =
        value->is_string() ? std::find(allowed.begin(), allowed.end(), value->text) : allowed.end();
    if (found == allowed.end()) {
        fail_value(name, *value, fmt::format("one of \"{}\"", fmt::join(allowed, "\", \"")));
        return false;
    }
    out = static_cast<size_t>(found - allowed.begin());
    return true;
}

const JsonValue* RequestFields::object(std::string_view name) {
    const JsonValue* value = get(name);
    if (value != nullptr && !value->is_object()) {
        fail_value(name, *value, "an object");
        return nullptr;
    }
    return value;
}

const JsonValue* RequestFields::array(std::string_view name, size_t max_items) {
    const JsonValue* value = get(name);
    if (value != nullptr && (!value->is_array() || value->items.size() > max_items)) {
        fail_value(name, *value, fmt::format("an array of at most {} items", max_items));
        return nullptr;
    }
    return value;
}

bool RequestFields::read(std::string_view name, std::vector<int32_t>& out, int32_t low,
                         int32_t high, size_t max_items) {
    const JsonValue* value = array(name, max_items);
    if (value == nullptr) {
        return false;
    }
    std::vector<int32_t> items;
    items.reserve(value->items.size());
    for (size_t k = 0; k < value->items.size(); ++k) {
        const std::optional<int64_t> integer = value->items[k].as_int();
        if (!integer || *integer < low || *integer > high) {
            fail(wrong_value(index_path(path_of(name), k), value->items[k],
                             fmt::format("an integer from {} to {}", low, high)));
            return false;
        }
        items.push_back(static_cast<int32_t>(*integer));
    }
    out = std::move(items);
    return true;
}

Expected<void> RequestFields::finish(bool strict) {
    if (!error_ && strict) {
        for (const auto& [name, value] : object_.members) {
            if (!known_.contains(name)) {
                const std::string path = path_of(name);
                fail({ErrorCode::kInvalidArgument, fmt::format("unknown field {}", quoted(path)),
                      path});
                break;
            }
        }
    }
    if (error_) {
        return tl::unexpected<Error>(*error_);
    }
    return {};
}

} // namespace dsv4v
