// What a handler sees of HTTP: a whole request in, a reply out. cpp-httplib stays behind
// http_server.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv4v {

struct HttpRequest {
    std::string method;
    std::string path;       // without query, prefix and trailing slash
    std::string body;
    std::string request_id; // echoed from the client or made here
    std::string client;     // name of the API key, "" without keys
    std::string remote;     // peer address
    std::string origin;
    std::multimap<std::string, std::string> query;
    std::multimap<std::string, std::string> headers; // names in lower case
    // True once the peer has closed or reset the connection; cheap, may be polled.
    std::function<bool()> peer_gone;
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

} // namespace dsv4v
