// The API through real sockets: what only the whole path shows.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/server/api_fixture.h"
#include "tests/server/http_test_server.h"
#include "tests/server/stream_checker.h"

namespace dsv4v::testing {
namespace {

constexpr std::string_view kEndless = R"({"text":"abc ","finish":"none","step_ms":2})";

Options socket_options() {
    Options options = api_options();
    options.port = 0;
    return options;
}

class ApiServer {
  public:
    explicit ApiServer(std::string_view scripts, const Options& options = socket_options())
        : api(scripts, options), authenticator_(*Authenticator::create(api.options())),
          server_(api.context(), *authenticator_, api.routes()) {
        EXPECT_TRUE(server_.start().has_value());
    }
    [[nodiscard]] RawClient connect() const { return RawClient(server_.port()); }

    TestApi api;

  private:
    std::unique_ptr<Authenticator> authenticator_;
    HttpServer server_;
};

std::string chat_body(const std::string& members) {
    return R"({"messages":[{"role":"user","content":"Hi"}],"thinking":{"type":"disabled"})" +
           (members.empty() ? "" : "," + members) + "}";
}

// Joins the chunks of a chunked body; "" while it is not complete.
std::string dechunk(std::string_view rest) {
    std::string out;
    while (true) {
        const size_t line_end = rest.find("\r\n");
        if (line_end == std::string_view::npos) {
            return "";
        }
        const size_t n = std::stoul(std::string(rest.substr(0, line_end)), nullptr, 16);
        if (n == 0) {
            return out;
        }
        if (rest.size() < line_end + 2 + n + 2) {
            return "";
        }
        out.append(rest.substr(line_end + 2, n));
        rest.remove_prefix(line_end + 2 + n + 2);
    }
}

TEST(ApiSocket, WholeBody) {
    ApiServer server(R"({"text":"Hello"})");
    const std::string reply =
        server.connect().exchange(post("/v1/chat/completions", chat_body("")));
    EXPECT_EQ(status_of(reply), 200) << reply;
    const auto json = parse_json(body_of(reply));
    ASSERT_TRUE(json.has_value());
    EXPECT_EQ(ApiReply::at(*json, "choices.0.message.content")->text, "Hello");
}

TEST(ApiSocket, EventStream) {
    ApiServer server(R"({"text":"Hello 😀","step_ms":1})");
    RawClient client = server.connect();
    client.send(post("/v1/chat/completions", chat_body(R"("stream":true)")));
    const std::string raw = client.read_until("\r\n0\r\n\r\n");
    EXPECT_TRUE(has_header(raw, "Content-Type: text/event-stream")) << raw;
    EXPECT_TRUE(has_header(raw, "Cache-Control: no-cache"));
    EXPECT_TRUE(has_header(raw, "X-Accel-Buffering: no"));
    ApiReply reply;
    reply.status = status_of(raw);
    reply.body = dechunk(body_of(raw));
    parse_events(reply);
    EXPECT_EQ(check_stream(reply, false).choices.at(0).content, "Hello 😀");
}

TEST(ApiSocket, ClosingTheConnectionEndsTheGeneration) {
    ApiServer server(kEndless);
    for (const char* members : {"", R"("stream":true)", R"("stream":true,"n":3)"}) {
        RawClient client = server.connect();
        client.send(post("/v1/chat/completions", chat_body(members)));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_GE(server.api.engine().stats().n_running, 1) << members;
        client.close();
        EXPECT_TRUE(server.api.idle()) << members;
    }
}

TEST(ApiSocket, ErrorsBeforeTheFirstTokenArePlain) {
    ApiServer server(R"({"text":"x","fail":{"phase":"decode","step":0,"kind":"nonfinite"}})");
    const std::string failed =
        server.connect().exchange(post("/v1/chat/completions", chat_body(R"("stream":true)")));
    EXPECT_EQ(status_of(failed), 500) << failed;
    const std::string bad =
        server.connect().exchange(post("/chat/completions", chat_body(R"("temperature":9)")));
    EXPECT_EQ(status_of(bad), 400);
    EXPECT_NE(bad.find(R"("param":"temperature")"), std::string::npos);
}

TEST(ApiSocket, ManyClientsGetTheirOwnAnswers) {
    std::string scripts;
    for (int k = 10; k < 42; ++k) {
        scripts +=
            fmt::format("{{\"match\":{{\"contains\":\"echo{}\"}},\"text\":\"answer{}\"}}\n", k, k);
    }
    ApiServer server(scripts);
    std::vector<std::thread> clients;
    for (int k = 10; k < 42; ++k) {
        clients.emplace_back([&server, k] {
            const std::string reply = server.connect().exchange(post(
                "/v1/completions", fmt::format(R"({{"prompt":"echo{}","max_tokens":50}})", k)));
            EXPECT_NE(reply.find(fmt::format("\"text\":\"answer{}\"", k)), std::string::npos)
                << reply;
        });
    }
    for (std::thread& client : clients) {
        client.join();
    }
    EXPECT_TRUE(server.api.idle());
}

} // namespace
} // namespace dsv4v::testing
