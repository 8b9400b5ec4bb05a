#include "server/http_exchange.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <openssl/rand.h>

#include "server/http_policy.h"
#include "server/logging.h"

namespace dsv4v {

namespace {

// An unread body up to this size is read and thrown away to keep the connection.
constexpr uint64_t kDiscardBytes = 64 << 10;
constexpr int kClientLeft = 499;               // never sent; logs and metrics only
constexpr const char* kUnknownRoute = "other"; // metrics label: paths come from outside

std::string new_request_id() {
    std::array<unsigned char, 12> bytes{};
    RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
    std::string id = "req-";
    for (const unsigned char byte : bytes) {
        id += fmt::format("{:02x}", byte);
    }
    return id;
}

bool is_request_id(std::string_view id) {
    return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '.' || c == '_' || c == '-';
    });
}

ApiError forbidden(std::string code, std::string message) {
    return {.status = 403,
            .type = "permission_error",
            .code = std::move(code),
            .message = std::move(message)};
}

std::string error_type_of(int status) {
    switch (status) {
    case 408:
        return "timeout_error";
    case 404:
        return "not_found_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

ApiError transport_error(const HeadError& error) {
    return {.status = error.status,
            .type = error_type_of(error.status),
            .code = error.code,
            .message = error.message};
}

std::vector<LogField> access_fields(const HttpRequest& request, int status) {
    const RequestRecord& record = *request.record;
    std::vector<LogField> fields = {{"req", request.request_id},
                                    {"ip", request.remote},
                                    {"key", request.client},
                                    {"method", request.method},
                                    {"path", request.path},
                                    {"status", int64_t{status}},
                                    {"total_ms", record.total_ms},
                                    {"bytes_in", static_cast<int64_t>(record.bytes_in)},
                                    {"bytes_out", static_cast<int64_t>(record.bytes_out)}};
    if (!record.generated) {
        return fields;
    }
    const double decode_s = record.decode_ms / 1e3;
    const double prompt_s = record.prompt_ms / 1e3;
    fields.insert(fields.end(),
                  {{"stream", record.stream},
                   {"model", record.model},
                   {"prompt_tokens", int64_t{record.n_prompt}},
                   {"cached_tokens", int64_t{record.n_cached}},
                   {"image_tokens", int64_t{record.n_image_tokens}},
                   {"images", int64_t{record.n_images}},
                   {"completion_tokens", int64_t{record.n_generated}},
                   {"reasoning_tokens", int64_t{record.n_reasoning}},
                   {"finish_reason", record.finish_reason},
                   {"queue_ms", record.queue_ms},
                   {"ttft_ms", record.ttft_ms},
                   {"prefill_tps", prompt_s > 0 ? record.n_prompt / prompt_s : 0.0},
                   {"decode_tps", decode_s > 0 ? record.n_generated / decode_s : 0.0}});
    return fields;
}

} // namespace

HttpExchange::HttpExchange(const ExchangeEnvironment& environment, HttpConnection& connection,
                           const std::string& remote)
    : environment_(environment), connection_(connection),
      written_before_(connection.bytes_written()) {
    request_.remote = remote;
    request_.request_id = new_request_id();
}

bool HttpExchange::run(RequestHead head) {
    head_ = std::move(head);
    adopt_head();
    const RequestRegistry::Entry entry(environment_.context.requests, request_.request_id);
    request_.peer_gone = [this, &entry] { return connection_.peer_gone() || entry.cancelled(); };
    send(answer());
    return keep_alive_ && !entry.cancelled();
}

void HttpExchange::refuse(const HeadError& head_error) {
    keep_alive_ = false;
    send(error(transport_error(head_error)));
}

void HttpExchange::adopt_head() {
    keep_alive_ = head_.keep_alive;
    request_.method = head_.method;
    request_.path = head_.path;
    request_.query = head_.query;
    request_.headers = head_.headers;
    request_.origin = head_.header("origin");
    if (const std::string& id = head_.header("x-request-id"); is_request_id(id)) {
        request_.request_id = id;
    }
    request_.record->request_id = request_.request_id;
}

HttpReply HttpExchange::answer() {
    Refusal refusal = check_access();
    if (!refusal && head_.has_body()) {
        refusal = read_body();
    }
    if (refusal) {
        discard_small_body();
        return std::move(*refusal);
    }
    return call_handler();
}

HttpExchange::Refusal HttpExchange::check_access() {
    using Check = Refusal (HttpExchange::*)();
    constexpr Check kChecks[] = {&HttpExchange::check_host,        &HttpExchange::check_route,
                                 &HttpExchange::check_preflight,   &HttpExchange::check_origin,
                                 &HttpExchange::check_key,         &HttpExchange::check_ready,
                                 &HttpExchange::check_body_headers};
    for (const Check check : kChecks) {
        if (Refusal refusal = (this->*check)()) {
            return refusal;
        }
    }
    return std::nullopt;
}

HttpExchange::Refusal HttpExchange::check_host() {
    const Options& options = environment_.context.options;
    if (!environment_.check_host || host_allowed(head_.host, options.allowed_hosts)) {
        return std::nullopt;
    }
    return error(forbidden("forbidden_host", "This server answers only to loopback names; see "
                                             "--allowed-hosts."));
}

HttpExchange::Refusal HttpExchange::check_route() {
    match_ = environment_.routes.find(head_.method, head_.path);
    const bool hidden = match_.is_admin && !environment_.authenticator.has_admin_keys();
    if (head_.method == "OPTIONS" && (head_.path == "*" || !match_.allow.empty())) {
        return std::nullopt;
    }
    if (match_.allow.empty() || hidden) {
        return error(not_found("not_found", fmt::format("No such path: {}", head_.path)));
    }
    if (match_.route == nullptr) {
        HttpReply reply = error({.status = 405,
                                 .type = "invalid_request_error",
                                 .code = "method_not_allowed",
                                 .message = fmt::format("{} does not accept {}; it accepts {}.",
                                                        head_.path, head_.method, match_.allow)});
        reply.headers.emplace_back("Allow", match_.allow);
        return reply;
    }
    request_.path = match_.path;
    request_.path_id = match_.path_id;
    return std::nullopt;
}

HttpExchange::Refusal HttpExchange::check_preflight() {
    if (head_.method != "OPTIONS") {
        return std::nullopt;
    }
    HttpReply reply;
    reply.status = 204;
    reply.content_type.clear();
    reply.headers.emplace_back("Allow",
                               match_.allow.empty() ? "GET, HEAD, POST, OPTIONS" : match_.allow);
    if (origin_allowed(request_.origin, environment_.context.options.cors_origins)) {
        reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        reply.headers.emplace_back("Access-Control-Allow-Headers",
                                   "Authorization, Content-Type, X-Api-Key, X-Request-Id, "
                                   "anthropic-version, anthropic-beta");
        reply.headers.emplace_back("Access-Control-Max-Age", "600");
    }
    return reply;
}

// A page of another origin may send simple POSTs without asking; where no key protects the server,
// that is refused.
HttpExchange::Refusal HttpExchange::check_origin() {
    if (request_.origin.empty() || head_.method != "POST" ||
        environment_.authenticator.has_keys() || is_same_origin(request_.origin, head_.host) ||
        origin_allowed(request_.origin, environment_.context.options.cors_origins)) {
        return std::nullopt;
    }
    return error(forbidden("forbidden_origin", "Pages of this origin may not call the server; see "
                                               "--cors-origins."));
}

HttpExchange::Refusal HttpExchange::check_key() {
    const Authenticator& authenticator = environment_.authenticator;
    const RouteAccess access = match_.route->access;
    const auto client = access == RouteAccess::kAdmin ? authenticator.admin_client(head_)
                                                      : authenticator.api_client(head_);
    request_.client = client.value_or("");
    const bool open =
        access == RouteAccess::kPublic ||
        (access == RouteAccess::kDiscovery && !environment_.context.options.auth_all) ||
        (access != RouteAccess::kAdmin && !authenticator.has_keys());
    if (client || open) {
        return std::nullopt;
    }
    HttpReply reply =
        error({.status = 401,
               .type = "authentication_error",
               .code = "invalid_api_key",
               .message = "Missing or unknown API key: send Authorization: Bearer KEY "
                          "or x-api-key: KEY."});
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
}

HttpExchange::Refusal HttpExchange::check_ready() {
    if (!match_.route->needs_model) {
        return std::nullopt;
    }
    switch (environment_.context.state()) {
    case ServingState::kReady:
        return std::nullopt;
    case ServingState::kLoading:
        return error(unavailable("loading", "Loading model"));
    case ServingState::kDraining:
        return error(unavailable("draining", "The server is shutting down"));
    case ServingState::kFailed:
        break;
    }
    return error(
        unavailable("engine_failed", "The engine has failed; the server must be restarted"));
}

HttpExchange::Refusal HttpExchange::check_body_headers() {
    const Options& options = environment_.context.options;
    const std::string& encoding = head_.header("content-encoding");
    if (!encoding.empty() && encoding != "identity") {
        return error({.status = 415,
                      .type = "invalid_request_error",
                      .code = "unsupported_media_type",
                      .message = "Content-Encoding: bodies must not be compressed."});
    }
    if (head_.method == "POST" && head_.has_body() && !options.lenient_content_type &&
        !is_json_content_type(head_.header("content-type"))) {
        return error({.status = 415,
                      .type = "invalid_request_error",
                      .code = "unsupported_media_type",
                      .message = "Content-Type: wanted application/json."});
    }
    if (head_.content_length > options.max_body) {
        return error({.status = 413,
                      .type = "invalid_request_error",
                      .code = "request_too_large",
                      .message = fmt::format("Request body: got {} bytes, at most {} are accepted.",
                                             head_.content_length, options.max_body)});
    }
    return std::nullopt;
}

HttpExchange::Refusal HttpExchange::read_body() {
    if (head_.expect_continue && !connection_.write("HTTP/1.1 100 Continue\r\n\r\n")) {
        keep_alive_ = false;
    }
    auto body = connection_.read_body(head_, environment_.context.options.max_body);
    body_read_ = true;
    if (body) {
        request_.body = std::move(*body);
        return std::nullopt;
    }
    keep_alive_ = false; // where the next request would begin is unknown
    if (body.error().status != 0) {
        return error(transport_error(body.error()));
    }
    HttpReply nobody_reads;
    nobody_reads.status = kClientLeft;
    return nobody_reads;
}

HttpReply HttpExchange::call_handler() {
    try {
        return match_.route->handler(request_);
    } catch (const std::exception& exception) { // thrown by a library: out of memory, mostly
        log_line(
            LogLevel::kError, "handler failed",
            {{"req", request_.request_id}, {"path", request_.path}, {"what", exception.what()}});
        return error(internal_error());
    }
}

// After a refusal the body is still on the wire. Short ones are skipped, otherwise (and when the
// client waits for 100 Continue and may or may not send) the connection ends.
void HttpExchange::discard_small_body() {
    if (body_read_ || !head_.has_body() || !keep_alive_) {
        keep_alive_ = keep_alive_ && (body_read_ || !head_.has_body());
        return;
    }
    if (head_.chunked || head_.expect_continue || head_.content_length > kDiscardBytes ||
        !connection_.read_body(head_, kDiscardBytes)) {
        keep_alive_ = false;
    }
}

std::vector<std::pair<std::string, std::string>>
HttpExchange::all_headers(const HttpReply& reply) const {
    std::vector<std::pair<std::string, std::string>> headers = {
        {"X-Request-Id", request_.request_id}, {"X-Content-Type-Options", "nosniff"}};
    if (!reply.content_type.empty()) {
        headers.emplace_back("Content-Type", reply.content_type);
    }
    const bool cached =
        std::any_of(reply.headers.begin(), reply.headers.end(),
                    [](const auto& field) { return field.first == "Cache-Control"; });
    if (!cached) {
        headers.emplace_back("Cache-Control", "no-store");
    }
    const Options& options = environment_.context.options;
    if (!options.cors_origins.empty()) {
        headers.emplace_back("Vary", "Origin");
        if (!request_.origin.empty() && origin_allowed(request_.origin, options.cors_origins)) {
            headers.emplace_back("Access-Control-Allow-Origin", request_.origin);
            headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
        }
    }
    headers.insert(headers.end(), reply.headers.begin(), reply.headers.end());
    return headers;
}

void HttpExchange::send(HttpReply reply) {
    const ServingState state = environment_.context.state();
    keep_alive_ = keep_alive_ && state != ServingState::kDraining;
    if (reply.status == kClientLeft) { // nobody is there to read it
        keep_alive_ = false;
        delivered_ = false;
    } else if (const auto headers = all_headers(reply); reply.stream) {
        send_stream(reply, headers);
    } else {
        std::string bytes =
            reply_head(reply.status, headers, BodyFraming::kLength, reply.body.size(), keep_alive_);
        if (head_.method != "HEAD") {
            bytes += reply.body;
        }
        transcript_ = reply.body.substr(0, kMaxTranscriptBytes);
        delivered_ = connection_.write(bytes);
    }
    report(delivered_ ? reply.status : kClientLeft);
}

void HttpExchange::send_stream(const HttpReply& reply,
                               const std::vector<std::pair<std::string, std::string>>& headers) {
    const BodyFraming framing =
        head_.minor_version == 1 ? BodyFraming::kChunked : BodyFraming::kUntilClose;
    keep_alive_ = keep_alive_ && framing == BodyFraming::kChunked;
    delivered_ = connection_.write(reply_head(reply.status, headers, framing, 0, keep_alive_));
    if (head_.method == "HEAD") {
        return;
    }
    const bool log_content = environment_.context.options.log_content;
    ConnectionSink sink(connection_, framing, request_.peer_gone,
                        log_content ? &transcript_ : nullptr);
    try {
        // Also without a listener: the handler owns work that it has to end.
        reply.stream(sink);
        delivered_ = delivered_ && sink.finish();
    } catch (const std::exception& exception) {
        log_line(LogLevel::kError, "stream failed",
                 {{"req", request_.request_id}, {"what", exception.what()}});
        keep_alive_ = false; // the peer notices the missing last chunk
    }
    keep_alive_ = keep_alive_ && delivered_;
}

void HttpExchange::report(int status) {
    RequestRecord& record = *request_.record;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    record.total_ms = elapsed.count() * 1e3;
    record.bytes_in = request_.body.size();
    record.bytes_out = connection_.bytes_written() - written_before_;
    Metrics& metrics = environment_.context.metrics;
    const char* route = match_.route != nullptr ? match_.route->path.c_str() : kUnknownRoute;
    metrics.record_http(route, status, elapsed.count());
    if (!record.error_type.empty()) {
        metrics.record_error(record.error_type);
    }
    if (record.generated) {
        metrics.record_request(record);
    }
    log_line(LogLevel::kInfo, "access", access_fields(request_, status));
    if (environment_.context.options.log_content && record.generated) {
        log_line(LogLevel::kInfo, "content",
                 {{"req", request_.request_id},
                  {"request", request_.body.substr(0, kMaxTranscriptBytes)},
                  {"reply", transcript_}});
    }
}

HttpReply HttpExchange::error(const ApiError& api_error) const {
    return error_reply(api_error, request_, environment_.context.error_style);
}

} // namespace dsv4v
