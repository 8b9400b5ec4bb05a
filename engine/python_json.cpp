// JSON text as Python writes it, which is the form the model saw in its prompts.
#include "engine/json_value.h"

#include <fmt/format.h>

#include "engine/json_number.h"

namespace dsv4v {
namespace {

void append_string(std::string_view s, std::string& out) {
    out += '"';
    for (const char c : s) {
        switch (c) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\b':
            out += "\\b";
            break;
        case '\f':
            out += "\\f";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        default:
            if (static_cast<unsigned char>(c) < 0x20) {
                fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
            } else {
                out += c;
            }
        }
    }
    out += '"';
}

// A container whose first `n_done` children are written.
struct OpenContainer {
    const JsonValue* value;
    size_t n_done;
};

// Writes a value that has no children, or the bracket of one that may, which then goes on `open`.
void begin_value(const JsonValue& value, std::vector<OpenContainer>& open, std::string& out) {
    switch (value.type) {
    case JsonValue::Type::kNull:
        out += "null";
        break;
    case JsonValue::Type::kBool:
        out += value.boolean ? "true" : "false";
        break;
    case JsonValue::Type::kNumber:
        out += python_number(value.text);
        break;
    case JsonValue::Type::kString:
        append_string(value.text, out);
        break;
    case JsonValue::Type::kArray:
    case JsonValue::Type::kObject:
        out += value.is_array() ? '[' : '{';
        open.push_back({&value, 0});
        break;
    }
}

} // namespace

std::string python_json(const JsonValue& root) {
    std::string out;
    std::vector<OpenContainer> open;
    begin_value(root, open, out);
    while (!open.empty()) {
        const JsonValue& value = *open.back().value;
        const size_t child_idx = open.back().n_done++;
        if (child_idx == (value.is_array() ? value.items.size() : value.members.size())) {
            out += value.is_array() ? ']' : '}';
            open.pop_back();
            continue;
        }
        out += child_idx > 0 ? ", " : "";
        if (value.is_array()) {
            begin_value(value.items[child_idx], open, out);
        } else {
            append_string(value.members[child_idx].first, out);
            out += ": ";
            begin_value(value.members[child_idx].second, open, out);
        }
    }
    return out;
}

std::string python_json_string(std::string_view s) {
    std::string out;
    append_string(s, out);
    return out;
}

} // namespace dsv4v
