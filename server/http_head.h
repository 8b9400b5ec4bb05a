// Parses one request head (request line and header fields), strictly: what two parsers could read
// differently is refused, because a proxy in front of us may read it the other way (request
// smuggling). Pure, bounded, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace dsv4v {

inline constexpr size_t kMaxRequestLineBytes = 8192;
inline constexpr size_t kMaxHeadBytes = 32768;
inline constexpr size_t kMaxHeaderFields = 100;

struct RequestHead {
    std::string method;
    std::string path; // percent-decoded, begins with '/'; "*" for OPTIONS *
    std::multimap<std::string, std::string> query;
    std::multimap<std::string, std::string> headers; // names in lower case
    std::string host;                                // Host or authority of an absolute target
    int minor_version = 1;                           // HTTP/1.x
    bool keep_alive = true;
    bool expect_continue = false;
    bool chunked = false;
    uint64_t content_length = 0; // 0 when chunked or absent

    [[nodiscard]] bool has_body() const { return chunked || content_length > 0; }
    // First value of a field, "" if absent. `name` in lower case.
    [[nodiscard]] const std::string& header(const std::string& name) const;
};

// After such a head the connection cannot be used any more.
struct HeadError {
    int status = 400;
    std::string code;
    std::string message;
};

// `head` is everything up to and including the empty line.
[[nodiscard]] tl::expected<RequestHead, HeadError> parse_request_head(std::string_view head);

// True for the token characters of RFC 9110.
[[nodiscard]] bool is_token_char(char c);

} // namespace dsv4v
