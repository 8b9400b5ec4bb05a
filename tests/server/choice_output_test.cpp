#include "server/choice_output.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/golden.h"
#include "tests/small_tokenizer.h"

namespace dsv4v {
namespace {

using testing::kFirstByteId;
using testing::small_tokenizer;

struct Visible {
    std::string reasoning;
    std::string content;
    std::vector<std::pair<std::string, std::string>> calls;
    std::string content_logprob_bytes;
    std::string reasoning_logprob_bytes;
    ChoiceEnd end;
};

void append(const Tokenizer& tokenizer, const std::vector<SampledToken>& tokens, std::string& out) {
    for (const SampledToken& token : tokens) {
        out += tokenizer.token_bytes(token.token_id);
    }
}

Visible run(const Tokenizer& tokenizer, const ChoiceOptions& options,
            const std::vector<int32_t>& ids, EndCause cause) {
    ChoiceOutput output(tokenizer, options);
    std::vector<ChoiceDelta> deltas;
    for (const int32_t id : ids) {
        SampledToken token;
        token.token_id = id;
        output.feed(token, deltas);
    }
    Visible seen;
    seen.end = output.finish(cause, deltas);
    for (const ChoiceDelta& delta : deltas) {
        switch (delta.kind) {
        case ChoiceDelta::Kind::kReasoning:
            EXPECT_TRUE(is_valid_utf8(delta.text));
            seen.reasoning += delta.text;
            append(tokenizer, delta.logprobs, seen.reasoning_logprob_bytes);
            break;
        case ChoiceDelta::Kind::kContent:
            EXPECT_TRUE(is_valid_utf8(delta.text));
            seen.content += delta.text;
            append(tokenizer, delta.logprobs, seen.content_logprob_bytes);
            break;
        case ChoiceDelta::Kind::kToolCall:
            seen.calls.emplace_back(delta.call.name, delta.call.arguments);
            break;
        }
    }
    append(tokenizer, seen.end.reasoning_logprobs, seen.reasoning_logprob_bytes);
    append(tokenizer, seen.end.content_logprobs, seen.content_logprob_bytes);
    return seen;
}

std::vector<int32_t> byte_ids(std::string_view text) {
    std::vector<int32_t> ids;
    for (const char byte : text) {
        ids.push_back(kFirstByteId + static_cast<unsigned char>(byte));
    }
    return ids;
}

ChoiceOptions plain() {
    ChoiceOptions options;
    options.chat = false;
    options.keep_logprobs = true;
    return options;
}

ChoiceOptions chat(bool thinking) {
    ChoiceOptions options;
    options.starts_in_reasoning = thinking;
    options.keep_logprobs = true;
    return options;
}

TEST(ChoiceOutput, CharactersSplitOverTokensComeOutWhole) {
    const Tokenizer tokenizer = small_tokenizer();
    const std::string text = "aé€😀👩‍👩‍👧z\xf0\x9f\x8f\xb3\xef\xb8\x8f";
    const Visible seen = run(tokenizer, plain(), byte_ids(text), EndCause::kStop);
    EXPECT_EQ(seen.content, text);
    EXPECT_EQ(seen.content_logprob_bytes, text);
    EXPECT_EQ(seen.end.finish_reason, "stop");
}

TEST(ChoiceOutput, IllFormedBytesBecomeReplacementCharacters) {
    const Tokenizer tokenizer = small_tokenizer();
    std::mt19937 rng(3);
    for (int k = 0; k < 2000; ++k) {
        std::string bytes;
        for (size_t n = rng() % 12; n > 0; --n) {
            bytes.push_back(static_cast<char>(rng() % 4 == 0 ? rng() % 128 : 128 + rng() % 128));
        }
        const Visible seen = run(tokenizer, plain(), byte_ids(bytes), EndCause::kLength);
        ASSERT_EQ(seen.content, replace_invalid_utf8(bytes));
        ASSERT_EQ(seen.content_logprob_bytes, bytes) << "the exact bytes are reported";
        ASSERT_EQ(seen.end.finish_reason, "length");
    }
}

TEST(ChoiceOutput, StopStringsCutTextAndEntries) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = plain();
    options.stops = {"STOP"};
    const Visible cut = run(tokenizer, options, byte_ids("some SToSTOPmore"), EndCause::kLength);
    EXPECT_EQ(cut.content, "some STo");
    EXPECT_EQ(cut.content_logprob_bytes, "some STo");
    EXPECT_EQ(cut.end.finish_reason, "stop");
    EXPECT_EQ(cut.end.stop_string, "STOP");
    options.include_stop = true;
    EXPECT_EQ(run(tokenizer, options, byte_ids("some STOPmore"), EndCause::kLength).content,
              "some STOP");
    const Visible open = run(tokenizer, options, byte_ids("some STO"), EndCause::kLength);
    EXPECT_EQ(open.content, "some STO");
    EXPECT_EQ(open.content_logprob_bytes, "some STO");
    EXPECT_EQ(open.end.finish_reason, "length");
}

TEST(ChoiceOutput, ATokenPartlyInAStopStringHasNoEntry) {
    const Tokenizer tokenizer = small_tokenizer({"ab\n", "xy"});
    ChoiceOptions options = plain();
    options.stops = {"\nEND"};
    std::vector<int32_t> ids = {testing::first_extra_id() + 1, testing::first_extra_id()};
    const std::vector<int32_t> tail = byte_ids("END");
    ids.insert(ids.end(), tail.begin(), tail.end());
    const Visible seen = run(tokenizer, options, ids, EndCause::kLength);
    EXPECT_EQ(seen.content, "xyab");
    EXPECT_EQ(seen.content_logprob_bytes, "xy");
}

TEST(ChoiceOutput, EndTokensAreNeitherTextNorEntries) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = plain();
    options.end_token_ids = {tokenizer.eos_id(), kFirstByteId + '.'};
    std::vector<int32_t> ids = byte_ids("ab");
    ids.push_back(kFirstByteId + '.');
    const Visible seen = run(tokenizer, options, ids, EndCause::kStop);
    EXPECT_EQ(seen.content, "ab");
    EXPECT_EQ(seen.content_logprob_bytes, "ab");
    EXPECT_EQ(seen.end.end_token_id, kFirstByteId + '.');
}

std::vector<int32_t> thinking_ids(const Tokenizer& tokenizer, std::string_view text) {
    return tokenizer.encode(text, true);
}

TEST(ChoiceOutput, ReasoningAndAnswerHaveTheirOwnEntries) {
    const Tokenizer tokenizer = small_tokenizer();
    const Visible seen =
        run(tokenizer, chat(true), thinking_ids(tokenizer, "I think 😀</think>The answer"),
            EndCause::kStop);
    EXPECT_EQ(seen.reasoning, "I think 😀");
    EXPECT_EQ(seen.content, "The answer");
    EXPECT_EQ(seen.reasoning_logprob_bytes, "I think 😀");
    EXPECT_EQ(seen.content_logprob_bytes, "The answer");
}

TEST(ChoiceOutput, MarkersMadeOfOrdinaryTokensCountAlike) {
    const Tokenizer tokenizer = small_tokenizer();
    const Visible seen =
        run(tokenizer, chat(true), byte_ids("<think>why</think>so"), EndCause::kStop);
    EXPECT_EQ(seen.reasoning, "why");
    EXPECT_EQ(seen.content, "so");
    EXPECT_EQ(seen.reasoning_logprob_bytes, "why");
    EXPECT_EQ(seen.content_logprob_bytes, "so");
}

TEST(ChoiceOutput, UnsplitReasoningKeepsItsMarkers) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = chat(true);
    options.split_reasoning = false;
    options.stops = {"why", "END"};
    const Visible seen =
        run(tokenizer, options, thinking_ids(tokenizer, "why</think>so END"), EndCause::kLength);
    EXPECT_EQ(seen.reasoning, "");
    EXPECT_EQ(seen.content, "<think>why</think>so ");
    EXPECT_EQ(seen.content_logprob_bytes, "why</think>so ");
    const Visible open = run(tokenizer, options, byte_ids("wh"), EndCause::kLength);
    EXPECT_EQ(open.content, "<think>wh") << "unfinished reasoning is not closed";
}

TEST(ChoiceOutput, HiddenReasoningIsCountedOnly) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = chat(true);
    options.include_reasoning = false;
    ChoiceOutput output(tokenizer, options);
    std::vector<ChoiceDelta> deltas;
    for (const int32_t id : thinking_ids(tokenizer, "abc</think>de")) {
        SampledToken token;
        token.token_id = id;
        output.feed(token, deltas);
    }
    (void)output.finish(EndCause::kStop, deltas);
    ASSERT_EQ(deltas.size(), 1u);
    EXPECT_EQ(deltas[0].text, "de");
    EXPECT_EQ(output.n_tokens(), 6);
    EXPECT_EQ(output.n_reasoning_tokens(), 4);
}

TEST(ChoiceOutput, StopStringsApplyToTheAnswerOnly) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = chat(true);
    options.stops = {"x"};
    const auto ids = thinking_ids(tokenizer, "axb</think>cxd");
    EXPECT_EQ(run(tokenizer, options, ids, EndCause::kStop).reasoning, "axb");
    EXPECT_EQ(run(tokenizer, options, ids, EndCause::kStop).content, "c");
    options.stop_in_reasoning = true;
    const Visible seen = run(tokenizer, options, ids, EndCause::kStop);
    EXPECT_EQ(seen.reasoning, "a");
    EXPECT_EQ(seen.content, "");
    options.stops = {"b</", "bc"};
    EXPECT_EQ(
        run(tokenizer, options, thinking_ids(tokenizer, "ab</think>c"), EndCause::kStop).content,
        "c")
        << "no match across the border";
}

constexpr std::string_view kTwoCalls =
    "text\n\n<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x"
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

std::shared_ptr<const JsonValue> some_tools() {
    return std::make_shared<const JsonValue>(
        *parse_json(R"([{"type":"function","function":{"name":"f"}}])"));
}

TEST(ChoiceOutput, AClosedToolBlockEndsTheOutput) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = chat(false);
    options.tools = some_tools();
    options.stops = {"invoke", "x"};
    const Visible seen =
        run(tokenizer, options, thinking_ids(tokenizer, std::string(kTwoCalls) + "more"),
            EndCause::kLength);
    EXPECT_EQ(seen.content, "te") << "a stop string in the text before the block";
    options.stops = {"invoke", "DSML"};
    const Visible calls =
        run(tokenizer, options, thinking_ids(tokenizer, std::string(kTwoCalls) + "more"),
            EndCause::kLength);
    EXPECT_EQ(calls.content, "text");
    EXPECT_EQ(calls.content_logprob_bytes, "text");
    ASSERT_EQ(calls.calls.size(), 2u);
    EXPECT_EQ(calls.calls[0].second, R"({"a": "x"})");
    EXPECT_EQ(calls.calls[1].second, "{}");
    EXPECT_EQ(calls.end.finish_reason, "tool_calls");
}

TEST(ChoiceOutput, OneCallOnlyWithoutParallelCalls) {
    const Tokenizer tokenizer = small_tokenizer();
    ChoiceOptions options = chat(false);
    options.tools = some_tools();
    options.parallel_tool_calls = false;
    const Visible seen =
        run(tokenizer, options, thinking_ids(tokenizer, kTwoCalls), EndCause::kLength);
    ASSERT_EQ(seen.calls.size(), 1u);
    EXPECT_EQ(seen.calls[0].first, "f");
    EXPECT_EQ(seen.end.finish_reason, "tool_calls");
}

// Cuts `text` into tokens of 1..8 bytes; the special spellings stay ordinary text.
std::vector<std::string> random_pieces(std::mt19937& rng, std::string_view text) {
    std::vector<std::string> pieces;
    while (!text.empty()) {
        const size_t n = std::min<size_t>(2 + rng() % 7, text.size());
        pieces.emplace_back(text.substr(0, n));
        text.remove_prefix(n);
    }
    return pieces;
}

// Ids of a tokenizer that has exactly these pieces.
std::vector<int32_t> ids_of(const std::vector<std::string>& pieces,
                            std::vector<std::string>& extra) {
    std::vector<int32_t> ids;
    for (const std::string& piece : pieces) {
        if (piece.size() == 1) {
            ids.push_back(kFirstByteId + static_cast<unsigned char>(piece[0]));
            continue;
        }
        auto found = std::find(extra.begin(), extra.end(), piece);
        if (found == extra.end()) {
            extra.push_back(piece);
            found = extra.end() - 1;
        }
        ids.push_back(testing::first_extra_id() + static_cast<int32_t>(found - extra.begin()));
    }
    return ids;
}

TEST(ChoiceOutput, TheResultDoesNotDependOnTheTokens) {
    const auto file =
        parse_json(testing::read_whole_file(testing::source_data("chat/parse_cases.json")));
    ASSERT_TRUE(file.has_value());
    const auto tools = std::make_shared<const JsonValue>(*file->find("tools"));
    std::mt19937 rng(11);
    const Tokenizer bytes_only = small_tokenizer();
    for (const JsonValue& test : file->find("cases")->items) {
        const std::string& text = test.find("text")->text;
        ChoiceOptions options = chat(test.find("thinking")->boolean);
        options.tools = test.find("tools")->boolean ? tools : nullptr;
        options.stops = {"stop here", "\n\n\n"};
        const EndCause cause =
            test.find("stop")->text == "length" ? EndCause::kLength : EndCause::kStop;
        const Visible expected = run(bytes_only, options, byte_ids(text), cause);
        const JsonValue& golden = *test.find("expect");
        EXPECT_EQ(expected.content, golden.find("content")->text) << test.find("id")->text;
        EXPECT_EQ(expected.reasoning, golden.find("reasoning_content")->text);
        EXPECT_EQ(expected.end.finish_reason, golden.find("finish_reason")->text)
            << test.find("id")->text;
        ASSERT_EQ(expected.calls.size(), golden.find("tool_calls")->items.size());
        for (size_t k = 0; k < expected.calls.size(); ++k) {
            EXPECT_EQ(expected.calls[k].second,
                      golden.find("tool_calls")->items[k].find("arguments")->text);
        }
        EXPECT_EQ(expected.content_logprob_bytes, expected.content) << test.find("id")->text;
        EXPECT_EQ(expected.reasoning_logprob_bytes, expected.reasoning);
        for (int k = 0; k < 4; ++k) {
            std::vector<std::string> extra;
            const auto ids = ids_of(random_pieces(rng, text), extra);
            const Visible seen = run(small_tokenizer(extra), options, ids, cause);
            ASSERT_EQ(seen.content, expected.content) << test.find("id")->text;
            ASSERT_EQ(seen.reasoning, expected.reasoning) << test.find("id")->text;
            ASSERT_EQ(seen.calls, expected.calls) << test.find("id")->text;
            ASSERT_EQ(seen.end.finish_reason, expected.end.finish_reason);
        }
    }
}

} // namespace
} // namespace dsv4v
