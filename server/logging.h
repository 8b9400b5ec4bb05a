// The log: one line per event, as text or JSON, written by a background thread. Never throws, never
// blocks its caller: when the reader of the log falls behind, the oldest lines are dropped and
// counted. Any thread. Before start_logging nothing is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "loaders/base/error.h"
#include "server/options.h"

namespace dsv4v {

enum class LogLevel { kError, kWarn, kInfo, kDebug, kTrace };

struct LogField {
    std::string_view name;
    std::variant<std::string, int64_t, double, bool> value;
};

// Opens the log that `options` describe.
[[nodiscard]] Expected<void> start_logging(const Options& options);
// Writes what is queued and closes the log.
void stop_logging();
// Opens the log file again (after a rotation); keeps the old one on error.
[[nodiscard]] Expected<void> reopen_log();

void set_log_level(LogLevel level);
[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view name);
[[nodiscard]] bool log_enabled(LogLevel level);

void log_line(LogLevel level, std::string_view message, const std::vector<LogField>& fields = {});
[[nodiscard]] uint64_t dropped_log_lines();

// One line without its end. Control characters are escaped in both forms. `time_ms`: Unix time.
[[nodiscard]] std::string format_log_line(LogFormat format, int64_t time_ms, LogLevel level,
                                          std::string_view message,
                                          const std::vector<LogField>& fields);

} // namespace dsv4v
