#include "server/chat_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "server/structured_output.h"

namespace dsv4v {
namespace {

constexpr size_t kMaxModelBytes = 1024;
constexpr int32_t kMaxImageTokens = 384;
constexpr std::array kModelNames = {"deepseek-v4-flash-vision-exp", "deepseek-flash",
                                    "deepseek-chat", "deepseek-reasoner"};

JsonValue* member(JsonValue& object, std::string_view name) {
    for (auto& [key, value] : object.members) {
        if (key == name) {
            return &value;
        }
    }
    return nullptr;
}

ApiError missing(std::string_view name) {
    return bad_request("missing_required", fmt::format("'{}' is required", name),
                       std::string(name));
}

void check_parts(RequestFields& fields, const JsonValue& message, size_t index, int32_t max_parts) {
    const JsonValue* content = message.find("content");
    if (content != nullptr && content->is_array() &&
        content->items.size() > static_cast<size_t>(max_parts)) {
        const std::string path =
            join_path(index_path(fields.path_of("messages"), index), "content");
        fields.fail(
            wrong_value(path, *content, fmt::format("an array of at most {} parts", max_parts)));
    }
}

// Shape and counts only; what a message may contain is the normaliser's.
void check_messages(RequestFields& fields, const RequestRules& rules) {
    const JsonValue* messages = fields.array("messages", static_cast<size_t>(rules.max_messages));
    if (messages == nullptr) {
        return;
    }
    if (messages->items.empty()) {
        fields.fail_value("messages", *messages, "an array of at least one message");
    }
    for (size_t k = 0; k < messages->items.size() && fields.ok(); ++k) {
        if (!messages->items[k].is_object()) {
            fields.fail(wrong_value(index_path(fields.path_of("messages"), k), messages->items[k],
                                    "an object"));
        } else {
            check_parts(fields, messages->items[k], k, rules.max_parts);
        }
    }
}

void read_logprobs(RequestFields& fields, SamplingParams& params) {
    bool wanted = false;
    int32_t n_top = 0;
    fields.read("logprobs", wanted);
    fields.read("top_logprobs", n_top, 0, 20);
    if (n_top > 0 && !wanted) {
        fields.fail({ErrorCode::kInvalidArgument, "'top_logprobs' needs \"logprobs\": true",
                     fields.path_of("top_logprobs")});
    }
    params.n_logprobs = wanted ? n_top : -1;
}

// Continuing an answer: by the request's flag or by `prefix` on the last message.
void read_continuation(RequestFields& fields, ChatRequest& request) {
    fields.read("add_generation_prompt", request.add_generation_header);
    fields.read("continue_final_message", request.continue_final);
    const JsonValue* messages = fields.get("messages");
    if (messages == nullptr || messages->items.empty()) {
        return;
    }
    const JsonValue& last = messages->items.back();
    const JsonValue* role = last.find("role");
    const bool is_assistant = role != nullptr && role->is_string() && role->text == "assistant";
    const JsonValue* prefix = last.find("prefix");
    if (prefix != nullptr && prefix->is_bool() && prefix->boolean) {
        request.continue_final = true;
    }
    if (request.continue_final && !is_assistant) {
        fields.fail({ErrorCode::kInvalidArgument,
                     "continuing a message needs an assistant message at the end of 'messages'",
                     index_path(fields.path_of("messages"), messages->items.size() - 1)});
    }
}

// A task of the request belongs to its last user message; the encoder checks the name.
void place_task(JsonValue& messages, const JsonValue& task) {
    const auto last = std::find_if(messages.items.rbegin(), messages.items.rend(), [](auto& m) {
        const JsonValue* role = m.find("role");
        return role != nullptr && role->is_string() && role->text == "user";
    });
    if (last != messages.items.rend() && last->find("task") == nullptr) {
        last->members.emplace_back("task", task);
    }
}

void refuse_audio(RequestFields& fields) {
    if (const JsonValue* modalities = fields.array("modalities", 8)) {
        for (const JsonValue& item : modalities->items) {
            if (!item.is_string() || item.text != "text") {
                fields.fail_value("modalities", item, "[\"text\"]");
            }
        }
    }
    for (const char* name : {"audio", "web_search_options"}) {
        if (fields.get(name) != nullptr) {
            fields.fail({ErrorCode::kInvalidArgument,
                         fmt::format("'{}' is not supported by this server", name),
                         fields.path_of(name)});
        }
    }
}

void check_image_arguments(RequestFields& fields) {
    const JsonValue* value = fields.object("mm_processor_kwargs");
    if (value == nullptr) {
        return;
    }
    RequestFields arguments(*value, fields.path_of("mm_processor_kwargs"));
    int32_t n_tokens = 0;
    arguments.read("max_tokens", n_tokens, 1, kMaxImageTokens);
    arguments.read("min_tokens", n_tokens, 1, kMaxImageTokens);
    if (auto result = arguments.finish(true); !result) {
        fields.fail(result.error());
    }
}

// DeepSeek's hosted models ignore these while thinking.
void apply_fixed_sampling(ChatRequest& request, const RequestRules& rules) {
    if (!rules.thinking_fixed_sampling || request.thinking.mode != ThinkingMode::kThinking) {
        return;
    }
    SamplingParams& params = request.sampling.params;
    params.temperature = rules.default_temperature;
    params.top_p = rules.default_top_p;
    params.presence_penalty = 0;
    params.frequency_penalty = 0;
}

} // namespace

tl::expected<JsonValue, ApiError> parse_body(std::string_view text) {
    auto body = parse_json(text);
    if (!body) {
        return tl::unexpected(bad_request("invalid_json", body.error().message));
    }
    if (!body->is_object()) {
        return tl::unexpected(bad_request(
            "invalid_value",
            fmt::format("the request body must be a JSON object, got {}", describe(*body))));
    }
    JsonValue* extra = member(*body, "extra_body");
    if (extra == nullptr || extra->is_null()) {
        return std::move(*body);
    }
    if (!extra->is_object()) {
        return tl::unexpected(to_api_error(wrong_value("extra_body", *extra, "an object")));
    }
    const JsonValue added = std::move(*extra);
    *extra = JsonValue();
    for (const auto& [name, value] : added.members) {
        const JsonValue* given = body->find(name);
        if (given == nullptr) {
            body->members.emplace_back(name, value);
        }
    }
    return std::move(*body);
}

tl::expected<void, ApiError> check_model(std::string_view model, const RequestRules& rules) {
    const bool known =
        model.empty() || model == rules.served_model ||
        std::find(rules.aliases.begin(), rules.aliases.end(), model) != rules.aliases.end() ||
        std::find(kModelNames.begin(), kModelNames.end(), model) != kModelNames.end();
    if (known || !rules.strict_model) {
        return {};
    }
    ApiError error =
        not_found("model_not_found",
                  fmt::format("the model {} does not exist here; served is \"{}\"",
                              describe(JsonValue::string(std::string(model))), rules.served_model));
    error.param = "model";
    return tl::unexpected(std::move(error));
}

tl::expected<ChatRequest, ApiError> parse_chat_request(JsonValue body, const RequestRules& rules) {
    ChatRequest request;
    RequestFields fields(body, "");
    std::string model;
    fields.ignore({"extra_body"});
    fields.read("model", model, kMaxModelBytes);
    check_messages(fields, rules);
    request.sampling = read_sampling(fields, rules);
    request.thinking = read_thinking(fields, model, rules);
    request.tools = read_tools(fields, rules);
    read_logprobs(fields, request.sampling.params);
    read_continuation(fields, request);
    refuse_audio(fields);
    check_image_arguments(fields);
    const JsonValue* task = fields.get("task");
    const auto structured = refuse_structured_output(fields);
    if (auto result = fields.finish(rules.strict_params); !result) {
        return tl::unexpected(to_api_error(result.error()));
    }
    if (!structured) {
        return tl::unexpected(structured.error());
    }
    JsonValue* messages = member(body, "messages");
    if (messages == nullptr || messages->is_null()) {
        return tl::unexpected(missing("messages"));
    }
    if (auto known = check_model(model, rules); !known) {
        return tl::unexpected(known.error());
    }
    request.messages = std::move(*messages);
    if (task != nullptr) {
        place_task(request.messages, *task);
    }
    apply_fixed_sampling(request, rules);
    return request;
}

} // namespace dsv4v
