// Reads a chat stream the way a strict client does: every chunk must have the documented shape, and
// the chunks together give the message that a whole body would have.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/server/api_fixture.h"

namespace dsv4v::testing {

struct StreamedChoice {
    bool has_role = false;
    std::string content;
    std::string reasoning;
    struct Call {
        std::string id;
        std::string name;
        std::string arguments;
    };
    std::vector<Call> calls;
    std::string logprob_bytes; // of content
    std::string finish_reason; // "" = not finished
    std::string stop_reason;   // as JSON
    std::vector<int64_t> token_ids;
};

struct StreamedReply {
    std::map<int64_t, StreamedChoice> choices;
    const JsonValue* usage = nullptr;
};

inline std::vector<std::string> names_of(const JsonValue& object) {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.members) {
        names.push_back(name);
    }
    return names;
}

inline void expect_prefix(const JsonValue& object, const std::vector<std::string>& expected) {
    std::vector<std::string> names = names_of(object);
    ASSERT_GE(names.size(), expected.size()) << python_json(object);
    names.resize(expected.size());
    EXPECT_EQ(names, expected) << python_json(object);
}

inline void append_bytes(const JsonValue* entries, std::string& out) {
    if (entries == nullptr || !entries->is_array()) {
        return;
    }
    for (const JsonValue& entry : entries->items) {
        for (const JsonValue& byte : entry.find("bytes")->items) {
            out.push_back(static_cast<char>(*byte.as_int()));
        }
    }
}

inline void check_call_delta(const JsonValue& calls, StreamedChoice& choice) {
    ASSERT_EQ(calls.items.size(), 1u);
    const JsonValue& call = calls.items[0];
    const auto index = static_cast<size_t>(*call.find("index")->as_int());
    const JsonValue& function = *call.find("function");
    if (call.find("id") != nullptr) {
        EXPECT_EQ(names_of(call), (std::vector<std::string>{"index", "id", "type", "function"}));
        EXPECT_EQ(names_of(function), (std::vector<std::string>{"name", "arguments"}));
        ASSERT_EQ(index, choice.calls.size());
        EXPECT_EQ(function.find("arguments")->text, "");
        const std::string& id = call.find("id")->text;
        EXPECT_TRUE(id.starts_with("call_") && id.size() == 29) << id;
        choice.calls.push_back({id, function.find("name")->text, ""});
    } else {
        EXPECT_EQ(names_of(call), (std::vector<std::string>{"index", "function"}));
        ASSERT_EQ(index + 1, choice.calls.size());
        choice.calls[index].arguments += function.find("arguments")->text;
    }
}

inline void check_delta(const JsonValue& delta, bool last, StreamedChoice& choice) {
    EXPECT_TRUE(choice.finish_reason.empty()) << "a chunk after the finish reason";
    if (last) {
        EXPECT_TRUE(delta.members.empty()) << python_json(delta);
        return;
    }
    const std::vector<std::string> names = names_of(delta);
    if (names == std::vector<std::string>{"role", "content"}) {
        EXPECT_FALSE(choice.has_role);
        EXPECT_EQ(delta.find("role")->text, "assistant");
        EXPECT_EQ(delta.find("content")->text, "");
        choice.has_role = true;
        return;
    }
    EXPECT_TRUE(choice.has_role) << "the role comes first";
    ASSERT_EQ(names.size(), 1u) << python_json(delta);
    if (names[0] == "reasoning_content") {
        EXPECT_TRUE(choice.content.empty() && choice.calls.empty()) << "reasoning comes first";
        EXPECT_FALSE(delta.find(names[0])->text.empty());
        choice.reasoning += delta.find(names[0])->text;
    } else if (names[0] == "content") {
        EXPECT_TRUE(choice.calls.empty()) << "content comes before calls";
        EXPECT_FALSE(delta.find(names[0])->text.empty());
        choice.content += delta.find(names[0])->text;
    } else {
        ASSERT_EQ(names[0], "tool_calls");
        check_call_delta(*delta.find(names[0]), choice);
    }
}

inline void check_choice(const JsonValue& json, StreamedReply& reply) {
    expect_prefix(json, {"index", "delta", "logprobs", "finish_reason"});
    StreamedChoice& choice = reply.choices[*json.find("index")->as_int()];
    const JsonValue& finish = *json.find("finish_reason");
    check_delta(*json.find("delta"), !finish.is_null(), choice);
    if (!finish.is_null()) {
        choice.finish_reason = finish.text;
        ASSERT_NE(json.find("stop_reason"), nullptr);
        choice.stop_reason = python_json(*json.find("stop_reason"));
    }
    if (json.find("logprobs")->is_object()) {
        append_bytes(json.find("logprobs")->find("content"), choice.logprob_bytes);
    }
    if (const JsonValue* ids = json.find("token_ids")) {
        for (const JsonValue& id : ids->items) {
            choice.token_ids.push_back(*id.as_int());
        }
    }
}

inline StreamedReply check_stream(const ApiReply& reply, bool include_usage) {
    StreamedReply out;
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_TRUE(reply.done);
    EXPECT_FALSE(reply.events.empty());
    for (size_t k = 0; k < reply.events.size(); ++k) {
        const JsonValue& event = reply.events[k];
        expect_prefix(event, {"id", "object", "created", "model", "system_fingerprint", "choices"});
        EXPECT_EQ(event.find("id")->text, reply.events[0].find("id")->text);
        EXPECT_EQ(event.find("created")->text, reply.events[0].find("created")->text);
        EXPECT_EQ(event.find("object")->text, "chat.completion.chunk");
        const JsonValue& choices = *event.find("choices");
        const bool last = k + 1 == reply.events.size();
        if (include_usage && last) {
            EXPECT_TRUE(choices.items.empty());
            out.usage = event.find("usage");
            EXPECT_TRUE(out.usage != nullptr && out.usage->is_object());
            continue;
        }
        EXPECT_EQ(choices.items.size(), 1u) << python_json(event);
        const JsonValue* usage = event.find("usage");
        EXPECT_EQ(usage != nullptr, include_usage) << python_json(event);
        EXPECT_TRUE(usage == nullptr || usage->is_null());
        for (const JsonValue& choice : choices.items) {
            check_choice(choice, out);
        }
    }
    return out;
}

} // namespace dsv4v::testing
