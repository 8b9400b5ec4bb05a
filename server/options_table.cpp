#include "server/options_table.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

namespace dsv4v {

namespace {

constexpr std::pair<const char*, NumericsChoice> kNumericsNames[] = {
    {"author", NumericsChoice::kAuthor}, {"plain", NumericsChoice::kPlain}};
constexpr std::pair<const char*, SsePingMode> kPingNames[] = {
    {"comment", SsePingMode::kComment},
    {"comment-nl", SsePingMode::kCommentNl},
    {"chunk", SsePingMode::kChunk},
    {"off", SsePingMode::kOff}};
constexpr std::pair<const char*, LogFormat> kLogFormatNames[] = {{"text", LogFormat::kText},
                                                                 {"json", LogFormat::kJson}};

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.size(); ++j) {
            const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row[b.size()];
}

} // namespace

ChoiceTable<NumericsChoice> choices(NumericsChoice) {
    return kNumericsNames;
}
ChoiceTable<SsePingMode> choices(SsePingMode) {
    return kPingNames;
}
ChoiceTable<LogFormat> choices(LogFormat) {
    return kLogFormatNames;
}

const std::vector<Setting>& settings() {
    using O = Options;
    static const std::vector<Setting> all = {
        {"Model", "-m,--model", &O::model, "GGUF file of the language model (any shard of a set)"},
        {"Model", "--mmproj", &O::mmproj, "GGUF file of the vision tower"},
        {"Model", "--alias", &O::alias, "names under which the model is listed, comma separated"},
        {"Model", "-c,--ctx-size", &O::ctx_size, "tokens per sequence; 0 = the model's context",
         SettingKind::kValue, 0, 1 << 24},
        {"Model", "--parallel", &O::parallel, "sequences that run at once", SettingKind::kValue, 1,
         1024},
        {"Model", "--max-batch-tokens", &O::max_batch_tokens, "rows per engine step",
         SettingKind::kValue, 1, 1 << 20},
        {"Model", "--prefill-chunk", &O::prefill_chunk, "prompt rows of one sequence per step",
         SettingKind::kValue, 1, 1 << 20},
        {"Model", "--kv-memory", &O::kv_memory,
         "bytes of KV cache (K, M, G suffixes); 0 = enough for one full context, at most 4G"},
        {"Model", "--threads", &O::threads, "compute threads; 0 = all cores", SettingKind::kValue,
         0, 1024},
        {"Model", "--numerics", &O::numerics,
         "author = with the cache round trips of the model author's code, plain = without"},

        {"Listening", "--host", &O::host, "address or name to bind, or unix:PATH"},
        {"Listening", "--port", &O::port, "TCP port; 0 = any free one", SettingKind::kValue, 0,
         65535},
        {"Listening", "--max-connections", &O::max_connections,
         "open connections; further ones are answered 503", SettingKind::kValue, 1, 65536},
        {"Listening", "--api-prefix", &O::api_prefix, "path under which everything is served"},
        {"Listening", "--max-body", &O::max_body, "largest request body (K, M, G suffixes)"},
        {"Listening", "--keep-alive-timeout", &O::keep_alive_s,
         "seconds an idle connection stays open", SettingKind::kValue, 0.001, 86400},
        {"Listening", "--header-timeout", &O::header_timeout_s, "seconds for a whole request head",
         SettingKind::kValue, 0.001, 86400},
        {"Listening", "--body-timeout", &O::body_timeout_s, "seconds of silence inside a body",
         SettingKind::kValue, 0.001, 86400},

        {"Access", "--api-key", &O::api_keys, "accepted keys, repeatable or comma list",
         SettingKind::kSecret},
        {"Access", "--api-key-file", &O::api_key_file,
         "file of keys, one `key` or `name:key` per line, # comments; read again on SIGHUP"},
        {"Access", "--admin-key", &O::admin_keys, "keys for /admin, /slots/{id}, /v1/cache",
         SettingKind::kSecret},
        {"Access", "--admin-key-file", &O::admin_key_file, "as --api-key-file, for admin keys"},
        {"Access", "--require-key", &O::require_key, "refuse to serve other machines without a key",
         SettingKind::kFlag},
        {"Access", "--auth-all", &O::auth_all, "everything but health needs a key",
         SettingKind::kFlag},
        {"Access", "--metrics-auth", &O::metrics_auth, "/metrics needs a key", SettingKind::kFlag},
        {"Access", "--cors-origins", &O::cors_origins,
         "origins whose pages may call the API: list, localhost or *"},
        {"Access", "--allowed-hosts", &O::allowed_hosts,
         "further Host names accepted on a loopback bind"},

        {"Requests", "--max-queue", &O::max_queue, "waiting requests; further ones get 429",
         SettingKind::kValue, 1, 1 << 20},
        {"Requests", "--max-n", &O::max_n, "largest n", SettingKind::kValue, 1, 128},
        {"Requests", "--strict-model", &O::strict_model, "404 for a model name that is not served",
         SettingKind::kFlag},
        {"Requests", "--strict-params", &O::strict_params, "400 for unknown fields",
         SettingKind::kFlag},
        {"Requests", "--lenient-content-type", &O::lenient_content_type,
         "accept bodies that are not labelled application/json", SettingKind::kFlag},
        {"Requests", "--thinking", &O::thinking, "default of requests that do not say: on or off"},
        {"Requests",
         "--reasoning-effort",
         &O::reasoning_effort,
         "default effort: low, high or max (minimal, medium, xhigh, ultra are understood)",
         SettingKind::kValue,
         0,
         0,
         {"minimal", "low", "medium", "high", "xhigh", "max", "ultra"}},
        {"Requests", "--thinking-fixed-sampling", &O::thinking_fixed_sampling,
         "sampling fields are ignored while thinking is on", SettingKind::kFlag},
        {"Requests", "--reasoning-alias", &O::reasoning_alias,
         "also write `reasoning` beside `reasoning_content`", SettingKind::kFlag},
        {"Requests", "--deepseek-status-codes", &O::deepseek_status_codes,
         "422 instead of 400 for invalid values", SettingKind::kFlag},
        {"Requests", "--error-code-int", &O::error_code_int, "error.code is the HTTP status",
         SettingKind::kFlag},
        {"Requests", "--allow-special-in-content", &O::allow_special_in_content,
         "message text may spell control tokens (unsafe)", SettingKind::kFlag},
        {"Requests", "--drop-tools-on-none", &O::drop_tools_on_none,
         "tool_choice none removes the tools from the prompt", SettingKind::kFlag},

        {"Time", "--request-timeout", &O::request_timeout_s, "seconds per request; 0 = none",
         SettingKind::kValue, 0, 1e7},
        {"Time", "--queue-timeout", &O::queue_timeout_s, "seconds in the queue; 0 = none",
         SettingKind::kValue, 0, 1e7},
        {"Time", "--idle-write-timeout", &O::idle_write_timeout_s,
         "seconds a client may leave its stream unread", SettingKind::kValue, 0.001, 86400},
        {"Time", "--drain-timeout", &O::drain_timeout_s, "seconds that running requests get to end",
         SettingKind::kValue, 0, 86400},
        {"Time", "--sse-ping-interval", &O::sse_ping_interval_s,
         "seconds between keep-alives of a silent stream; 0 = none", SettingKind::kValue, 0, 86400},
        {"Time", "--sse-ping-mode", &O::sse_ping_mode, "form of a keep-alive"},
        {"Time", "--json-keepalive", &O::json_keepalive_s,
         "seconds after which spaces precede a slow non-stream answer; 0 = never",
         SettingKind::kValue, 0, 86400},
        {"Time", "--half-close-ok", &O::half_close_ok,
         "a client that only closed its sending side is still served", SettingKind::kFlag},
        {"Time", "--engine-stall-timeout", &O::engine_stall_timeout_s,
         "seconds without an engine step, work pending, before the process ends",
         SettingKind::kValue, 0.001, 1e7},
        {"Time", "--no-watchdog", &O::watchdog, "only log a stalled engine",
         SettingKind::kNegatedFlag},

        {"Logs",
         "--log-level",
         &O::log_level,
         "error, warn, info, debug or trace",
         SettingKind::kValue,
         0,
         0,
         {"error", "warn", "info", "debug", "trace"}},
        {"Logs", "--log-format", &O::log_format, "form of a line"},
        {"Logs", "--log-file", &O::log_file, "file instead of stderr; reopened on SIGHUP"},
        {"Logs", "--log-content", &O::log_content, "log the beginning of prompts and answers",
         SettingKind::kFlag},
        {"Logs", "--no-slots", &O::slots, "no GET /slots", SettingKind::kNegatedFlag},

        {"Modes", "--check-model", &O::check_model, "check the model files and exit 0 or 1",
         SettingKind::kMode},
        {"Modes", "--dry-run", &O::dry_run, "print the memory plan and exit", SettingKind::kMode},
        {"Modes", "--print-config", &O::print_config, "print the effective settings and exit",
         SettingKind::kMode},
        {"Modes", "--health-check", &O::health_check,
         "ask a running server with these settings if it is alive; exit 0 or 1",
         SettingKind::kMode},
        {"Modes", "--version", &O::version, "print build data as JSON and exit",
         SettingKind::kMode},
    };
    return all;
}

std::string nearest_key(std::string_view wanted) {
    std::string best;
    size_t best_distance = std::max<size_t>(3, wanted.size() / 2) + 1;
    for (const Setting& setting : settings()) {
        const size_t distance = edit_distance(wanted, setting.key());
        if (distance < best_distance) {
            best_distance = distance;
            best = setting.key();
        }
    }
    return best;
}

std::string options_json(const Options& options) {
    rapidjson::StringBuffer buffer;
    rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
    const auto write = [&writer](const auto& value, const Setting& setting) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
            writer.String(value.c_str());
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            writer.StartArray();
            for (const std::string& item : value) {
                writer.String(setting.kind == SettingKind::kSecret ? kMask : item.c_str());
            }
            writer.EndArray();
        } else if constexpr (std::is_same_v<T, bool>) {
            writer.Bool(setting.kind == SettingKind::kNegatedFlag ? !value : value);
        } else if constexpr (std::is_same_v<T, int32_t>) {
            writer.Int(value);
        } else if constexpr (std::is_same_v<T, uint64_t>) {
            writer.Uint64(value);
        } else if constexpr (std::is_same_v<T, double>) {
            writer.Double(value);
        } else {
            writer.String(choice_name(value));
        }
    };
    writer.StartObject();
    for (const Setting& setting : settings()) {
        if (setting.kind != SettingKind::kMode) {
            writer.Key(setting.key().c_str());
            std::visit([&](auto member) { write(options.*member, setting); }, setting.field);
        }
    }
    writer.EndObject();
    return {buffer.GetString(), buffer.GetSize()};
}

} // namespace dsv4v
