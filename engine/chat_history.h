// The first half of prompt encoding: JSON messages -> turns in the order and grouping in which the
// prompt shows them. Checks types, splits content into text and pictures, merges user and tool
// messages, orders tool results by call. Knows nothing of prompt strings. docs/chat-format.md.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json_value.h"
#include "loaders/base/error.h"

namespace dsv4v {

enum class ChatRole { kSystem, kDeveloper, kUser, kLatestReminder, kAssistant, kTool };

// Text, or the picture of this content part.
struct ContentPiece {
    std::string text;
    const JsonValue* image = nullptr;
};

// One paragraph of a turn; a tool result carries the id of its call.
struct ContentBlock {
    std::vector<ContentPiece> pieces;
    bool is_tool_result = false;
    std::string tool_call_id = {};
};

// A turn of the prompt. Pointers and views are borrowed from the JSON messages.
struct ChatTurn {
    ChatRole role = ChatRole::kUser;
    std::vector<ContentBlock> blocks; // joined with blank lines
    std::string reasoning;
    std::string_view task;                      // a task name, empty if none
    const JsonValue* tools = nullptr;           // non-empty array
    const JsonValue* response_format = nullptr; // non-empty object
    const JsonValue* tool_calls = nullptr;      // non-empty array
    std::string path;                           // "messages[3]"
    bool without_eos = false;
    bool in_context = false; // encoded by an earlier call
};

// Turns of `messages`, the first `n_context` of which are context. The result borrows from
// `messages`. Errors: kInvalidArgument with param = "messages[i].field".
[[nodiscard]] Expected<std::vector<ChatTurn>> build_turns(const JsonValue& messages,
                                                          size_t n_context);

} // namespace dsv4v
