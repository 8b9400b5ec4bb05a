// The whole process: exit codes, one-shot modes, signals, drain.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "engine/json_value.h"
#include "tests/golden.h"
#include "tests/server/http_test_server.h"

namespace dsv4v::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

std::string read_text(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

// Lies beside the test binary.
std::string server_binary() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "dsv4v-server";
}

// dsv4v-server as a child process, its output in a file.
class ServerProcess {
  public:
    explicit ServerProcess(std::vector<std::string> args) {
        static int n = 0;
        output_ = ::testing::TempDir() + "/process-" + std::to_string(::getpid()) + "-" +
                  std::to_string(n++);
        args.insert(args.begin(), "dsv4v-server");
        pid_ = ::fork();
        if (pid_ == 0) {
            std::vector<char*> argv;
            for (std::string& arg : args) {
                argv.push_back(arg.data());
            }
            argv.push_back(nullptr);
            const int fd = ::open(output_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
            ::dup2(fd, 1);
            ::dup2(fd, 2);
            ::execv(server_binary().c_str(), argv.data());
            ::_exit(127);
        }
    }
    ~ServerProcess() {
        if (!exit_code_) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    void signal(int number) const { ::kill(pid_, number); }
    // Exit code, 128 + signal, or -1 when it still runs.
    int wait(milliseconds timeout = milliseconds(60'000)) {
        eventually(
            [this] {
                int status = 0;
                if (!exit_code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
                    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                }
                return exit_code_.has_value();
            },
            timeout);
        return exit_code_.value_or(-1);
    }
    [[nodiscard]] std::string output() const { return read_text(output_); }
    bool says(const std::string& text, milliseconds timeout = milliseconds(60'000)) const {
        return eventually([&] { return output().find(text) != std::string::npos; }, timeout);
    }
    // Once it listens.
    [[nodiscard]] int port() const {
        EXPECT_TRUE(says("listening"));
        const std::string text = output();
        const std::string mark = "http://127.0.0.1:";
        const size_t at = text.find(mark);
        return at == std::string::npos ? 0 : std::stoi(text.substr(at + mark.size()));
    }

  private:
    pid_t pid_ = -1;
    std::string output_;
    std::optional<int> exit_code_;
};

std::string tiny_model() {
    return unpacked("models/tiny-a-bf16.gguf");
}

std::vector<std::string> serving(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"--model", tiny_model(), "--port", "0", "--threads", "2"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
}

// Short prompts: the tests also run on slow builds.
std::string endless_stream() {
    return post("/v1/completions",
                R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":1000})");
}

TEST(Application, PrintsVersionAndConfiguration) {
    ServerProcess version({"--version"});
    EXPECT_EQ(version.wait(), 0);
    EXPECT_TRUE(parse_json(version.output()).has_value()) << version.output();
    ServerProcess config({"--print-config", "--port", "77"});
    EXPECT_EQ(config.wait(), 0);
    EXPECT_THAT(config.output(), HasSubstr("\"port\": 77"));
    ServerProcess help({"--help"});
    EXPECT_EQ(help.wait(), 0);
    EXPECT_THAT(help.output(), HasSubstr("DSV4V_PORT"));
}

TEST(Application, ExitCodesTellWhatIsWrong) {
    ServerProcess unknown({"--prot", "1"});
    EXPECT_EQ(unknown.wait(), 2);
    EXPECT_THAT(unknown.output(), HasSubstr("--port"));
    ServerProcess missing({"--model", "/nonexistent.gguf", "--port", "0"});
    EXPECT_EQ(missing.wait(), 1);
    EXPECT_THAT(missing.output(), HasSubstr("/nonexistent.gguf"));
    ServerProcess exposed(
        {"--model", tiny_model(), "--host", "0.0.0.0", "--port", "0", "--require-key"});
    EXPECT_EQ(exposed.wait(), 1);
    EXPECT_THAT(exposed.output(), HasSubstr("--require-key"));
    ServerProcess bad_log({"--model", tiny_model(), "--log-file", "/dev/null/log"});
    EXPECT_EQ(bad_log.wait(), 1);
}

TEST(Application, ChecksModelsAndPlansMemory) {
    ServerProcess good({"--check-model", "--model", tiny_model()});
    EXPECT_EQ(good.wait(), 0) << good.output();
    EXPECT_THAT(good.output(), HasSubstr("ok\n"));
    ServerProcess bad({"--check-model", "--model", source_data("gguf/bad_magic.gguf")});
    EXPECT_EQ(bad.wait(), 1);
    EXPECT_THAT(bad.output(), HasSubstr("bad_magic.gguf"));
    ServerProcess swapped({"--check-model", "--model", tiny_model(), "--mmproj", tiny_model()});
    EXPECT_EQ(swapped.wait(), 1);
    ServerProcess plan({"--dry-run", "--model", tiny_model()});
    EXPECT_EQ(plan.wait(), 0) << plan.output();
    EXPECT_GT(plan.output().size(), 100u);
}

TEST(Application, BecomesReadyAnswersAndStopsOnSigterm) {
    ServerProcess server(serving());
    const int port = server.port();
    ASSERT_GT(port, 0) << server.output();
    EXPECT_TRUE(
        eventually([&] { return status_of(RawClient(port).exchange(get("/ready"))) == 200; },
                   milliseconds(60'000)))
        << server.output();
    EXPECT_EQ(status_of(RawClient(port).exchange(get("/"))), 200);
    const std::string answer = RawClient(port).exchange(
        post("/v1/completions", R"({"prompt":"zebra","max_tokens":4,"ignore_eos":true})"));
    EXPECT_EQ(status_of(answer), 200) << answer;
    EXPECT_TRUE(server.says("access"));
    EXPECT_EQ(server.output().find("zebra"), std::string::npos);
    const auto begin = Clock::now();
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
    EXPECT_LT(Clock::now() - begin, milliseconds(5000));
}

TEST(Application, DrainEndsStreamsWithAnErrorEvent) {
    ServerProcess server(serving({"--drain-timeout", "0"}));
    const int port = server.port();
    ASSERT_TRUE(server.says("model loaded")) << server.output();
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back(port);
        clients.back().send(endless_stream());
    }
    for (RawClient& client : clients) {
        EXPECT_THAT(client.read_until("data: ", milliseconds(60'000)), HasSubstr("data: "));
    }
    const auto begin = Clock::now();
    server.signal(SIGTERM);
    for (RawClient& client : clients) {
        EXPECT_TRUE(client.closed_within(milliseconds(10'000)));
        const std::string all = client.read_until("\0never", milliseconds(1));
        EXPECT_THAT(all, HasSubstr("data: {\"error\""));
        EXPECT_THAT(all, HasSubstr("data: [DONE]"));
    }
    EXPECT_EQ(server.wait(), 0) << server.output();
    EXPECT_LT(Clock::now() - begin, milliseconds(10'000));
}

TEST(Application, SecondSignalEndsAtOnce) {
    ServerProcess server(serving());
    ASSERT_TRUE(server.says("model loaded")) << server.output();
    RawClient client(server.port());
    client.send(endless_stream());
    EXPECT_THAT(client.read_until("data: ", milliseconds(60'000)), HasSubstr("data: "));
    server.signal(SIGTERM);
    EXPECT_TRUE(server.says("draining"));
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(milliseconds(5000)), 128 + SIGTERM);
}

TEST(Application, RereadsKeysOnSighupAndDumpsStateOnSigusr1) {
    const std::string keys = ::testing::TempDir() + "/reload-keys";
    std::ofstream(keys) << "one\n";
    ServerProcess server(serving({"--api-key-file", keys}));
    ASSERT_TRUE(server.says("model loaded")) << server.output();
    const int port = server.port();
    const auto status_with = [port](const std::string& key) {
        return status_of(RawClient(port).exchange(get("/props", "x-api-key: " + key + "\r\n")));
    };
    EXPECT_EQ(status_with("one"), 200);
    EXPECT_EQ(status_with("two"), 401);
    std::ofstream(keys) << "two\n";
    server.signal(SIGHUP);
    EXPECT_TRUE(eventually([&] { return status_with("two") == 200; }));
    EXPECT_EQ(status_with("one"), 401);
    server.signal(SIGUSR1);
    EXPECT_TRUE(server.says("pages_used="));
}

} // namespace
} // namespace dsv4v::testing
