// The JSON grammar, read with an explicit stack. Our own rather than a library's because prompts
// need what strict readers refuse: numbers beyond a double's range and lone surrogate escapes.
#include "engine/json_value.h"

#include <map>

#include <fmt/format.h>

#include "engine/utf8.h"

namespace dsv4v {
namespace {

constexpr size_t kMaxLinearMembers = 16; // above this, duplicate names are looked up in a tree
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// An array or object that is still open.
struct Frame {
    JsonValue* value = nullptr; // stable: its owner does not grow while this is open
    size_t member_idx = 0;      // where the next value of an object goes
    std::map<std::string, size_t, std::less<>> index = {}; // a tree: no hash to flood
};

std::optional<size_t> find_member(Frame& frame, std::string_view name) {
    const auto& members = frame.value->members;
    if (members.size() <= kMaxLinearMembers) {
        for (size_t i = 0; i < members.size(); ++i) {
            if (members[i].first == name) {
                return i;
            }
        }
        return std::nullopt;
    }
    if (frame.index.empty()) {
        for (size_t i = 0; i < members.size(); ++i) {
            frame.index.emplace(members[i].first, i);
        }
    }
    const auto found = frame.index.find(name);
    return found == frame.index.end() ? std::nullopt : std::optional(found->second);
}

// Makes `name` the member that the next value goes to; a duplicate takes the earlier one's place.
void select_member(Frame& frame, std::string name) {
    auto& members = frame.value->members;
    const std::optional<size_t> earlier = find_member(frame, name);
    frame.member_idx = earlier.value_or(members.size());
    if (earlier) {
        members[*earlier].second = JsonValue();
        return;
    }
    if (!frame.index.empty()) {
        frame.index.emplace(name, frame.member_idx);
    }
    members.emplace_back(std::move(name), JsonValue());
}

void append_utf8(uint32_t code_point, std::string& out) {
    const auto tail = [&](int shift) {
        return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
    };
    if (code_point < 0x80) {
        out += static_cast<char>(code_point);
    } else if (code_point < 0x800) {
        out += {static_cast<char>(0xC0 | (code_point >> 6)), tail(0)};
    } else if (code_point < 0x10000) {
        out += {static_cast<char>(0xE0 | (code_point >> 12)), tail(6), tail(0)};
    } else {
        out += {static_cast<char>(0xF0 | (code_point >> 18)), tail(12), tail(6), tail(0)};
    }
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

int hex_digit(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// What a one-letter escape stands for; 0 if there is none.
char simple_escape(char c) {
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

// Reads one document. Functions return false after fail().
class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}

    bool parse(JsonValue& root) {
        root_ = &root;
        do {
            if (!begin_value() || !finish_value()) {
                return false;
            }
        } while (!open_.empty());
        skip_blanks();
        return at_ == text_.size() || fail("something follows the value");
    }
    [[nodiscard]] size_t error_offset() const { return at_; }
    [[nodiscard]] const std::string& reason() const { return reason_; }

  private:
    bool fail(std::string reason) {
        reason_ = std::move(reason);
        return false;
    }

    // The current byte, or NUL at the end; NUL is never part of the grammar.
    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    bool take(char c) {
        if (at_ < text_.size() && text_[at_] == c) {
            ++at_;
            return true;
        }
        return false;
    }

    void skip_blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                      text_[at_] == '\r' || text_[at_] == '\t')) {
            ++at_;
        }
    }

    // Place of the next value in the innermost open container; null when there are too many.
    JsonValue* add(JsonValue::Type type) {
        if (++n_values_ > kMaxJsonValues) {
            fail(fmt::format("more than {} values", kMaxJsonValues));
            return nullptr;
        }
        JsonValue* place = root_;
        if (!open_.empty()) {
            Frame& frame = open_.back();
            place = frame.value->is_array() ? &frame.value->items.emplace_back()
                                            : &frame.value->members[frame.member_idx].second;
        }
        place->type = type;
        return place;
    }

    // Reads a scalar or an opening bracket.
    bool begin_value() {
        skip_blanks();
        switch (peek()) {
        case '{':
            return open_container(JsonValue::Type::kObject);
        case '[':
            return open_container(JsonValue::Type::kArray);
        case '"': {
            JsonValue* value = add(JsonValue::Type::kString);
            return value != nullptr && read_string(value->text);
        }
        case 't':
        case 'f':
            return read_bool();
        case 'n':
            return read_word("null") && add(JsonValue::Type::kNull) != nullptr;
        default:
            return read_number();
        }
    }

    bool open_container(JsonValue::Type type) {
        if (open_.size() == kMaxJsonDepth) {
            return fail(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
        }
        JsonValue* value = add(type);
        if (value == nullptr) {
            return false;
        }
        ++at_;
        open_.push_back(Frame{.value = value});
        just_opened_ = true;
        return true;
    }

    // After a value or an opening bracket: closes every container that ends here and reads what
    // must stand before the next value of the innermost one left open, if any is.
    bool finish_value() {
        while (!open_.empty()) {
            Frame& frame = open_.back();
            const bool is_array = frame.value->is_array();
            const bool is_first = std::exchange(just_opened_, false);
            skip_blanks();
            if (take(is_array ? ']' : '}')) {
                open_.pop_back();
                continue;
            }
            if (!is_first && !take(',')) {
                return fail(is_array ? "expected ',' or ']'" : "expected ',' or '}'");
            }
            return is_array || read_member_name(frame);
        }
        return true;
    }

    bool read_member_name(Frame& frame) {
        skip_blanks();
        if (peek() != '"') {
            return fail("expected a member name");
        }
        std::string name;
        if (!read_string(name)) {
            return false;
        }
        skip_blanks();
        if (!take(':')) {
            return fail("expected ':' after a member name");
        }
        select_member(frame, std::move(name));
        return true;
    }

    bool read_word(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) {
            return fail("expected a value");
        }
        at_ += word.size();
        return true;
    }

    bool read_bool() {
        const bool is_true = peek() == 't';
        if (!read_word(is_true ? "true" : "false")) {
            return false;
        }
        JsonValue* value = add(JsonValue::Type::kBool);
        return value != nullptr && (value->boolean = is_true, true);
    }

    bool read_digits() {
        const size_t first = at_;
        while (is_digit(peek())) {
            ++at_;
        }
        return at_ > first || fail("expected a digit");
    }

    bool read_number() {
        const size_t first = at_;
        if (!take('-') && !is_digit(peek())) {
            return fail("expected a value");
        }
        if (!take('0') && !read_digits()) {
            return false;
        }
        if (is_digit(peek())) {
            return fail("a number must not begin with 0");
        }
        if (take('.') && !read_digits()) {
            return false;
        }
        if (take('e') || take('E')) {
            if (!take('+')) {
                take('-');
            }
            if (!read_digits()) {
                return false;
            }
        }
        JsonValue* value = add(JsonValue::Type::kNumber);
        return value != nullptr && (value->text = text_.substr(first, at_ - first), true);
    }

    // At the opening quote.
    bool read_string(std::string& out) {
        ++at_;
        while (true) {
            const size_t first = at_;
            while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
                   static_cast<unsigned char>(text_[at_]) >= 0x20) {
                ++at_;
            }
            out.append(text_, first, at_ - first);
            if (at_ == text_.size()) {
                return fail("unfinished string");
            }
            if (take('"')) {
                return true;
            }
            if (text_[at_] != '\\') {
                return fail("control character in a string must be escaped");
            }
            if (!read_escape(out)) {
                return false;
            }
        }
    }

    // At the backslash.
    bool read_escape(std::string& out) {
        const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
        if (const char c = simple_escape(letter); c != 0) {
            out += c;
            at_ += 2;
            return true;
        }
        const int unit = unicode_escape(at_);
        if (unit < 0) {
            return fail("bad escape in a string");
        }
        at_ += 6;
        if (unit < 0xD800 || unit > 0xDFFF) {
            append_utf8(static_cast<uint32_t>(unit), out);
            return true;
        }
        const int low = unit <= 0xDBFF ? unicode_escape(at_) : -1;
        if (low < 0xDC00 || low > 0xDFFF) {
            out += kReplacementCharacter;
            return true;
        }
        at_ += 6;
        append_utf8(0x10000 + ((static_cast<uint32_t>(unit) - 0xD800) << 10) +
                        (static_cast<uint32_t>(low) - 0xDC00),
                    out);
        return true;
    }

    // Value of the escape `\uXXXX` at `offset`, or -1 if there is none.
    [[nodiscard]] int unicode_escape(size_t offset) const {
        const std::string_view escape = text_.substr(offset, 6);
        if (escape.size() < 6 || !escape.starts_with("\\u")) {
            return -1;
        }
        int value = 0;
        for (const char c : escape.substr(2)) {
            const int digit = hex_digit(c);
            if (digit < 0) {
                return -1;
            }
            value = value * 16 + digit;
        }
        return value;
    }

    std::string_view text_;
    size_t at_ = 0;
    JsonValue* root_ = nullptr;
    std::vector<Frame> open_;
    bool just_opened_ = false; // nothing was read since the last opening bracket
    int n_values_ = 0;
    std::string reason_;
};

} // namespace

Expected<JsonValue> parse_json(std::string_view text) {
    const size_t start = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    text.remove_prefix(start);
    const auto error = [start](size_t offset, std::string_view reason) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("invalid JSON at byte {}: {}", start + offset, reason));
    };
    if (const size_t n_valid = valid_utf8_prefix(text); n_valid < text.size()) {
        return error(n_valid, "not UTF-8");
    }
    JsonValue root;
    Parser parser(text);
    if (!parser.parse(root)) {
        return error(parser.error_offset(), parser.reason());
    }
    return root;
}

} // namespace dsv4v
