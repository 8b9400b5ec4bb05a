// Byte-level BPE with the joyai-llm / deepseek-v3 pre-tokenizer (docs/tokenizer.md). Linear-log in
// the text length also for one megabyte of a single repeated character. Immutable after creation;
// safe to use from many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loaders/base/error.h"
#include "loaders/vocab.h"

namespace dsv4v {

// A run of prompt text. Special tokens are recognised only where a whole match lies inside one
// trusted part; BPE pieces may span parts.
struct TextPart {
    std::string text;
    bool trusted = false;
};

class Tokenizer {
  public:
    // Checks that every merge joins existing tokens into an existing token and that all 256 bytes
    // exist; errors name the merge or the byte.
    [[nodiscard]] static Expected<Tokenizer> create(Vocab vocab);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // Token ids of valid UTF-8 text (ill-formed input is replaced first); never adds BOS or EOS.
    // `parse_special`: every control and user-defined token spelled in the text becomes its id.
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool parse_special) const;
    // Adjacent parts are encoded as one text; see TextPart.
    [[nodiscard]] std::vector<int32_t> encode(std::span<const TextPart> parts) const;

    // Raw bytes of a token: control and user-defined tokens give their literal spelling.
    // `token_id` must be in [0, vocab_size()).
    [[nodiscard]] std::string_view token_bytes(int32_t token_id) const;
    // Control tokens produce no visible output.
    [[nodiscard]] bool is_control(int32_t token_id) const;
    // Concatenated bytes of `ids`, control tokens skipped unless `show_control`.
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool show_control) const;

    // Id of the token with this exact literal spelling among the special tokens.
    [[nodiscard]] std::optional<int32_t> find_special(std::string_view text) const;
    [[nodiscard]] int32_t vocab_size() const;
    [[nodiscard]] int32_t bos_id() const;
    [[nodiscard]] int32_t eos_id() const;

    // Pre-tokenizer pieces of `text`, for tests.
    [[nodiscard]] std::vector<std::string> pieces(std::string_view text) const;

  private:
    struct Tables;
    explicit Tokenizer(std::unique_ptr<const Tables> tables);
    std::unique_ptr<const Tables> tables_;
};

} // namespace dsv4v
