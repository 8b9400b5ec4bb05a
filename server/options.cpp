#include "server/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include "engine/json_value.h"

namespace dsv4v {

namespace {

template <class E>
using ChoiceTable = std::span<const std::pair<const char*, E>>;

constexpr std::pair<const char*, NumericsChoice> kNumericsNames[] = {
    {"author", NumericsChoice::kAuthor}, {"plain", NumericsChoice::kPlain}};
constexpr std::pair<const char*, SsePingMode> kPingNames[] = {
    {"comment", SsePingMode::kComment},
    {"comment-nl", SsePingMode::kCommentNl},
    {"chunk", SsePingMode::kChunk},
    {"off", SsePingMode::kOff}};
constexpr std::pair<const char*, LogprobsMode> kLogprobsNames[] = {
    {"raw", LogprobsMode::kRaw}, {"processed", LogprobsMode::kProcessed}};
constexpr std::pair<const char*, LogFormat> kLogFormatNames[] = {{"text", LogFormat::kText},
                                                                 {"json", LogFormat::kJson}};

ChoiceTable<NumericsChoice> choices(NumericsChoice) {
    return kNumericsNames;
}
ChoiceTable<SsePingMode> choices(SsePingMode) {
    return kPingNames;
}
ChoiceTable<LogprobsMode> choices(LogprobsMode) {
    return kLogprobsNames;
}
ChoiceTable<LogFormat> choices(LogFormat) {
    return kLogFormatNames;
}

template <class E>
const char* choice_name(E value) {
    for (const auto& [name, candidate] : choices(value)) {
        if (candidate == value) {
            return name;
        }
    }
    return "";
}

using Field =
    std::variant<std::string Options::*, int32_t Options::*, uint64_t Options::*, double Options::*,
                 bool Options::*, std::vector<std::string> Options::*, NumericsChoice Options::*,
                 SsePingMode Options::*, LogprobsMode Options::*, LogFormat Options::*>;

enum class Kind { kValue, kFlag, kNegatedFlag, kSecret, kMode };

// One row per setting: what the command line, the environment, the config file, --help and
// --print-config know about it.
struct Setting {
    const char* group;
    const char* names; // CLI11 spelling: "-m,--model"
    Field field;
    const char* help;
    Kind kind = Kind::kValue;
    double min = 0; // numbers only
    double max = 0; // 0: no upper bound
    std::vector<std::string> allowed = {};

    // The long name without dashes: "ctx-size".
    [[nodiscard]] std::string key() const {
        const std::string_view all = names;
        const size_t begin = all.find("--") + 2;
        return std::string(all.substr(begin, all.find(',', begin) - begin));
    }
    [[nodiscard]] std::string env() const {
        std::string name = "DSV4V_" + key();
        for (char& c : name) {
            c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        }
        return name;
    }
};

const std::vector<Setting>& settings() {
    using O = Options;
    static const std::vector<Setting> all = {
        {"Model", "-m,--model", &O::model, "GGUF file of the language model (any shard of a set)"},
        {"Model", "--mmproj", &O::mmproj, "GGUF file of the vision tower"},
        {"Model", "--alias", &O::alias, "names under which the model is listed, comma separated"},
        {"Model", "-c,--ctx-size", &O::ctx_size, "tokens per sequence; 0 = the model's context",
         Kind::kValue, 0, 1 << 24},
        {"Model", "--parallel", &O::parallel, "sequences that run at once", Kind::kValue, 1, 1024},
        {"Model", "--max-batch-tokens", &O::max_batch_tokens, "rows per engine step", Kind::kValue,
         1, 1 << 20},
        {"Model", "--prefill-chunk", &O::prefill_chunk, "prompt rows of one sequence per step",
         Kind::kValue, 1, 1 << 20},
        {"Model", "--kv-memory", &O::kv_memory,
         "bytes of KV cache (K, M, G suffixes); 0 = enough for one full context, at most 4G"},
        {"Model", "--threads", &O::threads, "compute threads; 0 = all cores", Kind::kValue, 0,
         1024},
        {"Model", "--numerics", &O::numerics,
         "author = with the cache round trips of the model author's code, plain = without"},

        {"Listening", "--host", &O::host, "address or name to bind, or unix:PATH"},
        {"Listening", "--port", &O::port, "TCP port; 0 = any free one", Kind::kValue, 0, 65535},
        {"Listening", "--max-connections", &O::max_connections,
         "open connections; further ones are answered 503", Kind::kValue, 1, 65536},
        {"Listening", "--api-prefix", &O::api_prefix, "path under which everything is served"},
        {"Listening", "--max-body", &O::max_body, "largest request body (K, M, G suffixes)"},
        {"Listening", "--keep-alive-timeout", &O::keep_alive_s,
         "seconds an idle connection stays open", Kind::kValue, 0.001, 86400},
        {"Listening", "--header-timeout", &O::header_timeout_s, "seconds for a whole request head",
         Kind::kValue, 0.001, 86400},
        {"Listening", "--body-timeout", &O::body_timeout_s, "seconds of silence inside a body",
         Kind::kValue, 0.001, 86400},

        {"Access", "--api-key", &O::api_keys, "accepted keys, repeatable or comma list",
         Kind::kSecret},
        {"Access", "--api-key-file", &O::api_key_file,
         "file of keys, one `key` or `name:key` per line, # comments; read again on SIGHUP"},
        {"Access", "--admin-key", &O::admin_keys, "keys for /admin, /slots/{id}, /v1/cache",
         Kind::kSecret},
        {"Access", "--admin-key-file", &O::admin_key_file, "as --api-key-file, for admin keys"},
        {"Access", "--require-key", &O::require_key, "refuse to serve other machines without a key",
         Kind::kFlag},
        {"Access", "--auth-all", &O::auth_all, "everything but health needs a key", Kind::kFlag},
        {"Access", "--metrics-auth", &O::metrics_auth, "/metrics needs a key", Kind::kFlag},
        {"Access", "--cors-origins", &O::cors_origins,
         "origins whose pages may call the API: list, localhost or *"},
        {"Access", "--allowed-hosts", &O::allowed_hosts,
         "further Host names accepted on a loopback bind"},

        {"Requests", "--max-queue", &O::max_queue, "waiting requests; further ones get 429",
         Kind::kValue, 1, 1 << 20},
        {"Requests", "--max-n", &O::max_n, "largest n", Kind::kValue, 1, 128},
        {"Requests", "--strict-model", &O::strict_model, "404 for a model name that is not served",
         Kind::kFlag},
        {"Requests", "--strict-params", &O::strict_params, "400 for unknown fields", Kind::kFlag},
        {"Requests", "--lenient-content-type", &O::lenient_content_type,
         "accept bodies that are not labelled application/json", Kind::kFlag},
        {"Requests", "--thinking", &O::thinking, "default of requests that do not say: on or off"},
        {"Requests",
         "--reasoning-effort",
         &O::reasoning_effort,
         "default effort: low, high or max (minimal, medium, xhigh, ultra are understood)",
         Kind::kValue,
         0,
         0,
         {"minimal", "low", "medium", "high", "xhigh", "max", "ultra"}},
        {"Requests", "--thinking-fixed-sampling", &O::thinking_fixed_sampling,
         "sampling fields are ignored while thinking is on", Kind::kFlag},
        {"Requests", "--reasoning-alias", &O::reasoning_alias,
         "also write `reasoning` beside `reasoning_content`", Kind::kFlag},
        {"Requests", "--deepseek-status-codes", &O::deepseek_status_codes,
         "422 instead of 400 for invalid values", Kind::kFlag},
        {"Requests", "--error-code-int", &O::error_code_int, "error.code is the HTTP status",
         Kind::kFlag},
        {"Requests", "--allow-special-in-content", &O::allow_special_in_content,
         "message text may spell control tokens (unsafe)", Kind::kFlag},
        {"Requests", "--drop-tools-on-none", &O::drop_tools_on_none,
         "tool_choice none removes the tools from the prompt", Kind::kFlag},
        {"Requests", "--logprobs-mode", &O::logprobs_mode,
         "raw = before temperature and filters, processed = after"},

        {"Time", "--request-timeout", &O::request_timeout_s, "seconds per request; 0 = none",
         Kind::kValue, 0, 1e7},
        {"Time", "--queue-timeout", &O::queue_timeout_s, "seconds in the queue; 0 = none",
         Kind::kValue, 0, 1e7},
        {"Time", "--idle-write-timeout", &O::idle_write_timeout_s,
         "seconds a client may leave its stream unread", Kind::kValue, 0.001, 86400},
        {"Time", "--drain-timeout", &O::drain_timeout_s, "seconds that running requests get to end",
         Kind::kValue, 0, 86400},
        {"Time", "--sse-ping-interval", &O::sse_ping_interval_s,
         "seconds between keep-alives of a silent stream; 0 = none", Kind::kValue, 0, 86400},
        {"Time", "--sse-ping-mode", &O::sse_ping_mode, "form of a keep-alive"},
        {"Time", "--json-keepalive", &O::json_keepalive_s,
         "seconds after which spaces precede a slow non-stream answer; 0 = never", Kind::kValue, 0,
         86400},
        {"Time", "--half-close-ok", &O::half_close_ok,
         "a client that only closed its sending side is still served", Kind::kFlag},
        {"Time", "--engine-stall-timeout", &O::engine_stall_timeout_s,
         "seconds without an engine step, work pending, before the process ends", Kind::kValue,
         0.001, 1e7},
        {"Time", "--no-watchdog", &O::watchdog, "only log a stalled engine", Kind::kNegatedFlag},

        {"Logs",
         "--log-level",
         &O::log_level,
         "error, warn, info, debug or trace",
         Kind::kValue,
         0,
         0,
         {"error", "warn", "info", "debug", "trace"}},
        {"Logs", "--log-format", &O::log_format, "form of a line"},
        {"Logs", "--log-file", &O::log_file, "file instead of stderr; reopened on SIGHUP"},
        {"Logs", "--log-content", &O::log_content, "log the beginning of prompts and answers",
         Kind::kFlag},
        {"Logs", "--no-slots", &O::slots, "no GET /slots", Kind::kNegatedFlag},

        {"Modes", "--check-model", &O::check_model, "check the model files and exit 0 or 1",
         Kind::kMode},
        {"Modes", "--dry-run", &O::dry_run, "print the memory plan and exit", Kind::kMode},
        {"Modes", "--print-config", &O::print_config, "print the effective settings and exit",
         Kind::kMode},
        {"Modes", "--version", &O::version, "print build data as JSON and exit", Kind::kMode},
    };
    return all;
}

// Flags of llama-server that mean nothing here, and their single-dash spellings, which CLI11 does
// not know.
constexpr std::pair<std::string_view, std::string_view> kSingleDashNames[] = {
    {"-np", "--parallel"},
    {"-ngl", "--n-gpu-layers"},
    {"-fa", "--flash-attn"},
    {"-cb", "--cont-batching"},
};

struct IgnoredFlags {
    std::string n_gpu_layers;
    std::string flash_attn;
    bool jinja = false;
    bool cont_batching = false;
};

void add_ignored_flags(CLI::App& app, IgnoredFlags& ignored) {
    const char* group = "Accepted for llama-server command lines, without effect";
    app.add_option("--n-gpu-layers,--gpu-layers", ignored.n_gpu_layers, "-ngl")->group(group);
    app.add_option("--flash-attn", ignored.flash_attn, "-fa")->expected(0, 1)->group(group);
    app.add_flag("--jinja", ignored.jinja)->group(group);
    app.add_flag("--cont-batching", ignored.cont_batching, "-cb")->group(group);
}

CLI::Option* add_field(CLI::App& app, const Setting& setting, std::string& value) {
    return app.add_option(setting.names, value, setting.help);
}

CLI::Option* add_field(CLI::App& app, const Setting& setting, std::vector<std::string>& value) {
    return app.add_option(setting.names, value, setting.help)
        ->delimiter(',')
        ->expected(1, -1)
        ->allow_extra_args(false);
}

template <class Number>
requires std::is_arithmetic_v<Number> CLI::Option* add_field(CLI::App& app, const Setting& setting,
                                                             Number& value) {
    CLI::Option* option = app.add_option(setting.names, value, setting.help);
    const double max = setting.max > 0 ? setting.max : std::numeric_limits<double>::max();
    return option->check(CLI::Range(setting.min, max));
}

CLI::Option* add_field(CLI::App& app, const Setting& setting, uint64_t& value) {
    const auto assign = [&value](const CLI::results_t& results) {
        const Expected<uint64_t> bytes = parse_size(results.back());
        if (!bytes) {
            throw CLI::ValidationError(bytes.error().message);
        }
        value = *bytes;
        return true;
    };
    return app.add_option(setting.names, assign, setting.help)
        ->type_name("SIZE")
        ->default_str(std::to_string(value));
}

CLI::Option* add_field(CLI::App& app, const Setting& setting, bool& value) {
    switch (setting.kind) {
    case Kind::kValue:
        return app.add_option(setting.names, value, setting.help)->type_name("on|off");
    case Kind::kNegatedFlag:
        return app.add_flag(std::string("!") + setting.names, value, setting.help);
    default:
        return app.add_flag(setting.names, value, setting.help);
    }
}

template <class E>
requires std::is_enum_v<E> CLI::Option* add_field(CLI::App& app, const Setting& setting, E& value) {
    std::map<std::string, E> names;
    std::string joined;
    for (const auto& [name, candidate] : choices(value)) {
        names.emplace(name, candidate);
        joined += (joined.empty() ? "" : "|") + std::string(name);
    }
    const auto assign = [&value, names, joined](const CLI::results_t& results) {
        const auto found = names.find(results.back());
        if (found == names.end()) {
            throw CLI::ValidationError("got '" + results.back() + "', wanted " + joined);
        }
        value = found->second;
        return true;
    };
    return app.add_option(setting.names, assign, setting.help)
        ->type_name(joined)
        ->default_str(choice_name(value));
}

// Declares every setting, bound to `options`.
void declare(CLI::App& app, Options& options, IgnoredFlags& ignored, std::string& config_file) {
    app.add_option("--config", config_file, "settings file: a JSON object or `key = value` lines")
        ->option_text("FILE (Env:DSV4V_CONFIG)")
        ->group("Modes");
    for (const Setting& setting : settings()) {
        CLI::Option* option = std::visit(
            [&](auto member) { return add_field(app, setting, options.*member); }, setting.field);
        option->group(setting.group);
        if (setting.kind == Kind::kValue &&
            !std::holds_alternative<bool Options::*>(setting.field)) {
            option->capture_default_str();
        }
        if (setting.kind != Kind::kMode) {
            option->envname(setting.env());
        }
        if (setting.kind != Kind::kSecret &&
            !std::holds_alternative<std::vector<std::string> Options::*>(setting.field)) {
            option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        }
        if (!setting.allowed.empty()) {
            option->check(CLI::IsMember(setting.allowed));
        }
    }
    add_ignored_flags(app, ignored);
}

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

OptionsExit usage_error(std::string text) {
    return {2, "dsv4v-server: " + std::move(text) + "\n"};
}

OptionsExit unknown_argument(const std::string& argument) {
    if (argument.rfind("-", 0) != 0) {
        return usage_error(fmt::format("unexpected argument '{}'", argument));
    }
    const std::string name = argument.substr(0, argument.find('='));
    const std::string nearest = nearest_key(name.substr(name.find_first_not_of('-')));
    return usage_error(
        fmt::format("unknown flag '{}'{}", name,
                    nearest.empty() ? ", see --help" : "; did you mean '--" + nearest + "'?"));
}

std::string trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) {
        return {};
    }
    return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

using KeyValues = std::vector<std::pair<std::string, std::string>>;

Expected<std::string> scalar_text(const std::string& key, const JsonValue& value) {
    if (value.is_string() || value.is_number()) {
        return value.text;
    }
    if (value.is_bool()) {
        return std::string(value.boolean ? "true" : "false");
    }
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("config key '{}': wanted a string, number, boolean or list", key));
}

Expected<KeyValues> parse_json_config(const std::string& text) {
    DSV4V_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text));
    KeyValues out;
    for (const auto& [key, value] : root.members) {
        if (!value.is_array()) {
            DSV4V_ASSIGN_OR_RETURN(std::string scalar, scalar_text(key, value));
            out.emplace_back(key, std::move(scalar));
            continue;
        }
        std::string joined;
        for (const JsonValue& item : value.items) {
            DSV4V_ASSIGN_OR_RETURN(const std::string scalar, scalar_text(key, item));
            joined += (joined.empty() ? "" : ",") + scalar;
        }
        out.emplace_back(key, std::move(joined));
    }
    return out;
}

Expected<KeyValues> parse_line_config(const std::string& text) {
    KeyValues out;
    std::istringstream lines(text);
    std::string line;
    for (int line_number = 1; std::getline(lines, line); ++line_number) {
        const std::string content = trimmed(line);
        if (content.empty() || content[0] == '#') {
            continue;
        }
        const size_t equals = content.find('=');
        if (equals == std::string::npos) {
            return make_error(ErrorCode::kInvalidArgument,
                              fmt::format("line {}: wanted key = value", line_number));
        }
        std::string value = trimmed(std::string_view(content).substr(equals + 1));
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            value = value.substr(1, value.size() - 2);
        }
        out.emplace_back(trimmed(std::string_view(content).substr(0, equals)), std::move(value));
    }
    return out;
}

Expected<std::map<std::string, std::string>> read_config(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return make_error(ErrorCode::kNotFound, "cannot read");
    }
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_json = first != std::string::npos && text[first] == '{';
    DSV4V_ASSIGN_OR_RETURN(const KeyValues entries,
                           is_json ? parse_json_config(text) : parse_line_config(text));
    std::map<std::string, std::string> out;
    for (const auto& [spelled, value] : entries) {
        std::string key = spelled;
        std::replace(key.begin(), key.end(), '_', '-');
        const auto& all = settings();
        const bool known = std::any_of(all.begin(), all.end(), [&](const Setting& setting) {
            return setting.kind != Kind::kMode && setting.key() == key;
        });
        if (!known) {
            const std::string nearest = nearest_key(key);
            return make_error(
                ErrorCode::kInvalidArgument,
                fmt::format("unknown key '{}'{}", spelled,
                            nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
        }
        out[key] = value;
    }
    return out;
}

std::optional<std::string> environment(const std::string& name) {
    const char* value = std::getenv(name.c_str()); // start-up: no other thread exists yet
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::string> arguments(int argc, const char* const* argv) {
    std::vector<std::string> out;
    for (int i = 1; i < argc; ++i) {
        std::string argument = argv[i];
        for (const auto& [short_name, long_name] : kSingleDashNames) {
            if (argument == short_name) {
                argument = long_name;
            } else if (argument.rfind(std::string(short_name) + "=", 0) == 0) {
                argument = std::string(long_name) + argument.substr(short_name.size());
            }
        }
        out.push_back(std::move(argument));
    }
    return out;
}

// CLI11 wants its argument list reversed.
void parse_reversed(CLI::App& app, std::vector<std::string> args) {
    std::reverse(args.begin(), args.end());
    app.parse(std::move(args));
}

struct Parse {
    Options options;
    IgnoredFlags ignored;
    std::string config_file;
    CLI::App app{"dsv4v-server: serves DeepSeek-V4-Flash-Vision over HTTP. Every flag may also be "
                 "set by the environment variable named with it, or by its name in --config; flag "
                 "> environment > file > default.",
                 "dsv4v-server"};
    Parse() {
        declare(app, options, ignored, config_file);
        app.allow_extras();
    }
};

// What environment and file add to the flags, as further arguments.
tl::expected<std::vector<std::string>, OptionsExit> inherited_arguments(Parse& flags) {
    std::string config_file = flags.config_file;
    if (config_file.empty()) {
        config_file = environment("DSV4V_CONFIG").value_or("");
    }
    std::map<std::string, std::string> file;
    if (!config_file.empty()) {
        auto read = read_config(config_file);
        if (!read) {
            return tl::unexpected(
                usage_error(fmt::format("--config {}: {}", config_file, read.error().message)));
        }
        file = std::move(*read);
    }
    std::vector<std::string> out;
    for (const Setting& setting : settings()) {
        if (setting.kind == Kind::kMode ||
            flags.app.get_option("--" + setting.key())->count() > 0) {
            continue;
        }
        std::optional<std::string> value = environment(setting.env());
        if (const auto entry = file.find(setting.key()); !value && entry != file.end()) {
            value = entry->second;
        }
        if (value) {
            out.push_back("--" + setting.key() + "=" + *value);
        }
    }
    return out;
}

std::vector<std::string> split_list(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) {
        if (item = trimmed(item); !item.empty()) {
            out.push_back(item);
        }
    }
    return out;
}

std::string canonical_effort(const std::string& name) {
    if (name == "minimal" || name == "low") {
        return "low";
    }
    return name == "max" || name == "ultra" ? "max" : "high";
}

std::vector<std::string> notices(const IgnoredFlags& ignored) {
    std::vector<std::string> out;
    const auto note = [&out](bool given, const char* name) {
        if (given) {
            out.push_back(fmt::format("{} is accepted and has no effect", name));
        }
    };
    note(!ignored.n_gpu_layers.empty(), "-ngl");
    note(!ignored.flash_attn.empty(), "-fa");
    note(ignored.jinja, "--jinja");
    note(ignored.cont_batching, "-cb");
    return out;
}

// Rules that concern more than one value.
std::optional<OptionsExit> finish(Options& options) {
    options.reasoning_effort = canonical_effort(options.reasoning_effort);
    if (!options.api_prefix.empty()) {
        while (options.api_prefix.ends_with('/')) {
            options.api_prefix.pop_back();
        }
        if (!options.api_prefix.empty() && options.api_prefix.front() != '/') {
            options.api_prefix.insert(0, "/");
        }
    }
    if (options.max_body == 0) {
        return usage_error("--max-body: got 0, wanted at least 1 byte");
    }
    if (options.max_batch_tokens < options.parallel) {
        return usage_error(fmt::format("--max-batch-tokens: got {}, wanted at least --parallel {}",
                                       options.max_batch_tokens, options.parallel));
    }
    return std::nullopt;
}

} // namespace

std::vector<std::string> Options::model_ids() const {
    std::vector<std::string> ids = split_list(alias);
    if (ids.empty()) {
        std::string stem = std::filesystem::path(model).stem().string();
        // "name-00001-of-00003" -> "name"
        constexpr size_t kShardSuffix = 15;
        if (stem.size() > kShardSuffix && stem[stem.size() - kShardSuffix] == '-' &&
            stem.compare(stem.size() - 9, 4, "-of-") == 0) {
            stem.resize(stem.size() - kShardSuffix);
        }
        ids.push_back(stem.empty() ? "dsv4v" : stem);
    }
    return ids;
}

std::string Options::model_id() const {
    return model_ids().front();
}

tl::expected<Options, OptionsExit> parse_options(int argc, const char* const* argv) {
    Parse flags;
    try {
        const std::vector<std::string> args = arguments(argc, argv);
        parse_reversed(flags.app, args);
        if (const auto extra = flags.app.remaining(); !extra.empty()) {
            return tl::unexpected(unknown_argument(extra.front()));
        }
        auto inherited = inherited_arguments(flags);
        if (!inherited) {
            return tl::unexpected(inherited.error());
        }
        Parse all;
        inherited->insert(inherited->end(), args.begin(), args.end());
        parse_reversed(all.app, *inherited);
        all.options.notices = notices(all.ignored);
        if (auto error = finish(all.options)) {
            return tl::unexpected(std::move(*error));
        }
        return std::move(all.options);
    } catch (const CLI::CallForHelp&) {
        return tl::unexpected(OptionsExit{0, flags.app.help()});
    } catch (const CLI::ParseError& error) {
        return tl::unexpected(usage_error(error.what()));
    }
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
                writer.String(setting.kind == Kind::kSecret ? "***" : item.c_str());
            }
            writer.EndArray();
        } else if constexpr (std::is_same_v<T, bool>) {
            writer.Bool(setting.kind == Kind::kNegatedFlag ? !value : value);
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
        if (setting.kind != Kind::kMode) {
            writer.Key(setting.key().c_str());
            std::visit([&](auto member) { write(options.*member, setting); }, setting.field);
        }
    }
    writer.EndObject();
    return {buffer.GetString(), buffer.GetSize()};
}

Expected<uint64_t> parse_size(const std::string& text) {
    const auto fail = [&text] {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("got '{}', wanted a size such as 512M or 1.5G", text));
    };
    size_t used = 0;
    double number = 0;
    if (text.empty() || (std::isdigit(static_cast<unsigned char>(text[0])) == 0)) {
        return fail();
    }
    while (used < text.size() &&
           (std::isdigit(static_cast<unsigned char>(text[used])) != 0 || text[used] == '.')) {
        ++used;
    }
    const std::string digits = text.substr(0, used);
    char* end = nullptr;
    number = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) {
        return fail();
    }
    std::string suffix = text.substr(used);
    if (suffix.size() > 1 && (suffix.ends_with("B") || suffix.ends_with("b"))) {
        suffix.pop_back();
        if (suffix.size() > 1 && suffix.ends_with("i")) {
            suffix.pop_back();
        }
    }
    constexpr std::string_view kUnits = "KMG";
    double factor = 1;
    if (!suffix.empty()) {
        const size_t unit =
            kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0]))));
        if (suffix.size() != 1 || unit == std::string_view::npos) {
            return fail();
        }
        factor = std::pow(1024.0, static_cast<double>(unit + 1));
    }
    const double bytes = number * factor;
    if (bytes >= 9e18) {
        return fail();
    }
    return static_cast<uint64_t>(bytes);
}

} // namespace dsv4v
