#include "server/sampling_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "server/random_id.h"

namespace dsv4v {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokenIds = 64;
constexpr size_t kMaxLogitBias = 1024;
constexpr size_t kMaxCacheSaltBytes = 256;
constexpr size_t kMaxKeyBytes = 4096;
constexpr double kBanBias = -100;

// Values whose lower bound is open must stay above zero as float, too.
float positive(float value) {
    return std::max(value, std::numeric_limits<float>::min());
}

// "0", "17": decimal digits without sign, blanks and leading zeros, below `vocab_size`.
std::optional<int32_t> token_id_of_key(std::string_view key, int32_t vocab_size) {
    if (key.empty() || key.size() > 9 || (key.size() > 1 && key[0] == '0') ||
        key.find_first_not_of("0123456789") != std::string_view::npos) {
        return std::nullopt;
    }
    int32_t id = 0;
    std::from_chars(key.data(), key.data() + key.size(), id);
    return id < vocab_size ? std::optional(id) : std::nullopt;
}

std::optional<float> bias_of(const JsonValue& value) {
    const std::optional<double> bias = value.as_double();
    if (!bias || *bias < -100 || *bias > 100) {
        return std::nullopt;
    }
    return *bias <= kBanBias ? -std::numeric_limits<float>::infinity() : static_cast<float>(*bias);
}

void add_bias(RequestFields& fields, const std::string& path, const JsonValue& value, int32_t id,
              std::map<int32_t, float>& biases) {
    const std::optional<float> bias = bias_of(value);
    if (!bias) {
        fields.fail(wrong_value(path, value, "a number from -100 to 100"));
        return;
    }
    biases[id] = *bias;
}

void read_bias_object(RequestFields& fields, const JsonValue& object, int32_t vocab_size,
                      std::map<int32_t, float>& biases) {
    for (const auto& [key, value] : object.members) {
        const std::string path = fields.path_of(fmt::format("logit_bias.{}", key.substr(0, 64)));
        const std::optional<int32_t> id = token_id_of_key(key, vocab_size);
        if (!id) {
            fields.fail({ErrorCode::kInvalidArgument,
                         fmt::format("key {} of 'logit_bias' must be a token id from 0 to {}",
                                     describe(JsonValue::string(key)), vocab_size - 1),
                         path});
            return;
        }
        add_bias(fields, path, value, *id, biases);
    }
}

// [[id, bias], ...]
void read_bias_pairs(RequestFields& fields, const JsonValue& array, int32_t vocab_size,
                     std::map<int32_t, float>& biases) {
    for (size_t k = 0; k < array.items.size(); ++k) {
        const JsonValue& pair = array.items[k];
        const std::string path = index_path(fields.path_of("logit_bias"), k);
        if (!pair.is_array() || pair.items.size() != 2) {
            fields.fail(wrong_value(path, pair, "a pair [token id, bias]"));
            return;
        }
        const std::optional<int64_t> id = pair.items[0].as_int();
        if (!id || *id < 0 || *id >= vocab_size) {
            fields.fail(wrong_value(index_path(path, 0), pair.items[0],
                                    fmt::format("a token id from 0 to {}", vocab_size - 1)));
            return;
        }
        add_bias(fields, index_path(path, 1), pair.items[1], static_cast<int32_t>(*id), biases);
    }
}

void read_logit_bias(RequestFields& fields, int32_t vocab_size, SamplingParams& params) {
    const JsonValue* value = fields.get("logit_bias");
    if (value == nullptr) {
        return;
    }
    if ((!value->is_object() && !value->is_array()) ||
        std::max(value->items.size(), value->members.size()) > kMaxLogitBias) {
        fields.fail_value(
            "logit_bias", *value,
            fmt::format("an object or an array of pairs with at most {} entries", kMaxLogitBias));
        return;
    }
    std::map<int32_t, float> biases;
    if (value->is_object()) {
        read_bias_object(fields, *value, vocab_size, biases);
    } else {
        read_bias_pairs(fields, *value, vocab_size, biases);
    }
    params.logit_bias.assign(biases.begin(), biases.end());
}

void add_stop(RequestFields& fields, const std::string& path, const JsonValue& value,
              std::vector<std::string>& stops) {
    if (!value.is_string() || value.text.size() > kMaxStopBytes) {
        fields.fail(
            wrong_value(path, value, fmt::format("a string of at most {} bytes", kMaxStopBytes)));
    } else if (!value.text.empty()) {
        stops.push_back(value.text);
    }
}

void read_stops(RequestFields& fields, std::vector<std::string>& stops) {
    const JsonValue* value = fields.get("stop");
    if (value == nullptr) {
        return;
    }
    if (value->is_string()) {
        add_stop(fields, fields.path_of("stop"), *value, stops);
        return;
    }
    if (!value->is_array() || value->items.size() > kMaxStops) {
        fields.fail_value("stop", *value,
                          fmt::format("a string or an array of at most {} strings", kMaxStops));
        return;
    }
    for (size_t k = 0; k < value->items.size(); ++k) {
        add_stop(fields, index_path(fields.path_of("stop"), k), value->items[k], stops);
    }
}

std::optional<uint64_t> seed_of(const JsonValue& value) {
    if (const std::optional<int64_t> integer = value.as_int()) {
        return static_cast<uint64_t>(*integer);
    }
    uint64_t large = 0;
    const char* end = value.text.data() + value.text.size();
    const auto parsed = std::from_chars(value.text.data(), end, large);
    if (value.is_number() && parsed.ptr == end && parsed.ec == std::errc()) {
        return large;
    }
    return std::nullopt;
}

// 53 bits: the seed is reported, and clients that keep numbers as doubles can send it back.
uint64_t drawn_seed() {
    return random_u64() >> 11;
}

uint64_t read_seed(RequestFields& fields) {
    const JsonValue* value = fields.get("seed");
    if (value == nullptr) {
        return drawn_seed();
    }
    const std::optional<uint64_t> seed = seed_of(*value);
    if (!seed) {
        fields.fail_value("seed", *value, "an integer from -2^63 to 2^64-1");
        return 0;
    }
    return *seed == std::numeric_limits<uint64_t>::max() && value->text.starts_with('-')
               ? drawn_seed()
               : *seed;
}

void read_filters(RequestFields& fields, const RequestRules& rules, SamplingParams& params) {
    params.temperature = rules.default_temperature;
    params.top_p = rules.default_top_p;
    fields.read("temperature", params.temperature, {0, 2});
    fields.read("top_p", params.top_p, {0, 1});
    fields.read("min_p", params.min_p, {0, 1});
    fields.read("typical_p", params.typical_p, {0, 1, true});
    fields.read("top_k", params.top_k, -1, rules.vocab_size);
    params.top_p = positive(params.top_p);
    params.typical_p = positive(params.typical_p);
    params.top_k = std::max(params.top_k, 0);
}

void read_penalties(RequestFields& fields, const RequestRules& rules, SamplingParams& params) {
    fields.read("presence_penalty", params.presence_penalty, {-2, 2});
    fields.read("frequency_penalty", params.frequency_penalty, {-2, 2});
    fields.read("repeat_penalty", params.repetition_penalty, {0, 2, true});
    fields.read("repetition_penalty", params.repetition_penalty, {0, 2, true});
    fields.read("repeat_last_n", params.repeat_last_n, -1, rules.context_length);
    params.repetition_penalty = positive(params.repetition_penalty);
}

void read_limits(RequestFields& fields, const RequestRules& rules, SamplingRequest& request) {
    int32_t max_tokens = -1;
    for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
        fields.read(name, max_tokens, -1, std::numeric_limits<int32_t>::max());
    }
    if (max_tokens >= 0) {
        request.max_tokens = max_tokens;
    }
    const int32_t most = max_tokens < 0 ? rules.context_length : max_tokens;
    fields.read("min_tokens", request.min_tokens, 0, most);
    fields.read("n", request.n, 1, rules.max_n);
}

// Fields of other servers that would change the result: only their neutral value is taken.
void read_neutral(RequestFields& fields, const SamplingRequest& request) {
    int32_t best_of = request.n;
    if (fields.read("best_of", best_of, 1, std::numeric_limits<int32_t>::max()) &&
        best_of != request.n) {
        fields.fail_value("best_of", *fields.get("best_of"), "equal to 'n'");
    }
    bool beam_search = false;
    if (fields.read("use_beam_search", beam_search) && beam_search) {
        fields.fail_value("use_beam_search", *fields.get("use_beam_search"), "false");
    }
    double length_penalty = 1;
    fields.read("length_penalty", length_penalty, {1, 1});
}

void read_stream_options(RequestFields& fields, StreamFlags& flags) {
    const JsonValue* value = fields.object("stream_options");
    if (value == nullptr) {
        return;
    }
    if (!flags.stream) {
        fields.fail({ErrorCode::kInvalidArgument,
                     "'stream_options' is only allowed with \"stream\": true",
                     fields.path_of("stream_options")});
        return;
    }
    RequestFields options(*value, fields.path_of("stream_options"));
    options.read("include_usage", flags.include_usage);
    options.read("continuous_usage_stats", flags.continuous_usage);
    options.ignore({"include_obfuscation"});
    if (auto result = options.finish(false); !result) {
        fields.fail(result.error());
    }
}

void read_stream(RequestFields& fields, StreamFlags& flags) {
    fields.read("stream", flags.stream);
    read_stream_options(fields, flags);
    fields.read("return_progress", flags.progress);
    fields.read("timings_per_token", flags.timings_per_token);
}

void read_scheduling(RequestFields& fields, const RequestRules& rules, SamplingRequest& request) {
    fields.read("priority", request.priority, -100, 100);
    if (request.priority != 0 && !rules.allow_priority) {
        fields.fail({ErrorCode::kInvalidArgument, "'priority' is not allowed on this server",
                     fields.path_of("priority")});
    }
    request.timeout_s = rules.max_timeout_s;
    double timeout_s = 0;
    if (fields.read("timeout", timeout_s, {0, 1e9, true})) {
        request.timeout_s =
            rules.max_timeout_s > 0 ? std::min(timeout_s, rules.max_timeout_s) : timeout_s;
    }
    bool cache_prompt = true;
    std::string text;
    fields.read("cache_prompt", cache_prompt);
    fields.read("cache_salt", text, kMaxCacheSaltBytes);
    fields.read("prompt_cache_key", text, kMaxKeyBytes);
}

} // namespace

SamplingRequest read_sampling(RequestFields& fields, const RequestRules& rules) {
    SamplingRequest request;
    read_filters(fields, rules, request.params);
    read_penalties(fields, rules, request.params);
    read_logit_bias(fields, rules.vocab_size, request.params);
    request.params.seed = read_seed(fields);
    read_limits(fields, rules, request);
    read_neutral(fields, request);
    read_stops(fields, request.stops);
    fields.read("include_stop_str_in_output", request.include_stop);
    fields.read("stop_in_reasoning", request.stop_in_reasoning);
    fields.read("stop_token_ids", request.stop_token_ids, 0, rules.vocab_size - 1,
                kMaxStopTokenIds);
    fields.read("ignore_eos", request.ignore_eos);
    read_scheduling(fields, rules, request);
    fields.read("return_tokens", request.return_token_ids);
    fields.read("return_token_ids", request.return_token_ids);
    read_stream(fields, request.stream);
    fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "verbosity",
                   "prediction"});
    return request;
}

} // namespace dsv4v
