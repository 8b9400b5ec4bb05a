#include "loaders/vocab.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "loaders/base/printable.h"
#include "loaders/gguf_file.h"

namespace dsv4v {
namespace {

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kPreKey = "tokenizer.ggml.pre";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kBosKey = "tokenizer.ggml.bos_token_id";
constexpr const char* kEosKey = "tokenizer.ggml.eos_token_id";
constexpr uint64_t kMaxEntries = 1 << 22;

// A chat prompt cannot be written without these. The bar token of tool calls is not among them:
// only requests with tools need it.
constexpr std::array<std::string_view, 6> kRequiredTokens = {"<｜begin▁of▁sentence｜>",
                                                             "<｜end▁of▁sentence｜>",
                                                             "<｜User｜>",
                                                             "<｜Assistant｜>",
                                                             "<think>",
                                                             "</think>"};

tl::unexpected<Error> corrupt(const GgufFile& file, const char* key, const std::string& reason) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: key {} {}", file.path(), key, reason));
}

Expected<void> check_length(const GgufFile& file, const char* key, uint64_t min) {
    DSV4V_ASSIGN_OR_RETURN(const uint64_t length, file.get_array_length(key));
    if (length < min || length > kMaxEntries) {
        return corrupt(file, key,
                       fmt::format("has {} elements, wanted {} to {}", length, min, kMaxEntries));
    }
    return {};
}

Expected<void> check_algorithm(const GgufFile& file) {
    DSV4V_ASSIGN_OR_RETURN(const std::string model, file.get_string(kModelKey));
    if (model != "gpt2") {
        return corrupt(
            file, kModelKey,
            fmt::format("is \"{}\", wanted \"gpt2\" (byte-level BPE)", printable(model)));
    }
    DSV4V_ASSIGN_OR_RETURN(const std::string pre, file.get_string(kPreKey));
    if (pre != "joyai-llm" && pre != "deepseek-v3") {
        return corrupt(
            file, kPreKey,
            fmt::format("is \"{}\", wanted \"joyai-llm\" or \"deepseek-v3\"", printable(pre)));
    }
    return {};
}

Expected<std::vector<TokenType>> read_types(const GgufFile& file, size_t n_tokens) {
    DSV4V_RETURN_IF_ERROR(check_length(file, kTypesKey, 1));
    DSV4V_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, file.get_int_array(kTypesKey));
    if (ids.size() != n_tokens) {
        return corrupt(file, kTypesKey,
                       fmt::format("has {} elements, wanted one for each of the {} tokens",
                                   ids.size(), n_tokens));
    }
    std::vector<TokenType> types;
    types.reserve(ids.size());
    for (const int64_t id : ids) {
        if (id < static_cast<int64_t>(TokenType::kNormal) ||
            id > static_cast<int64_t>(TokenType::kByte)) {
            return corrupt(file, kTypesKey,
                           fmt::format("element {} is {}, wanted 1 to 6", types.size(), id));
        }
        types.push_back(static_cast<TokenType>(id));
    }
    return types;
}

Expected<int32_t> read_token_id(const GgufFile& file, const char* key, size_t n_tokens) {
    DSV4V_ASSIGN_OR_RETURN(const int64_t id, file.get_int(key));
    if (id < 0 || static_cast<uint64_t>(id) >= n_tokens) {
        return corrupt(file, key, fmt::format("is {}, wanted 0 to {}", id, n_tokens - 1));
    }
    return static_cast<int32_t>(id);
}

Expected<void> check_required_tokens(const GgufFile& file, const std::vector<std::string>& tokens) {
    const std::unordered_set<std::string_view> present(tokens.begin(), tokens.end());
    for (const std::string_view required : kRequiredTokens) {
        if (!present.contains(required)) {
            return corrupt(file, kTokensKey, fmt::format("does not hold the token {}", required));
        }
    }
    return {};
}

// The embedding has one row per token.
Expected<void> check_embedding_rows(const GgufFile& file, size_t n_tokens) {
    const TensorView* embedding = file.find_tensor("token_embd.weight");
    if (embedding != nullptr && embedding->ne[1] != static_cast<int64_t>(n_tokens)) {
        return corrupt(file, kTokensKey,
                       fmt::format("has {} elements, but tensor token_embd.weight has {} rows",
                                   n_tokens, embedding->ne[1]));
    }
    return {};
}

} // namespace

Expected<Vocab> Vocab::from_gguf(const GgufFile& file) {
    DSV4V_RETURN_IF_ERROR(check_algorithm(file));
    Vocab vocab;
    DSV4V_RETURN_IF_ERROR(check_length(file, kTokensKey, 1));
    DSV4V_ASSIGN_OR_RETURN(vocab.tokens, file.get_string_array(kTokensKey));
    DSV4V_RETURN_IF_ERROR(check_embedding_rows(file, vocab.tokens.size()));
    DSV4V_ASSIGN_OR_RETURN(vocab.types, read_types(file, vocab.tokens.size()));
    DSV4V_RETURN_IF_ERROR(check_length(file, kMergesKey, 0));
    DSV4V_ASSIGN_OR_RETURN(vocab.merges, file.get_string_array(kMergesKey));
    DSV4V_ASSIGN_OR_RETURN(vocab.bos_id, read_token_id(file, kBosKey, vocab.tokens.size()));
    DSV4V_ASSIGN_OR_RETURN(vocab.eos_id, read_token_id(file, kEosKey, vocab.tokens.size()));
    DSV4V_RETURN_IF_ERROR(check_required_tokens(file, vocab.tokens));
    return vocab;
}

} // namespace dsv4v
