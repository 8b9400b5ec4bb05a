#include "server/completion_handler.h"

#include <utility>

#include "server/chat_prompt.h"
#include "server/chat_request.h"
#include "server/completion_reply.h"
#include "server/completion_request.h"
#include "server/serve_reply.h"

namespace dsv4v {
namespace {

struct PreparedCompletion {
    CompletionRequest request;
    std::vector<std::vector<int32_t>> prompts; // ids of request.prompts
};

tl::expected<PreparedCompletion, ApiError> prepare(const ServingContext& context,
                                                   std::string_view body) {
    const auto json = parse_body(body);
    if (!json) {
        return tl::unexpected(json.error());
    }
    auto request = parse_completion_request(*json, make_rules(context));
    if (!request) {
        return tl::unexpected(request.error());
    }
    PreparedCompletion prepared{std::move(*request), {}};
    const bool wants_output = *prepared.request.sampling.max_tokens > 0;
    for (const CompletionRequest::Prompt& prompt : prepared.request.prompts) {
        prepared.prompts.push_back(prompt_ids(prepared.request, prompt, context.model().tokenizer));
        auto fits = check_context(prepared.prompts.back().size(), wants_output,
                                  context.engine().limits().context_length);
        if (!fits) {
            return tl::unexpected(fits.error());
        }
    }
    return prepared;
}

ChoiceOptions choice_options(const SamplingRequest& sampling, const GenerationRequest& generation) {
    ChoiceOptions options;
    options.chat = false;
    options.stops = sampling.stops;
    options.include_stop = sampling.include_stop;
    options.end_token_ids = generation.stop_token_ids;
    options.keep_logprobs = sampling.params.n_logprobs >= 0;
    return options;
}

RunPlan completion_plan(const ServingContext& context, const HttpRequest& http,
                        const PreparedCompletion& prepared, const std::string& reply_id) {
    const SamplingRequest& sampling = prepared.request.sampling;
    RunPlan plan;
    plan.reply_id = reply_id;
    for (const std::vector<int32_t>& ids : prepared.prompts) {
        GenerationRequest generation = make_generation(context, http, sampling, ids.size());
        generation.prompt = ids;
        generation.prompt_logprobs = prepared.request.echo && sampling.params.n_logprobs >= 0;
        if (!sampling.ignore_eos) {
            generation.stop_token_ids.push_back(context.model().tokenizer.eos_id());
        }
        plan.n_prompt_tokens += static_cast<int32_t>(ids.size());
        for (int32_t k = 0; k < sampling.n; ++k) {
            generation.choice_idx = k;
            plan.choices.push_back({generation, choice_options(sampling, generation)});
        }
    }
    return plan;
}

CompletionReplyOptions reply_options(const Tokenizer& tokenizer,
                                     const PreparedCompletion& prepared) {
    const CompletionRequest& request = prepared.request;
    CompletionReplyOptions options;
    options.stream = request.sampling.stream;
    options.logprobs = request.sampling.params.n_logprobs >= 0;
    options.token_ids = request.sampling.return_token_ids;
    options.seed = request.sampling.params.seed;
    options.stop_token_ids = request.sampling.stop_token_ids;
    for (size_t p = 0; p < prepared.prompts.size(); ++p) {
        const std::vector<int32_t>& ids = prepared.prompts[p];
        std::optional<CompletionReplyOptions::Echo> echo;
        if (request.echo) {
            const auto& prompt = request.prompts[p];
            echo = {prompt.is_text ? prompt.text : tokenizer.decode(ids, false), ids};
        }
        for (int32_t k = 0; k < request.sampling.n; ++k) {
            options.echoes.push_back(echo);
            options.prompt_ids.push_back(options.token_ids ? ids : std::vector<int32_t>{});
        }
    }
    return options;
}

} // namespace

HttpReply handle_completion(ApiService& service, const HttpRequest& http) {
    ServingContext& context = service.context;
    http.record->model = context.options.model_id();
    const auto prepared = prepare(context, http.body);
    if (!prepared) {
        return refuse(context, http, prepared.error());
    }
    const ReplyIdentity identity = new_identity(context, "cmpl-");
    auto run = GenerationRun::start(
        context, service.runs, completion_plan(context, http, *prepared, identity.id), http.record);
    if (!run) {
        return refuse(context, http, run.error());
    }
    const Tokenizer& tokenizer = context.model().tokenizer;
    auto writer = std::make_unique<CompletionReplyWriter>(tokenizer, identity,
                                                          reply_options(tokenizer, *prepared));
    return serve_reply(context, http, prepared->request.sampling.stream, std::move(*run),
                       std::move(writer));
}

} // namespace dsv4v
