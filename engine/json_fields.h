// Typed access to members of JSON request objects, with errors that name the path and both types.
#pragma once

#include <string>
#include <string_view>

#include "engine/json_value.h"
#include "loaders/base/error.h"

namespace dsv4v {

// "a string", "null", ... for messages.
[[nodiscard]] std::string_view describe_type(const JsonValue& value);

// kInvalidArgument "<path> must be <wanted>, got <type>".
[[nodiscard]] tl::unexpected<Error> type_error(const std::string& path, std::string_view wanted,
                                               const JsonValue& got);
// kInvalidArgument "<path> is required".
[[nodiscard]] tl::unexpected<Error> missing_error(const std::string& path);

// Member `name` of `object`; null pointer when it is absent or null.
[[nodiscard]] const JsonValue* find_present(const JsonValue& object, std::string_view name);

// The text of string member `name`; empty when it is absent or null, an error for other types.
[[nodiscard]] Expected<std::string_view>
optional_string(const JsonValue& object, std::string_view name, const std::string& path);
// As optional_string, but the member must be there.
[[nodiscard]] Expected<std::string_view>
required_string(const JsonValue& object, std::string_view name, const std::string& path);

// "path[index]"
[[nodiscard]] std::string index_path(std::string_view path, size_t index);

} // namespace dsv4v
