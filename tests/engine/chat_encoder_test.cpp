#include "engine/chat_encoder.h"

#include <gtest/gtest.h>

#include "engine/chat_normalizer.h"
#include "engine/prompt_strings.h"
#include "tests/engine/chat_cases.h"

namespace dsv4v {
namespace {

using testing::encode_case;
using testing::encode_cases;
using testing::Expectation;
using testing::expectation_of;
using testing::json;
using testing::member;

// The reference tells wrong types from wrong values by which line of it happened to fail; for a
// client both are an invalid value.
std::string error_kind(const std::string& message) {
    if (message.find("is required") != std::string::npos) {
        return "missing_field";
    }
    return message.find("unsupported role") != std::string::npos ? "unsupported_role"
                                                                 : "invalid_value";
}

void expect_refusal(const Expected<EncodedChat>& chat, const std::string& kind) {
    ASSERT_FALSE(chat.has_value()) << chat->text();
    EXPECT_EQ(chat.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error_kind(chat.error().message), kind == "invalid_type" ? "invalid_value" : kind)
        << chat.error().message;
    EXPECT_FALSE(chat.error().param.empty()) << chat.error().message;
}

void expect_images(const EncodedChat& chat, const JsonValue& images) {
    ASSERT_EQ(chat.images.size(), images.items.size());
    for (size_t i = 0; i < chat.images.size(); ++i) {
        EXPECT_EQ(python_json(chat.images[i]), python_json(images.items[i]));
    }
    int32_t next = 0;
    for (const PromptPart& part : chat.parts) {
        if (part.image_idx >= 0) {
            EXPECT_EQ(part.image_idx, next++);
        }
    }
    EXPECT_EQ(next, static_cast<int32_t>(images.items.size()));
}

TEST(ChatEncoder, RendersEveryReferenceCase) {
    ASSERT_EQ(encode_cases().items.size(), 154U);
    for (const JsonValue& test_case : encode_cases().items) {
        SCOPED_TRACE(member(test_case, "id").text);
        const Expectation expected = expectation_of(test_case);
        const auto chat = encode_case(test_case, expected.from_server);
        if (expected.outcome == nullptr) {
            expect_refusal(chat, expected.error);
            continue;
        }
        ASSERT_TRUE(chat.has_value()) << chat.error().message;
        EXPECT_EQ(chat->text(), member(*expected.outcome, "prompt").text);
        expect_images(*chat, member(*expected.outcome, "images"));
        const bool open = chat->text().ends_with(prompt::kThinkOpen);
        EXPECT_EQ(chat->starts_in_reasoning, open);
    }
}

TEST(ChatEncoder, FixedStringsEqualTheReference) {
    const JsonValue strings = testing::read_json_file(testing::source_data("chat/templates.json"));
    const std::pair<std::string_view, std::string_view> expected[] = {
        {"bos", prompt::kBos},
        {"eos", prompt::kEos},
        {"user", prompt::kUser},
        {"assistant", prompt::kAssistant},
        {"latest_reminder", prompt::kLatestReminder},
        {"think_open", prompt::kThinkOpen},
        {"think_close", prompt::kThinkClose},
        {"dsml", prompt::kDsml},
        {"image_placeholder", prompt::kImagePlaceholder},
        {"tools_header", prompt::kToolsHeader},
        {"tools_schema_separator", prompt::kToolsSchemaSeparator},
        {"tools_footer", prompt::kToolsFooter},
        {"section_separator", prompt::kSectionSeparator},
        {"response_format_prefix", prompt::kResponseFormatPrefix},
        {"tool_calls_open", prompt::kToolCallsOpen},
        {"parameter_separator", prompt::kParameterSeparator},
        {"invoke_close", prompt::kInvokeClose},
        {"invoke_separator", prompt::kInvokeSeparator},
        {"tool_calls_close", prompt::kToolCallsClose},
        {"tool_result_open", prompt::kToolResultOpen},
        {"tool_result_close", prompt::kToolResultClose},
        {"user_block_separator", prompt::kBlockSeparator},
    };
    for (const auto& [name, text] : expected) {
        EXPECT_EQ(member(strings, name).text, text) << name;
    }
    const JsonValue& efforts = member(strings, "reasoning_effort_prefix");
    EXPECT_EQ(member(efforts, "high").text, prompt::kEffortHigh);
    EXPECT_EQ(member(efforts, "max").text, prompt::kEffortMax);
    const JsonValue& tasks = member(strings, "tasks");
    ASSERT_EQ(tasks.members.size(), prompt::kTasks.size());
    for (const auto& [name, token] : prompt::kTasks) {
        EXPECT_EQ(member(tasks, name).text, token);
    }
}

TEST(ChatEncoder, InsertionStringsEqualTheReference) {
    const JsonValue strings = testing::read_json_file(testing::source_data("chat/templates.json"));
    const auto join = [](std::initializer_list<std::string_view> pieces) {
        std::string text;
        for (const std::string_view piece : pieces) {
            text += piece;
        }
        return text;
    };
    EXPECT_EQ(member(strings, "invoke_open").text,
              join({prompt::kInvokeOpenHead, "{NAME}", prompt::kInvokeOpenTail}));
    std::string parameter = member(strings, "parameter").text;
    parameter.replace(parameter.find("{true|false}"), 12, "true");
    EXPECT_EQ(parameter, join({prompt::kParameterHead, "{KEY}", prompt::kParameterString, "{VALUE}",
                               prompt::kParameterTail}));
    parameter.replace(parameter.find("true"), 4, "false");
    EXPECT_EQ(parameter, join({prompt::kParameterHead, "{KEY}", prompt::kParameterJson, "{VALUE}",
                               prompt::kParameterTail}));
    EXPECT_EQ(member(strings, "unsupported_part").text,
              join({prompt::kUnsupportedPartHead, "{TYPE}", prompt::kUnsupportedPartTail}));
}

std::string prompt_of(std::string_view messages, const ChatOptions& options) {
    const auto chat = encode_chat(json(messages), options);
    EXPECT_TRUE(chat.has_value()) << (chat ? "" : chat.error().message);
    return chat ? chat->text() : "";
}

constexpr ChatOptions kLowEffort = {.effort = ReasoningEffort::kLow};

TEST(ChatEncoder, AppendsAHeaderAfterAnAnswer) {
    EXPECT_EQ(prompt_of(R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"}])",
                        kLowEffort),
              "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think></think>a"
              "<｜end▁of▁sentence｜><｜Assistant｜><think>");
}

TEST(ChatEncoder, TaskTokenIsNotFollowedByAHeader) {
    EXPECT_EQ(prompt_of(R"([{"role":"user","content":"q","task":"query"}])", kLowEffort),
              "<｜begin▁of▁sentence｜><｜User｜>q<｜query｜>");
}

TEST(ChatEncoder, ContinuesAnAnswer) {
    ChatOptions options = kLowEffort;
    options.continue_final_message = true;
    const auto chat = encode_chat(json(R"([{"role":"user","content":"q"},
        {"role":"assistant","content":"par","reasoning_content":"r"}])"),
                                  options);
    ASSERT_TRUE(chat.has_value());
    EXPECT_EQ(chat->text(), "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>r</think>par");
    EXPECT_FALSE(chat->starts_in_reasoning);
}

TEST(ChatEncoder, ContinuesUnfinishedReasoning) {
    ChatOptions options = kLowEffort;
    options.continue_final_message = true;
    const auto chat = encode_chat(json(R"([{"role":"user","content":"q"},
        {"role":"assistant","content":"","reasoning_content":"I wonder"}])"),
                                  options);
    ASSERT_TRUE(chat.has_value());
    EXPECT_EQ(chat->text(), "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>I wonder");
    EXPECT_TRUE(chat->starts_in_reasoning);
}

TEST(ChatEncoder, RefusesToContinueAQuestion) {
    ChatOptions options = kLowEffort;
    options.continue_final_message = true;
    const auto chat = encode_chat(json(R"([{"role":"user","content":"q"}])"), options);
    ASSERT_FALSE(chat.has_value());
    EXPECT_EQ(chat.error().param, "continue_final_message");
}

TEST(ChatEncoder, NamesTheOffendingField) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":7}]}])",
         "messages[0].content[1].text"},
        {R"([{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"function":{}}]}])",
         "messages[1].tool_calls[0].function.name"},
        {R"([{"role":"system","tools":[{"function":{"name":"f"}},{"type":"function"}]}])",
         "messages[0].tools[1].function"},
        {R"(["hi"])", "messages[0]"},
        {R"([{"role":"user","content":"q","task":["query"]}])", "messages[0].task"},
        {R"([{"role":"assistant","content":"q","reasoning_content":{}}])",
         "messages[0].reasoning_content"},
        {R"({})", "messages"},
    };
    for (const auto& [messages, param] : cases) {
        const auto chat = encode_chat(json(messages), ChatOptions{});
        ASSERT_FALSE(chat.has_value()) << messages;
        EXPECT_EQ(chat.error().param, param) << chat.error().message;
    }
}

// Fifty rounds of a tool loop: what was sent for one round stays at the front of the next, so that
// cached state stays usable.
TEST(ChatEncoder, ToolLoopPromptsExtendEachOther) {
    const JsonValue tools = json(R"([{"type":"function","function":{"name":"step","parameters":
        {"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}}}}}])");
    JsonValue messages = json(R"([{"role":"user","content":"count"}])");
    std::string previous;
    for (int round = 0; round < 50; ++round) {
        const auto normal = normalize_messages(messages, &tools, nullptr);
        ASSERT_TRUE(normal.has_value()) << normal.error().message;
        const auto chat = encode_chat(*normal, ChatOptions{});
        ASSERT_TRUE(chat.has_value()) << chat.error().message;
        const std::string text = chat->text();
        EXPECT_TRUE(chat->starts_in_reasoning);
        EXPECT_TRUE(text.starts_with(previous)) << round;
        EXPECT_GT(text.size(), previous.size());
        previous = text;
        const std::string n = std::to_string(round);
        messages.items.push_back(
            json(R"({"role":"assistant","content":null,"reasoning":"think )" + n +
                 R"(","tool_calls":[{"id":"a)" + n +
                 R"(","function":{"name":"step","arguments":"{\"n\": )" + n + R"(}"}},{"id":"b)" +
                 n + R"(","function":{"name":"step","arguments":{"s":"x\ny"}}}]})"));
        messages.items.push_back(
            json(R"({"role":"tool","tool_call_id":"b)" + n + R"(","content":"done b"})"));
        messages.items.push_back(
            json(R"({"role":"tool","tool_call_id":"a)" + n + R"(","content":{"ok":[1,2]}})"));
    }
}

} // namespace
} // namespace dsv4v
