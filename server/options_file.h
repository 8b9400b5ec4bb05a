// The settings file of --config: a JSON object or `key = value` lines.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "loaders/base/error.h"

namespace dsv4v {

// Values by setting key, as they would be spelled on the command line; lists are comma separated.
// Errors name the line or the key; an unknown key comes with the nearest known one.
[[nodiscard]] Expected<std::map<std::string, std::string>> read_config(const std::string& path);

// `text` without blanks at its ends.
[[nodiscard]] std::string trimmed(std::string_view text);

} // namespace dsv4v
