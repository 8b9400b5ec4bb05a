// One request and its reply on an open connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/auth.h"
#include "server/http_connection.h"
#include "server/http_reply.h"
#include "server/http_types.h"
#include "server/route_table.h"
#include "server/serving_context.h"

namespace dsv4v {

// What all exchanges of a server share.
struct ExchangeEnvironment {
    ServingContext& context;
    const Authenticator& authenticator;
    const RouteTable& routes;
    bool check_host = false; // bound to loopback: refuse foreign Host names
};

class HttpExchange {
  public:
    HttpExchange(const ExchangeEnvironment& environment, HttpConnection& connection,
                 const std::string& remote);

    // Answers one request. False when the connection has to be closed.
    bool run(RequestHead head);
    // Answers a head that could not be parsed; the connection has to be closed.
    void refuse(const HeadError& error);

  private:
    using Refusal = std::optional<HttpReply>;

    void adopt_head();
    // Checks in order; the first that objects gives the reply.
    [[nodiscard]] Refusal check_access();
    [[nodiscard]] Refusal check_host();
    [[nodiscard]] Refusal check_preflight();
    [[nodiscard]] Refusal check_route();
    [[nodiscard]] Refusal check_origin();
    [[nodiscard]] Refusal check_key();
    [[nodiscard]] Refusal check_ready();
    [[nodiscard]] Refusal check_body_headers();
    [[nodiscard]] Refusal read_body();

    [[nodiscard]] HttpReply answer();
    [[nodiscard]] HttpReply call_handler();
    void discard_small_body();
    void send(HttpReply reply);
    void send_stream(const HttpReply& reply,
                     const std::vector<std::pair<std::string, std::string>>& headers);
    [[nodiscard]] std::vector<std::pair<std::string, std::string>>
    all_headers(const HttpReply& reply) const;
    void report(int status);

    [[nodiscard]] HttpReply error(const ApiError& api_error) const;

    const ExchangeEnvironment& environment_;
    HttpConnection& connection_;
    RequestHead head_;
    HttpRequest request_;
    RouteMatch match_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    const uint64_t written_before_;
    std::string transcript_; // beginning of the reply, with --log-content
    bool body_read_ = false;
    bool keep_alive_ = true;
    bool delivered_ = true; // every write reached the peer
};

} // namespace dsv4v
