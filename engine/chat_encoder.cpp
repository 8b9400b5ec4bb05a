#include "engine/chat_encoder.h"

#include <algorithm>
#include <utility>

#include "engine/chat_history.h"
#include "engine/json_fields.h"
#include "engine/prompt_strings.h"

namespace dsv4v {
namespace {

// Collects prompt parts; neighbours of the same trust become one part.
class PromptWriter {
  public:
    void trusted(std::string_view text) { append(text, true); }
    void untrusted(std::string_view text) { append(text, false); }
    void picture(const JsonValue& part);
    void blocks(const std::vector<ContentBlock>& blocks);
    [[nodiscard]] EncodedChat take() { return std::move(chat_); }

  private:
    void append(std::string_view text, bool is_trusted);
    void block(const ContentBlock& block);
    EncodedChat chat_;
};

void PromptWriter::append(std::string_view text, bool is_trusted) {
    if (text.empty()) {
        return;
    }
    auto& parts = chat_.parts;
    if (!parts.empty() && parts.back().image_idx < 0 && parts.back().trusted == is_trusted) {
        parts.back().text += text;
        return;
    }
    parts.push_back({.text = std::string(text), .trusted = is_trusted});
}

// Copies the members of a picture part that name its bytes.
JsonValue image_record(const JsonValue& part) {
    JsonValue record = JsonValue::object();
    record.members.emplace_back("type", JsonValue::string("image"));
    const JsonValue* link = part.find("image_url");
    if (link != nullptr) {
        const JsonValue* url = link->is_object() ? link->find("url") : link;
        record.members.emplace_back("url", *url);
        return record;
    }
    for (const std::string_view name : {"source", "url", "data"}) {
        if (const JsonValue* value = find_present(part, name)) {
            record.members.emplace_back(name, *value);
        }
    }
    return record;
}

void PromptWriter::picture(const JsonValue& part) {
    const auto image_idx = static_cast<int32_t>(chat_.images.size());
    chat_.images.push_back(image_record(part));
    chat_.parts.push_back({.text = {}, .trusted = true, .image_idx = image_idx});
}

void PromptWriter::block(const ContentBlock& block) {
    for (const ContentPiece& piece : block.pieces) {
        if (piece.image != nullptr) {
            picture(*piece.image);
        } else {
            untrusted(piece.text);
        }
    }
}

void PromptWriter::blocks(const std::vector<ContentBlock>& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
        if (i > 0) {
            trusted(prompt::kBlockSeparator);
        }
        if (blocks[i].is_tool_result) {
            trusted(prompt::kToolResultOpen);
            block(blocks[i]);
            trusted(prompt::kToolResultClose);
        } else {
            block(blocks[i]);
        }
    }
}

Expected<void> write_tools(PromptWriter& out, const JsonValue& tools, const std::string& path) {
    out.trusted(prompt::kToolsHeader);
    for (size_t i = 0; i < tools.items.size(); ++i) {
        const std::string tool_path = index_path(path, i);
        if (!tools.items[i].is_object()) {
            return type_error(tool_path, "an object", tools.items[i]);
        }
        const JsonValue* function = find_present(tools.items[i], "function");
        if (function == nullptr) {
            return missing_error(tool_path + ".function");
        }
        if (!function->is_object()) {
            return type_error(tool_path + ".function", "an object", *function);
        }
        if (i > 0) {
            out.trusted(prompt::kToolsSchemaSeparator);
        }
        out.untrusted(python_json(*function));
    }
    out.trusted(prompt::kToolsFooter);
    return {};
}

// The sections that follow the text of a system or developer turn.
Expected<void> write_sections(PromptWriter& out, const ChatTurn& turn) {
    if (turn.tools != nullptr) {
        out.trusted(prompt::kSectionSeparator);
        DSV4V_RETURN_IF_ERROR(write_tools(out, *turn.tools, turn.path + ".tools"));
    }
    if (turn.response_format != nullptr) {
        out.trusted(prompt::kSectionSeparator);
        out.trusted(prompt::kResponseFormatPrefix);
        out.untrusted(python_json(*turn.response_format));
    }
    return {};
}

void write_parameter(PromptWriter& out, std::string_view key, const JsonValue& value) {
    out.trusted(prompt::kParameterHead);
    out.untrusted(key);
    if (value.is_string()) {
        out.trusted(prompt::kParameterString);
        out.untrusted(value.text);
    } else {
        out.trusted(prompt::kParameterJson);
        out.untrusted(python_json(value));
    }
    out.trusted(prompt::kParameterTail);
}

// Arguments as an object. Text that is no JSON object becomes one string parameter, so that a
// history with a broken call can still be continued.
JsonValue arguments_object(const JsonValue* arguments) {
    if (arguments == nullptr || arguments->is_object()) {
        return arguments == nullptr ? JsonValue::object() : *arguments;
    }
    const std::string text = arguments->is_string() ? arguments->text : python_json(*arguments);
    if (auto parsed = parse_json(text); parsed && parsed->is_object()) {
        return std::move(*parsed);
    }
    JsonValue object = JsonValue::object();
    object.members.emplace_back("arguments", JsonValue::string(text));
    return object;
}

Expected<void> write_invoke(PromptWriter& out, const JsonValue& call, const std::string& path) {
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
    DSV4V_ASSIGN_OR_RETURN(const std::string_view name,
                           required_string(*function, "name", path + ".function"));
    out.trusted(prompt::kInvokeOpenHead);
    out.untrusted(name);
    out.trusted(prompt::kInvokeOpenTail);
    const JsonValue arguments = arguments_object(find_present(*function, "arguments"));
    for (size_t i = 0; i < arguments.members.size(); ++i) {
        if (i > 0) {
            out.trusted(prompt::kParameterSeparator);
        }
        write_parameter(out, arguments.members[i].first, arguments.members[i].second);
    }
    out.trusted(prompt::kInvokeClose);
    return {};
}

Expected<void> write_tool_calls(PromptWriter& out, const ChatTurn& turn) {
    out.trusted(prompt::kToolCallsOpen);
    for (size_t i = 0; i < turn.tool_calls->items.size(); ++i) {
        if (i > 0) {
            out.trusted(prompt::kInvokeSeparator);
        }
        DSV4V_RETURN_IF_ERROR(
            write_invoke(out, turn.tool_calls->items[i], index_path(turn.path + ".tool_calls", i)));
    }
    out.trusted(prompt::kToolCallsClose);
    return {};
}

std::string_view effort_prefix(ReasoningEffort effort) {
    switch (effort) {
    case ReasoningEffort::kLow:
        return {};
    case ReasoningEffort::kHigh:
        return prompt::kEffortHigh;
    case ReasoningEffort::kMax:
        return prompt::kEffortMax;
    }
    return {};
}

std::string_view task_token(std::string_view task) {
    for (const auto& [name, token] : prompt::kTasks) {
        if (name == task) {
            return token;
        }
    }
    return {};
}

bool opens_answer(const ChatTurn& turn) {
    return turn.role == ChatRole::kUser || turn.role == ChatRole::kDeveloper;
}

// Index of the last user or developer turn, -1 if there is none.
int64_t last_question(const std::vector<ChatTurn>& turns) {
    for (size_t i = turns.size(); i > 0; --i) {
        if (opens_answer(turns[i - 1])) {
            return static_cast<int64_t>(i) - 1;
        }
    }
    return -1;
}

// Renders turns one after the other; knows which reasoning stays visible.
class ChatRenderer {
  public:
    ChatRenderer(std::vector<ChatTurn> turns, const ChatOptions& options);
    Expected<EncodedChat> render();

  private:
    [[nodiscard]] bool thinking() const { return options_.mode == ThinkingMode::kThinking; }
    [[nodiscard]] bool is_last(size_t i) const { return i + 1 == turns_.size(); }
    [[nodiscard]] bool is_continued(size_t i) const {
        return options_.continue_final_message && is_last(i);
    }
    void drop_old_developer_turns();
    Expected<void> write_turn(size_t i);
    Expected<void> write_assistant(size_t i);
    void write_transition(size_t i);
    void write_header(bool open_reasoning);

    std::vector<ChatTurn> turns_;
    ChatOptions options_;
    PromptWriter out_;
    bool keep_all_ = false;      // reasoning of every turn stays
    int64_t last_question_ = -1; // reasoning of later turns stays in any case
    bool in_reasoning_ = false;  // the prompt so far ends inside an open reasoning part
    bool has_header_ = false;    // the prompt so far ends where an answer begins
};

ChatRenderer::ChatRenderer(std::vector<ChatTurn> turns, const ChatOptions& options)
    : turns_(std::move(turns)), options_(options) {
    keep_all_ = !options.drop_thinking ||
                std::any_of(turns_.begin(), turns_.end(),
                            [](const ChatTurn& turn) { return turn.tools != nullptr; });
    if (thinking() && !keep_all_) {
        drop_old_developer_turns();
    }
    last_question_ = last_question(turns_);
}

void ChatRenderer::drop_old_developer_turns() {
    const int64_t question = last_question(turns_);
    if (question > 0) {
        const auto end = turns_.begin() + question;
        turns_.erase(
            std::remove_if(turns_.begin(), end,
                           [](const ChatTurn& turn) { return turn.role == ChatRole::kDeveloper; }),
            end);
    }
}

Expected<EncodedChat> ChatRenderer::render() {
    if (options_.continue_final_message &&
        (turns_.empty() || turns_.back().role != ChatRole::kAssistant)) {
        return make_error(ErrorCode::kInvalidArgument,
                          "continue_final_message: the last message must be of role assistant",
                          "continue_final_message");
    }
    if (options_.add_bos && options_.n_context_messages == 0) {
        out_.trusted(prompt::kBos);
    }
    for (size_t i = 0; i < turns_.size(); ++i) {
        if (!turns_[i].in_context) {
            DSV4V_RETURN_IF_ERROR(write_turn(i));
            write_transition(i);
        }
    }
    if (options_.add_generation_header && !has_header_ && !options_.continue_final_message) {
        write_header(thinking());
    }
    EncodedChat chat = out_.take();
    chat.starts_in_reasoning = in_reasoning_;
    return chat;
}

Expected<void> ChatRenderer::write_turn(size_t i) {
    const ChatTurn& turn = turns_[i];
    in_reasoning_ = false;
    has_header_ = false;
    if (i == 0 && thinking()) {
        out_.trusted(effort_prefix(options_.effort));
    }
    switch (turn.role) {
    case ChatRole::kDeveloper:
        out_.trusted(prompt::kUser);
        [[fallthrough]];
    case ChatRole::kSystem:
        out_.blocks(turn.blocks);
        return write_sections(out_, turn);
    case ChatRole::kAssistant:
        return write_assistant(i);
    case ChatRole::kLatestReminder:
        out_.trusted(prompt::kLatestReminder);
        out_.blocks(turn.blocks);
        return {};
    case ChatRole::kUser:
    case ChatRole::kTool: // build_turns turns every tool message into part of a user turn
        out_.trusted(prompt::kUser);
        out_.blocks(turn.blocks);
        return {};
    }
    return {};
}

Expected<void> ChatRenderer::write_assistant(size_t i) {
    const ChatTurn& turn = turns_[i];
    const bool answers_task = i > 0 && !turns_[i - 1].task.empty();
    const bool has_answer = turn.tool_calls != nullptr ||
                            std::any_of(turn.blocks[0].pieces.begin(), turn.blocks[0].pieces.end(),
                                        [](const ContentPiece& piece) {
                                            return piece.image != nullptr || !piece.text.empty();
                                        });
    if (thinking() && !answers_task && (keep_all_ || static_cast<int64_t>(i) > last_question_)) {
        out_.untrusted(turn.reasoning);
        // A turn that was cut while it reasoned goes on reasoning.
        in_reasoning_ = is_continued(i) && !has_answer;
        if (!in_reasoning_) {
            out_.trusted(prompt::kThinkClose);
        }
    }
    out_.blocks(turn.blocks);
    if (turn.tool_calls != nullptr) {
        DSV4V_RETURN_IF_ERROR(write_tool_calls(out_, turn));
    }
    if (!turn.without_eos && !is_continued(i)) {
        out_.trusted(prompt::kEos);
    }
    return {};
}

void ChatRenderer::write_header(bool open_reasoning) {
    out_.trusted(prompt::kAssistant);
    out_.trusted(open_reasoning ? prompt::kThinkOpen : prompt::kThinkClose);
    in_reasoning_ = open_reasoning;
    has_header_ = true;
}

// What stands between a turn and the answer to it.
void ChatRenderer::write_transition(size_t i) {
    const ChatTurn& turn = turns_[i];
    const bool answered = is_last(i) || turns_[i + 1].role == ChatRole::kAssistant ||
                          turns_[i + 1].role == ChatRole::kLatestReminder;
    if (!answered || is_continued(i)) {
        return;
    }
    if (!turn.task.empty()) {
        if (turn.task == "action") {
            write_header(thinking());
        }
        out_.trusted(task_token(turn.task));
        in_reasoning_ = false; // the answer to a task has no reasoning part
        has_header_ = true;
    } else if (opens_answer(turn)) {
        write_header(thinking() && (keep_all_ || static_cast<int64_t>(i) >= last_question_));
    }
}

} // namespace

std::string EncodedChat::text() const {
    std::string result;
    for (const PromptPart& part : parts) {
        result += part.image_idx >= 0 ? prompt::kImagePlaceholder : std::string_view(part.text);
    }
    return result;
}

Expected<ThinkingMode> parse_thinking_mode(std::string_view name) {
    if (name == "chat") {
        return ThinkingMode::kChat;
    }
    if (name == "thinking") {
        return ThinkingMode::kThinking;
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "thinking_mode: got \"" + std::string(name) + "\", wanted chat or thinking",
                      "thinking_mode");
}

Expected<ReasoningEffort> parse_reasoning_effort(std::string_view name) {
    if (name == "low") {
        return ReasoningEffort::kLow;
    }
    if (name == "high") {
        return ReasoningEffort::kHigh;
    }
    if (name == "max") {
        return ReasoningEffort::kMax;
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "reasoning_effort: got \"" + std::string(name) +
                          "\", wanted low, high or max",
                      "reasoning_effort");
}

Expected<EncodedChat> encode_chat(const JsonValue& messages, const ChatOptions& options) {
    DSV4V_ASSIGN_OR_RETURN(
        auto turns, build_turns(messages, static_cast<size_t>(
                                              std::max(options.n_context_messages, int32_t{0}))));
    return ChatRenderer(std::move(turns), options).render();
}

} // namespace dsv4v
