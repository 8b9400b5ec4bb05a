// Reads the prompt-encoding and output-parsing reference cases of tests/data/chat.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "engine/chat_encoder.h"
#include "tests/golden.h"

namespace dsv4v::testing {

inline JsonValue read_json_file(const std::string& path) {
    auto parsed = parse_json(read_whole_file(path));
    EXPECT_TRUE(parsed.has_value()) << path;
    return parsed ? *parsed : JsonValue();
}

inline const JsonValue& encode_cases() {
    static const JsonValue cases = read_json_file(source_data("chat/encode_cases.json"));
    return cases;
}

inline const JsonValue& member(const JsonValue& object, std::string_view name) {
    static const JsonValue null;
    const JsonValue* value = object.find(name);
    return value != nullptr ? *value : null;
}

// A parsed literal of a test.
inline JsonValue json(std::string_view text) {
    auto parsed = parse_json(text);
    EXPECT_TRUE(parsed.has_value()) << text;
    return parsed ? *parsed : JsonValue();
}

} // namespace dsv4v::testing
