// A checked chat request -> the ids that the engine evaluates. docs/chat-format.md.
#pragma once

#include <cstdint>
#include <vector>

#include <tl/expected.hpp>

#include "engine/tokenizer.h"
#include "server/chat_request.h"

namespace dsv4v {

struct ChatPrompt {
    EncodedChat encoded;
    std::vector<int32_t> ids;
};

// `trusted_content` lets message text spell control tokens (--allow-special-in-content). Errors
// carry the path of the message or part. Pure, thread-safe.
[[nodiscard]] tl::expected<ChatPrompt, ApiError>
prepare_chat_prompt(const ChatRequest& request, const Tokenizer& tokenizer, bool trusted_content);

// 400 context_length_exceeded unless the prompt and, if output is wanted, one more token fit.
[[nodiscard]] tl::expected<void, ApiError> check_context(size_t n_prompt_tokens, bool wants_output,
                                                         int32_t context_length);

// How many tokens may be generated: what was asked for, or the rest of the context.
[[nodiscard]] int32_t fitting_max_tokens(const SamplingRequest& sampling, size_t n_prompt_tokens,
                                         int32_t context_length);

} // namespace dsv4v
