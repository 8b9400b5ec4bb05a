// Prompt parts -> token ids with the real vocabulary.
#include <set>

#include <gtest/gtest.h>

#include "engine/chat_encoder.h"
#include "engine/chat_normalizer.h"
#include "loaders/base/check.h"
#include "tests/engine/chat_cases.h"
#include "tests/real_vocab.h"

namespace dsv4v {
namespace {

using testing::encode_cases;
using testing::json;
using testing::member;

constexpr int32_t kImageId = 129264; // how the reference spells a picture

const Tokenizer& tokenizer() {
    static const Tokenizer instance = [] {
        auto created = Tokenizer::create(
            testing::read_real_vocab(testing::source_data("tokenizer/dsv4_vocab.txt.gz")));
        DSV4V_CHECK(created.has_value());
        return std::move(*created);
    }();
    return instance;
}

std::vector<int32_t> tokenize(const EncodedChat& chat) {
    std::vector<int32_t> ids;
    std::vector<PromptPart> run;
    const auto flush = [&] {
        const auto run_ids = tokenize_prompt(tokenizer(), run);
        ids.insert(ids.end(), run_ids.begin(), run_ids.end());
        run.clear();
    };
    for (const PromptPart& part : chat.parts) {
        if (part.image_idx < 0) {
            run.push_back(part);
            continue;
        }
        flush();
        ids.push_back(kImageId);
    }
    flush();
    return ids;
}

std::vector<int32_t> int_list(const JsonValue& list) {
    std::vector<int32_t> ids;
    for (const JsonValue& item : list.items) {
        ids.push_back(static_cast<int32_t>(*item.as_int()));
    }
    return ids;
}

TEST(ChatTokens, EqualEveryReferenceCase) {
    int n_checked = 0;
    for (const JsonValue& test_case : encode_cases().items) {
        SCOPED_TRACE(member(test_case, "id").text);
        const auto expected = testing::expectation_of(test_case);
        if (expected.outcome == nullptr) {
            continue;
        }
        const JsonValue& source = expected.from_server ? member(test_case, "server") : test_case;
        const JsonValue* safe = source.find("safe_ids");
        const JsonValue& ids = safe != nullptr ? *safe : member(source, "prompt_ids");
        ASSERT_TRUE(ids.is_array());
        const auto chat = testing::encode_case(test_case, expected.from_server);
        ASSERT_TRUE(chat.has_value()) << chat.error().message;
        EXPECT_EQ(tokenize(*chat), int_list(ids));
        ++n_checked;
    }
    EXPECT_GT(n_checked, 125);
}

// Ids of special tokens in `ids`, in order.
std::vector<int32_t> special_ids(const std::vector<int32_t>& ids, const std::set<int32_t>& all) {
    std::vector<int32_t> found;
    for (const int32_t id : ids) {
        if (all.contains(id)) {
            found.push_back(id);
        }
    }
    return found;
}

// A conversation with `text` in every place that a client, a tool or the model can fill.
std::vector<int32_t> ids_with(const std::string& text) {
    const std::string quoted = python_json_string(text);
    const std::string arguments = python_json_string("{" + quoted + ": " + quoted + ", \"o\": {" +
                                                     quoted + ": [" + quoted + "]}}");
    const JsonValue messages = json(
        R"([{"role":"system","content":)" + quoted + R"(},{"role":"latest_reminder","content":)" +
        quoted + R"(},{"role":"user","content":[{"type":"text","text":)" + quoted +
        R"(}]},{"role":"assistant","content":)" + quoted + R"(,"reasoning_content":)" + quoted +
        R"(,"tool_calls":[{"id":"c","function":{"name":)" + quoted + R"(,"arguments":)" +
        arguments + R"(}},{"id":"d","function":{"name":"g","arguments":)" +
        python_json_string("no json " + text) +
        R"(}}]},{"role":"tool","tool_call_id":"c","content":)" + quoted +
        R"(},{"role":"tool","tool_call_id":"d","content":{)" + quoted + R"(:1}}])");
    const JsonValue tools =
        json(R"([{"function":{"name":)" + quoted + R"(,"description":)" + quoted +
             R"(,"parameters":{"properties":{)" + quoted + R"(:{"enum":[)" + quoted + R"(]}}}}}])");
    const JsonValue schema = json(R"({"title":)" + quoted + "}");
    const auto normal = normalize_messages(messages, &tools, &schema);
    EXPECT_TRUE(normal.has_value()) << normal.error().message;
    const auto chat = encode_chat(*normal, ChatOptions{});
    EXPECT_TRUE(chat.has_value()) << chat.error().message;
    return tokenize(*chat);
}

TEST(ChatTokens, ClientTextNeverYieldsSpecialTokens) {
    const JsonValue list =
        testing::read_json_file(testing::source_data("tokenizer/special_tokens.json"));
    std::set<int32_t> all;
    std::vector<std::string> spellings;
    for (int32_t id = 0; id < tokenizer().vocab_size(); ++id) {
        const std::string spelling(tokenizer().token_bytes(id));
        if (tokenizer().find_special(spelling) == id) {
            all.insert(id);
            spellings.push_back(spelling);
        }
    }
    ASSERT_GE(all.size(), 1283U);
    for (const JsonValue& token : member(list, "tokens").items) {
        ASSERT_TRUE(all.contains(static_cast<int32_t>(*member(token, "id").as_int())));
    }
    const auto trusted = special_ids(ids_with("harmless"), all);
    for (size_t i = 0; i < spellings.size(); ++i) {
        // Placeholders without a meaning differ in a number only: a sample of them is enough.
        if (spellings[i].find("holder") == std::string::npos || i % 50 == 0) {
            ASSERT_EQ(special_ids(ids_with("a" + spellings[i] + "b"), all), trusted)
                << spellings[i];
            ASSERT_EQ(special_ids(ids_with(spellings[i]), all), trusted) << spellings[i];
        }
    }
}

} // namespace
} // namespace dsv4v
