#include "server/tool_request.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace dsv4v {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxSchemaBytes = 256 * 1024;
constexpr size_t kMaxSchemaNodes = 10000;
constexpr int kMaxSchemaDepth = 64;

bool is_tool_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameBytes &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == ':';
           });
}

struct SchemaSize {
    size_t n_nodes = 0;
    int depth = 0;
};

SchemaSize measure(const JsonValue& schema) {
    SchemaSize size;
    std::vector<std::pair<const JsonValue*, int>> todo = {{&schema, 1}};
    while (!todo.empty()) {
        const auto [value, depth] = todo.back();
        todo.pop_back();
        ++size.n_nodes;
        size.depth = std::max(size.depth, depth);
        for (const JsonValue& item : value->items) {
            todo.emplace_back(&item, depth + 1);
        }
        for (const auto& [name, member] : value->members) {
            todo.emplace_back(&member, depth + 1);
        }
    }
    return size;
}

void check_schema(RequestFields& function, const JsonValue& schema) {
    const SchemaSize size = measure(schema);
    const size_t n_bytes = python_json(schema).size();
    const std::string path = function.path_of("parameters");
    if (size.depth > kMaxSchemaDepth || size.n_nodes > kMaxSchemaNodes ||
        n_bytes > kMaxSchemaBytes) {
        function.fail({ErrorCode::kInvalidArgument,
                       fmt::format("'{}' is too large: depth {}, {} nodes, {} bytes; allowed are "
                                   "depth {}, {} nodes, {} bytes",
                                   path, size.depth, size.n_nodes, n_bytes, kMaxSchemaDepth,
                                   kMaxSchemaNodes, kMaxSchemaBytes),
                       path});
    }
    const JsonValue* type = schema.find("type");
    if (type != nullptr && !type->is_null() && !(type->is_string() && type->text == "object")) {
        function.fail(wrong_value(join_path(path, "type"), *type, "absent or \"object\""));
    }
}

// A function object: name, description?, parameters?, strict?
void check_function(RequestFields& function, std::set<std::string>& names) {
    std::string name;
    std::string description;
    bool strict = false;
    function.read("description", description, SIZE_MAX);
    function.read("strict", strict);
    if (const JsonValue* schema = function.object("parameters")) {
        check_schema(function, *schema);
    }
    const JsonValue* given = function.get("name");
    if (given == nullptr || !given->is_string() || !is_tool_name(given->text)) {
        const JsonValue none;
        function.fail_value("name", given == nullptr ? none : *given,
                            "1 to 128 characters of A-Z a-z 0-9 _ - . :");
        return;
    }
    if (!names.insert(given->text).second) {
        function.fail(
            {ErrorCode::kInvalidArgument,
             fmt::format("'{}' repeats the name \"{}\"", function.path_of("name"), given->text),
             function.path_of("name")});
    }
}

Expected<void> check_tool(const JsonValue& tool, const std::string& path,
                          std::set<std::string>& names) {
    if (!tool.is_object()) {
        return tl::unexpected<Error>(wrong_value(path, tool, "an object"));
    }
    RequestFields fields(tool, path);
    size_t type = 0;
    const JsonValue* function = fields.object("function");
    const JsonValue none;
    if (!fields.read_choice("type", {"function"}, type)) {
        fields.fail_value("type", none, "\"function\"");
    } else if (function == nullptr) {
        fields.fail_value("function", none, "an object");
    } else {
        RequestFields function_fields(*function, fields.path_of("function"));
        check_function(function_fields, names);
        DSV4V_RETURN_IF_ERROR(function_fields.finish(false));
    }
    return fields.finish(false);
}

Expected<void> check_legacy_function(const JsonValue& function, const std::string& path,
                                     std::set<std::string>& names) {
    if (!function.is_object()) {
        return tl::unexpected<Error>(wrong_value(path, function, "an object"));
    }
    RequestFields fields(function, path);
    check_function(fields, names);
    return fields.finish(false);
}

JsonValue as_tool(const JsonValue& function) {
    JsonValue tool = JsonValue::object();
    tool.members.emplace_back("type", JsonValue::string("function"));
    tool.members.emplace_back("function", function);
    return tool;
}

// Reads the tools of either spelling; returns their names.
std::set<std::string> read_declarations(RequestFields& fields, const RequestRules& rules,
                                        ToolRequest& request) {
    std::set<std::string> names;
    const auto most = static_cast<size_t>(rules.max_tools);
    const JsonValue* tools = fields.array("tools", most);
    const JsonValue* functions = fields.array("functions", most);
    if (tools != nullptr && functions != nullptr) {
        fields.fail({ErrorCode::kInvalidArgument, "'functions' cannot be combined with 'tools'",
                     fields.path_of("functions")});
        return names;
    }
    request.legacy_reply = functions != nullptr;
    const JsonValue* given = functions != nullptr ? functions : tools;
    if (given == nullptr || given->items.empty()) {
        return names;
    }
    request.tools.type = JsonValue::Type::kArray;
    for (size_t k = 0; k < given->items.size() && fields.ok(); ++k) {
        const JsonValue& item = given->items[k];
        const std::string path =
            index_path(fields.path_of(functions != nullptr ? "functions" : "tools"), k);
        auto checked = functions != nullptr ? check_legacy_function(item, path, names)
                                            : check_tool(item, path, names);
        if (!checked) {
            fields.fail(checked.error());
            break;
        }
        request.tools.items.push_back(functions != nullptr ? as_tool(item) : item);
    }
    return names;
}

// The declared name inside {"function":{"name":...}} or {"name":...}.
std::optional<std::string> declared_name(RequestFields& fields, const JsonValue& choice,
                                         const std::string& path,
                                         const std::set<std::string>& names) {
    const JsonValue* holder = choice.find("function");
    const std::string holder_path = holder != nullptr ? join_path(path, "function") : path;
    const JsonValue* name = (holder != nullptr ? holder : &choice)->find("name");
    const JsonValue none;
    if (name == nullptr || !name->is_string() || !names.contains(name->text)) {
        fields.fail(wrong_value(join_path(holder_path, "name"), name == nullptr ? none : *name,
                                "the name of a declared tool"));
        return std::nullopt;
    }
    return name->text;
}

void set_choice(RequestFields& fields, std::string_view field, const JsonValue& value,
                ToolRequest& request) {
    if (value.text == "none") {
        request.choice = ToolRequest::Choice::kNone;
    } else if (value.text == "auto") {
        request.choice = ToolRequest::Choice::kAuto;
    } else if (value.text == "required") {
        request.choice = ToolRequest::Choice::kRequired;
    } else {
        fields.fail_value(field, value,
                          "\"none\", \"auto\", \"required\" or an object that names a tool");
    }
}

// {"type":"allowed_tools","mode":...,"tools":[...]}, also nested under "allowed_tools".
void apply_subset(RequestFields& fields, const JsonValue& choice,
                  const std::set<std::string>& names, ToolRequest& request) {
    std::string path = fields.path_of("tool_choice");
    const JsonValue* subset = &choice;
    if (const JsonValue* nested = choice.find("allowed_tools")) {
        subset = nested;
        path = join_path(path, "allowed_tools");
    }
    if (!subset->is_object()) {
        fields.fail(wrong_value(path, *subset, "an object"));
        return;
    }
    RequestFields subset_fields(*subset, path);
    size_t mode = 0;
    subset_fields.read_choice("mode", {"auto", "required"}, mode);
    const JsonValue* allowed = subset_fields.array("tools", names.size());
    if (allowed == nullptr || allowed->items.empty()) {
        subset_fields.fail_value("tools", allowed == nullptr ? JsonValue() : *allowed,
                                 "an array of declared tools");
    }
    std::set<std::string> kept;
    for (size_t k = 0; subset_fields.ok() && k < allowed->items.size(); ++k) {
        const std::string item_path = index_path(join_path(path, "tools"), k);
        if (auto name = declared_name(subset_fields, allowed->items[k], item_path, names)) {
            kept.insert(*name);
        }
    }
    if (auto result = subset_fields.finish(false); !result) {
        fields.fail(result.error());
        return;
    }
    std::erase_if(request.tools.items, [&](const JsonValue& tool) {
        return !kept.contains(tool.find("function")->find("name")->text);
    });
    request.choice = mode == 1 ? ToolRequest::Choice::kRequired : ToolRequest::Choice::kAuto;
}

void read_choice_object(RequestFields& fields, std::string_view field, const JsonValue& choice,
                        const std::set<std::string>& names, ToolRequest& request) {
    const JsonValue* type = choice.find("type");
    if (field == "tool_choice" && type != nullptr && type->is_string() &&
        type->text == "allowed_tools") {
        apply_subset(fields, choice, names, request);
        return;
    }
    if (field == "tool_choice" &&
        (type == nullptr || !type->is_string() || type->text != "function")) {
        fields.fail(wrong_value(join_path(fields.path_of(field), "type"),
                                type == nullptr ? JsonValue() : *type,
                                "\"function\" or \"allowed_tools\""));
        return;
    }
    if (auto name = declared_name(fields, choice, fields.path_of(field), names)) {
        request.choice = ToolRequest::Choice::kNamed;
        request.name = std::move(*name);
    }
}

void read_choice(RequestFields& fields, const std::set<std::string>& names, ToolRequest& request) {
    const std::string_view field = request.legacy_reply ? "function_call" : "tool_choice";
    const JsonValue* unused = fields.get(request.legacy_reply ? "tool_choice" : "function_call");
    const JsonValue* value = fields.get(field);
    if (unused != nullptr && value == nullptr &&
        !(unused->is_string() && unused->text != "required")) {
        fields.fail({ErrorCode::kInvalidArgument,
                     request.legacy_reply ? "'tool_choice' needs 'tools'"
                                          : "'function_call' needs 'functions'",
                     fields.path_of(request.legacy_reply ? "tool_choice" : "function_call")});
    }
    if (value == nullptr) {
        return;
    }
    if (value->is_string()) {
        set_choice(fields, field, *value, request);
    } else if (!value->is_object()) {
        fields.fail_value(field, *value, "a string or an object");
    } else if (request.has_tools()) {
        read_choice_object(fields, field, *value, names, request);
    }
    const bool optional = value->is_string() && request.choice != ToolRequest::Choice::kRequired;
    if (!request.has_tools() && !optional) {
        fields.fail({ErrorCode::kInvalidArgument,
                     fmt::format("'{}' is {} but no tools are given", fields.path_of(field),
                                 describe(*value)),
                     fields.path_of(field)});
    }
}

} // namespace

ToolRequest read_tools(RequestFields& fields, const RequestRules& rules) {
    ToolRequest request;
    const std::set<std::string> names = read_declarations(fields, rules, request);
    read_choice(fields, names, request);
    fields.read("parallel_tool_calls", request.parallel);
    if (request.choice == ToolRequest::Choice::kNone && rules.drop_tools_on_none) {
        request.tools = JsonValue();
    }
    return request;
}

} // namespace dsv4v
