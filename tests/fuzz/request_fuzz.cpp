// Any bytes as the body of a request: parsing, checking, prompt rendering. Nothing may crash, and
// every refusal must say why with a status that blames the request.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine/utf8.h"
#include "loaders/base/check.h"
#include "server/chat_prompt.h"
#include "server/completion_request.h"
#include "tests/small_tokenizer.h"

namespace dsv4v {
namespace {

void check_error(const ApiError& error) {
    DSV4V_CHECK(error.status == 400 || error.status == 404 || error.status == 501);
    DSV4V_CHECK(!error.message.empty());
    DSV4V_CHECK(is_valid_utf8(error_body(error, "request", {})));
}

RequestRules rules_of(const Tokenizer& tokenizer, bool strict) {
    RequestRules rules;
    rules.vocab_size = tokenizer.vocab_size();
    rules.context_length = 4096;
    rules.served_model = "tiny";
    rules.strict_model = strict;
    rules.strict_params = strict;
    return rules;
}

void check_sampling(const SamplingRequest& sampling) {
    const SamplingParams& params = sampling.params;
    DSV4V_CHECK(params.temperature >= 0 && params.temperature <= 2);
    DSV4V_CHECK(params.top_p > 0 && params.top_p <= 1);
    DSV4V_CHECK(params.repetition_penalty > 0 && params.repetition_penalty <= 2);
    DSV4V_CHECK(sampling.n >= 1 && sampling.n <= 8);
}

void try_chat(const JsonValue& body, const Tokenizer& tokenizer, bool strict) {
    const auto request = parse_chat_request(body, rules_of(tokenizer, strict));
    if (!request) {
        check_error(request.error());
        return;
    }
    check_sampling(request->sampling);
    const auto prompt = prepare_chat_prompt(*request, tokenizer, false);
    if (!prompt) {
        check_error(prompt.error());
        return;
    }
    DSV4V_CHECK(!prompt->ids.empty());
}

void try_completion(const JsonValue& body, const Tokenizer& tokenizer, bool strict) {
    const auto request = parse_completion_request(body, rules_of(tokenizer, strict));
    if (!request) {
        check_error(request.error());
        return;
    }
    check_sampling(request->sampling);
    for (const auto& prompt : request->prompts) {
        DSV4V_CHECK(!prompt_ids(*request, prompt, tokenizer).empty());
    }
}

} // namespace
} // namespace dsv4v

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const dsv4v::Tokenizer tokenizer = dsv4v::testing::small_tokenizer();
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto body = dsv4v::parse_body(text);
    if (!body) {
        dsv4v::check_error(body.error());
        return 0;
    }
    for (const bool strict : {false, true}) {
        dsv4v::try_chat(*body, tokenizer, strict);
        dsv4v::try_completion(*body, tokenizer, strict);
    }
    return 0;
}
