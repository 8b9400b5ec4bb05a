#include "engine/json_value.h"

#include <ctime>
#include <string>

#include "tests/golden.h"

namespace dsv4v {
namespace {

using testing::read_whole_file;
using testing::source_data;

JsonValue parsed(std::string_view text) {
    auto value = parse_json(text);
    EXPECT_TRUE(value.has_value()) << text.substr(0, 200) << ": " << value.error().message;
    return value ? std::move(*value) : JsonValue();
}

std::string error_of(std::string_view text) {
    auto value = parse_json(text);
    EXPECT_FALSE(value.has_value()) << text.substr(0, 200);
    if (value) {
        return "";
    }
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
    return value.error().message;
}

std::string repeat(std::string_view unit, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) {
        out += unit;
    }
    return out;
}

TEST(JsonValue, PrintsLikePython) {
    const JsonValue cases = parsed(read_whole_file(source_data("chat/json_dumps_cases.json")));
    ASSERT_GT(cases.items.size(), 40u);
    for (const JsonValue& entry : cases.items) {
        EXPECT_EQ(python_json(parsed(entry.find("input")->text)), entry.find("output")->text);
    }
}

TEST(JsonValue, PrintsTinyAndHugeDoubles) {
    EXPECT_EQ(python_json(parsed("1e-400")), "0.0");
    EXPECT_EQ(python_json(parsed("-1e-400")), "-0.0");
    EXPECT_EQ(python_json(parsed("1e99999999999999999999")), "Infinity");
    EXPECT_EQ(python_json(parsed("1e-99999999999999999999")), "0.0");
    EXPECT_EQ(python_json(parsed("0e99999999999999999999")), "0.0");
    EXPECT_EQ(python_json(parsed("0." + std::string(400, '0') + "1e401")), "1.0");
    EXPECT_EQ(python_json(parsed("1" + std::string(400, '0') + "e-400")), "1.0");
    EXPECT_EQ(python_json(parsed("1.7976931348623157e308")), "1.7976931348623157e+308");
}

TEST(JsonValue, KeepsOrderAndNumbersAsWritten) {
    const JsonValue value = parsed(R"({"b": 1.50, "a": [true, null, "x"], "b2": -7})");
    ASSERT_EQ(value.members.size(), 3u);
    EXPECT_EQ(value.members[0].first, "b");
    EXPECT_EQ(value.find("b")->text, "1.50");
    EXPECT_TRUE(value.find("a")->items[0].boolean);
    EXPECT_TRUE(value.find("a")->items[1].is_null());
    EXPECT_EQ(value.find("a")->items[2].text, "x");
    EXPECT_EQ(value.find("b2")->as_int(), -7);
    EXPECT_EQ(value.find("c"), nullptr);
}

TEST(JsonValue, ReadsIntegersHoweverWritten) {
    const std::pair<const char*, std::optional<int64_t>> cases[] = {
        {"4", 4},
        {"4.0", 4},
        {"1e2", 100},
        {"1.5e1", 15},
        {"100e-2", 1},
        {"-0", 0},
        {"-0.0", 0},
        {"0e999999999999999999999", 0},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775807.0", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9223372036854775808", std::nullopt},
        {"-9223372036854775809", std::nullopt},
        {"1e19", std::nullopt},
        {"1e999999999999999999999", std::nullopt},
        {"0.5", std::nullopt},
        {"1e-1", std::nullopt},
        {"4.0000000000000000000001", std::nullopt},
    };
    for (const auto& [text, expected] : cases) {
        EXPECT_EQ(parsed(text).as_int(), expected) << text;
    }
    EXPECT_EQ(parsed("\"4\"").as_int(), std::nullopt);
    EXPECT_EQ(parsed("null").as_int(), std::nullopt);
}

TEST(JsonValue, ReadsDoubles) {
    EXPECT_EQ(parsed("0.25").as_double(), 0.25);
    EXPECT_EQ(parsed("-3").as_double(), -3.0);
    EXPECT_EQ(parsed("1e400").as_double(), std::nullopt);
    EXPECT_EQ(parsed("1e-400").as_double(), 0.0);
    EXPECT_EQ(parsed("true").as_double(), std::nullopt);
}

TEST(JsonValue, RefusesWhatIsNotStrictJson) {
    const char* const cases[] = {
        "",        " ",        "{",        "}",         "{:",        "[1,]",      "{\"a\":1,}",
        "{a:1}",   "'a'",      "[1 2]",    "01",        "+1",        ".5",        "5.",
        "1e",      "0x10",     "NaN",      "Infinity",  "-Infinity", "nul",       "True",
        "// c\n1", "/* c */1", "\"a\nb\"", "\"\x01\"",  "\"\\x\"",   "\"\\u12\"", "\"\\u12G4\"",
        "1 2",     "{}{}",     "{\"a\"}",  "{\"a\" 1}", "[,1]",      "\"a",       "-",
        "{1:2}",   "\\ud800",  "[1}",      "{\"a\":1]",
    };
    for (const char* text : cases) {
        EXPECT_NE(error_of(text), "") << text;
    }
}

TEST(JsonValue, NamesTheOffendingByte) {
    EXPECT_EQ(error_of("[1, x]"), "invalid JSON at byte 4: expected a value");
    EXPECT_EQ(error_of("\xEF\xBB\xBF[1, x]"), "invalid JSON at byte 7: expected a value");
    EXPECT_EQ(error_of("[1 2]"), "invalid JSON at byte 3: expected ',' or ']'");
    EXPECT_EQ(error_of("{\"a\" 2}"), "invalid JSON at byte 5: expected ':' after a member name");
    EXPECT_EQ(error_of("{\"a\":2,}"), "invalid JSON at byte 7: expected a member name");
    EXPECT_EQ(error_of("\"abc"), "invalid JSON at byte 4: unfinished string");
    EXPECT_EQ(error_of("\"ab\xFF\""), "invalid JSON at byte 3: not UTF-8");
    EXPECT_EQ(error_of(std::string_view("1\0", 2)),
              "invalid JSON at byte 1: something follows the value");
}

TEST(JsonValue, TreatsNulAsText) {
    EXPECT_EQ(parsed(R"("a\u0000b")").text, std::string("a\0b", 3));
    EXPECT_EQ(parsed(R"({"\u0000":1})").members[0].first, std::string(1, '\0'));
    EXPECT_NE(error_of(std::string_view("\"a\0b\"", 5)), "");
    EXPECT_NE(error_of(std::string_view("[1,\0 2]", 7)), "");
    EXPECT_NE(error_of(std::string_view("{}\0{}", 5)), "");
}

TEST(JsonValue, SkipsOneByteOrderMark) {
    EXPECT_EQ(parsed("\xEF\xBB\xBF 7").as_int(), 7);
    EXPECT_NE(error_of("\xEF\xBB\xBF\xEF\xBB\xBF 7"), "");
    EXPECT_NE(error_of("\xEF\xBB\xBF"), "");
}

TEST(JsonValue, ReplacesLoneSurrogateEscapes) {
    const std::pair<const char*, const char*> cases[] = {
        {R"("\ud83d\ude00")", "😀"},
        {R"("\ud83d")", "\uFFFD"},
        {R"("\uDE00")", "\uFFFD"},
        {R"("\ud83dx")", "\uFFFDx"},
        {R"("\ud83d\n")", "\uFFFD\n"},
        {R"("\ud83d\ud83d\ude00")", "\uFFFD😀"},
        {R"("\ude00\ud83d")", "\uFFFD\uFFFD"},
        {R"("\\ud83d")", "\\ud83d"},
        {R"("\\\ud83d")", "\\\uFFFD"},
        {R"("\ud83d\\ude00")", "\uFFFD\\ude00"},
    };
    for (const auto& [text, expected] : cases) {
        EXPECT_EQ(parsed(text).text, expected) << text;
    }
    EXPECT_EQ(parsed(R"({"\ud800": 1})").members[0].first, "\uFFFD");
}

TEST(JsonValue, RefusesIllFormedUtf8) {
    const char* const cases[] = {
        "\"\xC0\x80\"", "\"\xED\xA0\x80\"",         "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"",
        "\"\x80\"",     "\"\xF8\x88\x80\x80\x80\"", "{\"\xFF\": 1}",        "\xFF",
        "[1] \xC3",     "\"\xE0\x80\xAF\""};
    for (const char* text : cases) {
        EXPECT_NE(error_of(text).find("not UTF-8"), std::string::npos) << text;
    }
}

TEST(JsonValue, BoundsDepth) {
    const auto nested = [](size_t depth) { return repeat("[", depth) + repeat("]", depth); };
    EXPECT_TRUE(parse_json(nested(128)).has_value());
    EXPECT_EQ(error_of(nested(129)), "invalid JSON at byte 128: nested deeper than 128 levels");
    EXPECT_TRUE(parse_json(repeat(R"({"a":)", 128) + "1" + repeat("}", 128)).has_value());
    EXPECT_NE(error_of(repeat(R"({"a":)", 129) + "1" + repeat("}", 129)), "");
    EXPECT_NE(error_of(repeat(R"([{"a":)", 500'000)), "");
    EXPECT_NE(error_of(nested(1'000'000)), "");
    EXPECT_EQ(python_json(parsed(nested(128))), nested(128));
}

TEST(JsonValue, BoundsTheNumberOfValues) {
    EXPECT_NE(error_of("[" + repeat("0,", kMaxJsonValues) + "0]").find("more than 2000000"),
              std::string::npos);
}

TEST(JsonValue, DestroysAndPrintsDeepTreesWithoutRecursion) {
    JsonValue tree;
    tree.type = JsonValue::Type::kArray;
    for (int i = 0; i < 1'000'000; ++i) {
        JsonValue outer;
        if (i % 2 == 0) {
            outer.type = JsonValue::Type::kArray;
            outer.items.push_back(std::move(tree));
        } else {
            outer = JsonValue::object();
            outer.members.emplace_back("a", std::move(tree));
        }
        tree = std::move(outer);
    }
    EXPECT_EQ(python_json(tree).size(), 2 + 500'000u * 2 + 500'000u * 7); // [] and {"a": }
}

TEST(JsonValue, DuplicateMemberKeepsFirstPlaceAndLastValue) {
    EXPECT_EQ(python_json(parsed(R"({"a":[1,2],"b":2,"a":{"c":3},"a":{}})")),
              R"({"a": {}, "b": 2})");
    std::string text = "{";
    for (int i = 0; i < 40; ++i) {
        text += "\"k" + std::to_string(i) + "\":0,";
    }
    const JsonValue value = parsed(text + R"("k3":"x","k39":"y","new":"z","new":"w"})");
    ASSERT_EQ(value.members.size(), 41u);
    EXPECT_EQ(value.members[3].second.text, "x");
    EXPECT_EQ(value.members[39].second.text, "y");
    EXPECT_EQ(value.members[40].second.text, "w");
}

TEST(JsonValue, HugeObjectsAreNotQuadratic) {
    std::string text = "{";
    for (int i = 0; i < 300'000; ++i) {
        text += "\"" + std::to_string(i % 200'000) + "\":" + std::to_string(i) + ",";
    }
    text += "\"end\":0}";
    const std::clock_t start = std::clock();
    const JsonValue value = parsed(text);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_EQ(value.members.size(), 200'001u);
    EXPECT_EQ(value.members[7].second.text, "200007");
    EXPECT_LT(seconds, 30.0); // pairwise comparison would take far longer
}

TEST(JsonValue, EveryTruncationOfAValidBodyIsRefused) {
    const std::string body =
        R"({"model":"m\u00e9","messages":[{"role":"user","content":"é \ud83d\ude00 \"q\""}],)"
        R"("n":-1.5e+10,"stream":true,"stop":null,"x":[[],{}],"f":false})";
    EXPECT_TRUE(parse_json(body).has_value());
    for (size_t n = 0; n < body.size(); ++n) {
        EXPECT_NE(error_of(std::string_view(body).substr(0, n)), "") << n;
    }
}

TEST(JsonValue, EveryChangedByteIsHandled) {
    const std::string body = R"({"a":[1,-2.5e3,"\u00e9\n"],"b":{"c":null,"d":true}})";
    for (size_t i = 0; i < body.size(); ++i) {
        for (int byte = 0; byte < 256; ++byte) {
            std::string changed = body;
            changed[i] = static_cast<char>(byte);
            if (const auto value = parse_json(changed)) {
                const std::string printed = python_json(*value);
                EXPECT_EQ(python_json(parsed(printed)), printed) << changed;
            }
        }
    }
}

TEST(JsonValue, QuotesStringsLikePython) {
    EXPECT_EQ(python_json_string("a\"b\\\x1f\x7f/é"), "\"a\\\"b\\\\\\u001f\x7f/é\"");
    EXPECT_EQ(python_json_string(std::string_view("\0", 1)), "\"\\u0000\"");
}

} // namespace
} // namespace dsv4v
