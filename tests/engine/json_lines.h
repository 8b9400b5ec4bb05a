// Reads reference data that has one JSON document per line.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json_value.h"
#include "tests/golden.h"

namespace dsv4v::testing {

// `name` is relative to tests/data.
inline std::vector<JsonValue> read_json_lines(const std::string& name) {
    std::vector<JsonValue> values;
    std::istringstream lines(read_whole_file(source_data(name)));
    for (std::string line; std::getline(lines, line);) {
        auto value = parse_json(line);
        EXPECT_TRUE(value.has_value()) << name << ": " << line.substr(0, 100);
        if (value) {
            values.push_back(std::move(*value));
        }
    }
    EXPECT_FALSE(values.empty()) << name;
    return values;
}

inline std::string from_hex(std::string_view hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
    return bytes;
}

// A JSON array of integers.
inline std::vector<int32_t> to_ids(const JsonValue& array) {
    std::vector<int32_t> ids;
    for (const JsonValue& item : array.items) {
        ids.push_back(static_cast<int32_t>(item.as_int().value()));
    }
    return ids;
}

} // namespace dsv4v::testing
