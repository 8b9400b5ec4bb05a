#include "server/logging.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "engine/utf8.h"

namespace dsv4v {

namespace {

constexpr size_t kQueueLines = 8192;

// The process has one log; everything here is guarded by `mutex` or atomic.
struct Log {
    std::mutex mutex;
    std::shared_ptr<spdlog::details::thread_pool> writer;
    std::shared_ptr<spdlog::async_logger> logger;
    std::string file;
    std::atomic<LogFormat> format{LogFormat::kText};
    std::atomic<int> level{static_cast<int>(LogLevel::kInfo)};
    std::atomic<bool> open{false};
};

Log& the_log() {
    static Log log;
    return log;
}

const char* level_name(LogLevel level) {
    constexpr const char* kNames[] = {"error", "warn", "info", "debug", "trace"};
    return kNames[static_cast<size_t>(level)];
}

std::shared_ptr<spdlog::async_logger>
open_logger(const std::string& file, const std::shared_ptr<spdlog::details::thread_pool>& writer) {
    spdlog::sink_ptr sink;
    if (file.empty()) {
        sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
        sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    }
    auto logger = std::make_shared<spdlog::async_logger>(
        "dsv4v", std::move(sink), writer, spdlog::async_overflow_policy::overrun_oldest);
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    return logger;
}

std::string timestamp(int64_t time_ms) {
    const std::time_t seconds = time_ms / 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                       parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                       time_ms % 1000);
}

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\x{:02x}", byte);
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else {
            out += c;
        }
    }
    return out;
}

std::string text_value(const LogField& field) {
    return std::visit(
        [](const auto& value) -> std::string {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::string>) {
                std::string text = escaped(value);
                const bool plain =
                    !text.empty() && text.find_first_of(" =\"\\") == std::string::npos;
                return plain ? text : '"' + text + '"';
            } else if constexpr (std::is_same_v<T, double>) {
                return fmt::format("{:.3f}", value);
            } else {
                return fmt::format("{}", value);
            }
        },
        field.value);
}

std::string text_line(int64_t time_ms, LogLevel level, std::string_view message,
                      const std::vector<LogField>& fields) {
    std::string line = fmt::format("{} {:5} {}", timestamp(time_ms), level_name(level),
                                   escaped(replace_invalid_utf8(message)));
    for (const LogField& field : fields) {
        line += fmt::format(" {}={}", field.name, text_value(field));
    }
    return line;
}

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

void write_string(Writer& writer, std::string_view text) {
    const std::string valid = replace_invalid_utf8(text);
    writer.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
}

void write_value(Writer& writer, const LogField& field) {
    std::visit(
        [&writer](const auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::string>) {
                write_string(writer, value);
            } else if constexpr (std::is_same_v<T, double>) {
                std::isfinite(value) ? writer.Double(std::round(value * 1000) / 1000)
                                     : writer.Null();
            } else if constexpr (std::is_same_v<T, bool>) {
                writer.Bool(value);
            } else {
                writer.Int64(value);
            }
        },
        field.value);
}

std::string json_line(int64_t time_ms, LogLevel level, std::string_view message,
                      const std::vector<LogField>& fields) {
    rapidjson::StringBuffer buffer;
    Writer writer(buffer);
    writer.StartObject();
    writer.Key("ts");
    write_string(writer, timestamp(time_ms));
    writer.Key("level");
    writer.String(level_name(level));
    writer.Key("msg");
    write_string(writer, message);
    for (const LogField& field : fields) {
        writer.Key(field.name.data(), static_cast<rapidjson::SizeType>(field.name.size()));
        write_value(writer, field);
    }
    writer.EndObject();
    return {buffer.GetString(), buffer.GetSize()};
}

} // namespace

Expected<void> start_logging(const Options& options) {
    Log& log = the_log();
    std::lock_guard lock(log.mutex);
    try {
        log.writer = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
        log.logger = open_logger(options.log_file, log.writer);
    } catch (const spdlog::spdlog_ex& error) {
        log.logger.reset();
        log.writer.reset();
        return make_error(ErrorCode::kIo, fmt::format("--log-file: {}", error.what()));
    }
    log.file = options.log_file;
    log.format = options.log_format;
    log.level = static_cast<int>(parse_log_level(options.log_level).value_or(LogLevel::kInfo));
    log.open = true;
    return {};
}

void stop_logging() {
    Log& log = the_log();
    std::lock_guard lock(log.mutex);
    log.open = false;
    log.writer.reset(); // writes what is queued, then joins
    log.logger.reset();
}

Expected<void> reopen_log() {
    Log& log = the_log();
    std::lock_guard lock(log.mutex);
    if (log.file.empty() || !log.open) {
        return {};
    }
    try {
        log.logger = open_logger(log.file, log.writer);
    } catch (const spdlog::spdlog_ex& error) {
        return make_error(ErrorCode::kIo, fmt::format("log file: {}", error.what()));
    }
    return {};
}

void set_log_level(LogLevel level) {
    the_log().level = static_cast<int>(level);
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
    for (const LogLevel level :
         {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug, LogLevel::kTrace}) {
        if (name == level_name(level)) {
            return level;
        }
    }
    return std::nullopt;
}

bool log_enabled(LogLevel level) {
    const Log& log = the_log();
    return log.open && static_cast<int>(level) <= log.level;
}

void log_line(LogLevel level, std::string_view message, const std::vector<LogField>& fields) {
    if (!log_enabled(level)) {
        return;
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const int64_t time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    Log& log = the_log();
    const std::string line = format_log_line(log.format, time_ms, level, message, fields);
    std::lock_guard lock(log.mutex);
    if (log.logger) {
        log.logger->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
    }
}

uint64_t dropped_log_lines() {
    Log& log = the_log();
    std::lock_guard lock(log.mutex);
    return log.writer ? log.writer->overrun_counter() : 0;
}

std::string format_log_line(LogFormat format, int64_t time_ms, LogLevel level,
                            std::string_view message, const std::vector<LogField>& fields) {
    return format == LogFormat::kJson ? json_line(time_ms, level, message, fields)
                                      : text_line(time_ms, level, message, fields);
}

} // namespace dsv4v
