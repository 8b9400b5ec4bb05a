#include "server/chat_request.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/completion_request.h"

namespace dsv4v {
namespace {

RequestRules small_rules() {
    RequestRules rules;
    rules.vocab_size = 1000;
    rules.context_length = 4096;
    rules.served_model = "tiny";
    rules.aliases = {"tiny", "other"};
    return rules;
}

tl::expected<ChatRequest, ApiError> parse(const std::string& body,
                                          const RequestRules& rules = small_rules()) {
    auto json = parse_body(body);
    if (!json) {
        return tl::unexpected(json.error());
    }
    return parse_chat_request(std::move(*json), rules);
}

// A valid request plus `members`.
std::string with(const std::string& members) {
    return R"({"messages":[{"role":"user","content":"Hi"}])" +
           (members.empty() ? "" : "," + members) + "}";
}

ChatRequest good(const std::string& members, const RequestRules& rules = small_rules()) {
    auto request = parse(with(members), rules);
    EXPECT_TRUE(request.has_value()) << members << ": " << request.error().message;
    return request ? std::move(*request) : ChatRequest();
}

struct Bad {
    const char* members;
    const char* param;
};

constexpr const char* kTool = R"({"type":"function","function":{"name":"f"}})";

TEST(ChatRequest, EveryFieldRefusesWrongValuesByPath) {
    const Bad cases[] = {
        {R"("model":7)", "model"},
        {R"("max_tokens":-2)", "max_tokens"},
        {R"("max_tokens":1.5)", "max_tokens"},
        {R"("max_tokens":"5")", "max_tokens"},
        {R"("max_completion_tokens":true)", "max_completion_tokens"},
        {R"("n_predict":-7)", "n_predict"},
        {R"("temperature":2.1)", "temperature"},
        {R"("temperature":-0.1)", "temperature"},
        {R"("temperature":"hot")", "temperature"},
        {R"("temperature":1e999)", "temperature"},
        {R"("top_p":1.01)", "top_p"},
        {R"("top_p":-1)", "top_p"},
        {R"("top_k":-2)", "top_k"},
        {R"("top_k":1001)", "top_k"},
        {R"("top_k":0.5)", "top_k"},
        {R"("min_p":1.5)", "min_p"},
        {R"("typical_p":0)", "typical_p"},
        {R"("presence_penalty":2.5)", "presence_penalty"},
        {R"("frequency_penalty":-3)", "frequency_penalty"},
        {R"("repetition_penalty":0)", "repetition_penalty"},
        {R"("repeat_penalty":2.5)", "repeat_penalty"},
        {R"("repeat_last_n":-2)", "repeat_last_n"},
        {R"("repeat_last_n":4097)", "repeat_last_n"},
        {R"("seed":1.5)", "seed"},
        {R"("seed":18446744073709551616)", "seed"},
        {R"("seed":-9223372036854775809)", "seed"},
        {R"("seed":"1")", "seed"},
        {R"("n":0)", "n"},
        {R"("n":9)", "n"},
        {R"("stop":5)", "stop"},
        {R"("stop":["a",7])", "stop[1]"},
        {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
         "stop"},
        {R"("stop_token_ids":[1000])", "stop_token_ids[0]"},
        {R"("stop_token_ids":[1,-1])", "stop_token_ids[1]"},
        {R"("stop_token_ids":3)", "stop_token_ids"},
        {R"("ignore_eos":1)", "ignore_eos"},
        {R"("min_tokens":-1)", "min_tokens"},
        {R"("min_tokens":11,"max_tokens":10)", "min_tokens"},
        {R"("logit_bias":{"-1":1})", "logit_bias.-1"},
        {R"("logit_bias":{"1000":1})", "logit_bias.1000"},
        {R"("logit_bias":{"99999999999":1})", "logit_bias.99999999999"},
        {R"("logit_bias":{"1e3":1})", "logit_bias.1e3"},
        {R"("logit_bias":{" 5":1})", "logit_bias. 5"},
        {R"("logit_bias":{"5 ":1})", "logit_bias.5 "},
        {R"("logit_bias":{"05":1})", "logit_bias.05"},
        {R"("logit_bias":{"+5":1})", "logit_bias.+5"},
        {R"("logit_bias":{"":1})", "logit_bias."},
        {R"("logit_bias":{"AI":-100})", "logit_bias.AI"},
        {R"("logit_bias":{"5":1e39})", "logit_bias.5"},
        {R"("logit_bias":{"5":"-inf"})", "logit_bias.5"},
        {R"("logit_bias":{"5":null})", "logit_bias.5"},
        {R"("logit_bias":{"5":100.5})", "logit_bias.5"},
        {R"("logit_bias":[[5]])", "logit_bias[0]"},
        {R"("logit_bias":[[1,1],[1000,1]])", "logit_bias[1][0]"},
        {R"("logit_bias":[[1,"x"]])", "logit_bias[0][1]"},
        {R"("logit_bias":"x")", "logit_bias"},
        {R"("logprobs":1)", "logprobs"},
        {R"("top_logprobs":2)", "top_logprobs"},
        {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
        {R"("stream":"yes")", "stream"},
        {R"("stream_options":{})", "stream_options"},
        {R"("stream":true,"stream_options":"x")", "stream_options"},
        {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
        {R"("priority":101)", "priority"},
        {R"("priority":1)", "priority"},
        {R"("timeout":0)", "timeout"},
        {R"("timeout":"1")", "timeout"},
        {R"("cache_prompt":0)", "cache_prompt"},
        {R"("cache_salt":5)", "cache_salt"},
        {R"("return_token_ids":"x")", "return_token_ids"},
        {R"("return_progress":"x")", "return_progress"},
        {R"("timings_per_token":"x")", "timings_per_token"},
        {R"("best_of":2)", "best_of"},
        {R"("use_beam_search":true)", "use_beam_search"},
        {R"("length_penalty":0.5)", "length_penalty"},
        {R"("thinking":true)", "thinking"},
        {R"("thinking":{})", "thinking.type"},
        {R"("thinking":{"type":"on"})", "thinking.type"},
        {R"("thinking":{"type":"enabled","budget_tokens":-5})", "thinking.budget_tokens"},
        {R"("reasoning_effort":"extreme")", "reasoning_effort"},
        {R"("reasoning_effort":3)", "reasoning_effort"},
        {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
        {R"("chat_template_kwargs":{"thinking":1})", "chat_template_kwargs.thinking"},
        {R"("chat_template_kwargs":{"thinking_mode":"x"})", "chat_template_kwargs.thinking_mode"},
        {R"("chat_template_kwargs":{"reasoning_effort":"x"})",
         "chat_template_kwargs.reasoning_effort"},
        {R"("chat_template_kwargs":{"drop_thinking":"x"})", "chat_template_kwargs.drop_thinking"},
        {R"("reasoning_format":"raw")", "reasoning_format"},
        {R"("include_reasoning":"no")", "include_reasoning"},
        {R"("max_reasoning_tokens":-2)", "max_reasoning_tokens"},
        {R"("thinking_budget":0.5)", "thinking_budget"},
        {R"("reasoning_budget_tokens":"x")", "reasoning_budget_tokens"},
        {R"("add_generation_prompt":"x")", "add_generation_prompt"},
        {R"("continue_final_message":"x")", "continue_final_message"},
        {R"("continue_final_message":true)", "messages[0]"},
        {R"("modalities":["text","audio"])", "modalities"},
        {R"("audio":{"voice":"x"})", "audio"},
        {R"("web_search_options":{})", "web_search_options"},
        {R"("mm_processor_kwargs":{"max_tokens":385})", "mm_processor_kwargs.max_tokens"},
        {R"("mm_processor_kwargs":{"x":1})", "mm_processor_kwargs.x"},
        {R"("extra_body":3)", "extra_body"},
        {R"("extra_body":{"temperature":5})", "temperature"},
        {R"("tools":{})", "tools"},
        {R"("tools":[3])", "tools[0]"},
        {R"("tools":[{"function":{"name":"f"}}])", "tools[0].type"},
        {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
        {R"("tools":[{"type":"function"}])", "tools[0].function"},
        {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
        {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
        {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])",
         "tools[0].function.parameters"},
        {R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"array"}}}])",
         "tools[0].function.parameters.type"},
        {R"("tools":[{"type":"function","function":{"name":"f","description":5}}])",
         "tools[0].function.description"},
        {R"("functions":[{"name":"a b"}])", "functions[0].name"},
        {R"("functions":[{"name":"f"}],"function_call":{"name":"g"})", "function_call.name"},
        {R"("tool_choice":"required")", "tool_choice"},
        {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
        {R"("parallel_tool_calls":"x")", "parallel_tool_calls"},
        {R"("response_format":"json")", "response_format"},
        {R"("response_format":{"type":"xml"})", "response_format.type"},
        {R"("guided_json":{},"grammar":"x")", "grammar"},
        {R"("response_format":{"type":"json_object"},"guided_regex":"x")", "guided_regex"},
    };
    for (const Bad& bad : cases) {
        const auto request = parse(with(bad.members));
        ASSERT_FALSE(request.has_value()) << bad.members;
        EXPECT_EQ(request.error().status, 400) << bad.members;
        EXPECT_EQ(request.error().param, bad.param) << bad.members << request.error().message;
        EXPECT_FALSE(request.error().message.empty()) << bad.members;
    }
}

TEST(ChatRequest, ToolChoiceMustNameADeclaredTool) {
    const std::string tools = fmt::format(R"("tools":[{}],)", kTool);
    const Bad cases[] = {
        {R"("tool_choice":"maybe")", "tool_choice"},
        {R"("tool_choice":5)", "tool_choice"},
        {R"("tool_choice":{"type":"custom"})", "tool_choice.type"},
        {R"("tool_choice":{"type":"function","function":{"name":"g"}})",
         "tool_choice.function.name"},
        {R"("tool_choice":{"type":"function"})", "tool_choice.name"},
        {R"("tool_choice":{"type":"allowed_tools"})", "tool_choice.tools"},
        {R"("tool_choice":{"type":"allowed_tools","mode":"x","tools":[]})", "tool_choice.mode"},
        {R"("functions":[{"name":"h"}])", "functions"},
    };
    for (const Bad& bad : cases) {
        const auto request = parse(with(tools + bad.members));
        ASSERT_FALSE(request.has_value()) << bad.members;
        EXPECT_EQ(request.error().param, bad.param) << bad.members;
    }
    const auto twice = parse(with(fmt::format(R"("tools":[{},{}])", kTool, kTool)));
    ASSERT_FALSE(twice.has_value());
    EXPECT_EQ(twice.error().param, "tools[1].function.name");
}

TEST(ChatRequest, MessagesMustBeANonEmptyArrayOfObjects) {
    const Bad cases[] = {
        {R"({"messages":{}})", "messages"},   {R"({"messages":"Hi"})", "messages"},
        {R"({"messages":[]})", "messages"},   {R"({"messages":[1,2]})", "messages[0]"},
        {R"({"messages":null})", "messages"}, {R"({})", "messages"}};
    for (const Bad& bad : cases) {
        const auto request = parse(bad.members);
        ASSERT_FALSE(request.has_value()) << bad.members;
        EXPECT_EQ(request.error().status, 400);
        EXPECT_EQ(request.error().param, bad.param) << bad.members;
    }
    EXPECT_EQ(parse("{}").error().code, "missing_required");
}

TEST(ChatRequest, BrokenBodiesAreInvalidJson) {
    const std::string body = with(R"("temperature":0.5,"stop":["é"])");
    for (size_t n = 0; n < body.size(); ++n) {
        const auto request = parse(body.substr(0, n));
        ASSERT_FALSE(request.has_value()) << n;
        EXPECT_EQ(request.error().status, 400);
        EXPECT_EQ(request.error().code, "invalid_json") << n;
    }
    for (const char* text : {"{:", "[", "7", "null", "[]", "\"x\""}) {
        EXPECT_EQ(parse(text).error().status, 400) << text;
    }
    EXPECT_EQ(parse(body + "x").error().code, "invalid_json");
    EXPECT_TRUE(parse("\xEF\xBB\xBF" + body).has_value());
    EXPECT_EQ(parse(with(R"("temperature":NaN)")).error().code, "invalid_json");
}

TEST(ChatRequest, NestingIsBoundedEverywhere) {
    const auto nested = [](int depth, char open, char close) {
        return std::string(static_cast<size_t>(depth), open) +
               std::string(static_cast<size_t>(depth), close);
    };
    EXPECT_TRUE(parse(with("\"ignored\":" + nested(127, '[', ']'))).has_value());
    for (const int depth : {128, 5000, 1000000}) {
        for (const char* field : {"ignored", "tools", "response_format", "messages"}) {
            const auto request =
                parse(fmt::format("{{\"{}\":{}}}", field, nested(depth, '[', ']')));
            ASSERT_FALSE(request.has_value());
            EXPECT_EQ(request.error().code, "invalid_json") << field << depth;
        }
    }
}

TEST(ChatRequest, DefaultsAreTheDocumentedOnes) {
    const ChatRequest request = good("");
    const SamplingParams& params = request.sampling.params;
    EXPECT_EQ(params.temperature, 1.0f);
    EXPECT_EQ(params.top_p, 1.0f);
    EXPECT_EQ(params.top_k, 0);
    EXPECT_EQ(params.min_p, 0.0f);
    EXPECT_EQ(params.repetition_penalty, 1.0f);
    EXPECT_EQ(params.n_logprobs, -1);
    EXPECT_EQ(request.sampling.n, 1);
    EXPECT_FALSE(request.sampling.max_tokens.has_value());
    EXPECT_EQ(request.thinking.mode, ThinkingMode::kThinking);
    EXPECT_EQ(request.thinking.effort, ReasoningEffort::kHigh);
    EXPECT_EQ(request.thinking.budget, -1);
    EXPECT_TRUE(request.thinking.split);
    EXPECT_TRUE(request.tools.parallel);
    EXPECT_FALSE(request.tools.has_tools());
    EXPECT_FALSE(request.sampling.stream.stream);
}

TEST(ChatRequest, NullMeansNotGiven) {
    const ChatRequest request = good(
        R"("temperature":null,"tools":null,"stop":null,"seed":null,"stream_options":null,)"
        R"("response_format":null,"logit_bias":null,"audio":null,"max_tokens":null,"thinking":null)");
    EXPECT_EQ(request.sampling.params.temperature, 1.0f);
    EXPECT_FALSE(request.sampling.max_tokens.has_value());
}

TEST(ChatRequest, NumbersThatAreIntegersPass) {
    const ChatRequest request = good(R"("max_tokens":4.0,"seed":18446744073709551615,"top_k":1e2)");
    EXPECT_EQ(request.sampling.max_tokens, 4);
    EXPECT_EQ(request.sampling.params.seed, 18446744073709551615U);
    EXPECT_EQ(request.sampling.params.top_k, 100);
}

TEST(ChatRequest, ExtremeValuesStayInTheRangeOfTheSampler) {
    const SamplingParams params =
        good(
            R"("top_p":0,"typical_p":1e-60,"repetition_penalty":1e-60,"temperature":1e-60,"top_k":-1)")
            .sampling.params;
    EXPECT_GT(params.top_p, 0.0f);
    EXPECT_GT(params.typical_p, 0.0f);
    EXPECT_GT(params.repetition_penalty, 0.0f);
    EXPECT_GE(params.temperature, 0.0f);
    EXPECT_EQ(params.top_k, 0);
}

TEST(ChatRequest, FirstNameOfTheTokenLimitWins) {
    EXPECT_EQ(good(R"("n_predict":3,"max_tokens":2,"max_completion_tokens":1)").sampling.max_tokens,
              1);
    EXPECT_EQ(good(R"("n_predict":3,"max_tokens":2)").sampling.max_tokens, 2);
    EXPECT_EQ(good(R"("max_tokens":0)").sampling.max_tokens, 0);
    EXPECT_FALSE(good(R"("max_tokens":-1)").sampling.max_tokens.has_value());
}

TEST(ChatRequest, LogitBiasOfMinusHundredBans) {
    const auto bias = good(R"("logit_bias":{"5":-100,"0":1.5})").sampling.params.logit_bias;
    ASSERT_EQ(bias.size(), 2u);
    EXPECT_EQ(bias[0], (std::pair{0, 1.5f}));
    EXPECT_TRUE(std::isinf(bias[1].second));
    EXPECT_EQ(good(R"("logit_bias":[[7,2]])").sampling.params.logit_bias[0], (std::pair{7, 2.0f}));
}

TEST(ChatRequest, SeedIsDrawnWhenAbsentOrMinusOne) {
    EXPECT_NE(good("").sampling.params.seed, good("").sampling.params.seed);
    EXPECT_NE(good(R"("seed":-1)").sampling.params.seed, good(R"("seed":-1)").sampling.params.seed);
    EXPECT_EQ(good(R"("seed":-2)").sampling.params.seed, static_cast<uint64_t>(-2));
}

TEST(ChatRequest, EmptyStopStringsAreDropped) {
    EXPECT_EQ(good(R"("stop":"")").sampling.stops.size(), 0u);
    EXPECT_EQ(good(R"("stop":["","a"])").sampling.stops, std::vector<std::string>{"a"});
    EXPECT_EQ(good(R"("stop":"x")").sampling.stops, std::vector<std::string>{"x"});
    EXPECT_FALSE(parse(with("\"stop\":\"" + std::string(1025, 'a') + "\"")).has_value());
}

TEST(ChatRequest, UsageInAStreamOnlyWhenAskedFor) {
    EXPECT_FALSE(good(R"("stream":true,"stream_options":{})").sampling.stream.include_usage);
    EXPECT_FALSE(good(R"("stream":true,"stream_options":{"include_usage":false})")
                     .sampling.stream.include_usage);
    EXPECT_FALSE(good(R"("stream":true,"stream_options":null)").sampling.stream.include_usage);
    EXPECT_TRUE(good(R"("stream":true,"stream_options":{"include_usage":true})")
                    .sampling.stream.include_usage);
}

TEST(ChatRequest, ThinkingSwitchesHaveAnOrder) {
    struct Case {
        const char* members;
        bool thinking;
    };
    const Case cases[] = {
        {"", true},
        {R"("thinking":{"type":"disabled"})", false},
        {R"("thinking":{"type":"enabled"},"reasoning_effort":"none")", true},
        {R"("reasoning_effort":"none")", false},
        {R"("reasoning_effort":"none","chat_template_kwargs":{"thinking":true})", false},
        {R"("chat_template_kwargs":{"thinking":false})", false},
        {R"("chat_template_kwargs":{"enable_thinking":false})", false},
        {R"("chat_template_kwargs":{"thinking_mode":"chat"})", false},
        {R"("chat_template_kwargs":{"reasoning_effort":"none"})", false},
        {R"("enable_thinking":false)", false},
        {R"("extra_body":{"thinking":{"type":"disabled"}})", false},
        {R"("extra_body":{"chat_template_kwargs":{"thinking":false}})", false},
        {R"("model":"deepseek-chat")", false},
        {R"("model":"deepseek-chat","thinking":{"type":"enabled"})", true},
        {R"("model":"deepseek-reasoner")", true},
    };
    for (const Case& c : cases) {
        EXPECT_EQ(good(c.members).thinking.mode == ThinkingMode::kThinking, c.thinking)
            << c.members;
    }
    RequestRules off = small_rules();
    off.default_thinking = false;
    EXPECT_EQ(good("", off).thinking.mode, ThinkingMode::kChat);
    EXPECT_EQ(good(R"("model":"deepseek-reasoner")", off).thinking.mode, ThinkingMode::kThinking);
}

TEST(ChatRequest, EffortNamesMapToThreeLevels) {
    const std::pair<const char*, ReasoningEffort> cases[] = {
        {"minimal", ReasoningEffort::kLow}, {"low", ReasoningEffort::kLow},
        {"medium", ReasoningEffort::kHigh}, {"high", ReasoningEffort::kHigh},
        {"xhigh", ReasoningEffort::kHigh},  {"max", ReasoningEffort::kMax},
        {"ultra", ReasoningEffort::kMax}};
    for (const auto& [name, effort] : cases) {
        EXPECT_EQ(good(fmt::format(R"("reasoning_effort":"{}")", name)).thinking.effort, effort);
        EXPECT_EQ(good(fmt::format(R"("chat_template_kwargs":{{"reasoning_effort":"{}"}})", name))
                      .thinking.effort,
                  effort);
    }
}

TEST(ChatRequest, BudgetHasManyNames) {
    EXPECT_EQ(good(R"("thinking":{"type":"enabled","budget_tokens":7})").thinking.budget, 7);
    EXPECT_EQ(good(R"("thinking_budget":8)").thinking.budget, 8);
    EXPECT_EQ(good(R"("reasoning_budget_tokens":9)").thinking.budget, 9);
    EXPECT_EQ(good(R"("thinking_budget":8,"max_reasoning_tokens":0)").thinking.budget, 0);
}

TEST(ChatRequest, ToolChoices) {
    const std::string tools =
        fmt::format(R"("tools":[{},{}],)", kTool, R"({"type":"function","function":{"name":"g"}})");
    EXPECT_EQ(good(tools + R"("tool_choice":"none")").tools.choice, ToolRequest::Choice::kNone);
    EXPECT_EQ(good(tools + R"("tool_choice":"auto")").tools.choice, ToolRequest::Choice::kAuto);
    const ChatRequest named =
        good(tools + R"("tool_choice":{"type":"function","function":{"name":"g"}})");
    EXPECT_EQ(named.tools.choice, ToolRequest::Choice::kNamed);
    EXPECT_EQ(named.tools.name, "g");
    const ChatRequest subset = good(
        tools +
        R"("tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","function":{"name":"g"}}]})");
    EXPECT_EQ(subset.tools.choice, ToolRequest::Choice::kRequired);
    ASSERT_EQ(subset.tools.tools.items.size(), 1u);
    EXPECT_EQ(good(R"("tool_choice":"none")").tools.has_tools(), false);
    EXPECT_EQ(good(R"("tools":[],"tool_choice":"auto")").tools.has_tools(), false);
    RequestRules drop = small_rules();
    drop.drop_tools_on_none = true;
    EXPECT_FALSE(good(tools + R"("tool_choice":"none")", drop).tools.has_tools());
}

TEST(ChatRequest, LegacyFunctionsBecomeTools) {
    const ChatRequest request = good(
        R"("functions":[{"name":"f","parameters":{"type":"object"}}],"function_call":{"name":"f"})");
    EXPECT_TRUE(request.tools.legacy_reply);
    ASSERT_EQ(request.tools.tools.items.size(), 1u);
    EXPECT_EQ(
        python_json(request.tools.tools.items[0]),
        R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}})");
    EXPECT_EQ(request.tools.choice, ToolRequest::Choice::kNamed);
}

TEST(ChatRequest, ToolSchemasAreBounded) {
    std::string deep = "{}";
    for (int k = 0; k < 70; ++k) {
        deep = R"({"properties":)" + deep + "}";
    }
    const std::string head = R"("tools":[{"type":"function","function":{"name":"f","parameters":)";
    EXPECT_EQ(parse(with(head + deep + "}}]")).error().param, "tools[0].function.parameters");
    const std::string wide = R"({"description":")" + std::string(300000, 'x') + R"("})";
    EXPECT_EQ(parse(with(head + wide + "}}]")).error().param, "tools[0].function.parameters");
}

TEST(ChatRequest, StructuredOutputIsRefusedByName) {
    const Bad cases[] = {
        {R"("response_format":{"type":"json_object"})", "response_format.type"},
        {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.type"},
        {R"("guided_json":{})", "guided_json"},
        {R"("guided_regex":"a")", "guided_regex"},
        {R"("guided_choice":["a"])", "guided_choice"},
        {R"("guided_grammar":"a")", "guided_grammar"},
        {R"("structured_outputs":{"json":{}})", "structured_outputs"},
        {R"("grammar":"root ::= x")", "grammar"},
        {R"("json_schema":{})", "json_schema"},
    };
    for (const Bad& bad : cases) {
        const auto request = parse(with(bad.members));
        ASSERT_FALSE(request.has_value()) << bad.members;
        EXPECT_EQ(request.error().status, 501) << bad.members;
        EXPECT_EQ(request.error().type, "not_supported_error");
        EXPECT_EQ(request.error().param, bad.param);
    }
    EXPECT_EQ(good(R"("response_format":{"type":"text"})").sampling.n, 1);
}

TEST(ChatRequest, UnknownFieldsAreIgnoredUnlessStrict) {
    good(R"("some_new_field":{"a":1},"user":"u","store":true,"metadata":{},"verbosity":"low")");
    RequestRules strict = small_rules();
    strict.strict_params = true;
    const auto request = parse(with(R"("some_new_field":1)"), strict);
    ASSERT_FALSE(request.has_value());
    EXPECT_EQ(request.error().param, "some_new_field");
    EXPECT_TRUE(
        parse(with(R"("user":"u","extra_body":{"top_k":5},"mm_processor_kwargs":{})"), strict)
            .has_value());
}

TEST(ChatRequest, UnknownModelsAreServedUnlessStrict) {
    good(R"("model":"gpt-4o")");
    RequestRules strict = small_rules();
    strict.strict_model = true;
    EXPECT_EQ(parse(with(R"("model":"gpt-4o")"), strict).error().code, "model_not_found");
    EXPECT_EQ(parse(with(R"("model":"gpt-4o")"), strict).error().status, 404);
    for (const char* name : {"tiny", "other", "deepseek-flash", "deepseek-v4-flash-vision-exp"}) {
        EXPECT_TRUE(parse(with(fmt::format(R"("model":"{}")", name)), strict).has_value()) << name;
    }
}

TEST(ChatRequest, ContinuationByFlagOrPrefix) {
    EXPECT_TRUE(parse(R"({"messages":[{"role":"user","content":"a"},
        {"role":"assistant","content":"b","prefix":true}]})")
                    ->continue_final);
    EXPECT_TRUE(parse(R"({"messages":[{"role":"assistant","content":"b"}],
        "continue_final_message":true})")
                    ->continue_final);
    EXPECT_FALSE(parse(R"({"messages":[{"role":"assistant","content":"b"}]})")->continue_final);
}

TEST(ChatRequest, FixedSamplingAppliesWhileThinking) {
    RequestRules rules = small_rules();
    rules.thinking_fixed_sampling = true;
    const char* members = R"("temperature":0.1,"top_p":0.5,"presence_penalty":1)";
    EXPECT_EQ(good(members, rules).sampling.params.temperature, 1.0f);
    EXPECT_EQ(good(members, rules).sampling.params.presence_penalty, 0.0f);
    EXPECT_EQ(good(std::string(members) + R"(,"thinking":{"type":"disabled"})", rules)
                  .sampling.params.temperature,
              0.1f);
}

TEST(ChatRequest, TheSameBadRequestGetsTheSameAnswer) {
    const std::string body = with(R"("temperature":9,"top_p":9,"stop":9)");
    EXPECT_EQ(parse(body).error().message, parse(body).error().message);
    EXPECT_EQ(parse(body).error().message, "'temperature' must be a number in [0, 2], got 9");
}

tl::expected<CompletionRequest, ApiError> parse_completion(const std::string& body) {
    const auto json = parse_body(body);
    if (!json) {
        return tl::unexpected(json.error());
    }
    return parse_completion_request(*json, small_rules());
}

TEST(CompletionRequest, PromptHasFourForms) {
    EXPECT_EQ(parse_completion(R"({"prompt":"a"})")->prompts[0].text, "a");
    EXPECT_EQ(parse_completion(R"({"prompt":""})")->prompts.size(), 1u);
    EXPECT_EQ(parse_completion(R"({"prompt":["a","b"]})")->prompts.size(), 2u);
    EXPECT_EQ(parse_completion(R"({"prompt":[1,2.0]})")->prompts[0].ids,
              (std::vector<int32_t>{1, 2}));
    EXPECT_EQ(parse_completion(R"({"prompt":[[1],[2,3]]})")->prompts[1].ids,
              (std::vector<int32_t>{2, 3}));
    EXPECT_EQ(parse_completion(R"({"prompt":"a"})")->sampling.max_tokens, 16);
}

TEST(CompletionRequest, BadTokenIdsNameIndexAndValue) {
    for (const char* prompt :
         {"[-1]", "[1000]", "[2147483648]", "[9007199254740992]", "[1.5]", "[1,\"x\"]", "[null]",
          "[[1],2]", "[[]]", "[]", "[[[1]]]", "[\"a\",1]", "{}", "5", "[1,[2]]", "[true]"}) {
        const auto request = parse_completion(fmt::format("{{\"prompt\":{}}}", prompt));
        ASSERT_FALSE(request.has_value()) << prompt;
        EXPECT_EQ(request.error().status, 400);
        EXPECT_EQ(request.error().param, "prompt") << prompt;
    }
    EXPECT_EQ(parse_completion(R"({"prompt":[4,-1]})").error().message,
              "'prompt[1]' must be a token id from 0 to 999, got -1");
    EXPECT_EQ(parse_completion("{}").error().code, "missing_required");
}

TEST(CompletionRequest, OwnFieldsRefuseWrongValues) {
    const Bad cases[] = {
        {R"("suffix":"x")", "suffix"},    {R"("echo":1)", "echo"},
        {R"("logprobs":21)", "logprobs"}, {R"("logprobs":true)", "logprobs"},
        {R"("add_bos":1)", "add_bos"},    {R"("parse_special":1)", "parse_special"},
        {R"("best_of":3)", "best_of"},    {R"("temperature":3)", "temperature"}};
    for (const Bad& bad : cases) {
        const auto request = parse_completion(fmt::format(R"({{"prompt":"a",{}}})", bad.members));
        ASSERT_FALSE(request.has_value()) << bad.members;
        EXPECT_EQ(request.error().param, bad.param);
    }
    EXPECT_TRUE(parse_completion(R"({"prompt":"a","suffix":"","n":2,"best_of":2})").has_value());
}

} // namespace
} // namespace dsv4v
