// Streams and connections in numbers: nobody waits for anybody, departures are noticed, nothing
// leaks, stopping is bounded.
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/server/http_test_server.h"

namespace dsv4v::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Thousands of instrumented threads are slow; the rules are the same with fewer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kManyStreams = 200;
constexpr int kManyRequests = 1000;
#else
constexpr int kManyStreams = 1000;
constexpr int kManyRequests = 10'000;
#endif

// A gate that tests open by steps.
class Gate {
  public:
    void open(int step) {
        std::lock_guard lock(mutex_);
        step_ = step;
        changed_.notify_all();
    }
    bool wait(int step, milliseconds timeout = milliseconds(60'000)) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, timeout, [&] { return step_ >= step; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int step_ = 0;
};

HttpReply event_stream(std::function<void(StreamSink&)> write) {
    HttpReply reply;
    reply.content_type = "text/event-stream";
    reply.stream = std::move(write);
    return reply;
}

size_t n_entries(const char* directory) {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) {
        ++n;
    }
    return n;
}

void allow_many_descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

class HttpStreamTest : public ::testing::Test {
  protected:
    Route stream_route(std::function<void(StreamSink&)> write) {
        return {"GET", "/stream", RouteAccess::kPublic, false,
                [write = std::move(write)](const HttpRequest&) { return event_stream(write); }};
    }
    TestServer server_;
};

TEST_F(HttpStreamTest, SendsEventsAsTheyAreWritten) {
    Gate gate;
    server_.start({stream_route([&gate](StreamSink& sink) {
        EXPECT_TRUE(sink.write("data: one\n\n"));
        EXPECT_TRUE(sink.write(""));
        EXPECT_TRUE(gate.wait(1));
        EXPECT_TRUE(sink.write("data: two\n\n"));
    })});
    RawClient client = server_.connect();
    client.send(get("/stream"));
    const std::string first = client.read_until("data: one\n\n\r\n");
    EXPECT_TRUE(has_header(first, "Transfer-Encoding: chunked"));
    EXPECT_EQ(first.find("Content-Length"), std::string::npos);
    EXPECT_THAT(body_of(first), HasSubstr("b\r\ndata: one\n\n\r\n"));
    gate.open(1);
    EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("b\r\ndata: two\n\n\r\n0\r\n\r\n"));
    client.send(get("/nowhere")); // the connection lives on
    EXPECT_THAT(client.read_until("404 Not Found"), HasSubstr("404 Not Found"));
}

TEST_F(HttpStreamTest, EndsAnHttp10StreamByClosing) {
    server_.start({stream_route([](StreamSink& sink) { EXPECT_TRUE(sink.write("data: x\n\n")); })});
    RawClient client = server_.connect();
    client.send("GET /stream HTTP/1.0\r\n\r\n");
    EXPECT_TRUE(client.closed_within(milliseconds(5000)));
    const std::string reply = client.read_until("never", milliseconds(1));
    EXPECT_EQ(body_of(reply), "data: x\n\n");
    EXPECT_EQ(reply.find("chunked"), std::string::npos);
}

TEST_F(HttpStreamTest, ManyOpenStreamsAllProgress) {
    allow_many_descriptors();
    Gate gate;
    std::atomic<int> n_open{0};
    server_.start({stream_route([&](StreamSink& sink) {
                       ++n_open;
                       EXPECT_TRUE(sink.write("data: 1\n\n"));
                       EXPECT_TRUE(gate.wait(1));
                       EXPECT_TRUE(sink.write("data: 2\n\n"));
                   }),
                   echo_route("GET", "/health", RouteAccess::kPublic)});
    std::vector<RawClient> clients;
    for (int i = 0; i < kManyStreams; ++i) {
        clients.push_back(server_.connect());
        ASSERT_TRUE(clients.back().send(get("/stream")));
    }
    for (RawClient& client : clients) {
        ASSERT_THAT(client.read_until("data: 1\n\n"), HasSubstr("data: 1\n\n"));
    }
    EXPECT_EQ(n_open, kManyStreams);
    EXPECT_EQ(status_of(server_.connect().exchange(get("/health"))), 200);
    gate.open(1);
    for (RawClient& client : clients) {
        ASSERT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("data: 2\n\n"));
    }
}

TEST_F(HttpStreamTest, ThousandSimultaneousConnectionsGetTheirOwnAnswer) {
    allow_many_descriptors();
    server_.start({echo_route("POST", "/v1/echo")});
    std::vector<RawClient> clients;
    for (int i = 0; i < kManyStreams; ++i) {
        clients.push_back(server_.connect());
    }
    for (int i = 0; i < kManyStreams; ++i) {
        ASSERT_TRUE(clients[static_cast<size_t>(i)].send(
            post("/v1/echo", "\"" + std::to_string(i) + "\"")));
    }
    for (int i = 0; i < kManyStreams; ++i) {
        EXPECT_THAT(clients[static_cast<size_t>(i)].read_reply(),
                    HasSubstr("body=\"" + std::to_string(i) + "\""));
    }
}

TEST_F(HttpStreamTest, NoticesDeparture) {
    std::atomic<bool> running{false};
    std::atomic<bool> stream_noticed{false};
    std::atomic<bool> plain_noticed{false};
    const auto poll_until_gone = [&running](const std::function<bool()>& gone,
                                            std::atomic<bool>& noticed) {
        running = true;
        noticed = eventually(gone, milliseconds(10'000));
    };
    server_.start({stream_route([&](StreamSink& sink) {
                       poll_until_gone([&sink] { return sink.peer_gone(); }, stream_noticed);
                   }),
                   {"POST", "/plain", RouteAccess::kPublic, false, [&](const HttpRequest& request) {
                        poll_until_gone(request.peer_gone, plain_noticed);
                        return HttpReply{};
                    }}});
    for (const auto& [request, noticed] : {std::pair{get("/stream"), &stream_noticed},
                                           std::pair{post("/plain", "{}"), &plain_noticed}}) {
        running = false;
        RawClient client = server_.connect();
        client.send(request);
        ASSERT_TRUE(eventually([&] { return running.load(); }));
        std::this_thread::sleep_for(milliseconds(50));
        EXPECT_FALSE(*noticed);
        client.close();
        const auto begin = Clock::now();
        EXPECT_TRUE(eventually([flag = noticed] { return flag->load(); }));
        EXPECT_LT(Clock::now() - begin, milliseconds(250));
    }
    EXPECT_TRUE(eventually([this] { return server_.server->n_connections() == 0; }));
    EXPECT_THAT(server_.metrics->exposition(nullptr, nullptr), HasSubstr("code=\"499\""));
}

TEST_F(HttpStreamTest, HalfCloseCountsAsDepartureUnlessAllowed) {
    for (const bool allowed : {false, true}) {
        TestServer server;
        server.options.half_close_ok = allowed;
        Gate gate;
        server.start(
            {{"GET", "/half", RouteAccess::kPublic, false, [&gate](const HttpRequest& request) {
                  EXPECT_TRUE(gate.wait(1));
                  HttpReply reply;
                  reply.body = request.peer_gone() ? "gone" : "there";
                  return reply;
              }}});
        RawClient client = server.connect();
        client.send(get("/half"));
        client.shutdown_write();
        std::this_thread::sleep_for(milliseconds(50));
        gate.open(1);
        EXPECT_EQ(body_of(client.read_reply()), allowed ? "there" : "gone");
    }
}

TEST_F(HttpStreamTest, PipelinedBytesAreNoDeparture) {
    Gate gate;
    server_.start(
        {{"GET", "/wait", RouteAccess::kPublic, false, [&gate](const HttpRequest& request) {
              EXPECT_TRUE(gate.wait(1));
              HttpReply reply;
              reply.body = request.peer_gone() ? "gone" : "there";
              return reply;
          }}});
    RawClient client = server_.connect();
    client.send(get("/wait"));
    std::this_thread::sleep_for(milliseconds(20));
    client.send(get("/wait"));
    std::this_thread::sleep_for(milliseconds(20));
    gate.open(1);
    EXPECT_EQ(body_of(client.read_reply()), "there");
    EXPECT_EQ(body_of(client.read_reply()), "there");
}

TEST_F(HttpStreamTest, GivesUpOnAClientThatDoesNotRead) {
    server_.options.idle_write_timeout_s = 0.2;
    std::atomic<bool> gave_up{false};
    server_.start({stream_route([&gave_up](StreamSink& sink) {
        const std::string block(1 << 20, 'x');
        for (int i = 0; i < 1000 && !gave_up; ++i) {
            gave_up = !sink.write(block);
        }
    })});
    RawClient client = server_.connect();
    client.send(get("/stream"));
    EXPECT_TRUE(eventually([&] { return gave_up.load(); }, milliseconds(10'000)));
    EXPECT_TRUE(eventually([this] { return server_.server->n_connections() == 0; }));
}

TEST_F(HttpStreamTest, ASlowReaderLosesNothingAndHoldsUpNobody) {
    constexpr size_t kBytes = 8 << 20;
    server_.start({stream_route([](StreamSink& sink) {
                       for (size_t i = 0; i < kBytes / 64; ++i) {
                           ASSERT_TRUE(
                               sink.write(std::string(63, static_cast<char>('a' + i % 26)) + "\n"));
                       }
                   }),
                   echo_route("GET", "/health", RouteAccess::kPublic)});
    RawClient slow = server_.connect();
    slow.send(get("/stream"));
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(status_of(server_.connect().exchange(get("/health"))), 200);
    }
    const std::string all = slow.read_until("\r\n0\r\n\r\n", milliseconds(60'000));
    const auto n_lines = std::count(all.begin(), all.end(), '\n');
    // Each 64-byte line is one chunk of three line ends, plus head and last chunk.
    EXPECT_GE(static_cast<size_t>(n_lines), kBytes / 64 * 3);
}

TEST_F(HttpStreamTest, CancelsARequestById) {
    std::atomic<bool> running{false};
    server_.start({stream_route([&running](StreamSink& sink) {
        running = true;
        EXPECT_TRUE(eventually([&sink] { return sink.peer_gone(); }));
    })});
    RawClient client = server_.connect();
    client.send(get("/stream", "X-Request-Id: my-request\r\n"));
    ASSERT_TRUE(eventually([&] { return running.load(); }));
    EXPECT_FALSE(server_.context->requests.cancel("another"));
    EXPECT_TRUE(server_.context->requests.cancel("my-request"));
    EXPECT_TRUE(client.closed_within(milliseconds(3000)));
    EXPECT_FALSE(server_.context->requests.cancel("my-request"));
}

TEST_F(HttpStreamTest, StopEndsIdleConnectionsAtOnceAndCutsStreamsAfterTheGrace) {
    std::atomic<int> n_running{0};
    server_.start({stream_route([&n_running](StreamSink& sink) {
                       ++n_running;
                       while (sink.write("data: x\n\n")) {
                           std::this_thread::sleep_for(milliseconds(5));
                       }
                   }),
                   echo_route("GET", "/health", RouteAccess::kPublic)});
    std::vector<RawClient> idle;
    std::vector<RawClient> busy;
    for (int i = 0; i < 8; ++i) {
        idle.push_back(server_.connect());
        EXPECT_EQ(status_of(idle.back().exchange(get("/health"))), 200);
        busy.push_back(server_.connect());
        busy.back().send(get("/stream"));
    }
    ASSERT_TRUE(eventually([&] { return n_running == 8; }));
    const auto begin = Clock::now();
    std::thread stopper([this] { server_.server->stop(milliseconds(500)); });
    for (RawClient& client : idle) {
        EXPECT_TRUE(client.closed_within(milliseconds(300)));
    }
    EXPECT_LT(Clock::now() - begin, milliseconds(400));
    stopper.join();
    EXPECT_GE(Clock::now() - begin, milliseconds(450));
    EXPECT_LT(Clock::now() - begin, milliseconds(1500));
    EXPECT_EQ(server_.server->n_connections(), 0u);
}

TEST_F(HttpStreamTest, StopWaitsForRunningExchanges) {
    Gate gate;
    server_.start({{"GET", "/wait", RouteAccess::kPublic, false, [&gate](const HttpRequest&) {
                        EXPECT_TRUE(gate.wait(1));
                        HttpReply reply;
                        reply.body = "finished";
                        return reply;
                    }}});
    RawClient client = server_.connect();
    client.send(get("/wait"));
    std::this_thread::sleep_for(milliseconds(50));
    std::thread opener([&gate] {
        std::this_thread::sleep_for(milliseconds(100));
        gate.open(1);
    });
    server_.server->stop(milliseconds(10'000));
    EXPECT_EQ(body_of(client.read_reply()), "finished");
    opener.join();
}

TEST_F(HttpStreamTest, ManyRequestsLeaveNothingBehind) {
    server_.start({echo_route("POST", "/v1/echo")});
    RawClient client = server_.connect();
    for (int i = 0; i < 100; ++i) {
        client.exchange(post("/v1/echo", "{}"));
    }
    const size_t n_descriptors = n_entries("/proc/self/fd");
    const size_t n_threads = n_entries("/proc/self/task");
    for (int i = 0; i < kManyRequests; ++i) {
        ASSERT_EQ(status_of(client.exchange(post("/v1/echo", "{}"))), 200);
        if (i % 20 == 0) { // and some connections that come and go, politely or not
            RawClient other = server_.connect();
            other.send(i % 40 == 0 ? post("/v1/echo", "{}") : std::string("POST /v1/ec"));
        }
    }
    EXPECT_TRUE(eventually([this] { return server_.server->n_connections() == 1; }));
    EXPECT_LE(n_entries("/proc/self/fd"), n_descriptors + 1);
    // Idle threads retire after a while; on a busy machine some dozens may overlap, never one for
    // each connection that came and went.
    EXPECT_LE(n_entries("/proc/self/task"), n_threads + kManyRequests / 20 / 4);
}

} // namespace
} // namespace dsv4v::testing
