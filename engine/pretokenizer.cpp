#include "engine/pretokenizer.h"

#include <cstddef>

#include "engine/unicode_classes.h"
#include "engine/utf8.h"

namespace dsv4v {
namespace {

constexpr int kMaxDigitsPerPiece = 3;

struct Char {
    char32_t code_point = 0;
    CharClass char_class = CharClass::kOther;
    uint32_t n_bytes = 0; // 0: past the end
};

bool is_ascii_letter(const Char& c) {
    const char32_t lower = c.code_point | 0x20;
    return c.n_bytes == 1 && lower >= 'a' && lower <= 'z';
}
bool is_ascii_punctuation(const Char& c) {
    return c.n_bytes == 1 &&
           (c.char_class == CharClass::kPunctuation || c.char_class == CharClass::kSymbol);
}
bool is_word(const Char& c) {
    return c.char_class == CharClass::kLetter || c.char_class == CharClass::kMark;
}
bool is_sign(const Char& c) {
    return c.char_class == CharClass::kPunctuation || c.char_class == CharClass::kSymbol;
}
bool is_space(const Char& c) {
    return c.char_class == CharClass::kSpace;
}
bool is_line_end(const Char& c) {
    return c.code_point == '\r' || c.code_point == '\n';
}
bool is_number(const Char& c) {
    return c.char_class == CharClass::kNumber;
}
// Han, hiragana and katakana as the model's regular expression names them.
bool is_cjk(const Char& c) {
    return (c.code_point >= 0x4E00 && c.code_point <= 0x9FA5) ||
           (c.code_point >= 0x3040 && c.code_point <= 0x30FF);
}
bool is_neither(const Char& c) {
    return c.n_bytes > 0 && !is_number(c) && !is_cjk(c);
}

// A view with positions as byte offsets.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}

    [[nodiscard]] Char at(size_t offset) const {
        if (offset >= text_.size()) {
            return {};
        }
        const Utf8Char c = first_utf8_char(text_.substr(offset));
        return {c.code_point, char_class(c.code_point), c.n_bytes};
    }

    // End of the run of characters from `offset` that `belongs` holds for.
    template <class Predicate>
    [[nodiscard]] size_t run_end(size_t offset, Predicate belongs) const {
        for (Char c = at(offset); c.n_bytes > 0 && belongs(c); c = at(offset)) {
            offset += c.n_bytes;
        }
        return offset;
    }

    // End of the piece of the last stage that begins at `offset`, or `offset` if none does.
    [[nodiscard]] size_t piece_end(size_t offset) const {
        const Char c = at(offset);
        const size_t next_offset = offset + c.n_bytes;
        const Char next = at(next_offset);
        if (is_ascii_punctuation(c) && is_ascii_letter(next)) {
            return run_end(next_offset, is_ascii_letter);
        }
        if (is_word(c) || (is_word(next) && !is_sign(c) && !is_line_end(c))) {
            return run_end(next_offset, is_word);
        }
        if (is_sign(c) || (c.code_point == ' ' && is_sign(next))) {
            return run_end(run_end(next_offset, is_sign), is_line_end);
        }
        return is_space(c) ? space_end(offset) : offset;
    }

    [[nodiscard]] size_t size() const { return text_.size(); }
    [[nodiscard]] std::string_view slice(size_t first, size_t end) const {
        return text_.substr(first, end - first);
    }

  private:
    // White space up to its last line end; else all of it at the end of the text; else all but its
    // last character, which goes to the word behind it.
    [[nodiscard]] size_t space_end(size_t offset) const {
        size_t end = offset;
        size_t last_char = offset;
        size_t after_line_end = 0;
        for (Char c = at(end); is_space(c); c = at(end)) {
            last_char = end;
            end += c.n_bytes;
            after_line_end = is_line_end(c) ? end : after_line_end;
        }
        if (after_line_end > 0) {
            return after_line_end;
        }
        return end == text_.size() || last_char == offset ? end : last_char;
    }

    std::string_view text_;
};

// The last stage: pieces of one stretch that is wholly CJK or wholly neither CJK nor number.
void split_stretch(std::string_view stretch, std::vector<std::string_view>& pieces) {
    const Scanner scanner(stretch);
    size_t gap_start = 0; // characters that no alternative matches join into one piece
    size_t offset = 0;
    while (offset < stretch.size()) {
        const size_t end = scanner.piece_end(offset);
        if (end == offset) {
            offset += scanner.at(offset).n_bytes;
            continue;
        }
        if (gap_start < offset) {
            pieces.push_back(scanner.slice(gap_start, offset));
        }
        pieces.push_back(scanner.slice(offset, end));
        gap_start = offset = end;
    }
    if (gap_start < offset) {
        pieces.push_back(scanner.slice(gap_start, offset));
    }
}

} // namespace

void split_into_pieces(std::string_view text, std::vector<std::string_view>& pieces) {
    const Scanner scanner(text);
    size_t offset = 0;
    while (offset < text.size()) {
        const Char c = scanner.at(offset);
        if (is_number(c)) {
            int n_digits = 0;
            const size_t end = scanner.run_end(offset, [&n_digits](const Char& digit) {
                return is_number(digit) && n_digits++ < kMaxDigitsPerPiece;
            });
            pieces.push_back(scanner.slice(offset, end));
            offset = end;
        } else {
            const size_t end =
                is_cjk(c) ? scanner.run_end(offset, is_cjk) : scanner.run_end(offset, is_neither);
            split_stretch(scanner.slice(offset, end), pieces);
            offset = end;
        }
    }
}

} // namespace dsv4v
