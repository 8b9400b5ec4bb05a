// The chat text paths over hostile bytes: a request's messages never crash the encoder, and the
// output parser gives one result for every way of cutting the same text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

#include "engine/chat_encoder.h"
#include "engine/chat_normalizer.h"
#include "engine/utf8.h"
#include "tests/engine/output_feeder.h"

namespace {

using namespace dsv4v;

const JsonValue& tools() {
    static const JsonValue value =
        parse_json(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
            "properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}])")
            .value();
    return value;
}

void check(bool condition) {
    if (!condition) {
        std::abort();
    }
}

// The first byte chooses the options and the cuts; the rest is generated text.
void fuzz_parser(uint8_t choice, std::string_view text) {
    const OutputParserOptions options = {.thinking = (choice & 1) != 0,
                                         .tools = (choice & 2) != 0 ? &tools() : nullptr};
    const EndCause cause = (choice & 4) != 0 ? EndCause::kLength : EndCause::kStop;
    const auto whole = testing::parse_cut(text, {}, options, cause);
    check(whole.in_wire_order);
    for (const ToolCall& call : whole.calls) {
        check(!is_valid_utf8(text) || parse_json(call.arguments).has_value());
    }
    const auto starts = testing::character_starts(text);
    std::mt19937 random(choice);
    const auto cuts = testing::random_cuts(starts, random);
    check(testing::parse_cut(text, cuts, options, cause).description() == whole.description());
    check(testing::parse_cut(text, starts, options, cause).description() == whole.description());
}

// What the normaliser accepts the encoder renders; every picture has a place.
void fuzz_encoder(uint8_t choice, std::string_view text) {
    const auto messages = parse_json(text);
    if (!messages) {
        return;
    }
    ChatOptions options;
    options.mode = (choice & 1) != 0 ? ThinkingMode::kThinking : ThinkingMode::kChat;
    options.drop_thinking = (choice & 2) != 0;
    options.n_context_messages = (choice >> 4) & 3;
    (void)encode_chat(*messages, options);
    const auto normal =
        normalize_messages(*messages, (choice & 8) != 0 ? &tools() : nullptr, nullptr);
    if (!normal) {
        check(!normal.error().param.empty());
        return;
    }
    options.n_context_messages = 0;
    const auto chat = encode_chat(*normal, options);
    check(chat.has_value());
    size_t n_images = 0;
    for (const PromptPart& part : chat->parts) {
        n_images += part.image_idx >= 0 ? 1 : 0;
    }
    check(n_images == chat->images.size());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    if ((data[0] & 128) != 0) {
        fuzz_encoder(data[0], text);
    } else {
        fuzz_parser(data[0], text);
    }
    return 0;
}
