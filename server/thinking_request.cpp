#include "server/thinking_request.h"

#include <limits>

namespace dsv4v {
namespace {

constexpr std::string_view kEffortNames =
    "one of \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\", \"ultra\"";

// What one place of the request says; absent members say nothing.
struct Wish {
    std::optional<bool> on;
    std::optional<bool> off_by_effort; // true: effort "none"
    std::optional<ReasoningEffort> effort;
};

void read_effort(RequestFields& fields, Wish& wish) {
    const JsonValue* value = fields.get("reasoning_effort");
    if (value == nullptr) {
        return;
    }
    if (value->is_string() && value->text == "none") {
        wish.off_by_effort = true;
        return;
    }
    wish.effort = value->is_string() ? effort_of(value->text) : std::nullopt;
    if (!wish.effort) {
        fields.fail_value("reasoning_effort", *value, kEffortNames);
    }
}

void read_flag(RequestFields& fields, std::string_view name, std::optional<bool>& on) {
    bool value = false;
    if (fields.read(name, value) && !on) {
        on = value;
    }
}

Wish read_template_arguments(RequestFields& fields, ThinkingRequest& request) {
    Wish wish;
    const JsonValue* value = fields.object("chat_template_kwargs");
    if (value == nullptr) {
        return wish;
    }
    RequestFields arguments(*value, fields.path_of("chat_template_kwargs"));
    read_flag(arguments, "thinking", wish.on);
    read_flag(arguments, "enable_thinking", wish.on);
    size_t mode = 0;
    if (arguments.read_choice("thinking_mode", {"chat", "thinking"}, mode) && !wish.on) {
        wish.on = mode == 1;
    }
    read_effort(arguments, wish);
    arguments.read("drop_thinking", request.drop_thinking);
    if (auto result = arguments.finish(false); !result) {
        fields.fail(result.error());
    }
    return wish;
}

// {"type": "enabled" | "disabled", "budget_tokens"?}
std::optional<bool> read_switch(RequestFields& fields, ThinkingRequest& request) {
    const JsonValue* value = fields.object("thinking");
    if (value == nullptr) {
        return std::nullopt;
    }
    RequestFields thinking(*value, fields.path_of("thinking"));
    size_t type = 0;
    if (!thinking.read_choice("type", {"disabled", "enabled"}, type)) {
        thinking.fail_value("type", JsonValue(), "\"enabled\" or \"disabled\"");
    }
    thinking.read("budget_tokens", request.budget, -1, std::numeric_limits<int32_t>::max());
    if (auto result = thinking.finish(false); !result) {
        fields.fail(result.error());
    }
    return type == 1;
}

std::optional<bool> alias_mode(std::string_view model) {
    if (model == "deepseek-chat") {
        return false;
    }
    return model == "deepseek-reasoner" ? std::optional(true) : std::nullopt;
}

bool choose_mode(const std::optional<bool>& switched, const Wish& top, const Wish& arguments,
                 std::string_view model, bool fallback) {
    if (switched) {
        return *switched;
    }
    if (top.off_by_effort) {
        return false;
    }
    if (arguments.on) {
        return *arguments.on;
    }
    if (top.on) {
        return *top.on;
    }
    if (arguments.off_by_effort) {
        return false;
    }
    return alias_mode(model).value_or(fallback);
}

} // namespace

std::optional<ReasoningEffort> effort_of(std::string_view name) {
    if (name == "minimal" || name == "low") {
        return ReasoningEffort::kLow;
    }
    if (name == "medium" || name == "high" || name == "xhigh") {
        return ReasoningEffort::kHigh;
    }
    if (name == "max" || name == "ultra") {
        return ReasoningEffort::kMax;
    }
    return std::nullopt;
}

ThinkingRequest read_thinking(RequestFields& fields, std::string_view model,
                              const RequestRules& rules) {
    ThinkingRequest request;
    const std::optional<bool> switched = read_switch(fields, request);
    Wish top;
    read_effort(fields, top);
    read_flag(fields, "enable_thinking", top.on);
    const Wish arguments = read_template_arguments(fields, request);
    request.mode = choose_mode(switched, top, arguments, model, rules.default_thinking)
                       ? ThinkingMode::kThinking
                       : ThinkingMode::kChat;
    request.effort = top.effort.value_or(arguments.effort.value_or(rules.default_effort));
    for (const char* name :
         {"reasoning_budget_tokens", "thinking_budget", "max_reasoning_tokens"}) {
        fields.read(name, request.budget, -1, std::numeric_limits<int32_t>::max());
    }
    size_t format = 0;
    fields.read_choice("reasoning_format", {"deepseek", "none"}, format);
    request.split = format == 0;
    fields.read("include_reasoning", request.include);
    return request;
}

} // namespace dsv4v
