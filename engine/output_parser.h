// Generated text -> reasoning, content and tool calls, streaming. For every way of cutting the
// text into feeds the concatenated deltas are the same. docs/chat-format.md. One per choice; not
// thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json_value.h"

namespace dsv4v {

struct ToolCall {
    std::string name;
    std::string arguments; // JSON text
    std::string raw;       // markup as generated
};

enum class EndCause { kStop, kLength };

struct OutputParserOptions {
    bool thinking = false;            // the prompt ended inside <think>
    const JsonValue* tools = nullptr; // the request's tools array, or null when there are none
};

// What one feed decided. At most one field grows per event; events are in wire order.
struct OutputDelta {
    enum class Kind { kReasoning, kContent, kToolCall };
    Kind kind;
    std::string text; // kReasoning, kContent
    ToolCall call;    // kToolCall: always complete
};

struct OutputSummary {
    bool has_tool_calls = false;
    // "stop", "length" or "tool_calls"
    std::string finish_reason;
    std::vector<std::string> repairs; // names of the tolerance rules that applied
};

class OutputParser {
  public:
    explicit OutputParser(OutputParserOptions options);
    ~OutputParser();
    OutputParser(OutputParser&&) noexcept;

    // Takes decoded text (whole characters); appends what it decided to `out`.
    void feed(std::string_view text, std::vector<OutputDelta>& out);
    // Ends the text; appends what was held back.
    OutputSummary finish(EndCause cause, std::vector<OutputDelta>& out);

    // A closed tool block was seen: the engine can stop.
    [[nodiscard]] bool wants_stop() const;
    // True while text fed now would be reasoning.
    [[nodiscard]] bool in_reasoning() const;
    // True once a tool block has begun (stop strings do not apply there).
    [[nodiscard]] bool in_tool_block() const;
    [[nodiscard]] int n_tool_calls() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace dsv4v
