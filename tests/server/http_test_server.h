// A server on a free port with scripted routes, and a raw socket client for requests that no HTTP
// library would send.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/auth.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/serving_context.h"

namespace dsv4v::testing {

using std::chrono::milliseconds;

class RawClient {
  public:
    explicit RawClient(int port) {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        EXPECT_TRUE(connected_) << std::strerror(errno);
    }
    explicit RawClient(const std::string& unix_path) {
        fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, unix_path.data(), unix_path.size());
        connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        EXPECT_TRUE(connected_) << std::strerror(errno);
    }
    ~RawClient() { close(); }
    RawClient(RawClient&& other) noexcept
        : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_),
          buffer_(std::move(other.buffer_)) {}
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                return false;
            }
            bytes.remove_prefix(static_cast<size_t>(n));
        }
        return true;
    }
    // Reads until `mark` has arrived, the peer closes or the time is up; returns what is there.
    std::string read_until(std::string_view mark, milliseconds timeout = milliseconds(10'000)) {
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        while (buffer_.find(mark) == std::string::npos && fill(deadline)) {
        }
        return buffer_;
    }
    // Head and body of one reply with Content-Length; removes it from the buffer.
    std::string read_reply(milliseconds timeout = milliseconds(10'000)) {
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        read_until("\r\n\r\n", timeout);
        const size_t head_end = buffer_.find("\r\n\r\n");
        if (head_end == std::string::npos) {
            return std::exchange(buffer_, {});
        }
        size_t n_body = 0;
        if (const size_t at = buffer_.find("Content-Length: "); at < head_end) {
            n_body = std::stoul(buffer_.substr(at + 16));
        }
        while (buffer_.size() < head_end + 4 + n_body && fill(deadline)) {
        }
        std::string reply = buffer_.substr(0, head_end + 4 + n_body);
        buffer_.erase(0, reply.size());
        return reply;
    }
    // True once the server has closed the connection.
    bool closed_within(milliseconds timeout) {
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        while (fill(deadline)) {
        }
        return eof_;
    }
    void close() {
        if (fd_ >= 0) {
            ::close(std::exchange(fd_, -1));
        }
    }
    void shutdown_write() { ::shutdown(fd_, SHUT_WR); }
    [[nodiscard]] int fd() const { return fd_; }
    std::string exchange(std::string_view request) {
        send(request);
        return read_reply();
    }

  private:
    bool fill(std::chrono::steady_clock::time_point deadline) {
        const auto left =
            std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd entry{fd_, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) {
            return false;
        }
        char block[65536];
        const ssize_t n = ::recv(fd_, block, sizeof block, 0);
        if (n <= 0) {
            eof_ = true;
            return false;
        }
        buffer_.append(block, static_cast<size_t>(n));
        return true;
    }

    int fd_ = -1;
    bool connected_ = false;
    bool eof_ = false;
    std::string buffer_;
};

inline int status_of(const std::string& reply) {
    return reply.size() > 12 && reply.starts_with("HTTP/1.1 ") ? std::stoi(reply.substr(9, 3)) : -1;
}

inline std::string body_of(const std::string& reply) {
    const size_t end = reply.find("\r\n\r\n");
    return end == std::string::npos ? "" : reply.substr(end + 4);
}

inline bool has_header(const std::string& reply, const std::string& line) {
    return reply.substr(0, reply.find("\r\n\r\n") + 2).find("\r\n" + line) != std::string::npos;
}

inline std::string post(const std::string& path, const std::string& body,
                        const std::string& more = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
           more + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline std::string get(const std::string& path, const std::string& more = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

// Owns everything a server needs. Change `options` before start().
struct TestServer {
    Options options;
    std::unique_ptr<Metrics> metrics;
    std::unique_ptr<ServingContext> context;
    std::unique_ptr<Authenticator> authenticator;
    std::unique_ptr<HttpServer> server;

    TestServer() { options.port = 0; }
    ~TestServer() { server.reset(); }

    void start(std::vector<Route> routes) {
        metrics = std::make_unique<Metrics>("test-model");
        context = std::make_unique<ServingContext>(options, *metrics);
        auto created = Authenticator::create(options);
        ASSERT_TRUE(created.has_value()) << created.error().message;
        authenticator = std::move(*created);
        server = std::make_unique<HttpServer>(*context, *authenticator, std::move(routes));
        const auto started = server->start();
        ASSERT_TRUE(started.has_value()) << started.error().message;
    }
    [[nodiscard]] int port() const { return server->port(); }
    [[nodiscard]] RawClient connect() const { return RawClient(port()); }
};

// Answers with what it saw.
inline Route echo_route(const std::string& method, const std::string& path,
                        RouteAccess access = RouteAccess::kKey, bool needs_model = false) {
    return {method, path, access, needs_model, [](const HttpRequest& request) {
                HttpReply reply;
                reply.content_type = "text/plain";
                reply.body = request.method + " " + request.path + " id=" + request.path_id +
                             " client=" + request.client + " body=" + request.body;
                return reply;
            }};
}

// Polls `condition` until it holds or the time is up.
template <class Condition>
bool eventually(Condition condition, milliseconds timeout = milliseconds(5000)) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
}

} // namespace dsv4v::testing
