// Messages -> prompt parts, exactly as the model author's encoder (vision edition) renders them.
// docs/chat-format.md. Text that came from a client, a tool or the model is untrusted: it never
// yields control tokens. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json_value.h"
#include "engine/tokenizer.h"
#include "loaders/base/error.h"

namespace dsv4v {

enum class ThinkingMode { kChat, kThinking };
enum class ReasoningEffort { kLow, kHigh, kMax };

struct ChatOptions {
    ThinkingMode mode = ThinkingMode::kThinking;
    ReasoningEffort effort = ReasoningEffort::kHigh;
    bool drop_thinking = true;
    bool add_bos = true;
    // Appends a generation header when the encoding does not end with one or with a task token;
    // the model author's encoder leaves that to its caller.
    bool add_generation_header = true;
    // The last message is an assistant message to be continued: no end token after it, and without
    // content (and with thinking) its reasoning stays open.
    bool continue_final_message = false;
    int32_t n_context_messages = 0; // leading messages already encoded by an earlier call
};

// One piece of the prompt in order: text, or the image with this index.
struct PromptPart {
    std::string text;
    bool trusted = false;
    int32_t image_idx = -1; // >= 0: an image stands here and text is empty
};

struct EncodedChat {
    std::vector<PromptPart> parts;
    std::vector<JsonValue> images;    // image records in prompt order
    bool starts_in_reasoning = false; // generation begins inside <think>

    // The prompt as one string, images spelled as the placeholder token (for /apply-template).
    [[nodiscard]] std::string text() const;
};

// Names of the author's encoder: "chat" and "thinking"; "low", "high" and "max". Other names are
// errors; the wider names of requests are mapped by the server.
[[nodiscard]] Expected<ThinkingMode> parse_thinking_mode(std::string_view name);
[[nodiscard]] Expected<ReasoningEffort> parse_reasoning_effort(std::string_view name);

// `messages` is the OpenAI-style array after HTTP-level normalisation: tools and response_format
// sit on the message they belong to. Errors: kInvalidArgument with param = "messages[i].field".
[[nodiscard]] Expected<EncodedChat> encode_chat(const JsonValue& messages,
                                                const ChatOptions& options);

// Token ids of a prompt without images.
[[nodiscard]] std::vector<int32_t> tokenize_prompt(const Tokenizer& tokenizer,
                                                   const std::vector<PromptPart>& parts);

} // namespace dsv4v
