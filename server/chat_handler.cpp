#include "server/chat_handler.h"

#include <array>
#include <utility>

#include "engine/prompt_strings.h"
#include "server/chat_prompt.h"
#include "server/chat_reply.h"
#include "server/chat_request.h"
#include "server/serve_reply.h"

namespace dsv4v {
namespace {

struct PreparedChat {
    ChatRequest request;
    ChatPrompt prompt;
};

tl::expected<PreparedChat, ApiError> prepare(const ApiService& service, std::string_view body) {
    auto json = parse_body(body);
    if (!json) {
        return tl::unexpected(json.error());
    }
    auto request = parse_chat_request(std::move(*json), make_rules(service.context));
    if (!request) {
        return tl::unexpected(request.error());
    }
    auto prompt = prepare_chat_prompt(*request, service.context.model().tokenizer,
                                      service.context.options.allow_special_in_content);
    if (!prompt) {
        return tl::unexpected(prompt.error());
    }
    return PreparedChat{std::move(*request), std::move(*prompt)};
}

bool calls_allowed(const ToolRequest& tools) {
    return tools.has_tools() && tools.choice != ToolRequest::Choice::kNone;
}

// The beginning of a tool call as the model writes it, up to the name or with a given one.
std::vector<int32_t> forced_call_ids(const Tokenizer& tokenizer, const ToolRequest& tools) {
    const std::string head = std::string(prompt::kToolCallsOpen).append(prompt::kInvokeOpenHead);
    if (tools.choice == ToolRequest::Choice::kRequired) {
        return tokenizer.encode(head, true);
    }
    const std::array<TextPart, 3> parts = {
        {{head, true}, {tools.name, false}, {std::string(prompt::kInvokeOpenTail), true}}};
    return tokenizer.encode(parts);
}

void apply_tool_choice(const Tokenizer& tokenizer, const ToolRequest& tools,
                       GenerationRequest& generation) {
    if (!tools.has_tools()) {
        return;
    }
    if (tools.choice == ToolRequest::Choice::kNone) {
        if (const auto id = tokenizer.find_special(prompt::kDsml)) {
            generation.banned_token_ids.push_back(*id);
        }
    } else if (tools.choice != ToolRequest::Choice::kAuto) {
        generation.forced_answer_prefix = forced_call_ids(tokenizer, tools);
    }
}

GenerationRequest chat_generation(const ServingContext& context, const HttpRequest& http,
                                  const PreparedChat& chat) {
    const Tokenizer& tokenizer = context.model().tokenizer;
    const SamplingRequest& sampling = chat.request.sampling;
    GenerationRequest generation = make_generation(context, http, sampling, chat.prompt.ids.size());
    generation.prompt = chat.prompt.ids;
    for (const int32_t id : end_of_turn_ids(tokenizer, sampling.ignore_eos)) {
        generation.stop_token_ids.push_back(id);
    }
    generation.starts_in_reasoning = chat.prompt.encoded.starts_in_reasoning;
    generation.think_close_id = tokenizer.find_special(prompt::kThinkClose).value_or(-1);
    generation.reasoning_budget = chat.request.thinking.budget;
    apply_tool_choice(tokenizer, chat.request.tools, generation);
    return generation;
}

ChoiceOptions choice_options(const PreparedChat& chat, const GenerationRequest& generation) {
    const ChatRequest& request = chat.request;
    ChoiceOptions options;
    options.starts_in_reasoning = chat.prompt.encoded.starts_in_reasoning;
    if (calls_allowed(request.tools)) {
        options.tools = std::make_shared<const JsonValue>(request.tools.tools);
    }
    options.parallel_tool_calls = request.tools.parallel && !request.tools.legacy_reply;
    options.split_reasoning = request.thinking.split;
    options.include_reasoning = request.thinking.include;
    options.stops = request.sampling.stops;
    options.include_stop = request.sampling.include_stop;
    options.stop_in_reasoning = request.sampling.stop_in_reasoning;
    options.end_token_ids = generation.stop_token_ids;
    options.keep_logprobs = request.sampling.params.n_logprobs >= 0;
    return options;
}

RunPlan chat_plan(const ServingContext& context, const HttpRequest& http, const PreparedChat& chat,
                  const std::string& reply_id) {
    RunPlan plan;
    plan.reply_id = reply_id;
    plan.n_prompt_tokens = static_cast<int32_t>(chat.prompt.ids.size());
    GenerationRequest generation = chat_generation(context, http, chat);
    const ChoiceOptions options = choice_options(chat, generation);
    for (int32_t k = 0; k < chat.request.sampling.n; ++k) {
        generation.choice_idx = k;
        plan.choices.push_back({generation, options});
    }
    return plan;
}

ChatReplyOptions reply_options(const ServingContext& context, PreparedChat& chat) {
    const SamplingRequest& sampling = chat.request.sampling;
    ChatReplyOptions options;
    options.stream = sampling.stream;
    options.thinking = chat.prompt.encoded.starts_in_reasoning;
    options.logprobs = sampling.params.n_logprobs >= 0;
    options.token_ids = sampling.return_token_ids;
    options.legacy_function = chat.request.tools.legacy_reply;
    options.reasoning_alias = context.options.reasoning_alias;
    options.seed = sampling.params.seed;
    options.stop_token_ids = sampling.stop_token_ids;
    if (options.token_ids) {
        options.prompt_ids = std::move(chat.prompt.ids);
    }
    return options;
}

HttpReply run_chat(ApiService& service, const HttpRequest& http, PreparedChat chat) {
    ServingContext& context = service.context;
    const ReplyIdentity identity = new_identity(context, "chatcmpl-");
    RunPlan plan = chat_plan(context, http, chat, identity.id);
    const size_t n_choices = plan.choices.size();
    auto run = GenerationRun::start(context, service.runs, std::move(plan), http.record);
    if (!run) {
        return refuse(context, http, run.error());
    }
    auto writer = std::make_unique<ChatReplyWriter>(context.model().tokenizer, identity,
                                                    reply_options(context, chat), n_choices);
    return serve_reply(context, http, chat.request.sampling.stream, std::move(*run),
                       std::move(writer));
}

} // namespace

HttpReply handle_chat(ApiService& service, const HttpRequest& http) {
    http.record->model = service.context.options.model_id();
    auto chat = prepare(service, http.body);
    if (!chat) {
        return refuse(service.context, http, chat.error());
    }
    const bool wants_output = chat->request.sampling.max_tokens.value_or(1) > 0;
    const auto fits = check_context(chat->prompt.ids.size(), wants_output,
                                    service.context.engine().limits().context_length);
    if (!fits) {
        return refuse(service.context, http, fits.error());
    }
    return run_chat(service, http, std::move(*chat));
}

HttpReply handle_chat_token_count(ApiService& service, const HttpRequest& http) {
    const auto chat = prepare(service, http.body);
    if (!chat) {
        return refuse(service.context, http, chat.error());
    }
    JsonWriter json;
    json.begin_object().field("object", "response.input_tokens");
    json.field("input_tokens", static_cast<uint64_t>(chat->prompt.ids.size())).end_object();
    HttpReply reply;
    reply.body = json.take();
    return reply;
}

HttpReply handle_apply_template(ApiService& service, const HttpRequest& http) {
    const auto chat = prepare(service, http.body);
    if (!chat) {
        return refuse(service.context, http, chat.error());
    }
    JsonWriter json;
    json.begin_object().field("prompt", std::string_view(chat->prompt.encoded.text()));
    write_ids(json, "token_ids", chat->prompt.ids);
    json.key("images").begin_array().end_array().end_object();
    HttpReply reply;
    reply.body = json.take();
    return reply;
}

HttpReply handle_chat_control(ApiService& service, const HttpRequest& http) {
    const auto body = parse_body(http.body);
    if (!body) {
        return refuse(service.context, http, body.error());
    }
    RequestFields fields(*body, "");
    std::string id;
    size_t action = 0;
    if (!fields.read("id", id, 256)) {
        fields.fail_value("id", JsonValue(), "the id of a running reply");
    }
    if (!fields.read_choice("action", {"reasoning_end", "cancel"}, action)) {
        fields.fail_value("action", JsonValue(), "\"reasoning_end\" or \"cancel\"");
    }
    if (auto result = fields.finish(service.context.options.strict_params); !result) {
        return refuse(service.context, http, to_api_error(result.error()));
    }
    const bool done = action == 0 ? service.runs.end_reasoning(id) : service.runs.stop(id);
    JsonWriter json;
    json.begin_object().field("success", done);
    if (!done) {
        json.field("message", "no running reply has this id");
    }
    json.end_object();
    HttpReply reply;
    reply.body = json.take();
    return reply;
}

} // namespace dsv4v
