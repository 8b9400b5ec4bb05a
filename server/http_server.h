// The HTTP/1.1 front: accepts, checks transport, access and readiness, calls the handler of a
// route, writes its reply, reports metrics and the access log. docs/server.md.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "loaders/base/error.h"
#include "server/auth.h"
#include "server/http_types.h"
#include "server/serving_context.h"

namespace dsv4v {

// Handlers run on the thread of their connection and may run at the same time.
class HttpServer {
  public:
    // `context` and `authenticator` must outlive the server.
    HttpServer(ServingContext& context, const Authenticator& authenticator,
               std::vector<Route> routes);
    ~HttpServer(); // stop(0)
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    // Binds and starts to accept on a thread of its own. Errors name the address.
    [[nodiscard]] Expected<void> start();

    // Stops accepting, closes idle connections, lets running exchanges end for up to `grace`, cuts
    // the rest and joins all threads. Idempotent.
    void stop(std::chrono::milliseconds grace);

    [[nodiscard]] int port() const;
    [[nodiscard]] std::string address() const;
    [[nodiscard]] size_t n_connections() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace dsv4v
