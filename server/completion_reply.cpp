#include "server/completion_reply.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace dsv4v {
namespace {

uint64_t n_characters(std::string_view text) {
    return static_cast<uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

} // namespace

CompletionReplyWriter::CompletionReplyWriter(const Tokenizer& tokenizer, ReplyIdentity identity,
                                             CompletionReplyOptions options)
    : tokenizer_(tokenizer), identity_(std::move(identity)), options_(std::move(options)),
      pieces_(options_.echoes.size()), unsent_(options_.echoes.size()),
      text_offsets_(options_.echoes.size()) {}

void CompletionReplyWriter::write_head(JsonWriter& json) const {
    json.field("id", std::string_view(identity_.id)).field("object", "text_completion");
    json.field("created", identity_.created).field("model", std::string_view(identity_.model));
    json.field("system_fingerprint", std::string_view(identity_.fingerprint));
}

void CompletionReplyWriter::add(ChoiceUpdate& update, Piece& piece) const {
    if (update.first && options_.echoes[update.choice_idx]) {
        piece.has_echo = true;
        piece.text += options_.echoes[update.choice_idx]->text;
    }
    piece.token_ids.insert(piece.token_ids.end(), update.token_ids.begin(), update.token_ids.end());
    for (ChoiceDelta& delta : update.deltas) {
        piece.text += delta.text;
        std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(piece.logprobs));
    }
    if (update.end) {
        auto& rest = update.end->content_logprobs;
        std::move(rest.begin(), rest.end(), std::back_inserter(piece.logprobs));
        piece.end = std::move(update.end);
    }
}

void CompletionReplyWriter::write_top(JsonWriter& json, const std::vector<Row>& rows) const {
    json.key("top_logprobs").begin_array();
    for (const Row& row : rows) {
        if (row.score == nullptr) {
            json.null();
            continue;
        }
        json.begin_object();
        std::set<std::string> seen; // tokens that are no whole character look alike: best first
        for (const TokenLogprob& top : row.score->top_logprobs) {
            const std::string text = token_text(tokenizer_, top.token_id);
            if (seen.insert(text).second) {
                json.field(text, static_cast<double>(finite_logprob(top.logprob)));
            }
        }
        json.end_object();
    }
    json.end_array();
}

void CompletionReplyWriter::write_top_ids(JsonWriter& json, const std::vector<Row>& rows) const {
    json.key("top").begin_array();
    for (const Row& row : rows) {
        if (row.score == nullptr) {
            json.null();
            continue;
        }
        json.begin_array();
        for (const TokenLogprob& top : row.score->top_logprobs) {
            json.begin_array().value(top.token_id);
            json.value(static_cast<double>(finite_logprob(top.logprob))).end_array();
        }
        json.end_array();
    }
    json.end_array();
}

std::vector<CompletionReplyWriter::Row>
CompletionReplyWriter::rows_of(size_t choice_idx, const Piece& piece,
                               const GenerationRun& run) const {
    std::vector<Row> rows;
    if (piece.has_echo) {
        const std::vector<int32_t>& ids = options_.echoes[choice_idx]->ids;
        const std::vector<SampledToken>& scores = run.prompt_scores(choice_idx);
        for (size_t k = 0; k < ids.size(); ++k) {
            rows.push_back({ids[k], k > 0 && k <= scores.size() ? &scores[k - 1] : nullptr});
        }
    }
    for (const SampledToken& token : piece.logprobs) {
        rows.push_back({token.token_id, &token});
    }
    return rows;
}

void CompletionReplyWriter::write_rows(JsonWriter& json, const std::vector<Row>& rows,
                                       uint64_t offset) const {
    json.key("tokens").begin_array();
    for (const Row& row : rows) {
        json.value(std::string_view(token_text(tokenizer_, row.token_id)));
    }
    json.end_array().key("token_logprobs").begin_array();
    for (const Row& row : rows) {
        if (row.score == nullptr) {
            json.null();
        } else {
            json.value(static_cast<double>(finite_logprob(row.score->logprob)));
        }
    }
    json.end_array();
    write_top(json, rows);
    json.key("text_offset").begin_array();
    for (const Row& row : rows) {
        json.value(offset);
        offset += tokenizer_.is_control(row.token_id)
                      ? 0
                      : n_characters(tokenizer_.token_bytes(row.token_id));
    }
    json.end_array().key("token_ids").begin_array();
    for (const Row& row : rows) {
        json.value(row.token_id);
    }
    json.end_array();
    write_top_ids(json, rows);
}

void CompletionReplyWriter::write_logprobs(JsonWriter& json, size_t choice_idx, const Piece& piece,
                                           const GenerationRun& run) {
    const uint64_t offset = text_offsets_[choice_idx];
    text_offsets_[choice_idx] += n_characters(piece.text);
    json.key("logprobs");
    if (!options_.logprobs) {
        json.null();
        return;
    }
    json.begin_object();
    write_rows(json, rows_of(choice_idx, piece, run), offset);
    json.end_object();
}

void CompletionReplyWriter::write_choice(JsonWriter& json, size_t choice_idx, const Piece& piece,
                                         const GenerationRun& run) {
    json.begin_object().field("index", static_cast<uint64_t>(choice_idx));
    json.field("text", std::string_view(piece.text));
    write_logprobs(json, choice_idx, piece, run);
    json.key("finish_reason");
    if (piece.end) {
        json.value(std::string_view(piece.end->finish_reason));
        write_stop_reason(json, *piece.end, options_.stop_token_ids);
    } else {
        json.null();
    }
    if (options_.token_ids) {
        write_ids(json, "token_ids", piece.token_ids);
        if (piece.end) {
            write_ids(json, "prompt_token_ids", options_.prompt_ids[choice_idx]);
        }
    }
    json.end_object();
}

std::string CompletionReplyWriter::chunk(size_t choice_idx, const Piece& piece,
                                         const GenerationRun& run) {
    JsonWriter json;
    json.begin_object();
    write_head(json);
    json.key("choices").begin_array();
    write_choice(json, choice_idx, piece, run);
    json.end_array();
    if (options_.stream.continuous_usage) {
        write_usage(json, run.totals());
    } else if (options_.stream.include_usage) {
        json.key("usage").null();
    }
    if (options_.stream.timings_per_token) {
        write_timings(json, run.totals());
    }
    if (piece.end) {
        json.key("dsv4v").begin_object().field("seed", options_.seed).end_object();
    }
    json.end_object();
    return json.take();
}

void CompletionReplyWriter::write_update(const ChoiceUpdate& update, const GenerationRun& run,
                                         std::vector<std::string>& events) {
    Piece& piece = unsent_[update.choice_idx];
    ChoiceUpdate copy = update;
    add(copy, piece);
    std::optional<ChoiceEnd> end = std::exchange(piece.end, std::nullopt);
    if (!piece.text.empty()) {
        events.push_back(chunk(update.choice_idx, piece, run));
        piece = {};
    }
    if (end) {
        piece.end = std::move(end);
        events.push_back(chunk(update.choice_idx, piece, run));
        piece = {};
    }
}

void CompletionReplyWriter::write_end(const GenerationRun& run, std::vector<std::string>& events) {
    if (!options_.stream.include_usage) {
        return;
    }
    JsonWriter json;
    json.begin_object();
    write_head(json);
    json.key("choices").begin_array().end_array();
    write_usage(json, run.totals());
    write_timings(json, run.totals());
    json.end_object();
    events.push_back(json.take());
}

std::string CompletionReplyWriter::empty_event() const {
    JsonWriter json;
    json.begin_object();
    write_head(json);
    json.key("choices").begin_array().begin_object().field("index", 0).field("text", "");
    json.key("logprobs").null().key("finish_reason").null().end_object().end_array();
    if (options_.stream.include_usage) {
        json.key("usage").null();
    }
    json.end_object();
    return json.take();
}

std::string CompletionReplyWriter::progress_event(const GenerationRun& run) const {
    JsonWriter json;
    json.begin_object();
    write_head(json);
    json.key("choices").begin_array().end_array();
    if (options_.stream.include_usage) {
        json.key("usage").null();
    }
    write_progress(json, run);
    json.end_object();
    return json.take();
}

void CompletionReplyWriter::collect(ChoiceUpdate update) {
    const size_t choice_idx = update.choice_idx;
    add(update, pieces_[choice_idx]);
}

std::string CompletionReplyWriter::body(const GenerationRun& run) {
    JsonWriter json;
    json.begin_object();
    write_head(json);
    json.key("choices").begin_array();
    for (size_t k = 0; k < pieces_.size(); ++k) {
        write_choice(json, k, pieces_[k], run);
    }
    json.end_array();
    write_usage(json, run.totals());
    write_timings(json, run.totals());
    json.key("dsv4v").begin_object().field("seed", options_.seed).end_object().end_object();
    return json.take();
}

} // namespace dsv4v
