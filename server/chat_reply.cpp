#include "server/chat_reply.h"

#include <iterator>
#include <utility>

#include "server/random_id.h"

namespace dsv4v {

std::string new_call_id() {
    return "call_" + random_base62(24);
}

struct ChatReplyWriter::Chunk {
    enum class Kind { kRole, kReasoning, kContent, kCallStart, kCallArguments, kEnd };
    Kind kind = Kind::kRole;
    size_t choice_idx = 0;
    const ChoiceDelta* delta = nullptr; // kReasoning .. kCallArguments
    std::string call_id;                // kCallStart
    const ChoiceEnd* end = nullptr;     // kEnd
};

ChatReplyWriter::ChatReplyWriter(const Tokenizer& tokenizer, ReplyIdentity identity,
                                 ChatReplyOptions options, size_t n_choices)
    : tokenizer_(tokenizer), identity_(std::move(identity)), options_(std::move(options)),
      messages_(n_choices), unsent_ids_(n_choices) {}

void ChatReplyWriter::write_head(JsonWriter& json, std::string_view object) const {
    json.field("id", std::string_view(identity_.id)).field("object", object);
    json.field("created", identity_.created).field("model", std::string_view(identity_.model));
    json.field("system_fingerprint", std::string_view(identity_.fingerprint));
}

void ChatReplyWriter::write_seed(JsonWriter& json) const {
    json.key("dsv4v").begin_object().field("seed", options_.seed).end_object();
}

std::string ChatReplyWriter::finish_reason(const ChoiceEnd& end) const {
    return options_.legacy_function && end.finish_reason == "tool_calls" ? "function_call"
                                                                         : end.finish_reason;
}

void ChatReplyWriter::write_reasoning(JsonWriter& json, std::string_view text) const {
    json.field("reasoning_content", text);
    if (options_.reasoning_alias) {
        json.field("reasoning", text);
    }
}

void ChatReplyWriter::write_logprobs(JsonWriter& json, const std::vector<SampledToken>& content,
                                     const std::vector<SampledToken>& reasoning) const {
    json.key("logprobs");
    if (!options_.logprobs) {
        json.null();
        return;
    }
    json.begin_object().key("content");
    write_logprob_entries(json, tokenizer_, content);
    json.key("refusal").null();
    if (!reasoning.empty()) {
        json.key("reasoning_content");
        write_logprob_entries(json, tokenizer_, reasoning);
    }
    json.end_object();
}

// Streaming

void ChatReplyWriter::write_call_delta(JsonWriter& json, const Chunk& chunk) const {
    const ChoiceDelta& delta = *chunk.delta;
    const bool start = chunk.kind == Chunk::Kind::kCallStart;
    if (!options_.legacy_function) {
        json.key("tool_calls").begin_array().begin_object().field("index", delta.call_idx);
        if (start) {
            json.field("id", std::string_view(chunk.call_id)).field("type", "function");
        }
        json.key("function");
    } else {
        json.key("function_call");
    }
    json.begin_object();
    if (start) {
        json.field("name", std::string_view(delta.call.name));
    }
    json.field("arguments", start ? std::string_view() : std::string_view(delta.call.arguments));
    json.end_object();
    if (!options_.legacy_function) {
        json.end_object().end_array();
    }
}

void ChatReplyWriter::write_delta(JsonWriter& json, const Chunk& chunk) const {
    json.key("delta").begin_object();
    switch (chunk.kind) {
    case Chunk::Kind::kRole:
        json.field("role", "assistant").key("content");
        if (options_.thinking) {
            json.null();
        } else {
            json.value("");
        }
        break;
    case Chunk::Kind::kReasoning:
        write_reasoning(json, chunk.delta->text);
        break;
    case Chunk::Kind::kContent:
        json.field("content", std::string_view(chunk.delta->text));
        break;
    case Chunk::Kind::kCallStart:
    case Chunk::Kind::kCallArguments:
        write_call_delta(json, chunk);
        break;
    case Chunk::Kind::kEnd:
        break;
    }
    json.end_object();
}

// Text chunks and, with leftover entries, the last chunk.
void ChatReplyWriter::write_chunk_logprobs(JsonWriter& json, const Chunk& chunk) const {
    static const std::vector<SampledToken> kNone;
    const std::vector<SampledToken>* content = &kNone;
    const std::vector<SampledToken>* reasoning = &kNone;
    if (chunk.kind == Chunk::Kind::kContent) {
        content = &chunk.delta->logprobs;
    } else if (chunk.kind == Chunk::Kind::kReasoning) {
        reasoning = &chunk.delta->logprobs;
    } else if (chunk.kind == Chunk::Kind::kEnd) {
        content = &chunk.end->content_logprobs;
        reasoning = &chunk.end->reasoning_logprobs;
    }
    if (content->empty() && reasoning->empty()) {
        json.key("logprobs").null();
    } else {
        write_logprobs(json, *content, *reasoning);
    }
}

std::string ChatReplyWriter::chunk(const Chunk& chunk, const GenerationRun& run) {
    JsonWriter json;
    json.begin_object();
    write_head(json, "chat.completion.chunk");
    json.key("choices").begin_array().begin_object();
    json.field("index", static_cast<uint64_t>(chunk.choice_idx));
    write_delta(json, chunk);
    write_chunk_logprobs(json, chunk);
    if (chunk.end != nullptr) {
        json.field("finish_reason", std::string_view(finish_reason(*chunk.end)));
        write_stop_reason(json, *chunk.end, options_.stop_token_ids);
    } else {
        json.key("finish_reason").null();
    }
    if (options_.token_ids) {
        write_ids(json, "token_ids", unsent_ids_[chunk.choice_idx]);
        unsent_ids_[chunk.choice_idx].clear();
    }
    json.end_object().end_array();
    if (options_.stream.continuous_usage) {
        write_usage(json, run.totals());
    } else if (options_.stream.include_usage) {
        json.key("usage").null();
    }
    if (options_.stream.timings_per_token) {
        write_timings(json, run.totals());
    }
    if (chunk.kind == Chunk::Kind::kEnd) {
        write_seed(json);
    }
    if (options_.token_ids && !std::exchange(prompt_ids_sent_, true)) {
        write_ids(json, "prompt_token_ids", options_.prompt_ids);
    }
    json.end_object();
    return json.take();
}

void ChatReplyWriter::write_update(const ChoiceUpdate& update, const GenerationRun& run,
                                   std::vector<std::string>& events) {
    const size_t idx = update.choice_idx;
    unsent_ids_[idx].insert(unsent_ids_[idx].end(), update.token_ids.begin(),
                            update.token_ids.end());
    if (update.first) {
        events.push_back(chunk({Chunk::Kind::kRole, idx, nullptr, {}, nullptr}, run));
    }
    for (const ChoiceDelta& delta : update.deltas) {
        if (delta.kind != ChoiceDelta::Kind::kToolCall) {
            const auto kind = delta.kind == ChoiceDelta::Kind::kContent ? Chunk::Kind::kContent
                                                                        : Chunk::Kind::kReasoning;
            events.push_back(chunk({kind, idx, &delta, {}, nullptr}, run));
        } else if (!options_.legacy_function || delta.call_idx == 0) {
            events.push_back(
                chunk({Chunk::Kind::kCallStart, idx, &delta, new_call_id(), nullptr}, run));
            events.push_back(chunk({Chunk::Kind::kCallArguments, idx, &delta, {}, nullptr}, run));
        }
    }
    if (update.end) {
        events.push_back(chunk({Chunk::Kind::kEnd, idx, nullptr, {}, &*update.end}, run));
    }
}

void ChatReplyWriter::write_end(const GenerationRun& run, std::vector<std::string>& events) {
    if (!options_.stream.include_usage) {
        return;
    }
    JsonWriter json;
    json.begin_object();
    write_head(json, "chat.completion.chunk");
    json.key("choices").begin_array().end_array();
    write_usage(json, run.totals());
    write_timings(json, run.totals());
    json.end_object();
    events.push_back(json.take());
}

std::string ChatReplyWriter::empty_event() const {
    JsonWriter json;
    json.begin_object();
    write_head(json, "chat.completion.chunk");
    json.key("choices").begin_array().begin_object().field("index", 0);
    json.key("delta").begin_object().end_object();
    json.key("logprobs").null().key("finish_reason").null();
    json.end_object().end_array();
    if (options_.stream.include_usage) {
        json.key("usage").null();
    }
    json.end_object();
    return json.take();
}

std::string ChatReplyWriter::progress_event(const GenerationRun& run) const {
    JsonWriter json;
    json.begin_object();
    write_head(json, "chat.completion.chunk");
    json.key("choices").begin_array().end_array();
    if (options_.stream.include_usage) {
        json.key("usage").null();
    }
    write_progress(json, run);
    json.end_object();
    return json.take();
}

// Whole bodies

void ChatReplyWriter::collect(ChoiceUpdate update) {
    Message& message = messages_[update.choice_idx];
    message.token_ids.insert(message.token_ids.end(), update.token_ids.begin(),
                             update.token_ids.end());
    for (ChoiceDelta& delta : update.deltas) {
        if (delta.kind == ChoiceDelta::Kind::kToolCall) {
            message.calls.push_back(std::move(delta.call));
            message.call_ids.push_back(new_call_id());
            continue;
        }
        const bool content = delta.kind == ChoiceDelta::Kind::kContent;
        (content ? message.content : message.reasoning) += delta.text;
        auto& logprobs = content ? message.content_logprobs : message.reasoning_logprobs;
        std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(logprobs));
    }
    if (update.end) {
        message.end = std::move(*update.end);
        const ChoiceEnd& end = message.end;
        message.content_logprobs.insert(message.content_logprobs.end(),
                                        end.content_logprobs.begin(), end.content_logprobs.end());
        message.reasoning_logprobs.insert(message.reasoning_logprobs.end(),
                                          end.reasoning_logprobs.begin(),
                                          end.reasoning_logprobs.end());
    }
}

void ChatReplyWriter::write_calls(JsonWriter& json, const Message& message) const {
    if (message.calls.empty()) {
        return;
    }
    if (options_.legacy_function) {
        const ToolCall& call = message.calls.front();
        json.key("function_call").begin_object().field("name", std::string_view(call.name));
        json.field("arguments", std::string_view(call.arguments)).end_object();
        return;
    }
    json.key("tool_calls").begin_array();
    for (size_t k = 0; k < message.calls.size(); ++k) {
        const ToolCall& call = message.calls[k];
        json.begin_object().field("id", std::string_view(message.call_ids[k]));
        json.field("type", "function").field("index", static_cast<uint64_t>(k));
        json.key("function").begin_object().field("name", std::string_view(call.name));
        json.field("arguments", std::string_view(call.arguments)).end_object().end_object();
    }
    json.end_array();
}

void ChatReplyWriter::write_message(JsonWriter& json, const Message& message) const {
    json.key("message").begin_object().field("role", "assistant").key("content");
    if (message.content.empty() && !message.calls.empty()) {
        json.null();
    } else {
        json.value(std::string_view(message.content));
    }
    if (!message.reasoning.empty()) {
        write_reasoning(json, message.reasoning);
    }
    write_calls(json, message);
    json.key("refusal").null().end_object();
}

std::string ChatReplyWriter::body(const GenerationRun& run) {
    JsonWriter json;
    json.begin_object();
    write_head(json, "chat.completion");
    json.key("choices").begin_array();
    for (size_t k = 0; k < messages_.size(); ++k) {
        const Message& message = messages_[k];
        json.begin_object().field("index", static_cast<uint64_t>(k));
        write_message(json, message);
        write_logprobs(json, message.content_logprobs, message.reasoning_logprobs);
        json.field("finish_reason", std::string_view(finish_reason(message.end)));
        write_stop_reason(json, message.end, options_.stop_token_ids);
        if (options_.token_ids) {
            write_ids(json, "token_ids", message.token_ids);
        }
        json.end_object();
    }
    json.end_array();
    write_usage(json, run.totals());
    write_timings(json, run.totals());
    write_seed(json);
    if (options_.token_ids) {
        write_ids(json, "prompt_token_ids", options_.prompt_ids);
    }
    json.end_object();
    return json.take();
}

} // namespace dsv4v
