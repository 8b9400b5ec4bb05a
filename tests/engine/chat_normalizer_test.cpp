#include "engine/chat_normalizer.h"

#include <gtest/gtest.h>

#include "tests/engine/chat_golden.h"

namespace dsv4v {
namespace {

using testing::json;

// JSON of the normalised messages, or the path of the refused field.
std::string normal(std::string_view messages, std::string_view tools = "",
                   std::string_view schema = "") {
    const JsonValue tools_value = tools.empty() ? JsonValue() : json(tools);
    const JsonValue schema_value = schema.empty() ? JsonValue() : json(schema);
    const auto result = normalize_messages(json(messages), tools.empty() ? nullptr : &tools_value,
                                           schema.empty() ? nullptr : &schema_value);
    return result ? python_json(*result) : "refused " + result.error().param;
}

TEST(ChatNormalizer, JoinsLeadingSystemMessages) {
    EXPECT_EQ(normal(R"([{"role":"system","content":"a"},{"role":"developer","content":"b"},
                         {"role":"user","content":"q"},{"role":"system","content":"c"}])"),
              R"([{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "q"}, )"
              R"({"role": "system", "content": "c"}])");
}

TEST(ChatNormalizer, JoinsLeadingSystemParts) {
    EXPECT_EQ(normal(R"([{"role":"system","content":"a"},
        {"role":"system","content":[{"type":"image_url","image_url":{"url":"u"}}]},
        {"role":"system","content":"c"}])"),
              R"([{"role": "system", "content": [{"type": "text", "text": "a"}, )"
              R"({"type": "image_url", "image_url": "u"}, {"type": "text", "text": "c"}]}])");
}

TEST(ChatNormalizer, PutsToolsAndFormatOnTheSystemMessage) {
    EXPECT_EQ(normal(R"([{"role":"system","content":"s"}])", R"([{"function":{"name":"f"}}])",
                     R"({"type":"object"})"),
              R"([{"role": "system", "content": "s", "tools": [{"function": {"name": "f"}}], )"
              R"("response_format": {"type": "object"}}])");
    EXPECT_EQ(normal(R"([{"role":"user","content":"q"}])", R"([{"function":{"name":"f"}}])"),
              R"([{"role": "system", "content": "", "tools": [{"function": {"name": "f"}}]}, )"
              R"({"role": "user", "content": "q"}])");
}

TEST(ChatNormalizer, RemovesInternalMembers) {
    EXPECT_EQ(normal(R"([{"role":"user","content":"q","wo_eos":true,"tools":[1],"name":"n",
                          "content_blocks":[],"response_format":{"a":1},"task":"title"}])"),
              R"([{"role": "user", "content": "q", "task": "title"}])");
}

TEST(ChatNormalizer, NullAndMissingContentAreEmpty) {
    EXPECT_EQ(normal(R"([{"role":"user","content":null},{"role":"latest_reminder"}])"),
              R"([{"role": "user", "content": ""}, {"role": "latest_reminder", "content": ""}])");
}

TEST(ChatNormalizer, TranslatesContentParts) {
    EXPECT_EQ(
        normal(R"([{"role":"user","content":[{"type":"input_text","text":"a"},
        {"type":"input_image","image_url":"u1"},{"type":"image","image":"u2"},
        {"type":"file","file":{"file_data":"data:x"}},{"type":"image","source":{"data":"A"}}]}])"),
        R"([{"role": "user", "content": [{"type": "text", "text": "a"}, )"
        R"({"type": "image_url", "image_url": "u1"}, {"type": "image_url", "image_url": "u2"}, )"
        R"({"type": "image_url", "image_url": "data:x"}, )"
        R"({"type": "image", "source": {"data": "A"}}]}])");
}

TEST(ChatNormalizer, ReadsReasoningFromEveryMember) {
    const std::string expected =
        R"([{"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": []}])";
    EXPECT_EQ(normal(R"([{"role":"assistant","content":"a","reasoning_content":"r"}])"), expected);
    EXPECT_EQ(normal(R"([{"role":"assistant","content":"a","reasoning":"r"}])"), expected);
    EXPECT_EQ(normal(R"([{"role":"assistant","content":"a","reasoning_content":null,
                          "thinking":"r"}])"),
              expected);
    EXPECT_EQ(normal(R"([{"role":"assistant","content":[{"type":"thinking","thinking":"r"},
                          {"type":"text","text":"a"}]}])"),
              R"([{"role": "assistant", "content": [{"type": "text", "text": "a"}], )"
              R"("reasoning_content": "r", "tool_calls": []}])");
}

TEST(ChatNormalizer, TranslatesLegacyFunctionMessages) {
    EXPECT_EQ(normal(R"([{"role":"assistant","content":null,
                          "function_call":{"name":"f","arguments":"{}"}},
                         {"role":"function","name":"f","content":"r"}])"),
              R"([{"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": )"
              R"([{"id": "", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, )"
              R"({"role": "tool", "tool_call_id": "", "content": "r"}])");
}

TEST(ChatNormalizer, ShowsJsonToolResultsAsText) {
    EXPECT_EQ(normal(R"([{"role":"tool","tool_call_id":"a","content":{"x":[1,2]}},
                         {"role":"tool","tool_call_id":"b","content":[1,{"y":2}]},
                         {"role":"tool","tool_call_id":"c","content":7}])"),
              R"([{"role": "tool", "tool_call_id": "a", "content": "{\"x\": [1, 2]}"}, )"
              R"({"role": "tool", "tool_call_id": "b", "content": "[1, {\"y\": 2}]"}, )"
              R"({"role": "tool", "tool_call_id": "c", "content": "7"}])");
}

TEST(ChatNormalizer, RefusesByName) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"([])", "messages"},
        {R"({"role":"user"})", "messages"},
        {R"([{"role":"user","content":"a"},5])", "messages[1]"},
        {R"([{"content":"a"}])", "messages[0].role"},
        {R"([{"role":7,"content":"a"}])", "messages[0].role"},
        {R"([{"role":"system","content":"a"},{"role":"system","content":"b"},
             {"role":"moderator","content":"c"}])",
         "messages[2].role"},
        {R"([{"role":"user","content":3}])", "messages[0].content"},
        {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
        {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type"},
        {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0].type"},
        {R"([{"role":"user","content":[{"type":"image_url"}]}])",
         "messages[0].content[0].image_url"},
        {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":""}}]}])",
         "messages[0].content[0].image_url"},
        {R"([{"role":"user","content":[{"type":"image"}]}])", "messages[0].content[0]"},
        {R"([{"role":"user","content":[{"type":"image","data":""}]}])", "messages[0].content[0]"},
        {R"([{"role":"user","content":"q","task":"sing"}])", "messages[0].task"},
        {R"([{"role":"tool","content":"r"}])", "messages[0].tool_call_id"},
        {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls"},
        {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
        {R"([{"role":"assistant","reasoning":[]}])", "messages[0].reasoning"},
    };
    for (const auto& [messages, param] : cases) {
        EXPECT_EQ(normal(messages), "refused " + std::string(param)) << messages;
    }
    EXPECT_EQ(normal(R"([{"role":"user"}])", R"({})"), "refused tools");
    EXPECT_EQ(normal(R"([{"role":"user"}])", R"([{"type":"function"}])"),
              "refused tools[0].function");
    EXPECT_EQ(normal(R"([{"role":"user"}])", R"([{"function":{}}])"),
              "refused tools[0].function.name");
    EXPECT_EQ(normal(R"([{"role":"user"}])", "", "[]"), "refused response_format");
}

} // namespace
} // namespace dsv4v
