// An ordered JSON tree that keeps what a prompt needs byte for byte: member order and the raw text
// of numbers. Depth and count are bounded, nothing recurses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

struct JsonValue {
    enum class Type { kNull, kBool, kNumber, kString, kArray, kObject };

    Type type = Type::kNull;
    bool boolean = false;
    std::string text;             // kString: UTF-8 content; kNumber: the number as written
    std::vector<JsonValue> items; // kArray
    std::vector<std::pair<std::string, JsonValue>> members; // kObject, first-seen order

    [[nodiscard]] bool is_null() const { return type == Type::kNull; }
    [[nodiscard]] bool is_bool() const { return type == Type::kBool; }
    [[nodiscard]] bool is_number() const { return type == Type::kNumber; }
    [[nodiscard]] bool is_string() const { return type == Type::kString; }
    [[nodiscard]] bool is_array() const { return type == Type::kArray; }
    [[nodiscard]] bool is_object() const { return type == Type::kObject; }
    // Member by name, or nullptr. `null` members are returned as they are.
    [[nodiscard]] const JsonValue* find(std::string_view name) const;
    // Value of a number that is an integer (`4`, `4.0`) within int64; nothing otherwise.
    [[nodiscard]] std::optional<int64_t> as_int() const;
    // Value of a number as double (finite only).
    [[nodiscard]] std::optional<double> as_double() const;

    // Destroys deep trees without recursion.
    JsonValue() = default;
    ~JsonValue();
    JsonValue(const JsonValue&) = default;
    JsonValue(JsonValue&&) noexcept = default;
    JsonValue& operator=(const JsonValue&) = default;
    JsonValue& operator=(JsonValue&&) noexcept = default;

    static JsonValue string(std::string s);
    static JsonValue object();
};

inline constexpr int kMaxJsonDepth = 128;
// Bounds the memory that a small body of tiny values (`[0,0,0,...`) can claim.
inline constexpr int kMaxJsonValues = 2'000'000;

// Strict RFC 8259: UTF-8 checked, no comments or trailing commas, depth <= kMaxJsonDepth counted
// over everything, a leading byte-order mark is skipped, a duplicate member keeps its first place
// and its last value, lone surrogate escapes become U+FFFD. At most kMaxJsonValues values. Errors
// (kInvalidArgument) give the reason and the byte offset.
[[nodiscard]] Expected<JsonValue> parse_json(std::string_view text);

// The text that Python's json.dumps(value, ensure_ascii=False) gives: ", " and ": " separators,
// integers with all digits, doubles in shortest round-trip form (1.0, 1e+16).
[[nodiscard]] std::string python_json(const JsonValue& value);
// The JSON string literal of `s`, as python_json writes strings.
[[nodiscard]] std::string python_json_string(std::string_view s);

} // namespace dsv4v
