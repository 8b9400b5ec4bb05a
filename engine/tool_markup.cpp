#include "engine/tool_markup.h"

#include <algorithm>
#include <array>

namespace dsv4v {
namespace {

constexpr std::string_view kWideBar = "｜";
constexpr std::array<std::string_view, 5> kWrapperNames = {"tool_calls", "toolcalls", "tool_call",
                                                           "function_calls", "calls"};

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads a tag piece by piece; every step moves on over what matched.
class TagReader {
  public:
    TagReader(std::string_view text, size_t pos) : text_(text), pos_(pos) {}
    [[nodiscard]] size_t pos() const { return pos_; }
    [[nodiscard]] bool at_end() const { return pos_ >= text_.size(); }

    TagMatch literal(std::string_view wanted) {
        const std::string_view rest = text_.substr(std::min(pos_, text_.size()));
        if (rest.size() < wanted.size()) {
            return wanted.starts_with(rest) ? TagMatch::kPartial : TagMatch::kNo;
        }
        if (!rest.starts_with(wanted)) {
            return TagMatch::kNo;
        }
        pos_ += wanted.size();
        return TagMatch::kYes;
    }

    TagMatch bar() {
        const TagMatch ascii = literal("|");
        return ascii == TagMatch::kYes ? ascii : literal(kWideBar);
    }

    // At least `n_min` and at most kMaxTagBlanks white space characters.
    TagMatch blanks(size_t n_min) {
        const size_t begin = pos_;
        while (pos_ < text_.size() && pos_ - begin < kMaxTagBlanks && is_blank(text_[pos_])) {
            ++pos_;
        }
        if (pos_ - begin < n_min) {
            return at_end() ? TagMatch::kPartial : TagMatch::kNo;
        }
        return TagMatch::kYes;
    }

    // A word that is followed by something else; only a prefix of one of `names` is worth waiting.
    template <class Names>
    TagMatch one_word_of(const Names& names) {
        const size_t begin = pos_;
        while (pos_ < text_.size() && is_word(text_[pos_])) {
            ++pos_;
        }
        const std::string_view word = text_.substr(begin, pos_ - begin);
        const auto fits = [this, word](std::string_view name) {
            return at_end() ? name.starts_with(word) : name == word;
        };
        if (!std::any_of(names.begin(), names.end(), fits)) {
            return TagMatch::kNo;
        }
        return at_end() ? TagMatch::kPartial : TagMatch::kYes;
    }

    // `key="value"`; the value may hold anything but a quote.
    TagMatch attribute(std::string_view key, std::string_view& value) {
        for (const std::string_view piece : {key, std::string_view("=\"")}) {
            if (const TagMatch match = literal(piece); match != TagMatch::kYes) {
                return match;
            }
        }
        const std::string_view rest = text_.substr(pos_, kMaxTagNameBytes + 1);
        const size_t quote = rest.find('"');
        if (quote == std::string_view::npos) {
            return rest.size() > kMaxTagNameBytes ? TagMatch::kNo : TagMatch::kPartial;
        }
        value = rest.substr(0, quote);
        pos_ += quote + 1;
        return TagMatch::kYes;
    }

    // `<`, perhaps a slash, perhaps a bar, DSML, bar, blanks.
    TagMatch marker(bool is_closer) {
        if (const TagMatch match = literal(is_closer ? "</" : "<"); match != TagMatch::kYes) {
            return match;
        }
        if (bar() == TagMatch::kPartial) {
            return TagMatch::kPartial;
        }
        if (const TagMatch match = literal("DSML"); match != TagMatch::kYes) {
            return match;
        }
        if (const TagMatch match = bar(); match != TagMatch::kYes) {
            return match;
        }
        return blanks(0);
    }

    template <class Names>
    TagMatch head(bool is_closer, const Names& names) {
        const TagMatch match = marker(is_closer);
        return match == TagMatch::kYes ? one_word_of(names) : match;
    }

    // Blanks and `>`.
    TagMatch tail(size_t& end) {
        if (const TagMatch match = blanks(0); match != TagMatch::kYes) {
            return match;
        }
        const TagMatch match = literal(">");
        end = pos_;
        return match;
    }

  private:
    std::string_view text_;
    size_t pos_;
};

using Word = std::array<std::string_view, 1>;
constexpr Word kInvoke = {"invoke"};
constexpr Word kParameter = {"parameter"};

template <class Names>
TagMatch match_bare(std::string_view text, size_t pos, bool is_closer, const Names& names,
                    size_t& end) {
    TagReader reader(text, pos);
    const TagMatch match = reader.head(is_closer, names);
    return match == TagMatch::kYes ? reader.tail(end) : match;
}

// Head of an opener and its name attribute.
TagMatch match_named(TagReader& reader, const Word& word, std::string_view& name) {
    if (const TagMatch match = reader.head(false, word); match != TagMatch::kYes) {
        return match;
    }
    if (const TagMatch match = reader.blanks(1); match != TagMatch::kYes) {
        return match;
    }
    return reader.attribute("name", name);
}

} // namespace

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

TagMatch match_wrapper(std::string_view text, size_t pos, bool is_closer, size_t& end) {
    return match_bare(text, pos, is_closer, kWrapperNames, end);
}

TagMatch match_invoke_start(std::string_view text, size_t pos) {
    return TagReader(text, pos).head(false, kInvoke);
}

TagMatch match_invoke_open(std::string_view text, size_t pos, std::string_view& name, size_t& end) {
    TagReader reader(text, pos);
    const TagMatch match = match_named(reader, kInvoke, name);
    return match == TagMatch::kYes ? reader.tail(end) : match;
}

TagMatch match_invoke_close(std::string_view text, size_t pos, size_t& end) {
    return match_bare(text, pos, true, kInvoke, end);
}

TagMatch match_parameter_open(std::string_view text, size_t pos, ParameterTag& tag, size_t& end) {
    TagReader reader(text, pos);
    if (const TagMatch match = match_named(reader, kParameter, tag.name); match != TagMatch::kYes) {
        return match;
    }
    TagReader plain = reader;
    if (const TagMatch match = plain.tail(end); match != TagMatch::kNo) {
        return match;
    }
    if (const TagMatch match = reader.blanks(1); match != TagMatch::kYes) {
        return match;
    }
    std::string_view value;
    if (const TagMatch match = reader.attribute("string", value); match != TagMatch::kYes) {
        return match;
    }
    if (value == "true" || value == "false") {
        tag.is_string = value == "true";
    }
    return reader.tail(end);
}

TagMatch match_parameter_close(std::string_view text, size_t pos, size_t& end) {
    return match_bare(text, pos, true, kParameter, end);
}

bool has_tag_marker(std::string_view text, size_t pos) {
    return TagReader(text, pos).marker(false) == TagMatch::kYes;
}

} // namespace dsv4v
