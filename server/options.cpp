#include "server/options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "server/options_file.h"
#include "server/options_table.h"

namespace dsv4v {

namespace {

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
    const auto assign = [&value, &setting](const CLI::results_t& results) {
        const Expected<uint64_t> bytes = parse_size(results.back());
        if (!bytes) {
            throw CLI::ValidationError("--" + setting.key(), bytes.error().message);
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
    case SettingKind::kValue:
        return app.add_option(setting.names, value, setting.help)->type_name("on|off");
    case SettingKind::kNegatedFlag:
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
    const auto assign = [&value, &setting, names, joined](const CLI::results_t& results) {
        const auto found = names.find(results.back());
        if (found == names.end()) {
            throw CLI::ValidationError("--" + setting.key(),
                                       "got '" + results.back() + "', wanted " + joined);
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
        if (setting.kind == SettingKind::kValue &&
            !std::holds_alternative<bool Options::*>(setting.field)) {
            option->capture_default_str();
        }
        if (setting.kind != SettingKind::kMode) {
            option->envname(setting.env());
        }
        if (setting.kind != SettingKind::kSecret &&
            !std::holds_alternative<std::vector<std::string> Options::*>(setting.field)) {
            option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        }
        if (!setting.allowed.empty()) {
            option->check(CLI::IsMember(setting.allowed));
        }
    }
    add_ignored_flags(app, ignored);
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
        if (setting.kind == SettingKind::kMode ||
            flags.app.get_option("--" + setting.key())->count() > 0) {
            continue;
        }
        std::optional<std::string> value = environment(setting.env());
        if (const auto entry = file.find(setting.key());
            !value && entry != file.end() && !entry->second.empty()) {
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
