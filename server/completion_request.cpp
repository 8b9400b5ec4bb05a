#include "server/completion_request.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "server/chat_request.h"
#include "server/structured_output.h"

namespace dsv4v {
namespace {

constexpr int32_t kDefaultMaxTokens = 16;
constexpr int32_t kMaxLogprobs = 20;
constexpr size_t kMaxPrompts = 128;
constexpr size_t kMaxModelBytes = 1024;

using Prompt = CompletionRequest::Prompt;

constexpr std::string_view kPromptForms =
    "a string, an array of strings, an array of token ids or an array of arrays of token ids";

// Every error about the prompt names the field as a whole; the message has the index.
Error prompt_error(const std::string& path, const JsonValue& value, std::string_view wanted) {
    Error error = wrong_value(path, value, wanted);
    error.param = "prompt";
    return error;
}

std::optional<Prompt> read_ids(RequestFields& fields, const std::string& path,
                               const JsonValue& array, int32_t vocab_size) {
    Prompt prompt;
    prompt.is_text = false;
    if (array.items.empty()) {
        fields.fail(prompt_error(path, array, "at least one token id"));
        return std::nullopt;
    }
    prompt.ids.reserve(array.items.size());
    for (size_t k = 0; k < array.items.size(); ++k) {
        const std::optional<int64_t> id = array.items[k].as_int();
        if (!id || *id < 0 || *id >= vocab_size) {
            fields.fail(prompt_error(index_path(path, k), array.items[k],
                                     fmt::format("a token id from 0 to {}", vocab_size - 1)));
            return std::nullopt;
        }
        prompt.ids.push_back(static_cast<int32_t>(*id));
    }
    return prompt;
}

std::optional<Prompt> read_one_of_many(RequestFields& fields, const std::string& path,
                                       const JsonValue& item, JsonValue::Type type,
                                       int32_t vocab_size) {
    if (item.type != type) {
        fields.fail(prompt_error(path, item, "of the same kind as the first item"));
        return std::nullopt;
    }
    if (item.is_string()) {
        return Prompt{item.text, {}, true};
    }
    return read_ids(fields, path, item, vocab_size);
}

std::vector<Prompt> read_prompts(RequestFields& fields, int32_t vocab_size) {
    std::vector<Prompt> prompts;
    const JsonValue* value = fields.get("prompt");
    if (value == nullptr) {
        return prompts;
    }
    if (value->is_string()) {
        prompts.push_back({value->text, {}, true});
        return prompts;
    }
    if (!value->is_array() || value->items.empty()) {
        fields.fail(prompt_error("prompt", *value, kPromptForms));
        return prompts;
    }
    const JsonValue::Type type = value->items.front().type;
    if (type != JsonValue::Type::kString && type != JsonValue::Type::kArray) {
        if (auto prompt = read_ids(fields, "prompt", *value, vocab_size)) {
            prompts.push_back(std::move(*prompt));
        }
        return prompts;
    }
    if (value->items.size() > kMaxPrompts) {
        fields.fail(prompt_error("prompt", *value, fmt::format("at most {} prompts", kMaxPrompts)));
        return prompts;
    }
    for (size_t k = 0; k < value->items.size() && fields.ok(); ++k) {
        if (auto prompt = read_one_of_many(fields, index_path("prompt", k), value->items[k], type,
                                           vocab_size)) {
            prompts.push_back(std::move(*prompt));
        }
    }
    return prompts;
}

void refuse_suffix(RequestFields& fields) {
    const JsonValue* suffix = fields.get("suffix");
    if (suffix != nullptr && !(suffix->is_string() && suffix->text.empty())) {
        fields.fail_value("suffix", *suffix, "absent: insertion is not supported");
    }
}

} // namespace

tl::expected<CompletionRequest, ApiError> parse_completion_request(const JsonValue& body,
                                                                   const RequestRules& rules) {
    CompletionRequest request;
    RequestFields fields(body, "");
    std::string model;
    fields.ignore({"extra_body"});
    fields.read("model", model, kMaxModelBytes);
    request.prompts = read_prompts(fields, rules.vocab_size);
    request.sampling = read_sampling(fields, rules);
    request.sampling.max_tokens = request.sampling.max_tokens.value_or(kDefaultMaxTokens);
    fields.read("logprobs", request.sampling.params.n_logprobs, 0, kMaxLogprobs);
    fields.read("echo", request.echo);
    fields.read("add_bos", request.add_bos);
    fields.read("parse_special", request.parse_special);
    refuse_suffix(fields);
    const auto structured = refuse_structured_output(fields);
    if (auto result = fields.finish(rules.strict_params); !result) {
        return tl::unexpected(to_api_error(result.error()));
    }
    if (!structured) {
        return tl::unexpected(structured.error());
    }
    if (request.prompts.empty()) {
        return tl::unexpected(bad_request("missing_required", "'prompt' is required", "prompt"));
    }
    if (auto known = check_model(model, rules); !known) {
        return tl::unexpected(known.error());
    }
    return request;
}

std::vector<int32_t> prompt_ids(const CompletionRequest& request, const Prompt& prompt,
                                const Tokenizer& tokenizer) {
    if (!prompt.is_text) {
        return prompt.ids;
    }
    std::vector<int32_t> ids = tokenizer.encode(prompt.text, request.parse_special);
    const bool has_bos = !ids.empty() && ids.front() == tokenizer.bos_id();
    if ((request.add_bos && !has_bos) || ids.empty()) {
        ids.insert(ids.begin(), tokenizer.bos_id());
    }
    return ids;
}

} // namespace dsv4v
