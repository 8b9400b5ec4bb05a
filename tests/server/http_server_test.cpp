#include "server/http_server.h"

#include <atomic>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/json_value.h"
#include "tests/server/http_test_server.h"

namespace dsv4v::testing {
namespace {

using ::testing::HasSubstr;

std::vector<Route> echo_routes() {
    return {echo_route("POST", "/v1/echo"),
            echo_route("GET", "/v1/models", RouteAccess::kDiscovery),
            echo_route("GET", "/v1/models/{id}", RouteAccess::kDiscovery),
            echo_route("GET", "/health", RouteAccess::kPublic),
            echo_route("POST", "/admin/drain", RouteAccess::kAdmin),
            echo_route("POST", "/v1/work", RouteAccess::kKey, true)};
}

std::string error_field(const std::string& reply, const char* field) {
    const auto json = parse_json(body_of(reply));
    if (!json || json->find("error") == nullptr || json->find("error")->find(field) == nullptr) {
        return "<no " + std::string(field) + " in " + body_of(reply) + ">";
    }
    return json->find("error")->find(field)->text;
}

class HttpServerTest : public ::testing::Test {
  protected:
    TestServer server_;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    for (int i = 0; i < 3; ++i) {
        const std::string reply = client.exchange(post("/v1/echo", "{}"));
        EXPECT_EQ(status_of(reply), 200);
        EXPECT_EQ(body_of(reply), "POST /v1/echo id= client= body={}");
        EXPECT_TRUE(has_header(reply, "X-Content-Type-Options: nosniff"));
        EXPECT_TRUE(has_header(reply, "Cache-Control: no-store"));
        EXPECT_TRUE(has_header(reply, "Server: dsv4v-server/"));
        EXPECT_TRUE(has_header(reply, "X-Request-Id: req-"));
    }
}

TEST_F(HttpServerTest, EchoesAWellFormedRequestIdOnly) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    EXPECT_TRUE(has_header(client.exchange(get("/health", "X-Request-Id: my.id_1-2\r\n")),
                           "X-Request-Id: my.id_1-2\r\n"));
    EXPECT_TRUE(
        has_header(client.exchange(get("/health", "X-Request-Id: a b\r\n")), "X-Request-Id: req-"));
}

TEST_F(HttpServerTest, FindsAllSpellingsOfAPath) {
    server_.options.api_prefix = "/p";
    server_.start(echo_routes());
    RawClient client = server_.connect();
    for (const char* path : {"/p/v1/models", "/p/models", "/p/models/", "/p/beta/models",
                             "/p/beta/v1/models", "http://localhost/p/v1/models?x=1"}) {
        EXPECT_EQ(status_of(client.exchange(get(path))), 200) << path;
    }
    EXPECT_THAT(client.exchange(get("/p/v1/models/deepseek-ai%2FV4")),
                HasSubstr("id=deepseek-ai/V4 "));
    for (const char* path :
         {"/v1/models", "/pv1/models", "/p/v2/models", "/p/modelsx", "/p//models"}) {
        const std::string reply = client.exchange(get(path));
        EXPECT_EQ(status_of(reply), 404) << path;
        EXPECT_EQ(error_field(reply, "code"), "not_found");
    }
}

TEST_F(HttpServerTest, NamesAllowedMethods) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const std::string wrong = client.exchange(get("/v1/echo"));
    EXPECT_EQ(status_of(wrong), 405);
    EXPECT_TRUE(has_header(wrong, "Allow: POST, OPTIONS\r\n"));
    EXPECT_EQ(error_field(wrong, "code"), "method_not_allowed");
    EXPECT_EQ(status_of(client.exchange("DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n")),
              405);
}

TEST_F(HttpServerTest, HeadHasTheLengthButNoBody) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/health"));
    const std::string both = client.read_until("body=");
    EXPECT_THAT(both, HasSubstr("Content-Length: 30\r\n"));
    EXPECT_EQ(both.find("HEAD /health"), std::string::npos) << "a reply to HEAD had a body";
    EXPECT_THAT(both, HasSubstr("GET /health"));
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    client.send(post("/v1/echo", "1") + post("/v1/echo", "2") + post("/v1/echo", "3"));
    for (const char* body : {"body=1", "body=2", "body=3"}) {
        EXPECT_THAT(client.read_reply(), HasSubstr(body));
    }
}

TEST_F(HttpServerTest, ClosesAfterHttp10AndConnectionClose) {
    server_.start(echo_routes());
    for (const char* request :
         {"GET /health HTTP/1.0\r\n\r\n",
          "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}) {
        RawClient client = server_.connect();
        const std::string reply = client.exchange(request);
        EXPECT_EQ(status_of(reply), 200);
        EXPECT_TRUE(has_header(reply, "Connection: close"));
        EXPECT_TRUE(client.closed_within(milliseconds(1000)));
    }
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const std::string head = "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                             "application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head + "3;name=value\r\nabc\r\n");
    client.send("A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n" + post("/v1/echo", "next"));
    EXPECT_THAT(client.read_reply(), HasSubstr("body=abc0123456789"));
    EXPECT_THAT(client.read_reply(), HasSubstr("body=next"));
}

TEST_F(HttpServerTest, RefusesBrokenChunks) {
    server_.start(echo_routes());
    const std::string head = "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                             "application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const char* chunk : {"-1\r\nabc\r\n", "0x3\r\nabc\r\n", "\r\n", "3\r\nabcd\r\n0\r\n\r\n",
                              "ffffffffffffffffff\r\n", "zz\r\n"}) {
        RawClient client = server_.connect();
        const std::string reply = client.exchange(head + chunk);
        EXPECT_EQ(status_of(reply), 400) << chunk;
        EXPECT_TRUE(client.closed_within(milliseconds(3000)));
    }
}

TEST_F(HttpServerTest, RefusesAmbiguousHeadsAndCloses) {
    server_.start(echo_routes());
    const std::string start = "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\n";
    const std::vector<std::string> bad = {
        start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        start + "Content-Length: -3\r\n\r\n",
        start + "Content-Length: +3\r\n\r\nabc",
        start + "Content-Length: 3, 3\r\n\r\nabc",
        start + "Content-Length: 0x3\r\n\r\nabc",
        start + "Content-Length: 99999999999999999999\r\n\r\n",
        start + "Content-Length: \r\n\r\n",
        start + "Transfer-Encoding: gzip, chunked\r\n\r\n",
        start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        start + "Transfer-Encoding : chunked\r\n\r\n",
        start + " folded: value\r\n\r\n",
        start + "No-Colon\r\n\r\n",
        start + "Bare: line feed\n\r\n\r\n",
        start + "Host: other\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",
        "GET  /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET health HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        std::string("GET /health HTTP/1.1\r\nHost: x\r\nNul: a\0b\r\n\r\n", 44),
        "\x16\x03\x01\x02\n",
    };
    for (const std::string& request : bad) {
        RawClient client = server_.connect();
        const std::string reply = client.exchange(request);
        EXPECT_EQ(status_of(reply), 400) << request;
        EXPECT_TRUE(client.closed_within(milliseconds(3000))) << request;
    }
    RawClient client = server_.connect();
    EXPECT_EQ(status_of(client.exchange("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), 505);
}

TEST_F(HttpServerTest, SameContentLengthTwiceIsHarmless) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    EXPECT_EQ(status_of(client.exchange(post("/v1/echo", "abc", "Content-Length: 3\r\n"))), 200);
}

TEST_F(HttpServerTest, LimitsTheHead) {
    server_.start(echo_routes());
    const std::string start = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
    std::string many = start;
    for (int i = 0; i < 100; ++i) {
        many += "H" + std::to_string(i) + ": v\r\n";
    }
    const std::vector<std::string> bad = {
        "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /" + std::string(20000, 'a'), start + "Big: " + std::string(40000, 'a') + "\r\n\r\n",
        many + "\r\n"};
    for (const std::string& request : bad) {
        RawClient client = server_.connect();
        const std::string reply = client.exchange(request);
        EXPECT_EQ(status_of(reply), 431);
        EXPECT_EQ(error_field(reply, "code"), "headers_too_large");
    }
    RawClient client = server_.connect();
    EXPECT_EQ(status_of(client.exchange(start + "Big: " + std::string(30000, 'a') + "\r\n\r\n")),
              200);
}

TEST_F(HttpServerTest, TimesOutSlowHeadsAndBodies) {
    server_.options.header_timeout_s = 0.2;
    server_.options.body_timeout_s = 0.2;
    server_.options.keep_alive_s = 0.5;
    server_.start(echo_routes());
    RawClient slow_head = server_.connect();
    slow_head.send("GET /hea");
    EXPECT_EQ(status_of(slow_head.read_reply()), 408);
    RawClient slow_body = server_.connect();
    slow_body.send(post("/v1/echo", "abcdef").substr(0, post("/v1/echo", "abcdef").size() - 1));
    EXPECT_EQ(status_of(slow_body.read_reply()), 408);
    RawClient idle = server_.connect();
    EXPECT_TRUE(idle.closed_within(milliseconds(3000)));
}

TEST_F(HttpServerTest, AnswersExpectContinue) {
    server_.options.max_body = 1000;
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const std::string request = post("/v1/echo", "abc", "Expect: 100-continue\r\n");
    client.send(request.substr(0, request.size() - 3));
    EXPECT_EQ(client.read_reply(), "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_THAT(client.exchange("abc"), HasSubstr("body=abc"));

    RawClient too_big = server_.connect();
    const std::string big = post("/v1/echo", std::string(2000, 'x'), "Expect: 100-continue\r\n");
    const std::string reply = too_big.exchange(big.substr(0, big.size() - 2000));
    EXPECT_EQ(status_of(reply), 413);
    EXPECT_TRUE(too_big.closed_within(milliseconds(3000)));
}

TEST_F(HttpServerTest, LimitsTheBody) {
    server_.options.max_body = 100'000;
    server_.start(echo_routes());
    RawClient declared = server_.connect();
    // The client keeps sending; it must still see the reply.
    declared.send(post("/v1/echo", std::string(5'000'000, 'x')));
    const std::string reply = declared.read_reply();
    EXPECT_EQ(status_of(reply), 413);
    EXPECT_EQ(error_field(reply, "code"), "request_too_large");
    RawClient chunked = server_.connect();
    chunked.send("POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 "application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; ++i) {
        chunked.send("c350\r\n" + std::string(50'000, 'x') + "\r\n"); // 3 x 50,000
    }
    EXPECT_EQ(status_of(chunked.read_reply()), 413);
    RawClient fits = server_.connect();
    EXPECT_EQ(status_of(fits.exchange(post("/v1/echo", std::string(100'000, 'x')))), 200);
}

TEST_F(HttpServerTest, WantsUncompressedJson) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const auto with_type = [](const std::string& type) {
        return "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\n" + type +
               "Content-Length: 2\r\n\r\n{}";
    };
    for (const char* good :
         {"Content-Type: application/json; charset=utf-8\r\n", "Content-Type: APPLICATION/JSON\r\n",
          "Content-Type: application/x+json\r\n",
          "Content-Type: application/json\r\nContent-Encoding: identity\r\n"}) {
        EXPECT_EQ(status_of(client.exchange(with_type(good))), 200) << good;
    }
    for (const char* bad :
         {"", "Content-Type: text/plain\r\n", "Content-Type: application/jsonx\r\n",
          "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"}) {
        const std::string reply = client.exchange(with_type(bad));
        EXPECT_EQ(status_of(reply), 415) << bad;
        EXPECT_EQ(error_field(reply, "code"), "unsupported_media_type");
    }
}

TEST_F(HttpServerTest, LenientContentTypeAcceptsAny) {
    server_.options.lenient_content_type = true;
    server_.start(echo_routes());
    RawClient client = server_.connect();
    EXPECT_EQ(
        status_of(client.exchange("POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                  "text/plain\r\nContent-Length: 2\r\n\r\n{}")),
        200);
}

TEST_F(HttpServerTest, ChecksKeysBeforeTheBody) {
    server_.options.api_keys = {"secret-1", "secret-2"};
    server_.options.admin_keys = {"boss"};
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const std::string denied = client.exchange(post("/v1/echo", "{}"));
    EXPECT_EQ(status_of(denied), 401);
    EXPECT_EQ(error_field(denied, "type"), "authentication_error");
    EXPECT_TRUE(has_header(denied, "WWW-Authenticate: Bearer"));
    for (const char* good :
         {"Authorization: Bearer secret-1\r\n", "Authorization: bearer   secret-2  \r\n",
          "x-api-key: secret-1\r\n", "X-API-Key: boss\r\n",
          "x-api-key: wrong\r\nAuthorization: Bearer secret-1\r\n"}) {
        EXPECT_EQ(status_of(client.exchange(post("/v1/echo", "{}", good))), 200) << good;
    }
    for (const char* bad :
         {"Authorization: Bearer secret\r\n", "Authorization: Basic secret-1\r\n",
          "Authorization: Bearer\r\n", "Authorization: secret-1\r\n", "x-api-key: \r\n",
          "x-api-key: secret-1\r\nAuthorization: Bearer wrong\r\n"}) {
        EXPECT_EQ(status_of(client.exchange(post("/v1/echo", "{}", bad))), 401) << bad;
    }
    EXPECT_EQ(status_of(client.exchange(get("/v1/models"))), 200);
    EXPECT_EQ(status_of(client.exchange(get("/health"))), 200);
    EXPECT_EQ(status_of(client.exchange(post("/admin/drain", "{}", "x-api-key: secret-1\r\n"))),
              401);
    EXPECT_EQ(status_of(client.exchange(post("/admin/drain", "{}", "x-api-key: boss\r\n"))), 200);

    RawClient big = server_.connect();
    const std::string request = post("/v1/echo", std::string(1'000'000, 'x'));
    big.send(request.substr(0, 300)); // the answer does not wait for the rest
    EXPECT_EQ(status_of(big.read_reply(milliseconds(1000))), 401);
}

TEST_F(HttpServerTest, AuthAllProtectsDiscovery) {
    server_.options.api_keys = {"k"};
    server_.options.auth_all = true;
    server_.start(echo_routes());
    RawClient client = server_.connect();
    EXPECT_EQ(status_of(client.exchange(get("/v1/models"))), 401);
    EXPECT_EQ(status_of(client.exchange(get("/health"))), 200);
}

TEST_F(HttpServerTest, HidesAdminPathsWithoutAdminKey) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    EXPECT_EQ(status_of(client.exchange(post("/admin/drain", "{}"))), 404);
    EXPECT_EQ(status_of(client.exchange(get("/admin/drain"))), 404);
}

TEST_F(HttpServerTest, RefusesForeignHostsOnLoopback) {
    server_.options.allowed_hosts = {"box.lan"};
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const auto with_host = [](const std::string& host) {
        return "GET /health HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    };
    for (const char* host :
         {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "box.lan:99"}) {
        EXPECT_EQ(status_of(client.exchange(with_host(host))), 200) << host;
    }
    for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example"}) {
        const std::string reply = client.exchange(with_host(host));
        EXPECT_EQ(status_of(reply), 403) << host;
        EXPECT_EQ(error_field(reply, "code"), "forbidden_host");
    }
    EXPECT_EQ(status_of(client.exchange(
                  "GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n")),
              403);
}

TEST_F(HttpServerTest, RefusesPagesOfOtherOriginsWithoutAKey) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const std::string reply =
        client.exchange(post("/v1/echo", "{}", "Origin: https://evil.example\r\n"));
    EXPECT_EQ(status_of(reply), 403);
    EXPECT_EQ(error_field(reply, "code"), "forbidden_origin");
    EXPECT_EQ(reply.find("Access-Control"), std::string::npos);
    EXPECT_EQ(status_of(client.exchange(post("/v1/echo", "{}", "Origin: null\r\n"))), 403);
    EXPECT_EQ(status_of(client.exchange(post("/v1/echo", "{}", "Origin: http://localhost\r\n"))),
              200);
}

TEST_F(HttpServerTest, AnswersPreflightsOfConfiguredOrigins) {
    server_.options.cors_origins = {"https://app.example", "localhost"};
    server_.options.api_keys = {"k"};
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const auto preflight = [](const std::string& origin) {
        return "OPTIONS /v1/echo HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
               "\r\nAccess-Control-Request-Method: POST\r\n\r\n";
    };
    const std::string reply = client.exchange(preflight("https://app.example"));
    EXPECT_EQ(status_of(reply), 204);
    EXPECT_TRUE(has_header(reply, "Access-Control-Allow-Origin: https://app.example"));
    EXPECT_TRUE(has_header(reply, "Access-Control-Allow-Methods: GET, POST, OPTIONS"));
    EXPECT_TRUE(has_header(reply, "Access-Control-Max-Age: 600"));
    EXPECT_TRUE(has_header(reply, "Vary: Origin"));
    EXPECT_TRUE(has_header(client.exchange(preflight("http://127.0.0.1:3000")),
                           "Access-Control-Allow-Origin: http://127.0.0.1:3000"));
    EXPECT_EQ(client.exchange(preflight("https://evil.example")).find("Access-Control"),
              std::string::npos);
    const std::string denied =
        client.exchange(post("/v1/echo", "{}", "Origin: https://app.example\r\n"));
    EXPECT_EQ(status_of(denied), 401);
    EXPECT_TRUE(has_header(denied, "Access-Control-Allow-Origin: https://app.example"));
}

TEST_F(HttpServerTest, SaysWhyItIsNotReady) {
    server_.start(echo_routes());
    RawClient client = server_.connect();
    const std::string loading = client.exchange(post("/v1/work", "{}"));
    EXPECT_EQ(status_of(loading), 503);
    EXPECT_EQ(error_field(loading, "code"), "loading");
    EXPECT_TRUE(has_header(loading, "Retry-After: "));
    server_.context->set_state(ServingState::kReady);
    EXPECT_EQ(status_of(client.exchange(post("/v1/work", "{}"))), 200);
    server_.context->set_state(ServingState::kDraining);
    const std::string draining = client.exchange(post("/v1/work", "{}"));
    EXPECT_EQ(error_field(draining, "code"), "draining");
    EXPECT_TRUE(has_header(draining, "Connection: close"));
    RawClient other = server_.connect();
    server_.context->set_state(ServingState::kFailed);
    EXPECT_EQ(error_field(other.exchange(post("/v1/work", "{}")), "code"), "engine_failed");
}

TEST_F(HttpServerTest, SpellsErrorCodesAsConfigured) {
    server_.options.error_code_int = true;
    server_.start(echo_routes());
    RawClient client = server_.connect();
    EXPECT_EQ(error_field(client.exchange(get("/nowhere")), "code"), "404");
}

TEST_F(HttpServerTest, TurnsExceptionsOfAHandlerInto500) {
    server_.start({{"GET", "/throw", RouteAccess::kPublic, false,
                    [](const HttpRequest&) -> HttpReply { throw std::bad_alloc(); }}});
    RawClient client = server_.connect();
    const std::string reply = client.exchange(get("/throw"));
    EXPECT_EQ(status_of(reply), 500);
    EXPECT_EQ(error_field(reply, "type"), "server_error");
    EXPECT_EQ(status_of(client.exchange(get("/throw"))), 500);
}

TEST_F(HttpServerTest, ServesUnixSockets) {
    const std::string path =
        ::testing::TempDir() + "/dsv4v-" + std::to_string(::getpid()) + ".sock";
    server_.options.host = "unix:" + path;
    server_.start(echo_routes());
    RawClient client(path);
    EXPECT_EQ(status_of(client.exchange("GET /health HTTP/1.1\r\nHost: whatever\r\n\r\n")), 200);
    server_.server.reset();
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(HttpServerTest, ServesIpv6) {
    server_.options.host = "::1";
    server_.start(echo_routes());
    EXPECT_THAT(server_.server->address(), HasSubstr("http://[::1]:"));
}

TEST_F(HttpServerTest, NamesTheAddressItCannotBind) {
    server_.start(echo_routes());
    TestServer second;
    second.options.port = server_.port();
    second.metrics = std::make_unique<Metrics>("m");
    second.context = std::make_unique<ServingContext>(second.options, *second.metrics);
    second.authenticator = std::move(*Authenticator::create(second.options));
    HttpServer clash(*second.context, *second.authenticator, {});
    const auto started = clash.start();
    ASSERT_FALSE(started.has_value());
    EXPECT_THAT(started.error().message, HasSubstr("127.0.0.1 port"));
}

TEST_F(HttpServerTest, TurnsAwayConnectionsOverTheLimit) {
    server_.options.max_connections = 2;
    server_.start(echo_routes());
    RawClient first = server_.connect();
    RawClient second = server_.connect();
    EXPECT_EQ(status_of(first.exchange(get("/health"))), 200);
    EXPECT_EQ(status_of(second.exchange(get("/health"))), 200);
    RawClient third = server_.connect();
    EXPECT_EQ(status_of(third.read_reply()), 503);
    EXPECT_TRUE(third.closed_within(milliseconds(1000)));
    first.close();
    EXPECT_TRUE(
        eventually([&] { return status_of(server_.connect().exchange(get("/health"))) == 200; }));
}

} // namespace
} // namespace dsv4v::testing
