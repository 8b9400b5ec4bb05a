// One choice of a reply: sampled tokens in, what the client may see out. Joins token bytes to
// characters, splits reasoning, answer and tool calls, applies stop strings, and keeps the
// log-probabilities beside the text they belong to. The concatenated output does not depend on how
// tokens are grouped. Not thread-safe; one per choice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/output_parser.h"
#include "engine/token_stream.h"
#include "engine/tokenizer.h"
#include "engine/utf8.h"
#include "server/logprob_tracker.h"
#include "server/stop_matcher.h"

namespace dsv4v {

struct ChoiceOptions {
    bool chat = true;                       // false: plain text, nothing is parsed
    bool starts_in_reasoning = false;       // the prompt ended inside <think>
    std::shared_ptr<const JsonValue> tools; // declared tools, or null: text is never a call
    bool parallel_tool_calls = true;        // false: the first complete call ends the output
    bool split_reasoning = true;            // false: reasoning and its markers go to the content
    bool include_reasoning = true;
    std::vector<std::string> stops;
    bool include_stop = false; // a stop string stays in the text
    bool stop_in_reasoning = false;
    std::vector<int32_t> end_token_ids; // end the output and are not shown
    bool keep_logprobs = false;
};

struct ChoiceDelta {
    enum class Kind { kReasoning, kContent, kToolCall };
    Kind kind = Kind::kContent;
    std::string text;                   // kReasoning, kContent
    ToolCall call;                      // kToolCall
    int32_t call_idx = 0;               // kToolCall: 0-based
    std::vector<SampledToken> logprobs; // of the tokens whose text is complete with this delta
};

// How a choice ended.
struct ChoiceEnd {
    std::string finish_reason;              // "stop", "length", "tool_calls"
    std::optional<std::string> stop_string; // that ended it
    std::optional<int32_t> end_token_id;    // that ended it
    // Entries that no delta took along (tokens without text at the very end).
    std::vector<SampledToken> reasoning_logprobs;
    std::vector<SampledToken> content_logprobs;
};

class ChoiceOutput {
  public:
    // `tokenizer` must outlive it.
    ChoiceOutput(const Tokenizer& tokenizer, ChoiceOptions options);

    // Takes a sampled token; appends what became visible. Ignored after wants_stop().
    void feed(const SampledToken& token, std::vector<ChoiceDelta>& out);
    // The output is complete although the engine would go on: a stop string, a closed tool block.
    [[nodiscard]] bool wants_stop() const { return ended_; }
    // Ends the output; appends what was held back. `cause` matters unless wants_stop().
    ChoiceEnd finish(EndCause cause, std::vector<ChoiceDelta>& out);

    // Tokens of the output so far, an end token included.
    [[nodiscard]] int32_t n_tokens() const { return n_tokens_; }
    // Of these, the ones sampled while reasoning (the closing marker included).
    [[nodiscard]] int32_t n_reasoning_tokens() const { return n_reasoning_tokens_; }

  private:
    using Kind = ChoiceDelta::Kind;
    using Deltas = std::vector<ChoiceDelta>;

    void take_text(std::string_view decoded, Deltas& out);
    void take_parsed(Deltas& out);
    void take_reasoning(std::string_view text, Deltas& out);
    void take_content(std::string_view text, Deltas& out);
    void take_call(ToolCall call, Deltas& out);
    void end_reasoning(bool with_marker, Deltas& out);
    std::string finish_text(EndCause cause, Deltas& out);
    // Gives out what a matcher let through, and notes a match.
    void emit_matched(const StopMatcher& matcher, Kind kind, std::string_view text, Deltas& out);
    // `generated`: the text is part of the decoded output (not a marker of the prompt).
    void emit(Kind kind, std::string_view text, bool generated, Deltas& out);
    void open_content();
    void attach_logprobs(Deltas& out);
    void release_logprobs(Kind kind, std::vector<SampledToken>& out);
    [[nodiscard]] bool is_end_token(int32_t token_id) const;
    [[nodiscard]] int64_t reasoning_begin() const;

    const Tokenizer& tokenizer_;
    const ChoiceOptions options_;
    Utf8Stream utf8_;
    OutputParser parser_;
    StopMatcher content_stops_;
    StopMatcher reasoning_stops_;
    std::vector<OutputDelta> parsed_;

    // Where reasoning and content lie in the decoded text.
    std::string head_;              // its first bytes
    int64_t content_begin_ = -1;    // -1: no content yet
    int64_t n_reasoning_bytes_ = 0; // told by the parser
    int64_t n_reasoning_sent_ = 0;  // given out
    int64_t n_content_sent_ = 0;

    LogprobTracker logprobs_;
    int32_t n_tokens_ = 0;
    int32_t n_reasoning_tokens_ = 0;
    int32_t n_calls_ = 0;
    bool reasoning_open_ = false;
    bool marker_sent_ = false; // the opening marker of unsplit reasoning
    bool ended_ = false;
    std::optional<std::string> stop_string_;
    std::optional<int32_t> end_token_id_;
};

} // namespace dsv4v
