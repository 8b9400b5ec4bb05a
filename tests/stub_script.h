// Scripts for a FakeBackend behind the real server, as JSON lines (docs/engine.md "Stub scripts"):
// the first line whose `match` fits a sequence is played, else the last one.
//
//   {"match":{"contains":"weather"}, "text":"It rains.", "step_ms":5, "prefill_ms_per_token":1}
//   {"match":{"nth":2}, "tokens":[5,6,7], "repeat":true}
//   {"bytes":["f09f","9880"], "finish":"none", "fail":{"phase":"decode","step":5,"kind":"cuda"}}
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/json_value.h"
#include "engine/tokenizer.h"
#include "tests/fake_backend.h"

namespace dsv4v::testing {

// What a script needs of a tokenizer.
struct StubVocabulary {
    std::function<std::vector<int32_t>(std::string_view text)> encode;
    std::function<std::string(std::span<const int32_t> ids)> decode;
    std::function<std::optional<int32_t>(std::string_view bytes)> find_bytes;
    int32_t eos_id = 0;
};

// `tokenizer` must outlive the result.
inline StubVocabulary stub_vocabulary(const Tokenizer& tokenizer) {
    StubVocabulary vocabulary;
    vocabulary.encode = [&tokenizer](std::string_view text) {
        return tokenizer.encode(text, true);
    };
    vocabulary.decode = [&tokenizer](std::span<const int32_t> ids) {
        return tokenizer.decode(ids, true);
    };
    vocabulary.find_bytes = [&tokenizer](std::string_view bytes) -> std::optional<int32_t> {
        for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
            if (!tokenizer.is_control(id) && tokenizer.token_bytes(id) == bytes) {
                return id;
            }
        }
        return std::nullopt;
    };
    vocabulary.eos_id = tokenizer.eos_id();
    return vocabulary;
}

struct StubFailure {
    bool in_prefill = false; // else in decode
    int64_t step = 0;        // chunk of the prompt, or number of tokens drawn before; from 0
    // "exception", "oom" (bad_alloc), "cuda" (an error value), "nonfinite" (that sequence only)
    std::string kind;
};

struct StubScript {
    std::optional<std::string> contains; // in the rendered prompt
    std::optional<int64_t> nth;          // sequences in the order they start, from 1
    std::vector<int32_t> tokens;
    std::chrono::microseconds step_delay{0};
    std::chrono::microseconds prefill_delay_per_token{0};
    bool repeat = false; // start over instead of ending
    std::optional<StubFailure> failure;
};

namespace stub_detail {

inline Expected<std::chrono::microseconds> read_ms(const JsonValue& line, const char* name) {
    const JsonValue* value = line.find(name);
    if (value == nullptr) {
        return std::chrono::microseconds{0};
    }
    const std::optional<double> ms = value->as_double();
    if (!ms || *ms < 0) {
        return make_error(ErrorCode::kInvalidArgument,
                          std::string(name) + ": wanted a number >= 0");
    }
    return std::chrono::microseconds(static_cast<int64_t>(*ms * 1000));
}

inline Expected<std::string> from_hex(const std::string& hex) {
    std::string bytes;
    if (hex.size() % 2 != 0 || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos) {
        return make_error(ErrorCode::kInvalidArgument, "bytes: wanted hex pairs, got " + hex);
    }
    for (size_t i = 0; i < hex.size(); i += 2) {
        bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

inline Expected<int32_t> token_of_hex(const JsonValue& item, const StubVocabulary& vocabulary) {
    DSV4V_ASSIGN_OR_RETURN(const std::string bytes, from_hex(item.text));
    const std::optional<int32_t> id = vocabulary.find_bytes(bytes);
    if (!id) {
        return make_error(ErrorCode::kInvalidArgument, "bytes: no token is " + item.text);
    }
    return *id;
}

inline Expected<std::vector<int32_t>> read_output(const JsonValue& line,
                                                  const StubVocabulary& vocabulary) {
    std::vector<int32_t> tokens;
    if (const JsonValue* text = line.find("text")) {
        return vocabulary.encode(text->text);
    }
    if (const JsonValue* bytes = line.find("bytes")) {
        for (const JsonValue& item : bytes->items) {
            DSV4V_ASSIGN_OR_RETURN(const int32_t id, token_of_hex(item, vocabulary));
            tokens.push_back(id);
        }
    }
    if (const JsonValue* ids = line.find("tokens")) {
        for (const JsonValue& item : ids->items) {
            tokens.push_back(static_cast<int32_t>(item.as_int().value_or(0)));
        }
    }
    return tokens;
}

inline Expected<std::optional<StubFailure>> read_failure(const JsonValue& line) {
    const JsonValue* fail = line.find("fail");
    if (fail == nullptr) {
        return std::nullopt;
    }
    const JsonValue* phase = fail->find("phase");
    const JsonValue* step = fail->find("step");
    const JsonValue* kind = fail->find("kind");
    if (phase == nullptr || (phase->text != "prefill" && phase->text != "decode")) {
        return make_error(ErrorCode::kInvalidArgument, "fail.phase: wanted prefill or decode");
    }
    StubFailure failure;
    failure.in_prefill = phase->text == "prefill";
    failure.step = step != nullptr ? step->as_int().value_or(0) : 0;
    failure.kind = kind != nullptr ? kind->text : "cuda";
    for (const char* known : {"exception", "oom", "cuda", "nonfinite"}) {
        if (failure.kind == known) {
            return failure;
        }
    }
    return make_error(ErrorCode::kInvalidArgument, "fail.kind: unknown " + failure.kind);
}

inline Expected<StubScript> read_script(const JsonValue& line, const StubVocabulary& vocabulary) {
    StubScript script;
    if (const JsonValue* match = line.find("match")) {
        if (const JsonValue* contains = match->find("contains")) {
            script.contains = contains->text;
        }
        if (const JsonValue* nth = match->find("nth")) {
            script.nth = nth->as_int();
        }
    }
    DSV4V_ASSIGN_OR_RETURN(script.step_delay, read_ms(line, "step_ms"));
    DSV4V_ASSIGN_OR_RETURN(script.prefill_delay_per_token, read_ms(line, "prefill_ms_per_token"));
    DSV4V_ASSIGN_OR_RETURN(script.tokens, read_output(line, vocabulary));
    DSV4V_ASSIGN_OR_RETURN(script.failure, read_failure(line));
    const JsonValue* repeat = line.find("repeat");
    const JsonValue* finish = line.find("finish");
    script.repeat =
        (repeat != nullptr && repeat->boolean) || (finish != nullptr && finish->text == "none");
    if (!script.repeat) {
        script.tokens.push_back(vocabulary.eos_id);
    } else if (script.tokens.empty()) {
        return make_error(ErrorCode::kInvalidArgument, "a script that repeats needs tokens");
    }
    return script;
}

} // namespace stub_detail

// One script per non-empty line; errors name the line.
inline Expected<std::vector<StubScript>> parse_stub_scripts(std::string_view json_lines,
                                                            const StubVocabulary& vocabulary) {
    std::vector<StubScript> scripts;
    for (int line_idx = 1; !json_lines.empty(); ++line_idx) {
        const size_t end = std::min(json_lines.find('\n'), json_lines.size());
        const std::string_view line = json_lines.substr(0, end);
        json_lines.remove_prefix(std::min(end + 1, json_lines.size()));
        if (line.find_first_not_of(" \t\r") == line.npos) {
            continue;
        }
        const Expected<JsonValue> json = parse_json(line);
        Expected<StubScript> script = json ? stub_detail::read_script(*json, vocabulary)
                                           : tl::unexpected<Error>(json.error());
        if (!script) {
            return make_error(ErrorCode::kInvalidArgument,
                              "line " + std::to_string(line_idx) + ": " + script.error().message);
        }
        scripts.push_back(std::move(*script));
    }
    if (scripts.empty()) {
        return make_error(ErrorCode::kInvalidArgument, "no script");
    }
    return scripts;
}

// Plays scripts on a FakeBackend; engine thread only. A preempted sequence starts anew and counts
// again for `nth`.
class StubPlayer {
  public:
    StubPlayer(std::vector<StubScript> scripts, StubVocabulary vocabulary, int32_t n_slots)
        : scripts_(std::move(scripts)), vocabulary_(std::move(vocabulary)),
          runs_(static_cast<size_t>(n_slots)) {}

    Expected<void> on_chunk(const SequenceChunk& chunk, std::span<const int32_t> cached) {
        Run& run = runs_[static_cast<size_t>(chunk.slot)];
        if (chunk.first_position == 0) {
            run = {};
            run.nth = ++n_started_;
        }
        if (!run.drawing) { // the prompt grows by each chunk, so the choice may still change
            run.script = &choose(run.nth, cached);
            prefill_delay_ += chunk.n_rows * run.script->prefill_delay_per_token;
            return fail_if(run, true, run.n_chunks++);
        }
        step_delay_ = std::max(step_delay_, run.script->step_delay);
        return {};
    }

    void before_draw() {
        std::this_thread::sleep_for(std::exchange(prefill_delay_, {}) +
                                    std::exchange(step_delay_, {}));
    }

    Expected<int32_t> next_token(const SampleRow& row, int32_t slot, SampledToken& token) {
        Run& run = runs_[static_cast<size_t>(slot)];
        if (!run.drawing) {
            run.drawing = true;
            run.script =
                &choose(run.nth, row.history.first(static_cast<size_t>(row.n_prompt_tokens)));
        }
        DSV4V_RETURN_IF_ERROR(fail_if(run, false, row.output_position));
        token.non_finite_logits = std::exchange(run.non_finite, false);
        const std::vector<int32_t>& tokens = run.script->tokens;
        const auto position = static_cast<size_t>(row.output_position);
        if (run.script->repeat) {
            return tokens[position % tokens.size()];
        }
        return tokens[std::min(position, tokens.size() - 1)];
    }

  private:
    struct Run { // the sequence in a slot
        int64_t nth = 0;
        int64_t n_chunks = 0;
        bool drawing = false;
        bool non_finite = false;
        const StubScript* script = nullptr;
    };

    const StubScript& choose(int64_t nth, std::span<const int32_t> prompt) {
        for (const StubScript& script : scripts_) {
            if ((!script.nth || *script.nth == nth) &&
                (!script.contains ||
                 vocabulary_.decode(prompt).find(*script.contains) != std::string::npos)) {
                return script;
            }
        }
        return scripts_.back();
    }

    static Expected<void> fail_if(Run& run, bool in_prefill, int64_t step) {
        const std::optional<StubFailure>& failure = run.script->failure;
        if (!failure || failure->in_prefill != in_prefill || failure->step != step) {
            return {};
        }
        if (failure->kind == "exception") {
            throw std::runtime_error("scripted exception");
        }
        if (failure->kind == "oom") {
            throw std::bad_alloc();
        }
        if (failure->kind == "nonfinite") {
            run.non_finite = true;
            return {};
        }
        return make_error(ErrorCode::kInternal, "scripted device error");
    }

    const std::vector<StubScript> scripts_;
    const StubVocabulary vocabulary_;
    std::vector<Run> runs_; // by slot
    int64_t n_started_ = 0;
    std::chrono::microseconds prefill_delay_{0};
    std::chrono::microseconds step_delay_{0};
};

// A FakeBackend that plays `json_lines`.
inline Expected<std::unique_ptr<FakeBackend>> make_stub_backend(std::string_view json_lines,
                                                                StubVocabulary vocabulary,
                                                                const BackendLimits& limits) {
    DSV4V_ASSIGN_OR_RETURN(std::vector<StubScript> scripts,
                           parse_stub_scripts(json_lines, vocabulary));
    auto backend = std::make_unique<FakeBackend>(limits);
    auto player = std::make_shared<StubPlayer>(std::move(scripts), std::move(vocabulary),
                                               limits.max_sequences);
    backend->on_chunk = [player](const SequenceChunk& chunk, std::span<const int32_t> cached) {
        return player->on_chunk(chunk, cached);
    };
    backend->before_draw = [player] { player->before_draw(); };
    backend->next_token = [player](const SampleRow& row, int32_t slot, SampledToken& token) {
        return player->next_token(row, slot, token);
    };
    return backend;
}

} // namespace dsv4v::testing
