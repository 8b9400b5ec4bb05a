#include "server/logging.h"

#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/json_value.h"

namespace dsv4v {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTime = 1'700'000'000'123;

TEST(LogLine, TextEscapesWhatCouldForgeALine) {
    const std::string line = format_log_line(LogFormat::kText, kTime, LogLevel::kWarn, "event",
                                             {{"path", std::string("/a\r\nb \"x\"")},
                                              {"n", int64_t{3}},
                                              {"ms", 1.5},
                                              {"ok", true},
                                              {"empty", std::string()}});
    EXPECT_EQ(line,
              "2023-11-14T22:13:20.123Z warn  event path=\"/a\\x0d\\x0ab \\\"x\\\"\" n=3 ms=1.500 "
              "ok=true empty=\"\"");
}

TEST(LogLine, JsonIsValidForAnyBytes) {
    const std::string line = format_log_line(
        LogFormat::kJson, kTime, LogLevel::kInfo, "access",
        {{"path", std::string("\xff\n\0", 3)}, {"x", std::numeric_limits<double>::quiet_NaN()}});
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto json = parse_json(line);
    ASSERT_TRUE(json.has_value()) << line;
    EXPECT_EQ(json->find("ts")->text, "2023-11-14T22:13:20.123Z");
    EXPECT_EQ(json->find("level")->text, "info");
    EXPECT_EQ(json->find("path")->text, std::string("\xEF\xBF\xBD\n\0", 5));
    EXPECT_TRUE(json->find("x")->is_null());
}

TEST(Logging, WritesReopensAndFilters) {
    const std::string path = ::testing::TempDir() + "/server.log";
    std::remove(path.c_str());
    Options options;
    options.log_file = path;
    ASSERT_TRUE(start_logging(options).has_value());
    log_line(LogLevel::kInfo, "first");
    log_line(LogLevel::kDebug, "hidden");
    set_log_level(LogLevel::kDebug);
    log_line(LogLevel::kDebug, "shown");
    const std::string rotated = path + ".1";
    ASSERT_EQ(std::rename(path.c_str(), rotated.c_str()), 0);
    ASSERT_TRUE(reopen_log().has_value());
    log_line(LogLevel::kError, "second");
    stop_logging();
    log_line(LogLevel::kError, "after the end");
    const auto content = [](const std::string& name) {
        std::ifstream in(name);
        std::ostringstream out;
        out << in.rdbuf();
        return out.str();
    };
    EXPECT_THAT(content(path), HasSubstr("error second\n"));
    EXPECT_EQ(content(path).find("after"), std::string::npos);
    EXPECT_THAT(content(rotated), HasSubstr("info  first\n"));
    EXPECT_THAT(content(rotated), HasSubstr("debug shown\n"));
    EXPECT_EQ(content(rotated).find("hidden"), std::string::npos);
}

TEST(Logging, NamesTheFileItCannotOpen) {
    Options options;
    options.log_file = "/dev/null/log";
    const auto started = start_logging(options);
    ASSERT_FALSE(started.has_value());
    EXPECT_THAT(started.error().message, HasSubstr("/dev/null/log"));
}

} // namespace
} // namespace dsv4v
