#include "server/options_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/json_value.h"
#include "server/options_table.h"

namespace dsv4v {

namespace {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

Expected<std::string> scalar_text(const std::string& key, const JsonValue& value) {
    if (value.is_string() || value.is_number()) {
        return value.text;
    }
    if (value.is_bool()) {
        return std::string(value.boolean ? "true" : "false");
    }
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("config key '{}': wanted a string, number, boolean or list", key));
}

Expected<KeyValues> parse_json_config(const std::string& text) {
    DSV4V_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text));
    KeyValues out;
    for (const auto& [key, value] : root.members) {
        if (!value.is_array()) {
            DSV4V_ASSIGN_OR_RETURN(std::string scalar, scalar_text(key, value));
            out.emplace_back(key, std::move(scalar));
            continue;
        }
        std::string joined;
        for (const JsonValue& item : value.items) {
            DSV4V_ASSIGN_OR_RETURN(const std::string scalar, scalar_text(key, item));
            joined += (joined.empty() ? "" : ",") + scalar;
        }
        out.emplace_back(key, std::move(joined));
    }
    return out;
}

Expected<KeyValues> parse_line_config(const std::string& text) {
    KeyValues out;
    std::istringstream lines(text);
    std::string line;
    for (int line_number = 1; std::getline(lines, line); ++line_number) {
        const std::string content = trimmed(line);
        if (content.empty() || content[0] == '#') {
            continue;
        }
        const size_t equals = content.find('=');
        if (equals == std::string::npos) {
            return make_error(ErrorCode::kInvalidArgument,
                              fmt::format("line {}: wanted key = value", line_number));
        }
        std::string value = trimmed(std::string_view(content).substr(equals + 1));
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            value = value.substr(1, value.size() - 2);
        }
        out.emplace_back(trimmed(std::string_view(content).substr(0, equals)), std::move(value));
    }
    return out;
}

} // namespace

std::string trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) {
        return {};
    }
    return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

Expected<std::map<std::string, std::string>> read_config(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return make_error(ErrorCode::kNotFound, "cannot read");
    }
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_json = first != std::string::npos && text[first] == '{';
    DSV4V_ASSIGN_OR_RETURN(const KeyValues entries,
                           is_json ? parse_json_config(text) : parse_line_config(text));
    std::map<std::string, std::string> out;
    for (const auto& [spelled, value] : entries) {
        std::string key = spelled;
        std::replace(key.begin(), key.end(), '_', '-');
        const auto& all = settings();
        const auto setting = std::find_if(all.begin(), all.end(), [&](const Setting& candidate) {
            return candidate.kind != SettingKind::kMode && candidate.key() == key;
        });
        if (setting == all.end()) {
            const std::string nearest = nearest_key(key);
            return make_error(
                ErrorCode::kInvalidArgument,
                fmt::format("unknown key '{}'{}", spelled,
                            nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
        }
        if (setting->kind == SettingKind::kSecret && value.find(kMask) != std::string::npos) {
            return make_error(ErrorCode::kInvalidArgument,
                              fmt::format("key '{}' is masked: put the real keys there", spelled));
        }
        out[key] = value;
    }
    return out;
}

} // namespace dsv4v
