// Parses one block of tool calls in a text that may still grow. Tolerance rules:
// docs/chat-format.md. Looks at each character a bounded number of times. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/output_parser.h"
#include "engine/tool_schemas.h"

namespace dsv4v {

class ToolBlockParser {
  public:
    enum class Status {
        kNeedMore, // the text ends inside the block
        kClosed,   // the closing wrapper, or for orphan calls any other text, ended the block
        kNotCalls, // an orphan call that does not count: its opener is ordinary text
    };

    // `is_orphan`: the block has no opening wrapper and `pos` is at its first invoke opener;
    // otherwise `pos` is behind the opening wrapper. `schemas` outlives the parser.
    ToolBlockParser(const ToolSchemas& schemas, bool is_orphan, size_t pos)
        : schemas_(&schemas), is_orphan_(is_orphan), pos_(pos), scan_(pos) {}

    // Goes on as far as `text` decides; appends every call that closed. `text` keeps all earlier
    // characters at their places.
    Status advance(std::string_view text, std::vector<ToolCall>& calls);

    [[nodiscard]] bool is_orphan() const { return is_orphan_; }
    [[nodiscard]] int n_calls() const { return n_calls_; }
    // Something other than calls and white space was skipped.
    [[nodiscard]] bool is_malformed() const { return is_malformed_; }
    // Behind the last character that belongs to the block.
    [[nodiscard]] size_t pos() const { return pos_; }

  private:
    enum class Place { kBetweenCalls, kInCall, kInValue, kSkipping };
    // What one step of the parser did.
    enum class Step { kMoved, kNeedMore, kClosed, kNotCalls };

    Step step_between_calls(std::string_view text);
    Step step_in_call(std::string_view text, std::vector<ToolCall>& calls);
    Step step_in_value(std::string_view text);
    Step step_skipping(std::string_view text);
    bool skip_blanks(std::string_view text);
    bool has_tag_end(std::string_view text);
    Step begin_call(std::string_view name, size_t end);
    Step end_call(std::string_view text, size_t end, std::vector<ToolCall>& calls);
    Step drop_call();
    [[nodiscard]] bool counts() const;
    void add_parameter(std::string_view value);

    const ToolSchemas* schemas_;
    bool is_orphan_;
    Place place_ = Place::kBetweenCalls;
    size_t pos_;  // everything before is parsed
    size_t scan_; // everything before holds nothing of what is being looked for
    int n_calls_ = 0;
    bool is_malformed_ = false;

    // The call being read.
    size_t call_begin_ = 0;
    std::string name_;
    std::string arguments_; // members so far
    std::unordered_set<std::string> keys_;
    std::string key_;
    std::optional<bool> is_string_;
};

} // namespace dsv4v
