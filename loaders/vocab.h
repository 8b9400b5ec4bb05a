// The vocabulary table of a GGUF file: plain data, no algorithm. The tokenizer works over it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

class GgufFile;

enum class TokenType : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,     // never visible in output
    kUserDefined = 4, // special, but visible: <think>, the DSML bar token
    kUnused = 5,
    kByte = 6,
};

struct Vocab {
    std::vector<std::string> tokens; // index = id; normal tokens in byte-level spelling
    std::vector<TokenType> types;    // same length
    std::vector<std::string> merges; // "left right", index = rank
    int32_t bos_id = 0;
    int32_t eos_id = 1;

    // Reads tokenizer.ggml.*: model must be gpt2, pre joyai-llm or deepseek-v3; lengths, ids and
    // array types are checked. tokenizer.chat_template is never executed.
    [[nodiscard]] static Expected<Vocab> from_gguf(const GgufFile& file);
};

} // namespace dsv4v
