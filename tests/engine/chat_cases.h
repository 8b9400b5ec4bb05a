// Runs a prompt-encoding reference case as the server would.
#pragma once

#include <string>

#include "engine/chat_encoder.h"
#include "engine/chat_normalizer.h"
#include "tests/engine/chat_golden.h"

namespace dsv4v::testing {

// What a reference case demands of the server, after its deliberate deviations.
struct Expectation {
    const JsonValue* outcome = nullptr; // {prompt, images}
    std::string error;                  // kind of refusal, if there is no outcome
    bool from_server = false;
};

inline Expectation expectation_of(const JsonValue& test_case) {
    const std::string& id = member(test_case, "id").text;
    // Pictures are accepted in assistant messages as in the author's encoder.
    const JsonValue* server = id == "image-in-assistant" ? nullptr : test_case.find("server");
    Expectation expectation;
    expectation.from_server = server != nullptr;
    const JsonValue& source = server != nullptr ? *server : test_case;
    expectation.outcome = source.find("expect");
    const JsonValue& error = member(source, "expect_error");
    expectation.error = error.is_object() ? member(error, "error").text : error.text;
    return expectation;
}

// Options, context and messages of a case.
inline Expected<ChatOptions> options_of(const JsonValue& test_case) {
    const JsonValue& args = member(test_case, "args");
    ChatOptions options;
    DSV4V_ASSIGN_OR_RETURN(options.mode, parse_thinking_mode(member(args, "thinking_mode").text));
    options.effort = ReasoningEffort::kLow;
    if (const JsonValue* effort = args.find("reasoning_effort")) {
        DSV4V_ASSIGN_OR_RETURN(options.effort, parse_reasoning_effort(effort->text));
    }
    const JsonValue* drop = args.find("drop_thinking");
    options.drop_thinking = drop == nullptr || drop->boolean;
    const JsonValue* bos = args.find("add_default_bos_token");
    options.add_bos = bos == nullptr || bos->boolean;
    options.n_context_messages = static_cast<int32_t>(member(args, "context").items.size());
    const std::string& reason = member(member(test_case, "server"), "reason").text;
    options.add_generation_header = reason.find("generation header") != std::string::npos;
    return options;
}

inline Expected<EncodedChat> encode_case(const JsonValue& test_case, bool normalize) {
    DSV4V_ASSIGN_OR_RETURN(const ChatOptions options, options_of(test_case));
    JsonValue messages = member(member(test_case, "args"), "context");
    messages.type = JsonValue::Type::kArray;
    for (const JsonValue& message : member(test_case, "messages").items) {
        messages.items.push_back(message);
    }
    if (!normalize) {
        return encode_chat(messages, options);
    }
    const JsonValue* tools = messages.items[0].find("tools");
    DSV4V_ASSIGN_OR_RETURN(const JsonValue normal, normalize_messages(messages, tools, nullptr));
    return encode_chat(normal, options);
}

} // namespace dsv4v::testing
