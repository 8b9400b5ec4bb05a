#include "server/options.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/json_value.h"

namespace dsv4v {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
  protected:
    ~OptionsTest() override {
        for (const std::string& name : environment_) {
            ::unsetenv(name.c_str());
        }
    }
    void set_environment(const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
        environment_.push_back(name);
    }
    static std::string file(const std::string& text) {
        static int n = 0;
        const std::string path = ::testing::TempDir() + "/options-" + std::to_string(n++) + ".conf";
        std::ofstream(path) << text;
        return path;
    }
    static tl::expected<Options, OptionsExit> parse(std::vector<const char*> args) {
        args.insert(args.begin(), "dsv4v-server");
        return parse_options(static_cast<int>(args.size()), args.data());
    }
    static std::string failure(const std::vector<const char*>& args) {
        const auto parsed = parse(args);
        EXPECT_FALSE(parsed.has_value());
        EXPECT_EQ(parsed ? 0 : parsed.error().exit_code, 2);
        return parsed ? "" : parsed.error().text;
    }
    std::vector<std::string> environment_;
};

TEST_F(OptionsTest, HasDefaults) {
    const auto options = parse({});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(options->host, "127.0.0.1");
    EXPECT_EQ(options->port, 8080);
    EXPECT_EQ(options->max_body, 48u << 20);
    EXPECT_TRUE(options->thinking);
    EXPECT_TRUE(options->watchdog);
    EXPECT_TRUE(options->slots);
    EXPECT_EQ(options->reasoning_effort, "high");
}

TEST_F(OptionsTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
    const std::string path = file("port = 1\nmax-queue = 1\nmax-n = 1\n# comment\n\n");
    set_environment("DSV4V_PORT", "2");
    set_environment("DSV4V_MAX_QUEUE", "2");
    const auto options = parse({"--config", path.c_str(), "--port", "3"});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(options->port, 3);
    EXPECT_EQ(options->max_queue, 2);
    EXPECT_EQ(options->max_n, 1);
    EXPECT_EQ(options->max_connections, 4096);
}

TEST_F(OptionsTest, ReadsJsonFiles) {
    const std::string path =
        file(R"({"host": "unix:/run/x", "kv-memory": "2G", "api_key": ["a", "b"],
                                      "thinking": false, "no-slots": true, "numerics": "plain"})");
    const auto options = parse({"--config", path.c_str()});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(options->host, "unix:/run/x");
    EXPECT_EQ(options->kv_memory, 2ULL << 30);
    EXPECT_THAT(options->api_keys, ElementsAre("a", "b"));
    EXPECT_FALSE(options->thinking);
    EXPECT_FALSE(options->slots);
    EXPECT_EQ(options->numerics, NumericsChoice::kPlain);
}

TEST_F(OptionsTest, RefusesUnknownKeysOfAFile) {
    const std::string line_file = file("prot = 1\n");
    EXPECT_THAT(failure({"--config", line_file.c_str()}),
                HasSubstr("unknown key 'prot'; did you mean 'port'?"));
    const std::string json_file = file(R"({"hots": "x"})");
    EXPECT_THAT(failure({"--config", json_file.c_str()}), HasSubstr("unknown key 'hots'"));
    const std::string broken = file("just words\n");
    EXPECT_THAT(failure({"--config", broken.c_str()}), HasSubstr("line 1"));
    EXPECT_THAT(failure({"--config", "/nonexistent/file"}), HasSubstr("cannot read"));
}

TEST_F(OptionsTest, NamesTheNearestFlag) {
    EXPECT_THAT(failure({"--prot", "1"}),
                HasSubstr("unknown flag '--prot'; did you mean '--port'?"));
    EXPECT_THAT(failure({"--max-conections=5"}), HasSubstr("'--max-connections'"));
    EXPECT_THAT(failure({"stray"}), HasSubstr("unexpected argument 'stray'"));
}

TEST_F(OptionsTest, RefusesValuesOutOfRange) {
    for (const auto& args :
         std::vector<std::vector<const char*>>{{"--port", "65536"},
                                               {"--port", "-1"},
                                               {"--port", "x"},
                                               {"--port"},
                                               {"--max-body", "12Q"},
                                               {"--max-body", "0"},
                                               {"--numerics", "exact"},
                                               {"--log-level", "loud"},
                                               {"--reasoning-effort", "some"},
                                               {"--parallel", "0"},
                                               {"--idle-write-timeout", "0"},
                                               {"--thinking", "maybe"},
                                               {"-np", "64", "--max-batch-tokens", "32"}}) {
        EXPECT_THAT(failure(args),
                    HasSubstr(std::string(args[0]) == "-np" ? "--max-batch-tokens" : args[0]));
    }
    set_environment("DSV4V_PORT", "many");
    EXPECT_THAT(failure({}), HasSubstr("--port"));
}

TEST_F(OptionsTest, ParsesSizes) {
    EXPECT_EQ(parse_size("12").value(), 12u);
    EXPECT_EQ(parse_size("4K").value(), 4096u);
    EXPECT_EQ(parse_size("4k").value(), 4096u);
    EXPECT_EQ(parse_size("1.5G").value(), 3ULL << 29);
    EXPECT_EQ(parse_size("2MiB").value(), 2ULL << 20);
    EXPECT_EQ(parse_size("2MB").value(), 2ULL << 20);
    for (const char* bad : {"", "K", "-1", "1.2.3", "1KK", "1e3", "99999999999G", " 1"}) {
        EXPECT_FALSE(parse_size(bad).has_value()) << bad;
    }
}

TEST_F(OptionsTest, AcceptsListsAndRepeats) {
    const auto options =
        parse({"--api-key", "a,b", "--api-key=c", "--cors-origins", "https://x,localhost"});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_THAT(options->api_keys, ElementsAre("a", "b", "c"));
    EXPECT_THAT(options->cors_origins, ElementsAre("https://x", "localhost"));
}

TEST_F(OptionsTest, LastOfARepeatedValueWins) {
    const auto options = parse({"--port", "1", "--port", "2"});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(options->port, 2);
}

TEST_F(OptionsTest, AcceptsCommandLinesOfLlamaServer) {
    const auto options = parse(
        {"-m", "x.gguf", "-ngl", "99", "--jinja", "-fa", "on", "-cb", "-np", "4", "-c", "8192"});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(options->model, "x.gguf");
    EXPECT_EQ(options->parallel, 4);
    EXPECT_EQ(options->ctx_size, 8192);
    EXPECT_EQ(options->notices.size(), 4u);
    EXPECT_TRUE(parse({"-fa", "--jinja"}).has_value());
    EXPECT_TRUE(parse({"-fa"}).has_value());
}

TEST_F(OptionsTest, NormalisesEffortAndPrefix) {
    const auto options = parse({"--reasoning-effort", "xhigh", "--api-prefix", "p/"});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(options->reasoning_effort, "high");
    EXPECT_EQ(options->api_prefix, "/p");
    EXPECT_EQ(parse({"--reasoning-effort", "minimal"})->reasoning_effort, "low");
    EXPECT_EQ(parse({"--reasoning-effort", "ultra"})->reasoning_effort, "max");
}

TEST_F(OptionsTest, NamesTheModel) {
    EXPECT_EQ(parse({"-m", "/a/b/V4-Flash-00001-of-00003.gguf"})->model_id(), "V4-Flash");
    EXPECT_EQ(parse({"-m", "plain.gguf"})->model_id(), "plain");
    EXPECT_THAT(parse({"--alias", "one, two"})->model_ids(), ElementsAre("one", "two"));
    EXPECT_EQ(parse({})->model_id(), "dsv4v");
}

TEST_F(OptionsTest, HelpListsEnvironmentAndDefaults) {
    const auto help = parse({"--help"});
    ASSERT_FALSE(help.has_value());
    EXPECT_EQ(help.error().exit_code, 0);
    for (const char* part :
         {"--ctx-size", "DSV4V_CTX_SIZE", "--max-body", "50331648", "DSV4V_LOG_LEVEL",
          "author|plain", "--no-watchdog", "DSV4V_NO_WATCHDOG", "4096"}) {
        EXPECT_THAT(help.error().text, HasSubstr(part));
    }
}

TEST_F(OptionsTest, PrintedConfigurationIsCompleteAndMasked) {
    set_environment("DSV4V_API_KEY", "top-secret");
    const auto options = parse({"--port", "1234", "--no-watchdog", "--admin-key", "hidden"});
    ASSERT_TRUE(options.has_value()) << options.error().text;
    const std::string json = options_json(*options);
    const auto parsed = parse_json(json);
    ASSERT_TRUE(parsed.has_value()) << json;
    EXPECT_EQ(parsed->find("port")->text, "1234");
    EXPECT_TRUE(parsed->find("no-watchdog")->boolean);
    EXPECT_FALSE(parsed->find("no-slots")->boolean);
    EXPECT_EQ(parsed->find("sse-ping-mode")->text, "comment");
    EXPECT_EQ(json.find("secret"), std::string::npos);
    EXPECT_EQ(json.find("hidden"), std::string::npos);
}

// What is printed can be given back as a file.
TEST_F(OptionsTest, PrintedConfigurationIsAConfigFile) {
    const auto options =
        parse({"--port", "1234", "--no-slots", "--thinking", "off", "--max-body", "1M"});
    ASSERT_TRUE(options.has_value());
    const std::string path = file(options_json(*options));
    const auto again = parse({"--config", path.c_str()});
    ASSERT_TRUE(again.has_value()) << again.error().text;
    EXPECT_EQ(options_json(*again), options_json(*options));

    const auto with_key = parse({"--api-key", "k"});
    const std::string masked = file(options_json(*with_key));
    EXPECT_THAT(failure({"--config", masked.c_str()}), HasSubstr("'api-key' is masked"));
}

} // namespace
} // namespace dsv4v
