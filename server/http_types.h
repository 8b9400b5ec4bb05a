// What a handler sees of HTTP: a whole request in, a reply out. Sockets stay behind http_server.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/request_record.h"

namespace dsv4v {

struct HttpRequest {
    std::string method;
    std::string path;    // as in the route table: no query, prefix, alias or trailing slash
    std::string path_id; // what a route's {id} stands for, decoded; "" without one
    std::string body;
    std::string request_id; // echoed from the client or made here
    std::string client;     // name of the API key, "" without keys
    std::string remote;     // peer address
    std::string origin;
    std::multimap<std::string, std::string> query;
    std::multimap<std::string, std::string> headers; // names in lower case
    // True once the peer has closed or reset the connection; cheap, may be polled.
    std::function<bool()> peer_gone;
    // Filled by the handler (also from inside HttpReply::stream), reported by the server.
    std::shared_ptr<RequestRecord> record = std::make_shared<RequestRecord>();
};

// Write side of a streaming reply, on the connection thread.
class StreamSink {
  public:
    virtual ~StreamSink() = default;
    // Sends bytes at once. False when the peer is gone or did not read for too long.
    virtual bool write(std::string_view bytes) = 0;
    [[nodiscard]] virtual bool peer_gone() = 0;
};

struct HttpReply {
    int status = 200;
    std::string content_type = "application/json; charset=utf-8";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    // When set, `body` is ignored: called once on the connection thread after the headers are out;
    // the reply ends when it returns.
    std::function<void(StreamSink&)> stream;
};

using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

enum class RouteAccess {
    kPublic,    // never needs a key
    kDiscovery, // needs a key only with --auth-all
    kKey,       // needs a key when keys are configured
    kAdmin,     // needs an admin key; answers 404 when none is configured
};

struct Route {
    std::string method; // GET also serves HEAD
    std::string path;   // may end in "/{id}" or contain it once: "/slots/{id}"
    RouteAccess access = RouteAccess::kKey;
    // Answered 503 by the server unless the model is loaded and the server is not draining.
    bool needs_model = false;
    HttpHandler handler;
};

} // namespace dsv4v
