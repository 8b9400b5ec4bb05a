// Replies of POST /v1/chat/completions: stream chunks and the whole body. docs/api.md.
#pragma once

#include <string>
#include <vector>

#include "engine/tokenizer.h"
#include "server/reply_fields.h"
#include "server/reply_writer.h"
#include "server/sampling_request.h"

namespace dsv4v {

struct ChatReplyOptions {
    StreamFlags stream;
    bool thinking = false; // the prompt ended inside <think>
    bool logprobs = false;
    bool token_ids = false;
    bool legacy_function = false; // `function_call` instead of `tool_calls`
    bool reasoning_alias = false; // `reasoning` beside `reasoning_content`
    uint64_t seed = 0;
    std::vector<int32_t> stop_token_ids; // of the request
    std::vector<int32_t> prompt_ids;     // only with token_ids
};

class ChatReplyWriter final : public ReplyWriter {
  public:
    // `tokenizer` must outlive it.
    ChatReplyWriter(const Tokenizer& tokenizer, ReplyIdentity identity, ChatReplyOptions options,
                    size_t n_choices);

    void write_update(const ChoiceUpdate& update, const GenerationRun& run,
                      std::vector<std::string>& events) override;
    void write_end(const GenerationRun& run, std::vector<std::string>& events) override;
    [[nodiscard]] std::string empty_event() const override;
    [[nodiscard]] std::string progress_event(const GenerationRun& run) const override;
    void collect(ChoiceUpdate update) override;
    [[nodiscard]] std::string body(const GenerationRun& run) override;

  private:
    struct Message { // a choice of a whole body
        std::string content;
        std::string reasoning;
        std::vector<ToolCall> calls;
        std::vector<std::string> call_ids;
        std::vector<SampledToken> content_logprobs;
        std::vector<SampledToken> reasoning_logprobs;
        std::vector<int32_t> token_ids;
        ChoiceEnd end;
    };
    // What varies from chunk to chunk.
    struct Chunk;

    void write_head(JsonWriter& json, std::string_view object) const;
    [[nodiscard]] std::string chunk(const Chunk& chunk, const GenerationRun& run);
    void write_delta(JsonWriter& json, const Chunk& chunk) const;
    void write_call_delta(JsonWriter& json, const Chunk& chunk) const;
    void write_logprobs(JsonWriter& json, const std::vector<SampledToken>& content,
                        const std::vector<SampledToken>& reasoning) const;
    void write_chunk_logprobs(JsonWriter& json, const Chunk& chunk) const;
    void write_reasoning(JsonWriter& json, std::string_view text) const;
    void write_message(JsonWriter& json, const Message& message) const;
    void write_calls(JsonWriter& json, const Message& message) const;
    [[nodiscard]] std::string finish_reason(const ChoiceEnd& end) const;
    void write_seed(JsonWriter& json) const;

    const Tokenizer& tokenizer_;
    const ReplyIdentity identity_;
    const ChatReplyOptions options_;
    std::vector<Message> messages_;
    std::vector<std::vector<int32_t>> unsent_ids_; // per choice, for the next chunk
    bool prompt_ids_sent_ = false;
};

// "call_" and 24 unguessable characters.
[[nodiscard]] std::string new_call_id();

} // namespace dsv4v
