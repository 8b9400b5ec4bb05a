#include "server/chat_prompt.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/chat_normalizer.h"

namespace dsv4v {
namespace {

ChatOptions chat_options(const ChatRequest& request) {
    ChatOptions options;
    options.mode = request.thinking.mode;
    options.effort = request.thinking.effort;
    options.drop_thinking = request.thinking.drop_thinking;
    options.add_generation_header = request.add_generation_header;
    options.continue_final_message = request.continue_final;
    return options;
}

// The one place that decides about pictures: this server has no picture encoder.
tl::expected<void, ApiError> refuse_images(const EncodedChat& encoded) {
    if (encoded.images.empty()) {
        return {};
    }
    return tl::unexpected(bad_request(
        "not_supported",
        "'messages' contain an image, but this server was started without picture support",
        "messages"));
}

} // namespace

tl::expected<ChatPrompt, ApiError>
prepare_chat_prompt(const ChatRequest& request, const Tokenizer& tokenizer, bool trusted_content) {
    const JsonValue* tools = request.tools.has_tools() ? &request.tools.tools : nullptr;
    const auto messages = normalize_messages(request.messages, tools, nullptr);
    if (!messages) {
        return tl::unexpected(to_api_error(messages.error()));
    }
    auto encoded = encode_chat(*messages, chat_options(request));
    if (!encoded) {
        return tl::unexpected(to_api_error(encoded.error()));
    }
    if (auto images = refuse_images(*encoded); !images) {
        return tl::unexpected(images.error());
    }
    if (trusted_content) {
        for (PromptPart& part : encoded->parts) {
            part.trusted = true;
        }
    }
    ChatPrompt prompt{std::move(*encoded), {}};
    prompt.ids = tokenize_prompt(tokenizer, prompt.encoded.parts);
    return prompt;
}

tl::expected<void, ApiError> check_context(size_t n_prompt_tokens, bool wants_output,
                                           int32_t context_length) {
    const size_t n_needed = n_prompt_tokens + (wants_output ? 1 : 0);
    if (n_needed <= static_cast<size_t>(context_length)) {
        return {};
    }
    ApiError error =
        bad_request("context_length_exceeded",
                    fmt::format("the prompt has {} tokens{}, the context of this server holds {}",
                                n_prompt_tokens, wants_output ? " and needs room for output" : "",
                                context_length));
    error.numbers = {{"n_prompt_tokens", static_cast<int64_t>(n_prompt_tokens)},
                     {"n_ctx", context_length}};
    return tl::unexpected(std::move(error));
}

int32_t fitting_max_tokens(const SamplingRequest& sampling, size_t n_prompt_tokens,
                           int32_t context_length) {
    const int32_t left = context_length - static_cast<int32_t>(n_prompt_tokens);
    return std::min(sampling.max_tokens.value_or(left), left);
}

} // namespace dsv4v
