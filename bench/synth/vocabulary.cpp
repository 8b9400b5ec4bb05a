#include "bench/synth/vocabulary.h"

#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "engine/prompt_strings.h"

namespace dsv4v {
namespace {

constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;

// "left right" as in tokenizer.ggml.merges; a leading space of a word is spelled "Ġ". Every part is
// a byte or the result of an earlier line.
constexpr std::array<std::string_view, 120> kMerges = {
    "Ġ t",  "Ġ a",   "h e",  "i n",   "r e",    "o n",  "Ġt he", "e r",    "Ġ s",    "a t",  "Ġ w",
    "Ġ o",  "e n",   "Ġ c",  "i t",   "i s",    "a n",  "o r",   "e s",    "Ġ b",    "e d",  "Ġ f",
    "in g", "Ġ p",   "o u",  "Ġa n",  "a l",    "a r",  "Ġt o",  "Ġ m",    "Ġo f",   "Ġ in", "Ġ d",
    "Ġ h",  "Ġan d", "i c",  "a s",   "l e",    "Ġt h", "i on",  "o m",    "l l",    "en t", "Ġ n",
    "Ġ l",  "s t",   "Ġ re", "v e",   "Ġ e",    "r o",  "l y",   "Ġb e",   "Ġ g",    "Ġ T",  "c t",
    "Ġ S",  "i d",   "o t",  "Ġ I",   "u t",    "e t",  "Ġ A",   "Ġ is",   "Ġ on",   "i m",  "a m",
    "o w",  "a y",   "a d",  "s e",   "Ġth at", "Ġ C",  "i g",   "Ġf or",  "a c",    "Ġ y",  "v er",
    "u r",  "Ġ u",   "l d",  "Ġs t",  "Ġ M",    "' s",  "Ġ he",  "Ġ it",   "at ion", "it h", "i r",
    "c e",  "Ġy ou", "i l",  "Ġ B",   "Ġw h",   "o l",  "Ġ P",   "Ġw ith", "Ġ 1",    "t er", "c h",
    "Ġa s", "Ġw e",  "Ġ (",  "n d",   "i ll",   "Ġ D",  "i f",   "Ġ 2",    "a g",    "er s", "k e",
    "Ġ \"", "Ġ H",   "e m",  "Ġc on", "Ġ W",    "Ġ R",  "he r",  "Ġw as",  "Ġ r",    "o d",
};

void append_utf8(std::string& out, uint32_t code_point) { // below U+0800
    if (code_point < 0x80) {
        out.push_back(static_cast<char>(code_point));
    } else {
        out.push_back(static_cast<char>(0xc0 | code_point >> 6));
        out.push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
    }
}

// The byte-level spelling: printable bytes stand for themselves, the others in increasing order
// for the code points from 256 on (docs/tokenizer.md).
std::array<std::string, 256> byte_spellings() {
    std::array<std::string, 256> spellings;
    uint32_t next_other = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const bool printable =
            (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        append_utf8(spellings[byte], printable ? byte : next_other++);
    }
    return spellings;
}

void add(Vocab& vocab, std::string_view text, TokenType type) {
    vocab.tokens.emplace_back(text);
    vocab.types.push_back(type);
}

// Offset of the end of the first `n` code points.
size_t prefix_bytes(std::string_view text, size_t n) {
    size_t i = 0;
    while (i < text.size() && n > 0) {
        do {
            ++i;
        } while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80);
        --n;
    }
    return i;
}

Expected<std::string> read_gzip(const std::string& path) {
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    if (!file) {
        return make_error(ErrorCode::kNotFound, fmt::format("{}: cannot open", path));
    }
    std::string text;
    std::array<char, 65536> buffer{};
    int n = 0;
    while ((n = gzread(file.get(), buffer.data(), buffer.size())) > 0) {
        text.append(buffer.data(), static_cast<size_t>(n));
        if (text.size() > kMaxVocabularyBytes) {
            return make_error(ErrorCode::kCorrupt, fmt::format("{}: more than 64 MiB", path));
        }
    }
    if (n < 0) {
        return make_error(ErrorCode::kCorrupt, fmt::format("{}: not a gzip file", path));
    }
    return text;
}

// Takes the next line off the front.
std::string_view take_line(std::string_view& text) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

bool add_line(Vocab& vocab, std::string_view line) {
    const size_t tab = line.rfind('\t');
    if (tab == std::string_view::npos) {
        return false;
    }
    const std::string_view token = line.substr(0, tab);
    int number = 0;
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + tab + 1, end, number);
    if (error != std::errc() || stop != end || number == 0 || number < -6) {
        return false;
    }
    add(vocab, token, number > 0 ? TokenType::kNormal : static_cast<TokenType>(-number));
    if (number > 0) {
        const size_t split = prefix_bytes(token, static_cast<size_t>(number));
        vocab.merges.push_back(fmt::format("{} {}", token.substr(0, split), token.substr(split)));
    }
    return true;
}

} // namespace

Vocab small_vocabulary() {
    Vocab vocab;
    add(vocab, prompt::kBos, TokenType::kControl);
    add(vocab, prompt::kEos, TokenType::kControl);
    add(vocab, "<｜▁pad▁｜>", TokenType::kControl);
    for (const std::string& spelling : byte_spellings()) {
        add(vocab, spelling, TokenType::kNormal);
    }
    for (const std::string_view merge : kMerges) {
        const size_t space = merge.find(' ');
        add(vocab, fmt::format("{}{}", merge.substr(0, space), merge.substr(space + 1)),
            TokenType::kNormal);
        vocab.merges.emplace_back(merge);
    }
    add(vocab, prompt::kUser, TokenType::kControl);
    add(vocab, prompt::kAssistant, TokenType::kControl);
    add(vocab, prompt::kThinkOpen, TokenType::kUserDefined);
    add(vocab, prompt::kThinkClose, TokenType::kUserDefined);
    add(vocab, prompt::kDsml, TokenType::kUserDefined);
    add(vocab, prompt::kLatestReminder, TokenType::kControl);
    for (const auto& [name, token] : prompt::kTasks) {
        add(vocab, token, TokenType::kControl);
    }
    add(vocab, prompt::kImagePlaceholder, TokenType::kControl);
    return vocab;
}

Expected<Vocab> read_vocabulary(const std::string& path) {
    DSV4V_ASSIGN_OR_RETURN(const std::string text, read_gzip(path));
    std::string_view rest = text;
    if (take_line(rest) != "dsv4-vocab 1") {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("{}: line 1 is not \"dsv4-vocab 1\"", path));
    }
    const std::string_view counts = take_line(rest);
    Vocab vocab;
    while (!rest.empty()) {
        if (!add_line(vocab, take_line(rest))) {
            return make_error(ErrorCode::kCorrupt,
                              fmt::format("{}: line {} is not a token, a tab and a number", path,
                                          vocab.tokens.size() + 3));
        }
    }
    const std::string found = fmt::format("{} {}", vocab.tokens.size(), vocab.merges.size());
    if (found != counts) {
        return make_error(
            ErrorCode::kCorrupt,
            fmt::format("{}: holds {} tokens and merges, line 2 says {}", path, found, counts));
    }
    return vocab;
}

} // namespace dsv4v
