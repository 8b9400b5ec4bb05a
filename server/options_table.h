// One row per setting: what the command line, the environment, the config file, --help and
// --print-config know about it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/options.h"

namespace dsv4v {

template <class E>
using ChoiceTable = std::span<const std::pair<const char*, E>>;

// Spellings of the enumerated settings.
[[nodiscard]] ChoiceTable<NumericsChoice> choices(NumericsChoice);
[[nodiscard]] ChoiceTable<SsePingMode> choices(SsePingMode);
[[nodiscard]] ChoiceTable<LogFormat> choices(LogFormat);

template <class E>
const char* choice_name(E value) {
    for (const auto& [name, candidate] : choices(value)) {
        if (candidate == value) {
            return name;
        }
    }
    return "";
}

using Field = std::variant<std::string Options::*, int32_t Options::*, uint64_t Options::*,
                           double Options::*, bool Options::*, std::vector<std::string> Options::*,
                           NumericsChoice Options::*, SsePingMode Options::*, LogFormat Options::*>;

enum class SettingKind {
    kValue,
    kFlag,
    kNegatedFlag, // given = false
    kSecret,      // never printed
    kMode,        // command line only
};

struct Setting {
    const char* group;
    const char* names; // CLI11 spelling: "-m,--model"
    Field field;
    const char* help;
    SettingKind kind = SettingKind::kValue;
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

[[nodiscard]] const std::vector<Setting>& settings();

inline constexpr const char* kMask = "***"; // what --print-config shows of a secret

// The setting whose key is least unlike `wanted`; "" if none is near.
[[nodiscard]] std::string nearest_key(std::string_view wanted);

} // namespace dsv4v
