#include "server/http_server.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "server/connection_threads.h"
#include "server/http_exchange.h"
#include "server/http_policy.h"
#include "server/listener.h"
#include "server/logging.h"

namespace dsv4v {

namespace {

std::chrono::milliseconds to_ms(double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

ConnectionLimits connection_limits(const Options& options) {
    return {.keep_alive = to_ms(options.keep_alive_s),
            .head = to_ms(options.header_timeout_s),
            .body_idle = to_ms(options.body_timeout_s),
            .write_idle = to_ms(options.idle_write_timeout_s),
            .half_close_ok = options.half_close_ok};
}

} // namespace

// Threads: one accepts; each connection has one. `open_` is shared and guarded by mutex_; a
// descriptor is in it only while it is open, so that stop() never touches a reused number.
class HttpServer::Impl {
  public:
    Impl(ServingContext& context, const Authenticator& authenticator, std::vector<Route> routes)
        : context_(context), limits_(connection_limits(context.options)),
          routes_(std::move(routes), context.options.api_prefix),
          environment_{.context = context,
                       .authenticator = authenticator,
                       .routes = routes_,
                       .check_host = is_loopback_host(context.options.host)},
          threads_(static_cast<size_t>(context.options.max_connections)) {}

    ~Impl() { stop(std::chrono::milliseconds(0)); }

    Expected<void> start() {
        DSV4V_ASSIGN_OR_RETURN(listener_,
                               Listener::open(context_.options.host, context_.options.port));
        acceptor_ = std::thread([this] { accept_loop(); });
        return {};
    }

    void stop(std::chrono::milliseconds grace) {
        stopping_ = true;
        if (acceptor_.joinable()) {
            listener_->wake();
            acceptor_.join();
        }
        std::unique_lock lock(mutex_);
        for (const auto& [fd, connection] : open_) {
            if (connection.idle) {
                ::shutdown(fd, SHUT_RD);
            }
        }
        closed_.wait_for(lock, grace, [this] { return open_.empty(); });
        for (const auto& [fd, connection] : open_) {
            ::shutdown(fd, SHUT_RDWR);
        }
        closed_.wait(lock, [this] { return open_.empty(); });
    }

    [[nodiscard]] int port() const { return listener_->port(); }
    [[nodiscard]] std::string address() const { return listener_->address(); }
    [[nodiscard]] size_t n_connections() const {
        std::lock_guard lock(mutex_);
        return open_.size();
    }

  private:
    struct OpenConnection {
        bool idle = true; // between requests
    };

    void accept_loop() {
        while (!stopping_) {
            AcceptedSocket accepted = listener_->accept();
            if (accepted.fd < 0) {
                continue;
            }
            add(accepted.fd);
            const int fd = accepted.fd;
            if (!threads_.run([this, accepted = std::move(accepted)] { serve(accepted); })) {
                turn_away(fd);
            }
        }
    }

    // Over the connection limit. Never blocks: the reply fits an empty socket buffer.
    void turn_away(int fd) {
        HttpRequest nobody;
        const ApiError error = unavailable("overloaded", "Too many connections");
        const HttpReply reply = error_reply(error, nobody, context_.error_style);
        std::string bytes =
            reply_head(reply.status, {{"Content-Type", reply.content_type}, {"Retry-After", "5"}},
                       BodyFraming::kLength, reply.body.size(), false) +
            reply.body;
        ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        ::shutdown(fd, SHUT_WR);
        char request[4096]; // closing with unread input would reset the connection before the reply
        while (::recv(fd, request, sizeof request, MSG_DONTWAIT) > 0) {
        }
        context_.metrics.record_http("other", reply.status, 0);
        context_.metrics.record_error(error.type);
        remove(fd);
        ::close(fd);
    }

    void serve(const AcceptedSocket& accepted) {
        std::optional<HttpConnection> connection(std::in_place, accepted.fd, limits_);
        try {
            if (!serve_all(*connection, accepted.remote)) {
                connection->linger();
            }
        } catch (const std::exception& exception) { // out of memory: this connection ends
            log_line(LogLevel::kError, "connection failed", {{"what", exception.what()}});
        }
        remove(accepted.fd);
        connection.reset();
        closed_.notify_all();
    }

    // False when our side ends the connection while the peer may still be sending.
    bool serve_all(HttpConnection& connection, const std::string& remote) {
        for (;;) {
            set_idle(connection.fd(), true);
            if (stopping_) {
                return true;
            }
            auto head = connection.read_head();
            if (head && !*head) {
                return true;
            }
            set_idle(connection.fd(), false);
            HttpExchange exchange(environment_, connection, remote);
            if (!head) {
                exchange.refuse(head.error());
                return false;
            }
            if (!exchange.run(std::move(**head))) {
                return connection.peer_gone();
            }
        }
    }

    void add(int fd) {
        std::lock_guard lock(mutex_);
        open_.emplace(fd, OpenConnection{});
    }
    void remove(int fd) {
        std::lock_guard lock(mutex_);
        open_.erase(fd);
    }
    void set_idle(int fd, bool idle) {
        std::lock_guard lock(mutex_);
        open_.at(fd).idle = idle;
    }

    ServingContext& context_;
    const ConnectionLimits limits_;
    const RouteTable routes_;
    const ExchangeEnvironment environment_;
    std::atomic<bool> stopping_{false};
    mutable std::mutex mutex_;
    std::condition_variable closed_;
    std::map<int, OpenConnection> open_;
    std::unique_ptr<Listener> listener_;
    std::thread acceptor_;
    ConnectionThreads threads_; // last: its destructor waits for serve()
};

HttpServer::HttpServer(ServingContext& context, const Authenticator& authenticator,
                       std::vector<Route> routes)
    : impl_(std::make_unique<Impl>(context, authenticator, std::move(routes))) {}

HttpServer::~HttpServer() = default;

Expected<void> HttpServer::start() {
    return impl_->start();
}

void HttpServer::stop(std::chrono::milliseconds grace) {
    impl_->stop(grace);
}

int HttpServer::port() const {
    return impl_->port();
}

std::string HttpServer::address() const {
    return impl_->address();
}

size_t HttpServer::n_connections() const {
    return impl_->n_connections();
}

} // namespace dsv4v
