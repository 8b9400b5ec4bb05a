// One accepted socket: request heads and bodies in, bytes out, all with time limits. Owned and used
// by one connection thread; only the descriptor is shared (the server may shut it down).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "server/http_head.h"
#include "server/http_types.h"

namespace dsv4v {

struct ConnectionLimits {
    std::chrono::milliseconds keep_alive{75'000}; // silence between requests
    std::chrono::milliseconds head{10'000};       // first to last byte of a head
    std::chrono::milliseconds body_idle{30'000};  // silence inside a body
    std::chrono::milliseconds write_idle{60'000}; // peer does not read
    bool half_close_ok = false;
};

class HttpConnection {
  public:
    // Takes over `fd`, which must be non-blocking.
    HttpConnection(int fd, const ConnectionLimits& limits);
    ~HttpConnection(); // closes
    HttpConnection(const HttpConnection&) = delete;
    HttpConnection& operator=(const HttpConnection&) = delete;

    // The next request head; nothing when the peer closed or stayed silent between requests.
    [[nodiscard]] tl::expected<std::optional<RequestHead>, HeadError> read_head();

    // The body that `head` announces, at most `max_bytes` (413 otherwise). HeadError::status 0
    // means that the peer left.
    [[nodiscard]] tl::expected<std::string, HeadError> read_body(const RequestHead& head,
                                                                 uint64_t max_bytes);

    // Sends everything. False once the peer is gone or has not read for `write_idle`.
    [[nodiscard]] bool write(std::string_view bytes);

    // True once the peer has closed (also half, unless half_close_ok) or reset the connection.
    [[nodiscard]] bool peer_gone() const;

    // Ends our sending side and reads on for a moment, so that closing with unread input does not
    // reset the connection before the peer has seen the last reply.
    void linger();

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] uint64_t bytes_written() const { return bytes_written_; }

  private:
    enum class ReadStatus { kOk, kClosed, kTimeout };
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] ReadStatus fill(Clock::time_point deadline);        // appends to buffer_
    [[nodiscard]] tl::expected<void, HeadError> need(size_t n_bytes); // body bytes into buffer_
    [[nodiscard]] tl::expected<std::string, HeadError> body_line();
    [[nodiscard]] tl::expected<std::string, HeadError> read_sized(uint64_t n_bytes);
    [[nodiscard]] tl::expected<std::string, HeadError> read_chunked(uint64_t max_bytes);
    [[nodiscard]] tl::expected<void, HeadError> read_trailers();

    const int fd_;
    const ConnectionLimits limits_;
    std::string buffer_; // received, not yet consumed
    uint64_t bytes_written_ = 0;
    bool broken_ = false; // a write failed
};

} // namespace dsv4v
