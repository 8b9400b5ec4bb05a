#include "server/choice_output.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/prompt_strings.h"
#include "server/logging.h"

namespace dsv4v {
namespace {

OutputParserOptions parser_options(const ChoiceOptions& options) {
    return {.thinking = options.starts_in_reasoning, .tools = options.tools.get()};
}

std::vector<std::string> reasoning_stops(const ChoiceOptions& options) {
    return options.stop_in_reasoning ? options.stops : std::vector<std::string>{};
}

constexpr size_t kHeadBytes = prompt::kThinkClose.size();

} // namespace

ChoiceOutput::ChoiceOutput(const Tokenizer& tokenizer, ChoiceOptions options)
    : tokenizer_(tokenizer), options_(std::move(options)), parser_(parser_options(options_)),
      content_stops_(options_.stops), reasoning_stops_(reasoning_stops(options_)),
      reasoning_open_(options_.chat && options_.starts_in_reasoning) {}

bool ChoiceOutput::is_end_token(int32_t token_id) const {
    return std::find(options_.end_token_ids.begin(), options_.end_token_ids.end(), token_id) !=
           options_.end_token_ids.end();
}

void ChoiceOutput::feed(const SampledToken& token, Deltas& out) {
    if (ended_) {
        return;
    }
    ++n_tokens_;
    if (reasoning_open_ && parser_.in_reasoning()) {
        ++n_reasoning_tokens_;
    }
    if (is_end_token(token.token_id)) {
        end_token_id_ = token.token_id;
        return;
    }
    const bool has_text = !tokenizer_.is_control(token.token_id);
    const std::string decoded =
        utf8_.feed(has_text ? tokenizer_.token_bytes(token.token_id) : std::string_view());
    if (options_.keep_logprobs) {
        logprobs_.add(token, decoded, has_text && utf8_.n_pending() > 0);
    }
    take_text(decoded, out);
    attach_logprobs(out);
}

void ChoiceOutput::take_text(std::string_view decoded, Deltas& out) {
    head_.append(decoded.substr(0, kHeadBytes - std::min(kHeadBytes, head_.size())));
    if (!options_.chat) {
        take_content(decoded, out);
        return;
    }
    parser_.feed(decoded, parsed_);
    take_parsed(out);
    if (!ended_ && !parser_.in_reasoning()) {
        end_reasoning(true, out);
    }
    ended_ = ended_ || parser_.wants_stop();
}

void ChoiceOutput::take_parsed(Deltas& out) {
    for (OutputDelta& delta : parsed_) {
        if (ended_) {
            break;
        }
        if (delta.kind == OutputDelta::Kind::kReasoning) {
            take_reasoning(delta.text, out);
            continue;
        }
        end_reasoning(true, out);
        if (ended_) {
            break;
        }
        if (delta.kind == OutputDelta::Kind::kContent) {
            take_content(delta.text, out);
        } else {
            take_call(std::move(delta.call), out);
        }
    }
    parsed_.clear();
}

void ChoiceOutput::take_reasoning(std::string_view text, Deltas& out) {
    n_reasoning_bytes_ += static_cast<int64_t>(text.size());
    emit_matched(reasoning_stops_, Kind::kReasoning, reasoning_stops_.feed(text), out);
}

// `with_marker`: the output goes on behind the reasoning.
void ChoiceOutput::end_reasoning(bool with_marker, Deltas& out) {
    if (!reasoning_open_) {
        return;
    }
    reasoning_open_ = false;
    emit_matched(reasoning_stops_, Kind::kReasoning, reasoning_stops_.finish(), out);
    if (with_marker && !ended_ && !options_.split_reasoning) {
        emit(Kind::kReasoning, prompt::kThinkClose, true, out);
    }
}

void ChoiceOutput::take_content(std::string_view text, Deltas& out) {
    emit_matched(content_stops_, Kind::kContent, content_stops_.feed(text), out);
}

void ChoiceOutput::take_call(ToolCall call, Deltas& out) {
    emit_matched(content_stops_, Kind::kContent, content_stops_.finish(), out);
    if (ended_) {
        return;
    }
    ChoiceDelta delta;
    delta.kind = Kind::kToolCall;
    delta.call = std::move(call);
    delta.call_idx = n_calls_++;
    out.push_back(std::move(delta));
    ended_ = !options_.parallel_tool_calls;
}

void ChoiceOutput::emit_matched(const StopMatcher& matcher, Kind kind, std::string_view text,
                                Deltas& out) {
    emit(kind, text, true, out);
    if (matcher.matched() != nullptr && !stop_string_) {
        stop_string_ = *matcher.matched();
        ended_ = true;
        if (options_.include_stop) {
            emit(kind, *stop_string_, true, out);
        }
    }
}

int64_t ChoiceOutput::reasoning_begin() const {
    return head_.starts_with(prompt::kThinkOpen) ? static_cast<int64_t>(prompt::kThinkOpen.size())
                                                 : 0;
}

// Content starts behind the reasoning and its closing marker, which is not part of either.
void ChoiceOutput::open_content() {
    if (content_begin_ >= 0) {
        return;
    }
    constexpr auto kCloseBytes = static_cast<int64_t>(prompt::kThinkClose.size());
    if (!options_.chat) {
        content_begin_ = 0;
    } else if (!options_.starts_in_reasoning) {
        content_begin_ = head_.starts_with(prompt::kThinkClose) ? kCloseBytes : 0;
    } else if (!options_.split_reasoning) {
        content_begin_ = reasoning_begin();
    } else {
        content_begin_ = reasoning_begin() + n_reasoning_bytes_ + kCloseBytes;
    }
}

void ChoiceOutput::emit(Kind kind, std::string_view text, bool generated, Deltas& out) {
    if (text.empty()) {
        return;
    }
    if (kind == Kind::kReasoning && !options_.split_reasoning) {
        kind = Kind::kContent;
        if (!std::exchange(marker_sent_, true)) {
            emit(kind, prompt::kThinkOpen, false, out);
        }
    }
    const auto n_bytes = generated ? static_cast<int64_t>(text.size()) : 0;
    if (kind == Kind::kContent) {
        open_content();
        n_content_sent_ += n_bytes;
    } else {
        n_reasoning_sent_ += n_bytes;
        if (!options_.include_reasoning) {
            return;
        }
    }
    if (out.empty() || out.back().kind != kind) {
        out.emplace_back().kind = kind;
    }
    out.back().text += text;
}

void ChoiceOutput::release_logprobs(Kind kind, std::vector<SampledToken>& out) {
    if (kind == Kind::kReasoning) {
        logprobs_.release(reasoning_begin(), reasoning_begin() + n_reasoning_sent_, out);
    } else if (content_begin_ >= 0) {
        logprobs_.release(content_begin_, content_begin_ + n_content_sent_, out);
    }
}

// To the last delta of each kind, which is where the newest text is; reasoning comes first.
void ChoiceOutput::attach_logprobs(Deltas& out) {
    if (!options_.keep_logprobs) {
        return;
    }
    for (const Kind kind : {Kind::kReasoning, Kind::kContent}) {
        const auto last = std::find_if(out.rbegin(), out.rend(),
                                       [kind](const ChoiceDelta& d) { return d.kind == kind; });
        if (last != out.rend()) {
            release_logprobs(kind, last->logprobs);
        }
    }
}

// Flushes every stage; returns the finish reason.
std::string ChoiceOutput::finish_text(EndCause cause, Deltas& out) {
    const std::string tail = utf8_.finish();
    logprobs_.flush(tail);
    std::string reason = cause == EndCause::kLength ? "length" : "stop";
    if (!options_.chat) {
        take_content(tail, out);
    } else {
        parser_.feed(tail, parsed_);
        OutputSummary summary = parser_.finish(cause, parsed_);
        if (!summary.repairs.empty()) {
            log_line(LogLevel::kDebug, "tool markup repaired",
                     {{"repairs", fmt::format("{}", fmt::join(summary.repairs, ", "))}});
        }
        reason = std::move(summary.finish_reason);
        take_parsed(out);
    }
    if (!ended_) {
        end_reasoning(false, out);
    }
    if (!ended_) {
        emit_matched(content_stops_, Kind::kContent, content_stops_.finish(), out);
    }
    return reason;
}

ChoiceEnd ChoiceOutput::finish(EndCause cause, Deltas& out) {
    ChoiceEnd end;
    const bool single_call = ended_ && !options_.parallel_tool_calls && n_calls_ > 0;
    if (!stop_string_ && !single_call) {
        cause = ended_ ? EndCause::kStop : cause;
        ended_ = false;
        end.finish_reason = finish_text(cause, out);
    }
    ended_ = true;
    attach_logprobs(out);
    if (options_.keep_logprobs) {
        release_logprobs(Kind::kReasoning, end.reasoning_logprobs);
        release_logprobs(Kind::kContent, end.content_logprobs);
    }
    if (stop_string_) {
        end.finish_reason = "stop";
    } else if (single_call) {
        end.finish_reason = "tool_calls";
    }
    end.stop_string = stop_string_;
    end.end_token_id = end_token_id_;
    return end;
}

} // namespace dsv4v
