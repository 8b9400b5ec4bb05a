// Prompt parts -> token ids; the only part of prompt encoding that needs the vocabulary.
#include "engine/chat_encoder.h"

namespace dsv4v {

std::vector<int32_t> tokenize_prompt(const Tokenizer& tokenizer,
                                     const std::vector<PromptPart>& parts) {
    std::vector<TextPart> texts;
    texts.reserve(parts.size());
    for (const PromptPart& part : parts) {
        texts.push_back({.text = part.text, .trusted = part.trusted});
    }
    return tokenizer.encode(texts);
}

} // namespace dsv4v
