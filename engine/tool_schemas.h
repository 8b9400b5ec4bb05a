// What the output parser needs to know of the declared tools. Immutable after creation.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/json_value.h"

namespace dsv4v {

class ToolSchemas {
  public:
    // `tools` is the tools array of a request; entries without a function name are ignored.
    explicit ToolSchemas(const JsonValue& tools);

    [[nodiscard]] bool is_declared(const std::string& tool) const;
    // True if the schema of this parameter allows a string; false for undeclared ones.
    [[nodiscard]] bool allows_string(const std::string& tool, const std::string& parameter) const;
    // Names of the parameters that a call must have.
    [[nodiscard]] const std::vector<std::string>& required(const std::string& tool) const;

  private:
    struct Tool {
        std::unordered_set<std::string> string_parameters;
        std::vector<std::string> required;
    };
    std::unordered_map<std::string, Tool> tools_;
};

} // namespace dsv4v
