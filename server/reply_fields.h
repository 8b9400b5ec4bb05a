// Members that the chat and the text dialect write in the same way: usage, timings, stop reason,
// token ids, log-probabilities. docs/api.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer.h"
#include "server/generation_run.h"
#include "server/json_writer.h"

namespace dsv4v {

// The finite value that stands for "impossible".
inline constexpr float kLogprobFloor = -9999.0f;
[[nodiscard]] float finite_logprob(float logprob);

// "usage": {...}
void write_usage(JsonWriter& json, const RunTotals& totals);
// "timings": {...}; rates are 0 where nothing was measured.
void write_timings(JsonWriter& json, const RunTotals& totals);
// "stop_reason": the stop string, the id out of the request's stop_token_ids, or null.
void write_stop_reason(JsonWriter& json, const ChoiceEnd& end,
                       const std::vector<int32_t>& stop_token_ids);
// "progress": where the first choice is before its first token.
void write_progress(JsonWriter& json, const GenerationRun& run);
// "<name>": [ids]
void write_ids(JsonWriter& json, std::string_view name, const std::vector<int32_t>& ids);

// [{"token","logprob","bytes","id","top_logprobs":[...]}]
void write_logprob_entries(JsonWriter& json, const Tokenizer& tokenizer,
                           const std::vector<SampledToken>& tokens);
// A token as text: its bytes with U+FFFD for what is no character.
[[nodiscard]] std::string token_text(const Tokenizer& tokenizer, int32_t token_id);

} // namespace dsv4v
