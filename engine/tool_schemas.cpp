#include "engine/tool_schemas.h"

#include <algorithm>

namespace dsv4v {
namespace {

bool is_text(const JsonValue& value, std::string_view text) {
    return value.is_string() && value.text == text;
}

bool any_is_string(const JsonValue* list) {
    return list != nullptr && std::any_of(list->items.begin(), list->items.end(),
                                          [](const JsonValue& item) { return item.is_string(); });
}

// Looks at `type`, and without it at `enum` and one level of `anyOf` and `oneOf`.
bool type_allows_string(const JsonValue& schema) {
    const JsonValue* type = schema.find("type");
    if (type == nullptr) {
        return any_is_string(schema.find("enum"));
    }
    return is_text(*type, "string") ||
           std::any_of(type->items.begin(), type->items.end(),
                       [](const JsonValue& item) { return is_text(item, "string"); });
}

bool schema_allows_string(const JsonValue& schema) {
    if (type_allows_string(schema)) {
        return true;
    }
    for (const std::string_view key : {"anyOf", "oneOf"}) {
        const JsonValue* branches = schema.find(key);
        if (branches != nullptr &&
            std::any_of(branches->items.begin(), branches->items.end(), type_allows_string)) {
            return true;
        }
    }
    return false;
}

} // namespace

ToolSchemas::ToolSchemas(const JsonValue& tools) {
    for (const JsonValue& entry : tools.items) {
        const JsonValue* function = entry.find("function");
        const JsonValue* name = function != nullptr ? function->find("name") : nullptr;
        if (name == nullptr || !name->is_string()) {
            continue;
        }
        Tool& tool = tools_[name->text];
        const JsonValue* parameters = function->find("parameters");
        const JsonValue* properties =
            parameters != nullptr ? parameters->find("properties") : nullptr;
        const JsonValue* required = parameters != nullptr ? parameters->find("required") : nullptr;
        if (properties != nullptr) {
            for (const auto& [parameter, schema] : properties->members) {
                if (schema_allows_string(schema)) {
                    tool.string_parameters.insert(parameter);
                }
            }
        }
        if (required != nullptr) {
            for (const JsonValue& item : required->items) {
                if (item.is_string()) {
                    tool.required.push_back(item.text);
                }
            }
        }
    }
}

bool ToolSchemas::is_declared(const std::string& tool) const {
    return tools_.contains(tool);
}

bool ToolSchemas::allows_string(const std::string& tool, const std::string& parameter) const {
    const auto it = tools_.find(tool);
    return it != tools_.end() && it->second.string_parameters.contains(parameter);
}

const std::vector<std::string>& ToolSchemas::required(const std::string& tool) const {
    static const std::vector<std::string> none;
    const auto it = tools_.find(tool);
    return it == tools_.end() ? none : it->second.required;
}

} // namespace dsv4v
