// The request fields about tools: `tools`, `tool_choice`, `parallel_tool_calls` and the older
// `functions`, `function_call`. docs/api.md "Tools".
#pragma once

#include <string>

#include "server/request_fields.h"
#include "server/request_rules.h"

namespace dsv4v {

struct ToolRequest {
    enum class Choice { kNone, kAuto, kRequired, kNamed };

    JsonValue tools; // array of {"type":"function","function":{...}}; null: none
    Choice choice = Choice::kAuto;
    std::string name;          // kNamed
    bool parallel = true;      // false: generation ends after the first complete call
    bool legacy_reply = false; // the request used `functions`: the reply has `function_call`

    [[nodiscard]] bool has_tools() const { return tools.is_array(); }
};

// Validates and reads them; errors stick to `fields`. `allowed_tools` is applied: tools outside
// the subset are removed.
[[nodiscard]] ToolRequest read_tools(RequestFields& fields, const RequestRules& rules);

} // namespace dsv4v
