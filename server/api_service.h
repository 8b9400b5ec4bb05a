// What the generating handlers share beyond the serving context, and the requests that they build
// in the same way. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/generation_request.h"
#include "server/reply_writer.h"
#include "server/request_rules.h"
#include "server/run_registry.h"
#include "server/sampling_request.h"
#include "server/serving_context.h"

namespace dsv4v {

struct ApiService {
    explicit ApiService(ServingContext& serving_context) : context(serving_context) {}
    ServingContext& context;
    RunRegistry runs;
};

// Rules of this server; the model must be loaded.
[[nodiscard]] RequestRules make_rules(const ServingContext& context);

// Id ("<prefix>" and 24 random characters), time, model and fingerprint of a new reply.
[[nodiscard]] ReplyIdentity new_identity(const ServingContext& context, std::string_view prefix);

// Ids that end a turn although nobody asked: end of sentence, and the openings of turns that only
// others may open. Empty with ignore_eos.
[[nodiscard]] std::vector<int32_t> end_of_turn_ids(const Tokenizer& tokenizer, bool ignore_eos);

// Everything of a generation that does not depend on the dialect; the prompt is not set.
[[nodiscard]] GenerationRequest make_generation(const ServingContext& context,
                                                const HttpRequest& http,
                                                const SamplingRequest& sampling,
                                                size_t n_prompt_tokens);

// The reply to an error found in the request.
[[nodiscard]] HttpReply refuse(const ServingContext& context, const HttpRequest& http,
                               const ApiError& error);

} // namespace dsv4v
