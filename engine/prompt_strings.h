// The fixed strings of the prompt format (docs/chat-format.md), byte for byte as the model was
// trained on them. All of them are trusted text: control-token spellings inside become tokens.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace dsv4v::prompt {

inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kLatestReminder = "<｜latest_reminder｜>";
inline constexpr std::string_view kThinkOpen = "<think>";
inline constexpr std::string_view kThinkClose = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";
inline constexpr std::string_view kImagePlaceholder = "<｜deepseek_image｜>";
inline constexpr std::string_view kToolsHeader =
    "## Tools\n"
    "\n"
    "You have access to a set of tools to help answer the user's question. You can "
    "invoke tools by writing a \"<｜DSML｜tool_calls>\" block like the following:\n"
    "\n"
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\" "
    "string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>\n"
    "\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all "
    "other types (numbers, booleans, arrays, objects), pass the value in JSON format and "
    "set `string=\"false\"`.\n"
    "\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete "
    "reasoning inside <think>...</think> BEFORE any tool calls or final response.\n"
    "\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n"
    "\n"
    "### Available Tool Schemas\n"
    "\n";
inline constexpr std::string_view kToolsSchemaSeparator = "\n";
inline constexpr std::string_view kToolsFooter =
    "\n\n"
    "You MUST strictly follow the above defined tool name and parameter schemas to "
    "invoke tool calls.\n";
inline constexpr std::string_view kSectionSeparator = "\n\n";
inline constexpr std::string_view kResponseFormatPrefix =
    "## Response Format:\n"
    "\n"
    "You MUST strictly adhere to the following schema to reply:\n";
inline constexpr std::string_view kToolCallsOpen = "\n\n<｜DSML｜tool_calls>\n";
inline constexpr std::string_view kParameterSeparator = "\n";
inline constexpr std::string_view kInvokeClose = "\n</｜DSML｜invoke>";
inline constexpr std::string_view kInvokeSeparator = "\n";
inline constexpr std::string_view kToolCallsClose = "\n</｜DSML｜tool_calls>";
inline constexpr std::string_view kToolResultOpen = "<tool_result>";
inline constexpr std::string_view kToolResultClose = "</tool_result>";
inline constexpr std::string_view kBlockSeparator = "\n\n";

// Reasoning effort texts; low effort adds nothing.
inline constexpr std::string_view kEffortHigh =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the "
    "problem to resolve the root cause, rigorously stress-testing your logic against all "
    "potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every "
    "intermediate step, considered alternative, and rejected hypothesis to ensure "
    "absolutely no assumption is left unchecked.\n"
    "\n";
inline constexpr std::string_view kEffortMax =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to "
    "chance: exhaustively decompose the problem into its most fundamental components, "
    "trace every causal chain to its root, and resolve the underlying cause rather than "
    "any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from "
    "multiple angles and are certain that no assumption remains unchecked and no error "
    "remains undiscovered.\n"
    "\n";

// Strings around inserted names and values.
inline constexpr std::string_view kInvokeOpenHead = "<｜DSML｜invoke name=\"";
inline constexpr std::string_view kInvokeOpenTail = "\">\n";
inline constexpr std::string_view kParameterHead = "<｜DSML｜parameter name=\"";
inline constexpr std::string_view kParameterString = "\" string=\"true\">";
inline constexpr std::string_view kParameterJson = "\" string=\"false\">";
inline constexpr std::string_view kParameterTail = "</｜DSML｜parameter>";
inline constexpr std::string_view kUnsupportedPartHead = "[Unsupported ";
inline constexpr std::string_view kUnsupportedPartTail = "]";

// Task names of requests and the token that asks for each.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTasks = {{
    {"action", "<｜action｜>"},
    {"query", "<｜query｜>"},
    {"authority", "<｜authority｜>"},
    {"domain", "<｜domain｜>"},
    {"title", "<｜title｜>"},
    {"read_url", "<｜read_url｜>"},
}};

} // namespace dsv4v::prompt
