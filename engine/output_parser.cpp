#include "engine/output_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/prompt_strings.h"
#include "engine/tool_block_parser.h"
#include "engine/tool_markup.h"
#include "engine/tool_schemas.h"

namespace dsv4v {
namespace {

constexpr std::string_view kWrapper = "<｜DSML｜tool_calls>";
// A text that begins calls over and over without making one is prose about markup; looking into
// each of them to the end of the text would be quadratic.
constexpr int kMaxFailedCalls = 16;

enum class Mode {
    kStart,     // nothing decided: a repeated reasoning marker may come
    kReasoning, // reasoning is passed on
    kHeld,      // a tool block began inside reasoning: held until it is known what it is
    kContent,   // content is passed on, tool calls are looked for
    kBlock,     // inside a tool block
    kPlain,     // content is passed on, nothing is looked for
    kDone,      // behind a tool block
};

// Where the separator of a tool block at `pos` begins: at most two newlines, none before `begin`.
size_t separator_begin(std::string_view text, size_t begin, size_t pos) {
    for (int n = 0; n < 2 && pos > begin && text[pos - 1] == '\n'; ++n) {
        --pos;
    }
    return pos;
}

TagMatch match_literal(std::string_view text, size_t pos, std::string_view literal) {
    const std::string_view rest = text.substr(pos, literal.size());
    if (rest == literal) {
        return TagMatch::kYes;
    }
    return literal.starts_with(rest) ? TagMatch::kPartial : TagMatch::kNo;
}

} // namespace

struct OutputParser::State {
    explicit State(const OutputParserOptions& options)
        : thinking(options.thinking), in_thinking(options.thinking) {
        if (options.tools != nullptr && !options.tools->items.empty()) {
            schemas.emplace(*options.tools);
        }
    }

    using Deltas = std::vector<OutputDelta>;

    void feed(std::string_view text, Deltas& out);
    OutputSummary finish(EndCause cause, Deltas& out);

    // Each takes what it can from the buffer; false when it needs more text.
    bool step(Deltas& out);
    bool step_start();
    bool step_reasoning(Deltas& out);
    bool step_held(Deltas& out);
    bool step_content(Deltas& out);
    bool step_block(Deltas& out);
    bool step_plain(Deltas& out);
    bool step_done();

    void begin_block(bool is_orphan, size_t opener, size_t behind);
    void end_block(Deltas& out);
    void reject_orphan();
    void finish_reasoning(Deltas& out);
    void finish_content(Deltas& out);
    bool finish_block(Deltas& out);
    std::optional<size_t> find_call_in_reasoning(std::vector<ToolCall>& calls) const;

    // Passes the buffer up to `end` on.
    void emit(OutputDelta::Kind kind, size_t end, Deltas& out);
    void emit_calls(std::vector<ToolCall> calls, Deltas& out);
    void repair(std::string_view name) { summary.repairs.emplace_back(name); }

    bool thinking;
    bool in_thinking; // no closing reasoning marker so far
    std::optional<ToolSchemas> schemas;
    Mode mode = Mode::kStart;
    std::string buffer;
    size_t begin = 0;        // of what is not yet passed on
    size_t scan = 0;         // everything before holds no tag
    size_t n_old_deltas = 0; // deltas of earlier feeds in the caller's list
    std::optional<ToolBlockParser> block;
    size_t opener = 0; // of the block
    bool has_odd_wrapper = false;
    int n_failed_calls = 0;
    int n_calls = 0;
    bool cut_in_block = false;
    bool has_text_behind = false;
    EndCause cause = EndCause::kStop;
    OutputSummary summary;
};

void OutputParser::State::emit(OutputDelta::Kind kind, size_t end, Deltas& out) {
    if (end <= begin) {
        return;
    }
    const std::string_view text = std::string_view(buffer).substr(begin, end - begin);
    begin = end;
    if (out.size() > n_old_deltas && out.back().kind == kind) {
        out.back().text += text;
        return;
    }
    out.push_back({.kind = kind, .text = std::string(text), .call = {}});
}

void OutputParser::State::emit_calls(std::vector<ToolCall> calls, Deltas& out) {
    for (ToolCall& call : calls) {
        out.push_back({.kind = OutputDelta::Kind::kToolCall, .text = {}, .call = std::move(call)});
        ++n_calls;
    }
}

void OutputParser::State::feed(std::string_view text, Deltas& out) {
    n_old_deltas = out.size();
    buffer += text;
    while (step(out)) {
    }
    if (mode != Mode::kBlock && mode != Mode::kHeld && begin > 0) {
        buffer.erase(0, begin);
        scan -= std::min(scan, begin);
        begin = 0;
    }
}

bool OutputParser::State::step(Deltas& out) {
    switch (mode) {
    case Mode::kStart:
        return step_start();
    case Mode::kReasoning:
        return step_reasoning(out);
    case Mode::kHeld:
        return step_held(out);
    case Mode::kContent:
        return step_content(out);
    case Mode::kBlock:
        return step_block(out);
    case Mode::kPlain:
        return step_plain(out);
    case Mode::kDone:
        return step_done();
    }
    return false;
}

// The prompt already holds the marker that begins the text; models repeat it now and then.
bool OutputParser::State::step_start() {
    const std::string_view marker = thinking ? prompt::kThinkOpen : prompt::kThinkClose;
    const TagMatch match = match_literal(buffer, 0, marker);
    if (match == TagMatch::kPartial) {
        return false;
    }
    if (match == TagMatch::kYes) {
        repair(thinking ? "duplicate_think_open" : "duplicate_think_close");
        begin = scan = marker.size();
    }
    mode = thinking ? Mode::kReasoning : schemas ? Mode::kContent : Mode::kPlain;
    return true;
}

bool OutputParser::State::step_reasoning(Deltas& out) {
    const std::string_view text = buffer;
    while (true) {
        const size_t tag = text.find('<', scan);
        const size_t end = std::min(tag, text.size());
        const size_t safe = schemas ? separator_begin(text, begin, end) : end;
        scan = end;
        if (tag == std::string_view::npos) {
            emit(OutputDelta::Kind::kReasoning, safe, out);
            return false;
        }
        const TagMatch closer = match_literal(text, tag, prompt::kThinkClose);
        size_t wrapper_end = 0;
        const TagMatch wrapper =
            schemas ? match_wrapper(text, tag, false, wrapper_end) : TagMatch::kNo;
        if (closer == TagMatch::kYes) {
            emit(OutputDelta::Kind::kReasoning, tag, out);
            begin = scan = tag + prompt::kThinkClose.size();
            in_thinking = false;
            mode = schemas ? Mode::kContent : Mode::kPlain;
            return true;
        }
        if (wrapper == TagMatch::kYes) {
            emit(OutputDelta::Kind::kReasoning, safe, out);
            opener = tag;
            scan = wrapper_end;
            mode = Mode::kHeld;
            return true;
        }
        if (closer == TagMatch::kPartial || wrapper == TagMatch::kPartial) {
            emit(OutputDelta::Kind::kReasoning, safe, out);
            return false;
        }
        scan = tag + 1;
    }
}

// The end of reasoning shows that the block was only quoted; without it the end of text decides.
bool OutputParser::State::step_held(Deltas& out) {
    const std::string_view text = buffer;
    const size_t closer = text.find(prompt::kThinkClose, scan);
    if (closer == std::string_view::npos) {
        scan = std::max(scan, text.size() - std::min(text.size(), prompt::kThinkClose.size() - 1));
        return false;
    }
    emit(OutputDelta::Kind::kReasoning, closer, out);
    begin = scan = closer + prompt::kThinkClose.size();
    in_thinking = false;
    mode = Mode::kContent;
    return true;
}

bool OutputParser::State::step_content(Deltas& out) {
    const std::string_view text = buffer;
    while (true) {
        const size_t tag = text.find('<', scan);
        const size_t end = std::min(tag, text.size());
        const size_t safe = separator_begin(text, begin, end);
        scan = end;
        if (tag == std::string_view::npos) {
            emit(OutputDelta::Kind::kContent, safe, out);
            return false;
        }
        size_t wrapper_end = 0;
        const TagMatch wrapper = match_wrapper(text, tag, false, wrapper_end);
        const TagMatch orphan =
            n_failed_calls < kMaxFailedCalls ? match_invoke_start(text, tag) : TagMatch::kNo;
        if (wrapper == TagMatch::kYes || orphan == TagMatch::kYes) {
            emit(OutputDelta::Kind::kContent, safe, out);
            begin_block(wrapper != TagMatch::kYes, tag, wrapper_end);
            return true;
        }
        if (wrapper == TagMatch::kPartial || orphan == TagMatch::kPartial) {
            emit(OutputDelta::Kind::kContent, safe, out);
            return false;
        }
        scan = tag + 1;
    }
}

void OutputParser::State::begin_block(bool is_orphan, size_t tag, size_t behind) {
    opener = tag;
    has_odd_wrapper = buffer.compare(tag, kWrapper.size(), kWrapper) != 0;
    block.emplace(*schemas, is_orphan, is_orphan ? tag : behind);
    mode = Mode::kBlock;
}

bool OutputParser::State::step_block(Deltas& out) {
    std::vector<ToolCall> calls;
    const ToolBlockParser::Status status = block->advance(buffer, calls);
    emit_calls(std::move(calls), out);
    switch (status) {
    case ToolBlockParser::Status::kNeedMore:
        return false;
    case ToolBlockParser::Status::kClosed:
        end_block(out);
        return true;
    case ToolBlockParser::Status::kNotCalls:
        reject_orphan();
        return true;
    }
    return false;
}

// A closed block without calls is text, unless it was empty.
void OutputParser::State::end_block(Deltas& out) {
    if (n_calls == 0 && block->is_malformed()) {
        repair("malformed_block_as_text");
        emit(OutputDelta::Kind::kContent, block->pos(), out);
        mode = Mode::kPlain;
        return;
    }
    if (n_calls == 0) {
        repair("empty_block");
    }
    begin = block->pos();
    mode = Mode::kDone;
}

void OutputParser::State::reject_orphan() {
    ++n_failed_calls;
    scan = opener + 1;
    mode = Mode::kContent;
    block.reset();
}

bool OutputParser::State::step_plain(Deltas& out) {
    emit(OutputDelta::Kind::kContent, buffer.size(), out);
    return false;
}

bool OutputParser::State::step_done() {
    has_text_behind =
        has_text_behind ||
        !std::all_of(buffer.begin() + static_cast<std::ptrdiff_t>(begin), buffer.end(), is_blank);
    begin = buffer.size();
    return false;
}

// A call that follows unclosed reasoning: the whole rest of the text is one flawless block. Returns
// where the reasoning ends.
std::optional<size_t>
OutputParser::State::find_call_in_reasoning(std::vector<ToolCall>& calls) const {
    const std::string_view text = buffer;
    size_t tag = opener;
    for (int n = 0; n < kMaxFailedCalls && tag != std::string_view::npos;) {
        size_t behind = 0;
        if (match_wrapper(text, tag, false, behind) == TagMatch::kYes) {
            ++n;
            calls.clear();
            ToolBlockParser candidate(*schemas, false, behind);
            const bool is_closed =
                candidate.advance(text, calls) == ToolBlockParser::Status::kClosed;
            if (is_closed && !candidate.is_malformed() && candidate.n_calls() > 0 &&
                std::all_of(text.begin() + static_cast<std::ptrdiff_t>(candidate.pos()), text.end(),
                            is_blank)) {
                return separator_begin(text, begin, tag);
            }
        }
        tag = text.find('<', tag + 1);
    }
    return std::nullopt;
}

void OutputParser::State::finish_reasoning(Deltas& out) {
    std::vector<ToolCall> calls;
    const auto end = mode == Mode::kHeld ? find_call_in_reasoning(calls) : std::nullopt;
    emit(OutputDelta::Kind::kReasoning, end.value_or(buffer.size()), out);
    if (end) {
        repair("implicit_think_close");
        emit_calls(std::move(calls), out);
    }
}

// What is held back is an unfinished tag: cut off by the limit it is dropped, else it is text.
void OutputParser::State::finish_content(Deltas& out) {
    if (mode == Mode::kContent && cause == EndCause::kLength && has_tag_marker(buffer, scan)) {
        cut_in_block = true;
        repair("incomplete_call");
        return;
    }
    emit(OutputDelta::Kind::kContent, buffer.size(), out);
}

// The text ends inside a block. Returns true if the rest of it is content after all.
bool OutputParser::State::finish_block(Deltas& out) {
    if (cause == EndCause::kLength) {
        cut_in_block = true;
        repair("incomplete_call");
    } else if (n_calls > 0) {
        if (!block->is_orphan()) {
            repair("unterminated_block");
        }
    } else if (block->is_orphan()) {
        reject_orphan();
        return true;
    } else {
        repair("malformed_block_as_text");
        emit(OutputDelta::Kind::kContent, buffer.size(), out);
    }
    return false;
}

OutputSummary OutputParser::State::finish(EndCause end_cause, Deltas& out) {
    n_old_deltas = out.size();
    cause = end_cause;
    while (mode == Mode::kBlock && finish_block(out)) {
        while (step(out)) {
        }
    }
    if (mode == Mode::kReasoning || mode == Mode::kHeld || (mode == Mode::kStart && thinking)) {
        finish_reasoning(out);
    } else if (mode != Mode::kBlock && mode != Mode::kDone) {
        finish_content(out);
    }
    if (n_calls > 0 && block) {
        if (block->is_orphan()) {
            repair("missing_wrapper");
        } else if (has_odd_wrapper) {
            repair("wrapper_name");
        }
        if (block->is_malformed()) {
            repair("dropped_malformed_call");
        }
    }
    if (has_text_behind) {
        repair("text_after_calls_discarded");
    }
    summary.has_tool_calls = n_calls > 0;
    const bool is_length = cause == EndCause::kLength && (n_calls == 0 || cut_in_block);
    summary.finish_reason = is_length ? "length" : n_calls > 0 ? "tool_calls" : "stop";
    return summary;
}

OutputParser::OutputParser(OutputParserOptions options)
    : state_(std::make_unique<State>(options)) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;

void OutputParser::feed(std::string_view text, std::vector<OutputDelta>& out) {
    state_->feed(text, out);
}

OutputSummary OutputParser::finish(EndCause cause, std::vector<OutputDelta>& out) {
    return state_->finish(cause, out);
}

bool OutputParser::wants_stop() const {
    return state_->mode == Mode::kDone;
}

bool OutputParser::in_reasoning() const {
    return state_->thinking && state_->in_thinking;
}

bool OutputParser::in_tool_block() const {
    return state_->mode == Mode::kBlock || state_->mode == Mode::kDone;
}

int OutputParser::n_tool_calls() const {
    return state_->n_calls;
}

} // namespace dsv4v
