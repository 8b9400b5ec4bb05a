#include "engine/output_parser.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "tests/engine/chat_golden.h"
#include "tests/engine/output_feeder.h"

namespace dsv4v {
namespace {

using testing::character_starts;
using testing::member;
using testing::parse_cut;
using testing::ParsedOutput;
using testing::random_cuts;

const JsonValue& golden() {
    static const JsonValue file =
        testing::read_json_file(testing::source_data("chat/parse_cases.json"));
    return file;
}

OutputParserOptions options_of(const JsonValue& test_case) {
    return {.thinking = member(test_case, "thinking").boolean,
            .tools = member(test_case, "tools").boolean ? &member(golden(), "tools") : nullptr};
}

EndCause cause_of(const JsonValue& test_case) {
    return member(test_case, "stop").text == "length" ? EndCause::kLength : EndCause::kStop;
}

std::string expected_description(const JsonValue& expect) {
    std::string text = "reasoning{" + member(expect, "reasoning_content").text + "} content{" +
                       member(expect, "content").text + "}";
    for (const JsonValue& call : member(expect, "tool_calls").items) {
        text += " call{" + member(call, "name").text + " " + member(call, "arguments").text + "}";
    }
    text += " finish{" + member(expect, "finish_reason").text + "}";
    for (const JsonValue& repair : member(expect, "repairs").items) {
        text += " " + repair.text;
    }
    return text;
}

// Like ParsedOutput::description, without the markup of the calls.
std::string description(ParsedOutput output) {
    std::string text = output.description();
    for (const ToolCall& call : output.calls) {
        const std::string raw = " raw:" + call.raw;
        text.erase(text.find(raw), raw.size());
    }
    return text;
}

TEST(OutputParser, GivesEveryReferenceResult) {
    const auto& cases = member(golden(), "cases").items;
    ASSERT_EQ(cases.size(), 68U);
    for (const JsonValue& test_case : cases) {
        SCOPED_TRACE(member(test_case, "id").text);
        const std::string& text = member(test_case, "text").text;
        EXPECT_EQ(description(parse_cut(text, {}, options_of(test_case), cause_of(test_case))),
                  expected_description(member(test_case, "expect")));
    }
}

TEST(OutputParser, ChunkingDoesNotMatter) {
    std::mt19937 random(7);
    for (const JsonValue& test_case : member(golden(), "cases").items) {
        SCOPED_TRACE(member(test_case, "id").text);
        const std::string& text = member(test_case, "text").text;
        const auto options = options_of(test_case);
        const EndCause cause = cause_of(test_case);
        const std::string whole = parse_cut(text, {}, options, cause).description();
        const auto starts = character_starts(text);
        for (const size_t cut : starts) {
            ASSERT_EQ(parse_cut(text, {cut}, options, cause).description(), whole) << cut;
        }
        ASSERT_EQ(parse_cut(text, starts, options, cause).description(), whole);
        for (int i = 0; i < 100; ++i) {
            const auto cuts = random_cuts(starts, random);
            ASSERT_EQ(parse_cut(text, cuts, options, cause).description(), whole);
        }
    }
}

// Cut at every character and for either reason, with and without thinking: arguments stay JSON,
// chunking stays irrelevant, and a cut text never shows markup of calls that were returned.
TEST(OutputParser, SurvivesEveryTruncation) {
    for (const JsonValue& test_case : member(golden(), "cases").items) {
        SCOPED_TRACE(member(test_case, "id").text);
        const std::string& text = member(test_case, "text").text;
        auto options = options_of(test_case);
        options.tools = &member(golden(), "tools");
        for (const size_t end : character_starts(text)) {
            const std::string_view cut = std::string_view(text).substr(0, end);
            for (const EndCause cause : {EndCause::kStop, EndCause::kLength}) {
                const ParsedOutput whole = parse_cut(cut, {}, options, cause);
                for (const ToolCall& call : whole.calls) {
                    ASSERT_TRUE(parse_json(call.arguments).has_value()) << call.arguments;
                }
                ASSERT_EQ(whole.summary.has_tool_calls, !whole.calls.empty());
                ASSERT_TRUE(whole.in_wire_order);
                ASSERT_EQ(parse_cut(cut, character_starts(cut), options, cause).description(),
                          whole.description());
            }
        }
    }
}

std::string random_of(std::mt19937& random, const std::vector<std::string>& choices) {
    return choices[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(random)];
}

// A well-formed output and what must be read from it.
struct GeneratedOutput {
    std::string text;
    std::string expected;
    bool thinking = false;
};

GeneratedOutput generate_output(std::mt19937& random) {
    const std::vector<std::string> prose = {
        "", "Hi", "a < b\n", "思考🤔\n\n", "x <b>y</b>\n", "<｜DS", "tail\n\n\n", "</thin k>"};
    const std::vector<std::string> values = {"Paris",
                                             "",
                                             "\n\nx\n",
                                             "a <b> \"q\" \\ </tag>",
                                             "日本",
                                             "<｜DSML｜tool_calls>",
                                             "</｜DSML｜invoke>"};
    GeneratedOutput output;
    output.thinking = random() % 2 == 0;
    const std::string reasoning = output.thinking ? random_of(random, prose) : "";
    const std::string content = random_of(random, prose);
    output.text = reasoning + (output.thinking ? "</think>" : "") + content;
    output.expected = "reasoning{" + reasoning + "} content{" + content + "}";
    const int n_calls = std::uniform_int_distribution<int>(0, 4)(random);
    for (int i = 0; i < n_calls; ++i) {
        const std::string path = random_of(random, values);
        const std::string json_text = random_of(random, {"1", "[1, 2]", "{\"a\": \"é\"}", "null"});
        output.text += i == 0 ? "\n\n<｜DSML｜tool_calls>\n" : "\n";
        output.text += "<｜DSML｜invoke name=\"write\">\n<｜DSML｜parameter name=\"path\" "
                       "string=\"true\">" +
                       path +
                       "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" "
                       "string=\"false\">" +
                       json_text + "</｜DSML｜parameter>\n</｜DSML｜invoke>";
        output.expected +=
            " call{write {\"path\": " + python_json_string(path) + ", \"n\": " + json_text + "}}";
    }
    output.text += n_calls > 0 ? "\n</｜DSML｜tool_calls>" : "";
    output.expected += n_calls > 0 ? " finish{tool_calls}" : " finish{stop}";
    return output;
}

TEST(OutputParser, ReadsGeneratedOutputsInAnyChunking) {
    std::mt19937 random(11);
    for (int i = 0; i < 12; ++i) {
        const GeneratedOutput output = generate_output(random);
        const OutputParserOptions options = {.thinking = output.thinking,
                                             .tools = &member(golden(), "tools")};
        const ParsedOutput whole = parse_cut(output.text, {}, options, EndCause::kStop);
        ASSERT_EQ(description(whole), output.expected) << output.text;
        const auto starts = character_starts(output.text);
        for (int split = 0; split < 1000; ++split) {
            const auto cuts = random_cuts(starts, random);
            ASSERT_EQ(parse_cut(output.text, cuts, options, EndCause::kStop).description(),
                      whole.description());
        }
    }
}

// Shuffled fragments of markup, mostly malformed.
TEST(OutputParser, ReadsGarbageTheSameInAnyChunking) {
    const std::vector<std::string> fragments = {
        "<｜DSML｜tool_calls>",
        "</｜DSML｜tool_calls>",
        "<|DSML|calls>",
        "<DSML｜ invoke name=\"now\">",
        "<｜DSML｜invoke name=\"write\">",
        "</｜DSML｜invoke>",
        "<｜DSML｜invoke na",
        "<｜DSML｜",
        "<｜DSML｜parameter name=\"path\" string=\"true\">",
        "<｜DSML｜parameter name=\"body\">",
        "</｜DSML｜parameter>",
        "\n",
        "\n\n",
        " ",
        "text",
        "<",
        ">",
        "3",
        "</think>",
        "<think>",
        "<｜DSML｜invoke name=\"get_weather\">",
        "<｜DSML｜parameter name=\"location\" string=\"x\">"};
    std::mt19937 random(13);
    for (int i = 0; i < 3000; ++i) {
        std::string text;
        const int n = std::uniform_int_distribution<int>(1, 14)(random);
        for (int k = 0; k < n; ++k) {
            text += random_of(random, fragments);
        }
        const OutputParserOptions options = {.thinking = random() % 2 == 0,
                                             .tools = &member(golden(), "tools")};
        const EndCause cause = random() % 2 == 0 ? EndCause::kStop : EndCause::kLength;
        const ParsedOutput whole = parse_cut(text, {}, options, cause);
        ASSERT_TRUE(whole.in_wire_order) << text;
        const auto starts = character_starts(text);
        ASSERT_EQ(parse_cut(text, starts, options, cause).description(), whole.description())
            << text;
        for (int split = 0; split < 8; ++split) {
            const auto cuts = random_cuts(starts, random);
            ASSERT_EQ(parse_cut(text, cuts, options, cause).description(), whole.description())
                << text;
        }
    }
}

constexpr std::string_view kCall = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"now\">\n\n"
                                   "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

TEST(OutputParser, TellsWhenToStop) {
    OutputParser parser({.thinking = true, .tools = &member(golden(), "tools")});
    std::vector<OutputDelta> out;
    EXPECT_TRUE(parser.in_reasoning());
    parser.feed("r</think>ok", out);
    EXPECT_FALSE(parser.in_reasoning());
    EXPECT_FALSE(parser.in_tool_block());
    parser.feed(kCall.substr(0, kCall.size() - 1), out);
    EXPECT_TRUE(parser.in_tool_block());
    EXPECT_EQ(parser.n_tool_calls(), 1);
    EXPECT_FALSE(parser.wants_stop());
    parser.feed(">", out);
    EXPECT_TRUE(parser.wants_stop());
    ASSERT_EQ(out.size(), 3U);
    EXPECT_EQ(out[2].call.raw, "<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>");
}

TEST(OutputParser, SendsEachCallWhenItCloses) {
    OutputParser parser({.thinking = false, .tools = &member(golden(), "tools")});
    std::vector<OutputDelta> out;
    parser.feed(kCall.substr(0, kCall.find("\n</｜DSML｜tool_calls")), out);
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].call.name, "now");
}

TEST(OutputParser, OrdinaryTextIsNotHeldBack) {
    OutputParser parser({.thinking = true, .tools = &member(golden(), "tools")});
    const std::string text = "Some thought about a < b.</think>An answer, <b>bold</b>.";
    std::string seen;
    for (size_t i = 0; i < text.size(); ++i) {
        std::vector<OutputDelta> out;
        parser.feed(text.substr(i, 1), out);
        for (const OutputDelta& delta : out) {
            seen += delta.text;
        }
        if (i > 10 && text[i] == '.') {
            EXPECT_EQ(seen.back(), '.') << i;
        }
    }
}

TEST(OutputParser, OneFailedOrphanDoesNotHideALaterCall) {
    const std::string text = "<｜DSML｜invoke name=\"write\"> is how to call." + std::string(kCall);
    const OutputParserOptions options = {.thinking = false, .tools = &member(golden(), "tools")};
    EXPECT_EQ(description(parse_cut(text, {}, options, EndCause::kStop)),
              "reasoning{} content{<｜DSML｜invoke name=\"write\"> is how to call.} call{now {}} "
              "finish{tool_calls}");
}

TEST(OutputParser, FindsTheCallBehindAQuotedOpenerInReasoning) {
    const std::string text = "Write <｜DSML｜tool_calls> first." + std::string(kCall);
    const OutputParserOptions options = {.thinking = true, .tools = &member(golden(), "tools")};
    EXPECT_EQ(description(parse_cut(text, {}, options, EndCause::kStop)),
              "reasoning{Write <｜DSML｜tool_calls> first.} content{} call{now {}} "
              "finish{tool_calls} implicit_think_close");
}

TEST(OutputParser, AByteOrderMarkIsNoJson) {
    const std::string text =
        "<｜DSML｜tool_calls><｜DSML｜invoke name=\"now\"><｜DSML｜parameter name=\"a\" "
        "string=\"false\">\xEF\xBB\xBF"
        "1</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>";
    const OutputParserOptions options = {.thinking = false, .tools = &member(golden(), "tools")};
    const ParsedOutput output = parse_cut(text, {}, options, EndCause::kStop);
    ASSERT_EQ(output.calls.size(), 1U);
    EXPECT_EQ(output.calls[0].arguments, "{\"a\": \"\xEF\xBB\xBF"
                                         "1\"}");
}

// Seconds to read `text` byte by byte.
double seconds_to_feed(const std::string& text, bool thinking) {
    const auto begin = std::chrono::steady_clock::now();
    OutputParser parser({.thinking = thinking, .tools = &member(golden(), "tools")});
    std::vector<OutputDelta> out;
    for (const char c : text) {
        parser.feed(std::string_view(&c, 1), out);
        out.clear();
    }
    parser.finish(EndCause::kStop, out);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string repeated(std::string_view unit, size_t n_bytes) {
    std::string text;
    while (text.size() < n_bytes) {
        text += unit;
    }
    return text;
}

// Reading byte by byte is linear whatever the bytes are. A quadratic step would take
// minutes; the bound leaves room for unoptimised and sanitized builds on a busy machine.
TEST(OutputParser, LongOutputsTakeLinearTime) {
    constexpr size_t kBytes = size_t{1} << 18;
    constexpr double kMaxSeconds = 8;
    const std::string value = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"write\">\n"
                              "<｜DSML｜parameter name=\"body\" string=\"true\">";
    const std::string orphan = "<｜DSML｜invoke name=\"write\">"
                               "<｜DSML｜parameter name=\"body\" string=\"true\">";
    const std::string texts[] = {
        repeated("x", kBytes),
        repeated("\n", kBytes),
        repeated("<", kBytes),
        repeated("<｜DSML｜", kBytes),
        "<｜DSML｜" + repeated(" ", kBytes),
        "<｜DSML｜invoke name=\"" + repeated("n", kBytes),
        value + repeated("text ", kBytes),
        value + repeated("</｜DSML｜param ", kBytes),
        "<｜DSML｜tool_calls>" + repeated("<x ", kBytes),
        repeated(orphan, kBytes),
        repeated(orphan, kBytes) + "</｜DSML｜parameter>x",
        repeated("<｜DSML｜tool_calls>", kBytes),
        value + repeated(value, kBytes) + "</｜DSML｜parameter> x>",
    };
    for (size_t i = 0; i < std::size(texts); ++i) {
        EXPECT_LT(seconds_to_feed(texts[i], false), kMaxSeconds) << "text " << i;
        EXPECT_LT(seconds_to_feed(texts[i], true), kMaxSeconds) << "reasoning " << i;
    }
}

} // namespace
} // namespace dsv4v
