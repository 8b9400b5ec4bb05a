#include "engine/chat_normalizer.h"

#include <algorithm>
#include <utility>

#include "engine/chat_history.h"
#include "engine/json_fields.h"
#include "engine/prompt_strings.h"
#include "loaders/base/check.h"

namespace dsv4v {
namespace {

void set(JsonValue& object, std::string_view name, JsonValue value) {
    object.members.emplace_back(name, std::move(value));
}

JsonValue array(std::vector<JsonValue> items) {
    JsonValue value;
    value.type = JsonValue::Type::kArray;
    value.items = std::move(items);
    return value;
}

JsonValue text_part(std::string_view text) {
    JsonValue part = JsonValue::object();
    set(part, "type", JsonValue::string("text"));
    set(part, "text", JsonValue::string(std::string(text)));
    return part;
}

JsonValue image_url_part(std::string_view url) {
    JsonValue part = JsonValue::object();
    set(part, "type", JsonValue::string("image_url"));
    set(part, "image_url", JsonValue::string(std::string(url)));
    return part;
}

tl::unexpected<Error> part_error(const std::string& path, const std::string& got) {
    return make_error(ErrorCode::kInvalidArgument,
                      path + ": unsupported content part, got " + got +
                          ", wanted text, image_url, input_text, input_image, image or file",
                      path);
}

// A link given as a string or as an object with the string in member `name`.
Expected<JsonValue> link_part(const JsonValue& part, std::string_view outer, std::string_view inner,
                              const std::string& path) {
    const std::string link_path = path + "." + std::string(outer);
    const JsonValue* link = find_present(part, outer);
    if (link == nullptr) {
        return missing_error(link_path);
    }
    std::string_view url = link->text;
    if (link->is_object()) {
        DSV4V_ASSIGN_OR_RETURN(url, required_string(*link, inner, link_path));
    } else if (!link->is_string()) {
        return type_error(link_path, "a string or an object", *link);
    }
    if (url.empty()) {
        return make_error(ErrorCode::kInvalidArgument, link_path + " must not be empty", link_path);
    }
    return image_url_part(url);
}

// {"type": "image"} carries a link in `image` or `url`, or bytes in `source` or `data`.
Expected<JsonValue> image_part(const JsonValue& part, const std::string& path) {
    if (find_present(part, "image") != nullptr) {
        return link_part(part, "image", "url", path);
    }
    JsonValue copy = JsonValue::object();
    set(copy, "type", JsonValue::string("image"));
    for (const std::string_view name : {"source", "url", "data"}) {
        if (const JsonValue* value = find_present(part, name)) {
            set(copy, name, *value);
        }
    }
    if (copy.members.size() == 1) {
        return make_error(ErrorCode::kInvalidArgument,
                          path + ": a picture needs image, url, source or data", path);
    }
    return copy;
}

// A content part in the encoder's spelling.
Expected<JsonValue> normalize_part(const JsonValue& part, const std::string& path) {
    if (!part.is_object()) {
        return part_error(path, std::string(describe_type(part)));
    }
    DSV4V_ASSIGN_OR_RETURN(const std::string_view type, required_string(part, "type", path));
    if (type == "text" || type == "input_text" || type == "output_text") {
        DSV4V_ASSIGN_OR_RETURN(const std::string_view text, optional_string(part, "text", path));
        return text_part(text);
    }
    if (type == "refusal") {
        DSV4V_ASSIGN_OR_RETURN(const std::string_view text, optional_string(part, "refusal", path));
        return text_part(text);
    }
    if (type == "image_url" || type == "input_image") {
        return link_part(part, "image_url", "url", path);
    }
    if (type == "image") {
        return image_part(part, path);
    }
    if (type == "file") {
        return link_part(part, "file", "file_data", path);
    }
    return part_error(path + ".type", "\"" + std::string(type) + "\"");
}

bool is_reasoning_part(const JsonValue& part) {
    const JsonValue* type = part.find("type");
    return type != nullptr && type->is_string() && type->text == "thinking";
}

// Content as a string or a list of normalised parts; reasoning parts of assistants are left out.
Expected<JsonValue> normalize_content(const JsonValue* content, bool is_assistant,
                                      const std::string& path) {
    if (content == nullptr || content->is_null()) {
        return JsonValue::string("");
    }
    if (content->is_string()) {
        return *content;
    }
    if (!content->is_array()) {
        return make_error(ErrorCode::kInvalidArgument,
                          path + ": content is a string, null or a list of parts, got " +
                              std::string(describe_type(*content)),
                          path);
    }
    std::vector<JsonValue> parts;
    for (size_t i = 0; i < content->items.size(); ++i) {
        if (is_assistant && is_reasoning_part(content->items[i])) {
            continue;
        }
        DSV4V_ASSIGN_OR_RETURN(JsonValue part,
                               normalize_part(content->items[i], index_path(path, i)));
        parts.push_back(std::move(part));
    }
    return array(std::move(parts));
}

// A list in which every element has a type is a list of parts; other lists are plain JSON.
bool is_part_list(const JsonValue& value) {
    return value.is_array() &&
           std::all_of(value.items.begin(), value.items.end(),
                       [](const JsonValue& item) { return item.find("type") != nullptr; });
}

// Tools may answer with any JSON value: what is neither text nor a list of parts is shown as JSON.
Expected<JsonValue> tool_content(const JsonValue* content, const std::string& path) {
    if (content != nullptr && !content->is_null() && !content->is_string() &&
        !is_part_list(*content)) {
        return JsonValue::string(python_json(*content));
    }
    return normalize_content(content, false, path);
}

// The reasoning of an assistant message, from whichever member the client uses.
Expected<std::string> reasoning_text(const JsonValue& message, const std::string& path) {
    for (const std::string_view name : {"reasoning_content", "reasoning", "thinking"}) {
        if (find_present(message, name) != nullptr) {
            DSV4V_ASSIGN_OR_RETURN(const std::string_view text,
                                   optional_string(message, name, path));
            return std::string(text);
        }
    }
    std::string text;
    const JsonValue* content = message.find("content");
    for (size_t i = 0; content != nullptr && i < content->items.size(); ++i) {
        if (is_reasoning_part(content->items[i])) {
            DSV4V_ASSIGN_OR_RETURN(
                const std::string_view thought,
                optional_string(content->items[i], "thinking", index_path(path + ".content", i)));
            text += thought;
        }
    }
    return text;
}

// {id, type, function: {name, arguments}} with the types checked.
Expected<JsonValue> normalize_call(const JsonValue& call, const std::string& path) {
    if (!call.is_object()) {
        return type_error(path, "an object", call);
    }
    const JsonValue* function = find_present(call, "function");
    if (function == nullptr) {
        return missing_error(path + ".function");
    }
    if (!function->is_object()) {
        return type_error(path + ".function", "an object", *function);
    }
    DSV4V_RETURN_IF_ERROR(required_string(*function, "name", path + ".function"));
    DSV4V_ASSIGN_OR_RETURN(const std::string_view id, optional_string(call, "id", path));
    JsonValue result = JsonValue::object();
    set(result, "id", JsonValue::string(std::string(id)));
    set(result, "type", JsonValue::string("function"));
    set(result, "function", *function);
    return result;
}

Expected<JsonValue> normalize_calls(const JsonValue& message, const std::string& path) {
    std::vector<JsonValue> calls;
    if (const JsonValue* list = find_present(message, "tool_calls")) {
        if (!list->is_array()) {
            return type_error(path + ".tool_calls", "an array", *list);
        }
        for (size_t i = 0; i < list->items.size(); ++i) {
            DSV4V_ASSIGN_OR_RETURN(
                JsonValue call,
                normalize_call(list->items[i], index_path(path + ".tool_calls", i)));
            calls.push_back(std::move(call));
        }
    } else if (const JsonValue* legacy = find_present(message, "function_call")) {
        JsonValue call = JsonValue::object();
        set(call, "function", *legacy);
        DSV4V_ASSIGN_OR_RETURN(JsonValue normal, normalize_call(call, path + ".function_call"));
        calls.push_back(std::move(normal));
    }
    return array(std::move(calls));
}

Expected<void> normalize_assistant(const JsonValue& message, const std::string& path,
                                   JsonValue& result) {
    DSV4V_ASSIGN_OR_RETURN(JsonValue content,
                           normalize_content(message.find("content"), true, path + ".content"));
    set(result, "content", std::move(content));
    DSV4V_ASSIGN_OR_RETURN(std::string reasoning, reasoning_text(message, path));
    set(result, "reasoning_content", JsonValue::string(std::move(reasoning)));
    DSV4V_ASSIGN_OR_RETURN(JsonValue calls, normalize_calls(message, path));
    set(result, "tool_calls", std::move(calls));
    return {};
}

Expected<void> normalize_tool(const JsonValue& message, const std::string& path, bool needs_id,
                              JsonValue& result) {
    DSV4V_ASSIGN_OR_RETURN(const std::string_view id,
                           needs_id ? required_string(message, "tool_call_id", path)
                                    : optional_string(message, "tool_call_id", path));
    set(result, "tool_call_id", JsonValue::string(std::string(id)));
    DSV4V_ASSIGN_OR_RETURN(JsonValue content,
                           tool_content(message.find("content"), path + ".content"));
    set(result, "content", std::move(content));
    return {};
}

// The encoder checks names of roles and tasks; here they only change spelling.
Expected<JsonValue> normalize_message(const JsonValue& message, const std::string& path) {
    if (!message.is_object()) {
        return type_error(path, "an object", message);
    }
    const JsonValue* role_value = message.find("role");
    std::string role = role_value != nullptr && role_value->is_string() ? role_value->text : "";
    const bool is_function = role == "function";
    if (role == "developer") {
        role = "system";
    } else if (is_function) {
        role = "tool";
    }
    JsonValue result = JsonValue::object();
    if (role_value != nullptr) {
        set(result, "role", role.empty() ? *role_value : JsonValue::string(role));
    }
    if (role == "assistant") {
        DSV4V_RETURN_IF_ERROR(normalize_assistant(message, path, result));
    } else if (role == "tool") {
        DSV4V_RETURN_IF_ERROR(normalize_tool(message, path, !is_function, result));
    } else {
        DSV4V_ASSIGN_OR_RETURN(JsonValue content, normalize_content(message.find("content"), false,
                                                                    path + ".content"));
        set(result, "content", std::move(content));
    }
    if (const JsonValue* task = find_present(message, "task")) {
        set(result, "task", *task);
    }
    return result;
}

bool is_system(const JsonValue& message) {
    const JsonValue* role = message.find("role");
    return role != nullptr && role->is_string() && role->text == "system";
}

JsonValue& content_of(JsonValue& message) {
    for (auto& [name, value] : message.members) {
        if (name == "content") {
            return value;
        }
    }
    DSV4V_CHECK(false); // every normalised message has content
}

// Appends the content of `from` to that of `to`, a blank line between them.
void join_content(JsonValue& to, JsonValue& from) {
    if (to.is_string() && from.is_string()) {
        to.text.append(prompt::kBlockSeparator).append(from.text);
        return;
    }
    if (to.is_string()) {
        to = array({text_part(to.text)});
    }
    if (from.is_string()) {
        to.items.push_back(text_part(from.text));
    } else {
        std::move(from.items.begin(), from.items.end(), std::back_inserter(to.items));
    }
}

void join_leading_system(std::vector<JsonValue>& messages) {
    size_t n = 0;
    while (n < messages.size() && is_system(messages[n])) {
        ++n;
    }
    for (size_t i = 1; i < n; ++i) {
        join_content(content_of(messages[0]), content_of(messages[i]));
    }
    if (n > 1) {
        messages.erase(messages.begin() + 1, messages.begin() + static_cast<std::ptrdiff_t>(n));
    }
}

// Tools and the response format belong to the system text at the very front.
void attach_sections(std::vector<JsonValue>& messages, const JsonValue* tools,
                     const JsonValue* response_schema) {
    if (tools == nullptr && response_schema == nullptr) {
        return;
    }
    if (messages.empty() || !is_system(messages[0])) {
        JsonValue system = JsonValue::object();
        set(system, "role", JsonValue::string("system"));
        set(system, "content", JsonValue::string(""));
        messages.insert(messages.begin(), std::move(system));
    }
    if (tools != nullptr) {
        set(messages[0], "tools", *tools);
    }
    if (response_schema != nullptr) {
        set(messages[0], "response_format", *response_schema);
    }
}

Expected<void> check_tools(const JsonValue& tools) {
    if (!tools.is_array()) {
        return type_error("tools", "an array", tools);
    }
    for (size_t i = 0; i < tools.items.size(); ++i) {
        const std::string path = index_path("tools", i);
        if (!tools.items[i].is_object()) {
            return type_error(path, "an object", tools.items[i]);
        }
        const JsonValue* function = find_present(tools.items[i], "function");
        if (function == nullptr) {
            return missing_error(path + ".function");
        }
        if (!function->is_object()) {
            return type_error(path + ".function", "an object", *function);
        }
        DSV4V_RETURN_IF_ERROR(required_string(*function, "name", path + ".function"));
    }
    return {};
}

} // namespace

Expected<JsonValue> normalize_messages(const JsonValue& messages, const JsonValue* tools,
                                       const JsonValue* response_schema) {
    if (!messages.is_array()) {
        return type_error("messages", "an array", messages);
    }
    if (messages.items.empty()) {
        return make_error(ErrorCode::kInvalidArgument, "messages must not be empty", "messages");
    }
    if (tools != nullptr) {
        DSV4V_RETURN_IF_ERROR(check_tools(*tools));
    }
    if (response_schema != nullptr && !response_schema->is_object()) {
        return type_error("response_format", "an object", *response_schema);
    }
    std::vector<JsonValue> result;
    for (size_t i = 0; i < messages.items.size(); ++i) {
        DSV4V_ASSIGN_OR_RETURN(JsonValue message,
                               normalize_message(messages.items[i], index_path("messages", i)));
        result.push_back(std::move(message));
    }
    JsonValue checked = array(std::move(result));
    // The encoder would refuse the same things, but with the indices of the joined list.
    DSV4V_RETURN_IF_ERROR(build_turns(checked, 0));
    result = std::move(checked.items);
    join_leading_system(result);
    attach_sections(result, tools, response_schema);
    return array(std::move(result));
}

} // namespace dsv4v
