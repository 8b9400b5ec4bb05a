#include "server/reply_fields.h"

#include <algorithm>
#include <cmath>

#include "engine/utf8.h"

namespace dsv4v {
namespace {

double per_token(double ms, int32_t n) {
    return n > 0 ? ms / n : 0;
}
double per_second(double ms, int32_t n) {
    return ms > 0 ? n * 1000.0 / ms : 0;
}

void write_token(JsonWriter& json, const Tokenizer& tokenizer, int32_t token_id, float logprob) {
    json.field("token", std::string_view(token_text(tokenizer, token_id)));
    json.field("logprob", static_cast<double>(finite_logprob(logprob)));
    json.key("bytes").begin_array();
    for (const char byte : tokenizer.token_bytes(token_id)) {
        json.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
    }
    json.end_array();
    json.field("id", token_id);
}

} // namespace

float finite_logprob(float logprob) {
    return std::isfinite(logprob) ? std::max(logprob, kLogprobFloor) : kLogprobFloor;
}

std::string token_text(const Tokenizer& tokenizer, int32_t token_id) {
    return replace_invalid_utf8(tokenizer.token_bytes(token_id));
}

void write_usage(JsonWriter& json, const RunTotals& totals) {
    json.key("usage").begin_object();
    json.field("prompt_tokens", totals.n_prompt);
    json.field("completion_tokens", totals.n_generated);
    json.field("total_tokens", totals.n_prompt + totals.n_generated);
    json.key("prompt_tokens_details").begin_object();
    json.field("cached_tokens", totals.n_cached).field("image_tokens", 0).end_object();
    json.key("completion_tokens_details").begin_object();
    json.field("reasoning_tokens", totals.n_reasoning);
    json.field("accepted_prediction_tokens", 0).field("rejected_prediction_tokens", 0).end_object();
    json.field("prompt_cache_hit_tokens", totals.n_cached);
    json.field("prompt_cache_miss_tokens", totals.n_prompt - totals.n_cached);
    json.end_object();
}

void write_timings(JsonWriter& json, const RunTotals& totals) {
    const int32_t n_evaluated = totals.n_prompt - totals.n_cached;
    json.key("timings").begin_object();
    json.key("queue_ms").rounded(totals.queue_ms);
    json.field("image_fetch_ms", 0).field("image_encode_ms", 0);
    json.field("cache_n", totals.n_cached).field("prompt_n", n_evaluated);
    json.key("prompt_ms").rounded(totals.prompt_ms);
    json.key("prompt_per_token_ms").rounded(per_token(totals.prompt_ms, n_evaluated));
    json.key("prompt_per_second").rounded(per_second(totals.prompt_ms, n_evaluated));
    json.field("predicted_n", totals.n_generated);
    json.key("predicted_ms").rounded(totals.decode_ms);
    json.key("predicted_per_token_ms").rounded(per_token(totals.decode_ms, totals.n_generated));
    json.key("predicted_per_second").rounded(per_second(totals.decode_ms, totals.n_generated));
    json.field("draft_n", 0).field("draft_n_accepted", 0);
    json.key("ttft_ms").rounded(totals.ttft_ms);
    json.key("total_ms").rounded(totals.total_ms);
    json.end_object();
}

void write_progress(JsonWriter& json, const GenerationRun& run) {
    const GenerationProgress progress = run.progress();
    const bool waiting = progress.phase == GenerationProgress::Phase::kQueue;
    json.key("progress").begin_object().field("phase", waiting ? "queue" : "prefill");
    json.field("queue_position", progress.queue_position);
    json.field("total", progress.n_prompt).field("cached", 0);
    json.field("processed", progress.n_prompt_done);
    json.key("time_ms").rounded(run.totals().total_ms).end_object();
}

void write_stop_reason(JsonWriter& json, const ChoiceEnd& end,
                       const std::vector<int32_t>& stop_token_ids) {
    json.key("stop_reason");
    const bool asked_for =
        end.end_token_id && std::find(stop_token_ids.begin(), stop_token_ids.end(),
                                      *end.end_token_id) != stop_token_ids.end();
    if (end.stop_string) {
        json.value(std::string_view(*end.stop_string));
    } else if (asked_for) {
        json.value(*end.end_token_id);
    } else {
        json.null();
    }
}

void write_ids(JsonWriter& json, std::string_view name, const std::vector<int32_t>& ids) {
    json.key(name).begin_array();
    for (const int32_t id : ids) {
        json.value(id);
    }
    json.end_array();
}

void write_logprob_entries(JsonWriter& json, const Tokenizer& tokenizer,
                           const std::vector<SampledToken>& tokens) {
    json.begin_array();
    for (const SampledToken& token : tokens) {
        json.begin_object();
        write_token(json, tokenizer, token.token_id, token.logprob);
        json.key("top_logprobs").begin_array();
        for (const TokenLogprob& top : token.top_logprobs) {
            json.begin_object();
            write_token(json, tokenizer, top.token_id, top.logprob);
            json.end_object();
        }
        json.end_array().end_object();
    }
    json.end_array();
}

} // namespace dsv4v
