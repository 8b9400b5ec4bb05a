#include "engine/tool_block_parser.h"

#include <algorithm>

#include "engine/tool_markup.h"

namespace dsv4v {
namespace {

std::string_view trim_json_blanks(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\n\r";
    const size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) {
        return {};
    }
    return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_json(std::string_view text) {
    // A byte-order mark is accepted in front of a document but not inside one.
    return !text.starts_with("\xEF\xBB\xBF") && parse_json(text).has_value();
}

} // namespace

ToolBlockParser::Status ToolBlockParser::advance(std::string_view text,
                                                 std::vector<ToolCall>& calls) {
    Step step = Step::kMoved;
    while (step == Step::kMoved) {
        switch (place_) {
        case Place::kBetweenCalls:
            step = step_between_calls(text);
            break;
        case Place::kInCall:
            step = step_in_call(text, calls);
            break;
        case Place::kInValue:
            step = step_in_value(text);
            break;
        case Place::kSkipping:
            step = step_skipping(text);
            break;
        }
    }
    if (step == Step::kNeedMore) {
        return Status::kNeedMore;
    }
    return step == Step::kClosed ? Status::kClosed : Status::kNotCalls;
}

// Moves to the next character that is not white space; false if there is none yet.
bool ToolBlockParser::skip_blanks(std::string_view text) {
    while (pos_ < text.size() && is_blank(text[pos_])) {
        ++pos_;
    }
    scan_ = std::max(scan_, pos_);
    return pos_ < text.size();
}

// True once the tag at pos_ is known to end somewhere. A tag that the end of the text cuts off is
// unfinished, not malformed, however odd it looks.
bool ToolBlockParser::has_tag_end(std::string_view text) {
    const size_t end = text.find('>', scan_);
    scan_ = end == std::string_view::npos ? text.size() : end;
    return end != std::string_view::npos;
}

ToolBlockParser::Step ToolBlockParser::step_between_calls(std::string_view text) {
    if (!skip_blanks(text)) {
        return Step::kNeedMore;
    }
    size_t end = 0;
    std::string_view name;
    const TagMatch closer = match_wrapper(text, pos_, true, end);
    if (closer == TagMatch::kYes) {
        pos_ = end;
        return Step::kClosed;
    }
    const TagMatch opener = match_invoke_open(text, pos_, name, end);
    if (opener == TagMatch::kYes) {
        return begin_call(name, end);
    }
    if (closer == TagMatch::kPartial || opener == TagMatch::kPartial) {
        return Step::kNeedMore;
    }
    if (is_orphan_) {
        return n_calls_ > 0 ? Step::kClosed : Step::kNotCalls;
    }
    if (text[pos_] == '<' && !has_tag_end(text)) {
        return Step::kNeedMore;
    }
    is_malformed_ = true;
    place_ = Place::kSkipping;
    scan_ = pos_ + 1;
    return Step::kMoved;
}

ToolBlockParser::Step ToolBlockParser::begin_call(std::string_view name, size_t end) {
    name_ = name;
    // Prose that quotes a call of some other program is recognised at once.
    if (is_orphan_ && !schemas_->is_declared(name_)) {
        return n_calls_ > 0 ? Step::kClosed : Step::kNotCalls;
    }
    call_begin_ = pos_;
    arguments_.clear();
    keys_.clear();
    pos_ = end;
    scan_ = end;
    place_ = Place::kInCall;
    return Step::kMoved;
}

ToolBlockParser::Step ToolBlockParser::step_in_call(std::string_view text,
                                                    std::vector<ToolCall>& calls) {
    if (!skip_blanks(text)) {
        return Step::kNeedMore;
    }
    size_t end = 0;
    const TagMatch closer = match_invoke_close(text, pos_, end);
    if (closer == TagMatch::kYes) {
        return end_call(text, end, calls);
    }
    ParameterTag tag;
    const TagMatch parameter = match_parameter_open(text, pos_, tag, end);
    if (parameter == TagMatch::kYes) {
        key_ = tag.name;
        is_string_ = tag.is_string;
        pos_ = end;
        scan_ = end;
        place_ = Place::kInValue;
        return Step::kMoved;
    }
    if (closer == TagMatch::kPartial || parameter == TagMatch::kPartial ||
        (text[pos_] == '<' && !has_tag_end(text))) {
        return Step::kNeedMore;
    }
    return drop_call();
}

// The value runs to the first closer; everything else in it, newlines and tags, is value.
ToolBlockParser::Step ToolBlockParser::step_in_value(std::string_view text) {
    while (true) {
        const size_t tag = text.find('<', scan_);
        if (tag == std::string_view::npos) {
            scan_ = text.size();
            return Step::kNeedMore;
        }
        scan_ = tag;
        size_t end = 0;
        const TagMatch match = match_parameter_close(text, tag, end);
        if (match == TagMatch::kPartial) {
            return Step::kNeedMore;
        }
        if (match == TagMatch::kYes) {
            add_parameter(text.substr(pos_, tag - pos_));
            pos_ = end;
            scan_ = end;
            place_ = Place::kInCall;
            return Step::kMoved;
        }
        scan_ = tag + 1;
    }
}

// Looks for the next invoke opener or the closing wrapper behind something malformed.
ToolBlockParser::Step ToolBlockParser::step_skipping(std::string_view text) {
    while (true) {
        const size_t tag = text.find('<', scan_);
        if (tag == std::string_view::npos) {
            scan_ = text.size();
            return Step::kNeedMore;
        }
        scan_ = tag;
        size_t end = 0;
        const TagMatch closer = match_wrapper(text, tag, true, end);
        const TagMatch opener = match_invoke_start(text, tag);
        if (closer == TagMatch::kYes || opener == TagMatch::kYes) {
            pos_ = tag;
            place_ = Place::kBetweenCalls;
            return Step::kMoved;
        }
        if (closer == TagMatch::kPartial || opener == TagMatch::kPartial) {
            return Step::kNeedMore;
        }
        scan_ = tag + 1;
    }
}

void ToolBlockParser::add_parameter(std::string_view value) {
    if (!keys_.insert(key_).second) {
        return; // of a repeated parameter the first value stays
    }
    const bool is_string = is_string_.value_or(schemas_->allows_string(name_, key_));
    const std::string_view trimmed = trim_json_blanks(value);
    arguments_ += arguments_.empty() ? "" : ", ";
    arguments_ += python_json_string(key_) + ": ";
    if (!is_string && is_json(trimmed)) {
        arguments_ += trimmed;
    } else {
        arguments_ += python_json_string(value);
    }
}

// An orphan call must be one that the request could have asked for.
bool ToolBlockParser::counts() const {
    const std::vector<std::string>& required = schemas_->required(name_);
    return !is_orphan_ ||
           std::all_of(required.begin(), required.end(),
                       [this](const std::string& key) { return keys_.contains(key); });
}

ToolBlockParser::Step ToolBlockParser::end_call(std::string_view text, size_t end,
                                                std::vector<ToolCall>& calls) {
    if (!counts()) {
        return drop_call();
    }
    calls.push_back({.name = name_,
                     .arguments = "{" + arguments_ + "}",
                     .raw = std::string(text.substr(call_begin_, end - call_begin_))});
    ++n_calls_;
    pos_ = end;
    scan_ = end;
    place_ = Place::kBetweenCalls;
    return Step::kMoved;
}

ToolBlockParser::Step ToolBlockParser::drop_call() {
    if (is_orphan_ && n_calls_ == 0) {
        return Step::kNotCalls;
    }
    is_malformed_ = true;
    if (is_orphan_) {
        return Step::kClosed;
    }
    scan_ = pos_;
    place_ = Place::kSkipping;
    return Step::kMoved;
}

} // namespace dsv4v
