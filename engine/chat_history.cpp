#include "engine/chat_history.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/json_fields.h"
#include "engine/prompt_strings.h"

namespace dsv4v {
namespace {

constexpr std::array<std::pair<std::string_view, ChatRole>, 6> kRoles = {{
    {"system", ChatRole::kSystem},
    {"developer", ChatRole::kDeveloper},
    {"user", ChatRole::kUser},
    {"latest_reminder", ChatRole::kLatestReminder},
    {"assistant", ChatRole::kAssistant},
    {"tool", ChatRole::kTool},
}};

// What becomes of a content part that is neither text nor a picture.
enum class UnknownPart { kDrop, kName };

Expected<ChatRole> parse_role(const JsonValue& message, const std::string& path) {
    const JsonValue* role = message.find("role");
    const std::string got = role == nullptr     ? "none"
                            : role->is_string() ? "\"" + role->text + "\""
                                                : std::string(describe_type(*role));
    for (const auto& [name, value] : kRoles) {
        if (role != nullptr && role->is_string() && role->text == name) {
            return value;
        }
    }
    return make_error(ErrorCode::kInvalidArgument,
                      path + ".role: unsupported role, got " + got +
                          ", wanted system, developer, user, assistant, tool or latest_reminder",
                      path + ".role");
}

bool is_image_type(std::string_view type) {
    return type == "image_url" || type == "image";
}

bool is_non_empty(const JsonValue* value) {
    if (value == nullptr) {
        return false;
    }
    return !value->text.empty() || !value->items.empty() || !value->members.empty();
}

// A picture part must name its bytes in one of the forms that image_record reads.
Expected<void> check_image(const JsonValue& part, std::string_view type, const std::string& path) {
    bool found = false;
    if (type == "image_url") {
        const JsonValue* link = part.find("image_url");
        const JsonValue* url = link != nullptr && link->is_object() ? link->find("url") : link;
        found = url != nullptr && url->is_string() && !url->text.empty();
    } else {
        for (const std::string_view name : {"source", "url", "data"}) {
            found = found || is_non_empty(part.find(name));
        }
    }
    if (!found) {
        return make_error(ErrorCode::kInvalidArgument,
                          path + ": a picture needs a non-empty url, source or data", path);
    }
    return {};
}

std::string unsupported_text(const JsonValue& part) {
    const JsonValue* type = part.find("type");
    std::string text(prompt::kUnsupportedPartHead);
    text += type != nullptr && type->is_string() ? type->text : "None";
    return text.append(prompt::kUnsupportedPartTail);
}

// The piece for one content part; nothing for a part that is dropped.
Expected<std::optional<ContentPiece>> parse_part(const JsonValue& part, UnknownPart unknown,
                                                 const std::string& path) {
    if (!part.is_object()) {
        return type_error(path, "an object", part);
    }
    DSV4V_ASSIGN_OR_RETURN(const std::string_view type, optional_string(part, "type", path));
    if (type == "text") {
        DSV4V_ASSIGN_OR_RETURN(const std::string_view text, optional_string(part, "text", path));
        return ContentPiece{.text = std::string(text)};
    }
    if (is_image_type(type)) {
        DSV4V_RETURN_IF_ERROR(check_image(part, type, path));
        return ContentPiece{.text = {}, .image = &part};
    }
    if (unknown == UnknownPart::kName) {
        return ContentPiece{.text = unsupported_text(part)};
    }
    return std::optional<ContentPiece>();
}

// Pieces of a content list, with the blank line between parts.
Expected<std::vector<ContentPiece>> parse_parts(const JsonValue& parts, UnknownPart unknown,
                                                const std::string& path) {
    std::vector<ContentPiece> pieces;
    for (size_t i = 0; i < parts.items.size(); ++i) {
        DSV4V_ASSIGN_OR_RETURN(auto piece,
                               parse_part(parts.items[i], unknown, index_path(path, i)));
        if (!piece) {
            continue;
        }
        if (!pieces.empty()) {
            pieces.push_back({.text = std::string(prompt::kBlockSeparator)});
        }
        pieces.push_back(std::move(*piece));
    }
    return pieces;
}

// Content that is a string, null or a list of parts, as one run of pieces.
Expected<std::vector<ContentPiece>> parse_content(const JsonValue* content, UnknownPart unknown,
                                                  const std::string& path) {
    if (content == nullptr || content->is_null()) {
        return std::vector<ContentPiece>();
    }
    if (content->is_string()) {
        return std::vector<ContentPiece>{{.text = content->text}};
    }
    if (content->is_array()) {
        return parse_parts(*content, unknown, path);
    }
    return make_error(ErrorCode::kInvalidArgument,
                      path + ": content is a string, null or a list of parts, got " +
                          std::string(describe_type(*content)),
                      path);
}

Expected<ContentBlock> parse_user_block(const JsonValue& part, const std::string& path) {
    ContentBlock block;
    const JsonValue* type = part.is_object() ? part.find("type") : nullptr;
    if (type != nullptr && type->is_string() && type->text == "tool_result") {
        block.is_tool_result = true;
        DSV4V_ASSIGN_OR_RETURN(const std::string_view id,
                               optional_string(part, "tool_use_id", path));
        block.tool_call_id = id;
        DSV4V_ASSIGN_OR_RETURN(block.pieces, parse_content(part.find("content"), UnknownPart::kName,
                                                           path + ".content"));
        return block;
    }
    DSV4V_ASSIGN_OR_RETURN(auto piece, parse_part(part, UnknownPart::kName, path));
    block.pieces.push_back(std::move(*piece));
    return block;
}

// A user turn keeps its parts apart: each is a block of its own.
Expected<std::vector<ContentBlock>> parse_user_blocks(const JsonValue& message,
                                                      const std::string& path) {
    const JsonValue* blocks = find_present(message, "content_blocks");
    const JsonValue* content = message.find("content");
    const JsonValue* list = blocks != nullptr ? blocks : content;
    const std::string list_path = path + (blocks != nullptr ? ".content_blocks" : ".content");
    std::vector<ContentBlock> result;
    if (list == nullptr || !list->is_array()) {
        DSV4V_ASSIGN_OR_RETURN(auto pieces, parse_content(list, UnknownPart::kName, list_path));
        result.push_back({.pieces = std::move(pieces)});
        return result;
    }
    for (size_t i = 0; i < list->items.size(); ++i) {
        DSV4V_ASSIGN_OR_RETURN(auto block,
                               parse_user_block(list->items[i], index_path(list_path, i)));
        result.push_back(std::move(block));
    }
    return result;
}

Expected<std::string_view> parse_task(const JsonValue& message, const std::string& path) {
    const JsonValue* task = find_present(message, "task");
    if (task == nullptr) {
        return std::string_view();
    }
    if (!task->is_string()) {
        return type_error(path + ".task", "a string", *task);
    }
    for (const auto& [name, token] : prompt::kTasks) {
        if (task->text == name) {
            return name;
        }
    }
    return make_error(ErrorCode::kInvalidArgument,
                      path + ".task: got \"" + task->text +
                          "\", wanted action, query, authority, domain, title or read_url",
                      path + ".task");
}

// Member `name` if it is a non-empty list; an error if it is something else than a list.
Expected<const JsonValue*> parse_list(const JsonValue& message, std::string_view name,
                                      const std::string& path) {
    const JsonValue* list = find_present(message, name);
    if (list != nullptr && !list->is_array()) {
        return type_error(path + "." + std::string(name), "an array", *list);
    }
    return list != nullptr && list->items.empty() ? nullptr : list;
}

Expected<void> parse_turn_content(const JsonValue& message, ChatTurn& turn) {
    if (turn.role == ChatRole::kUser) {
        DSV4V_ASSIGN_OR_RETURN(turn.blocks, parse_user_blocks(message, turn.path));
        return {};
    }
    const JsonValue* content = message.find("content");
    const JsonValue* blocks = find_present(message, "content_blocks");
    const bool from_blocks = blocks != nullptr && (content == nullptr || !content->is_string());
    ContentBlock block;
    DSV4V_ASSIGN_OR_RETURN(
        block.pieces, parse_content(from_blocks ? blocks : content, UnknownPart::kDrop,
                                    turn.path + (from_blocks ? ".content_blocks" : ".content")));
    block.is_tool_result = turn.role == ChatRole::kTool;
    DSV4V_ASSIGN_OR_RETURN(const std::string_view id,
                           optional_string(message, "tool_call_id", turn.path));
    block.tool_call_id = id;
    const bool is_empty =
        std::all_of(block.pieces.begin(), block.pieces.end(), [](const ContentPiece& piece) {
            return piece.text.empty() && piece.image == nullptr;
        });
    if (turn.role == ChatRole::kDeveloper && is_empty) {
        return make_error(ErrorCode::kInvalidArgument,
                          turn.path + ".content: a developer message needs text",
                          turn.path + ".content");
    }
    turn.blocks.push_back(std::move(block));
    return {};
}

Expected<ChatTurn> parse_turn(const JsonValue& message, std::string path) {
    if (!message.is_object()) {
        return type_error(path, "an object", message);
    }
    ChatTurn turn;
    turn.path = std::move(path);
    DSV4V_ASSIGN_OR_RETURN(turn.role, parse_role(message, turn.path));
    DSV4V_RETURN_IF_ERROR(parse_turn_content(message, turn));
    DSV4V_ASSIGN_OR_RETURN(const std::string_view reasoning,
                           optional_string(message, "reasoning_content", turn.path));
    turn.reasoning = reasoning;
    DSV4V_ASSIGN_OR_RETURN(turn.task, parse_task(message, turn.path));
    DSV4V_ASSIGN_OR_RETURN(turn.tools, parse_list(message, "tools", turn.path));
    DSV4V_ASSIGN_OR_RETURN(turn.tool_calls, parse_list(message, "tool_calls", turn.path));
    const JsonValue* format = find_present(message, "response_format");
    if (format != nullptr && !format->is_object()) {
        return type_error(turn.path + ".response_format", "an object", *format);
    }
    turn.response_format = is_non_empty(format) ? format : nullptr;
    const JsonValue* without_eos = message.find("wo_eos");
    turn.without_eos = without_eos != nullptr && without_eos->boolean;
    return turn;
}

void append_blocks(std::vector<ContentBlock>& to, std::vector<ContentBlock>& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
}

// Puts one parsed message behind `turns`: tool results and user texts join the user turn before.
void merge_turn(std::vector<ChatTurn>& turns, ChatTurn turn) {
    ChatTurn* last = turns.empty() || turns.back().role != ChatRole::kUser ||
                             turns.back().in_context != turn.in_context
                         ? nullptr
                         : &turns.back();
    if (turn.role == ChatRole::kTool) {
        if (last != nullptr) {
            append_blocks(last->blocks, turn.blocks);
            return;
        }
        turn.role = ChatRole::kUser;
        turn.task = {};
        turn.tools = nullptr;
    } else if (turn.role == ChatRole::kUser && last != nullptr && last->task.empty()) {
        append_blocks(last->blocks, turn.blocks);
        return;
    }
    turns.push_back(std::move(turn));
}

using CallOrder = std::unordered_map<std::string, size_t>;

// Position of each call id in an assistant turn.
CallOrder call_order(const JsonValue& tool_calls) {
    CallOrder order;
    for (size_t i = 0; i < tool_calls.items.size(); ++i) {
        const JsonValue* id = tool_calls.items[i].find("id");
        if (id != nullptr && id->is_string() && !id->text.empty()) {
            order[id->text] = i;
        }
    }
    return order;
}

// Sorts the tool results of a turn among the places that hold results; unknown ids come first.
void sort_results(std::vector<ContentBlock>& blocks, const CallOrder& order) {
    std::vector<ContentBlock> results;
    for (ContentBlock& block : blocks) {
        if (block.is_tool_result) {
            results.push_back(std::move(block));
            block.is_tool_result = true;
        }
    }
    const auto rank = [&order](const ContentBlock& block) {
        const auto it = order.find(block.tool_call_id);
        return it == order.end() ? size_t{0} : it->second;
    };
    std::stable_sort(
        results.begin(), results.end(),
        [&rank](const ContentBlock& a, const ContentBlock& b) { return rank(a) < rank(b); });
    auto next = results.begin();
    for (ContentBlock& block : blocks) {
        if (block.is_tool_result) {
            block = std::move(*next++);
        }
    }
}

// Clients answer parallel calls in any order; the prompt shows results in the order of the calls.
void order_results(std::vector<ChatTurn>& turns) {
    CallOrder order;
    for (ChatTurn& turn : turns) {
        if (turn.role == ChatRole::kAssistant && turn.tool_calls != nullptr) {
            order = call_order(*turn.tool_calls);
        } else if (turn.role == ChatRole::kUser && !order.empty()) {
            sort_results(turn.blocks, order);
        }
    }
}

} // namespace

Expected<std::vector<ChatTurn>> build_turns(const JsonValue& messages, size_t n_context) {
    if (!messages.is_array()) {
        return type_error("messages", "an array", messages);
    }
    std::vector<ChatTurn> turns;
    for (size_t i = 0; i < messages.items.size(); ++i) {
        DSV4V_ASSIGN_OR_RETURN(ChatTurn turn,
                               parse_turn(messages.items[i], index_path("messages", i)));
        turn.in_context = i < n_context;
        merge_turn(turns, std::move(turn));
    }
    order_results(turns);
    return turns;
}

} // namespace dsv4v
