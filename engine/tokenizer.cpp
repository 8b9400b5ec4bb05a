#include "engine/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "engine/bpe.h"
#include "engine/byte_level.h"
#include "engine/pretokenizer.h"
#include "engine/special_tokens.h"
#include "engine/utf8.h"
#include "loaders/base/check.h"

namespace dsv4v {
namespace {

using IdsByText = std::unordered_map<std::string_view, int32_t>;

// A stretch of the text to encode; special tokens are looked for only in trusted ones.
struct Span {
    size_t first = 0;
    size_t end = 0;
    bool trusted = false;
};

bool is_special(TokenType type) {
    return type == TokenType::kControl || type == TokenType::kUserDefined;
}

// A vocabulary text as it may stand in a message: short, well-formed, in quotes.
std::string quoted(std::string_view text) {
    constexpr size_t kMaxShownBytes = 64;
    return fmt::format("\"{}\"", replace_invalid_utf8(text.substr(0, kMaxShownBytes)));
}

Expected<void> check_shape(const Vocab& vocab) {
    const size_t n_tokens = vocab.tokens.size();
    if (n_tokens == 0 || n_tokens > INT32_MAX || vocab.merges.size() > INT32_MAX) {
        return make_error(ErrorCode::kCorrupt, fmt::format("vocabulary has {} tokens and {} merges",
                                                           n_tokens, vocab.merges.size()));
    }
    if (vocab.types.size() != n_tokens) {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("vocabulary has {} tokens but {} token types", n_tokens,
                                      vocab.types.size()));
    }
    for (const auto& [name, id] : {std::pair{"bos", vocab.bos_id}, {"eos", vocab.eos_id}}) {
        if (id < 0 || static_cast<size_t>(id) >= n_tokens) {
            return make_error(ErrorCode::kCorrupt,
                              fmt::format("{} token id {} is not in the vocabulary of {} tokens",
                                          name, id, n_tokens));
        }
    }
    return {};
}

Expected<IdsByText> index_normal_tokens(const Vocab& vocab) {
    IdsByText ids;
    ids.reserve(vocab.tokens.size());
    for (size_t id = 0; id < vocab.tokens.size(); ++id) {
        if (vocab.types[id] != TokenType::kNormal) {
            continue;
        }
        const auto [earlier, is_new] = ids.emplace(vocab.tokens[id], static_cast<int32_t>(id));
        if (!is_new) {
            return make_error(ErrorCode::kCorrupt,
                              fmt::format("token {} repeats the text {} of token {}", id,
                                          quoted(vocab.tokens[id]), earlier->second));
        }
    }
    return ids;
}

Expected<std::array<int32_t, 256>> find_byte_tokens(const IdsByText& ids) {
    std::array<int32_t, 256> byte_ids{};
    for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
        const auto found = ids.find(byte_level_char(static_cast<uint8_t>(byte)));
        if (found == ids.end()) {
            return make_error(ErrorCode::kCorrupt,
                              fmt::format("vocabulary has no token for byte 0x{:02X}", byte));
        }
        byte_ids[byte] = found->second;
    }
    return byte_ids;
}

tl::unexpected<Error> merge_error(size_t rank, std::string_view merge, std::string_view rule) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("merge {} {}: {}", rank, quoted(merge), rule));
}

Expected<MergeTable> index_merges(const std::vector<std::string>& merges, const IdsByText& ids) {
    MergeTable table(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank];
        const size_t space = merge.find(' ');
        if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string::npos) {
            return merge_error(rank, merge, "must be two parts with one space between");
        }
        joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        const auto left = ids.find(merge.substr(0, space));
        const auto right = ids.find(merge.substr(space + 1));
        const auto result = ids.find(joined);
        if (left == ids.end() || right == ids.end() || result == ids.end()) {
            return merge_error(rank, merge,
                               left == ids.end()    ? "its left part is not a token"
                               : right == ids.end() ? "its right part is not a token"
                                                    : "the joined text is not a token");
        }
        if (!table.add(left->second, right->second,
                       Merge{static_cast<uint32_t>(rank), result->second})) {
            return merge_error(rank, merge, "an earlier merge has the same parts");
        }
    }
    return table;
}

// Encodes text between special tokens; keeps its working memory from one call to the next.
class SegmentEncoder {
  public:
    SegmentEncoder(const MergeTable& merges, const std::array<int32_t, 256>& byte_ids)
        : merges_(merges), byte_ids_(byte_ids) {}

    void append_ids(std::string_view segment, std::vector<int32_t>& ids) {
        pieces_.clear();
        split_into_pieces(segment, pieces_);
        for (const std::string_view piece : pieces_) {
            scratch_.ids.clear();
            for (const char byte : piece) {
                scratch_.ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
            }
            encode_bpe(merges_, scratch_);
            ids.insert(ids.end(), scratch_.ids.begin(), scratch_.ids.end());
        }
    }

  private:
    const MergeTable& merges_;
    const std::array<int32_t, 256>& byte_ids_;
    std::vector<std::string_view> pieces_;
    BpeScratch scratch_;
};

} // namespace

struct Tokenizer::Tables {
    explicit Tables(MergeTable table) : merges(std::move(table)) {}

    // Takes the bytes of all tokens and the special ones among them from `vocab`.
    Expected<void> add_tokens(const Vocab& vocab);

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                              std::span<const Span> spans) const;

    std::vector<TokenType> types;
    std::string bytes;                 // of all tokens, one after another
    std::vector<size_t> bytes_end;     // where those of each token end
    std::array<int32_t, 256> byte_ids; // token of each single byte
    MergeTable merges;
    SpecialTokens special;
    int32_t bos_id = 0;
    int32_t eos_id = 0;
};

Expected<void> Tokenizer::Tables::add_tokens(const Vocab& vocab) {
    types = vocab.types;
    bytes_end.reserve(types.size());
    for (size_t id = 0; id < types.size(); ++id) {
        const std::string& text = vocab.tokens[id];
        if (text.empty() && (types[id] == TokenType::kNormal || is_special(types[id]))) {
            return make_error(ErrorCode::kCorrupt, fmt::format("token {} has no text", id));
        }
        if (types[id] == TokenType::kNormal) {
            const std::optional<std::string> decoded = byte_level_decode(text);
            if (!decoded) {
                return make_error(
                    ErrorCode::kCorrupt,
                    fmt::format("token {} {} is not in byte-level spelling", id, quoted(text)));
            }
            bytes += *decoded;
        } else {
            bytes += text;
        }
        bytes_end.push_back(bytes.size());
        if (is_special(types[id])) {
            special.add(text, static_cast<int32_t>(id));
        }
    }
    return {};
}

std::vector<int32_t> Tokenizer::Tables::encode(std::string_view text,
                                               std::span<const Span> spans) const {
    SegmentEncoder encoder(merges, byte_ids);
    std::vector<int32_t> ids;
    size_t segment_start = 0;
    for (const Span& span : spans) {
        size_t from = span.first;
        while (span.trusted) {
            const auto match = special.find_first(text.substr(0, span.end), from);
            if (!match) {
                break;
            }
            encoder.append_ids(text.substr(segment_start, match->offset - segment_start), ids);
            ids.push_back(match->token_id);
            segment_start = from = match->offset + match->n_bytes;
        }
    }
    encoder.append_ids(text.substr(segment_start), ids);
    return ids;
}

Expected<Tokenizer> Tokenizer::create(Vocab vocab) {
    DSV4V_RETURN_IF_ERROR(check_shape(vocab));
    DSV4V_ASSIGN_OR_RETURN(const IdsByText ids, index_normal_tokens(vocab));
    DSV4V_ASSIGN_OR_RETURN(MergeTable merges, index_merges(vocab.merges, ids));
    auto tables = std::make_unique<Tables>(std::move(merges));
    DSV4V_ASSIGN_OR_RETURN(tables->byte_ids, find_byte_tokens(ids));
    DSV4V_RETURN_IF_ERROR(tables->add_tokens(vocab));
    tables->bos_id = vocab.bos_id;
    tables->eos_id = vocab.eos_id;
    return Tokenizer(std::move(tables));
}

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
    std::string repaired;
    if (!is_valid_utf8(text)) {
        repaired = replace_invalid_utf8(text);
        text = repaired;
    }
    const Span span{0, text.size(), parse_special};
    return tables_->encode(text, std::span(&span, 1));
}

std::vector<int32_t> Tokenizer::encode(std::span<const TextPart> parts) const {
    std::string text;
    std::vector<Span> spans;
    for (const TextPart& part : parts) {
        const size_t first = text.size();
        text += replace_invalid_utf8(part.text);
        spans.push_back({first, text.size(), part.trusted});
    }
    return tables_->encode(text, spans);
}

std::string_view Tokenizer::token_bytes(int32_t token_id) const {
    DSV4V_CHECK(token_id >= 0 && token_id < vocab_size());
    const auto id = static_cast<size_t>(token_id);
    const size_t first = id == 0 ? 0 : tables_->bytes_end[id - 1];
    return std::string_view(tables_->bytes).substr(first, tables_->bytes_end[id] - first);
}

bool Tokenizer::is_control(int32_t token_id) const {
    DSV4V_CHECK(token_id >= 0 && token_id < vocab_size());
    return tables_->types[static_cast<size_t>(token_id)] == TokenType::kControl;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool show_control) const {
    std::string bytes;
    for (const int32_t id : ids) {
        if (show_control || !is_control(id)) {
            bytes += token_bytes(id);
        }
    }
    return bytes;
}

std::optional<int32_t> Tokenizer::find_special(std::string_view text) const {
    return tables_->special.find_exact(text);
}

int32_t Tokenizer::vocab_size() const {
    return static_cast<int32_t>(tables_->types.size());
}
int32_t Tokenizer::bos_id() const {
    return tables_->bos_id;
}
int32_t Tokenizer::eos_id() const {
    return tables_->eos_id;
}

std::vector<std::string> Tokenizer::pieces(std::string_view text) const {
    const std::string valid = replace_invalid_utf8(text);
    std::vector<std::string_view> views;
    split_into_pieces(valid, views);
    return {views.begin(), views.end()};
}

} // namespace dsv4v
