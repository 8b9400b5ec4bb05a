#include "server/api_service.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/prompt_strings.h"
#include "server/build_info.h"
#include "server/chat_prompt.h"
#include "server/random_id.h"

namespace dsv4v {
namespace {

constexpr size_t kIdCharacters = 24;
constexpr size_t kDigestCharacters = 8;

} // namespace

RequestRules make_rules(const ServingContext& context) {
    const Options& options = context.options;
    const BackendLimits& limits = context.engine().limits();
    RequestRules rules;
    rules.vocab_size = limits.vocab_size;
    rules.context_length = limits.context_length;
    rules.served_model = options.model_id();
    rules.aliases = options.model_ids();
    rules.strict_model = options.strict_model;
    rules.strict_params = options.strict_params;
    rules.default_thinking = options.thinking;
    rules.default_effort = effort_of(options.reasoning_effort).value_or(ReasoningEffort::kHigh);
    rules.thinking_fixed_sampling = options.thinking_fixed_sampling;
    rules.drop_tools_on_none = options.drop_tools_on_none;
    rules.max_n = options.max_n;
    rules.max_timeout_s = options.request_timeout_s;
    return rules;
}

ReplyIdentity new_identity(const ServingContext& context, std::string_view prefix) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    ReplyIdentity identity;
    identity.id = fmt::format("{}{}", prefix, random_base62(kIdCharacters));
    identity.created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    identity.model = context.options.model_id();
    identity.fingerprint = fmt::format("{}-{}", build_info().commit,
                                       context.model().digest.substr(0, kDigestCharacters));
    return identity;
}

std::vector<int32_t> end_of_turn_ids(const Tokenizer& tokenizer, bool ignore_eos) {
    std::vector<int32_t> ids;
    if (ignore_eos) {
        return ids;
    }
    ids.push_back(tokenizer.eos_id());
    for (const std::string_view text :
         {prompt::kBos, prompt::kUser, prompt::kAssistant, prompt::kLatestReminder}) {
        if (const auto id = tokenizer.find_special(text)) {
            ids.push_back(*id);
        }
    }
    return ids;
}

GenerationRequest make_generation(const ServingContext& context, const HttpRequest& http,
                                  const SamplingRequest& sampling, size_t n_prompt_tokens) {
    GenerationRequest request;
    request.request_id = http.request_id;
    request.client = http.client;
    request.sampling = sampling.params;
    request.max_tokens =
        fitting_max_tokens(sampling, n_prompt_tokens, context.engine().limits().context_length);
    request.min_tokens = std::min(sampling.min_tokens, request.max_tokens);
    request.stop_token_ids = sampling.stop_token_ids;
    request.priority = sampling.priority;
    request.stream = sampling.stream.stream;
    if (sampling.timeout_s > 0) {
        request.deadline =
            std::chrono::steady_clock::now() +
            std::chrono::milliseconds(static_cast<int64_t>(sampling.timeout_s * 1000));
    }
    return request;
}

HttpReply refuse(const ServingContext& context, const HttpRequest& http, const ApiError& error) {
    return error_reply(error, http, context.error_style);
}

} // namespace dsv4v
