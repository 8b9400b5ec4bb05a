// A tokenizer of a few hundred tokens: every byte, the special tokens of the chat format, and extra
// multi-byte tokens that encode() never yields but a scripted backend can emit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/byte_level.h"
#include "engine/prompt_strings.h"
#include "engine/tokenizer.h"
#include "loaders/base/check.h"

namespace dsv4v::testing {

inline std::string byte_level_text(std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) {
        text += byte_level_char(static_cast<uint8_t>(byte));
    }
    return text;
}

inline void add_token(Vocab& vocab, std::string text, TokenType type) {
    vocab.tokens.push_back(std::move(text));
    vocab.types.push_back(type);
}

inline constexpr int32_t kFirstByteId = 2; // id of byte b: kFirstByteId + b

inline Vocab small_vocab(const std::vector<std::string>& extra_tokens = {}) {
    Vocab vocab;
    add_token(vocab, std::string(prompt::kBos), TokenType::kControl);
    add_token(vocab, std::string(prompt::kEos), TokenType::kControl);
    for (int byte = 0; byte < 256; ++byte) {
        add_token(vocab, byte_level_char(static_cast<uint8_t>(byte)), TokenType::kNormal);
    }
    for (const std::string_view text :
         {prompt::kUser, prompt::kAssistant, prompt::kLatestReminder}) {
        add_token(vocab, std::string(text), TokenType::kControl);
    }
    for (const std::string_view text : {prompt::kThinkOpen, prompt::kThinkClose, prompt::kDsml}) {
        add_token(vocab, std::string(text), TokenType::kUserDefined);
    }
    for (const std::string& text : extra_tokens) {
        add_token(vocab, byte_level_text(text), TokenType::kNormal);
    }
    return vocab;
}

inline int32_t first_extra_id() {
    return static_cast<int32_t>(small_vocab().tokens.size());
}

inline Tokenizer small_tokenizer(const std::vector<std::string>& extra_tokens = {}) {
    auto tokenizer = Tokenizer::create(small_vocab(extra_tokens));
    DSV4V_CHECK(tokenizer.has_value());
    return std::move(*tokenizer);
}

} // namespace dsv4v::testing
