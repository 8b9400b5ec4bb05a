#include "server/structured_output.h"

#include <array>
#include <string>

#include <fmt/format.h>

namespace dsv4v {
namespace {

constexpr std::array kFields = {"guided_json",    "guided_regex",       "guided_choice",
                                "guided_grammar", "structured_outputs", "grammar",
                                "json_schema"};

ApiError refuse(const std::string& param, const std::string& what) {
    ApiError error = not_supported(
        fmt::format("{} needs constrained decoding, which this server does not offer", what));
    error.param = param;
    return error;
}

// The `type` of response_format, "text" when the field is absent.
tl::expected<std::string, ApiError> format_type(RequestFields& fields) {
    const JsonValue* format = fields.get("response_format");
    if (format == nullptr) {
        return "text";
    }
    const std::string path = fields.path_of("response_format");
    if (!format->is_object()) {
        return tl::unexpected(to_api_error(wrong_value(path, *format, "an object")));
    }
    const JsonValue* type = format->find("type");
    for (const char* known : {"text", "json_object", "json_schema", "grammar", "regex"}) {
        if (type != nullptr && type->is_string() && type->text == known) {
            return type->text;
        }
    }
    return tl::unexpected(
        to_api_error(wrong_value(join_path(path, "type"), type == nullptr ? JsonValue() : *type,
                                 "\"text\", \"json_object\" or \"json_schema\"")));
}

} // namespace

tl::expected<void, ApiError> refuse_structured_output(RequestFields& fields) {
    auto type = format_type(fields);
    if (!type) {
        return tl::unexpected(type.error());
    }
    std::string first = *type == "text" ? "" : "response_format";
    for (const char* name : kFields) {
        if (fields.get(name) == nullptr) {
            continue;
        }
        if (!first.empty()) {
            return tl::unexpected(bad_request(
                "invalid_value", fmt::format("'{}' cannot be combined with '{}'", name, first),
                fields.path_of(name)));
        }
        first = name;
    }
    if (first.empty()) {
        return {};
    }
    const std::string path = fields.path_of(first);
    return tl::unexpected(
        first == "response_format"
            ? refuse(join_path(path, "type"), fmt::format("'{}' of type \"{}\"", path, *type))
            : refuse(path, fmt::format("'{}'", path)));
}

} // namespace dsv4v
