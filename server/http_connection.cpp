#include "server/http_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dsv4v {

namespace {

using std::chrono::milliseconds;

constexpr size_t kReadBytes = 32 << 10;
constexpr size_t kMaxChunkLineBytes = 1024;
constexpr size_t kMaxTrailerBytes = 8 << 10;
constexpr auto kLingerTime = milliseconds(2000);
constexpr uint64_t kLingerBytes = 64 << 20;

// Waits for `events`; the events that arrived, 0 at the deadline.
short wait_for(int fd, short events, std::chrono::steady_clock::time_point deadline) {
    for (;;) {
        const auto left =
            std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd entry{fd, events, 0};
        const int timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
        const int n = ::poll(&entry, 1, timeout);
        if (n > 0) {
            return entry.revents;
        }
        if (n == 0 || errno != EINTR) {
            return 0;
        }
    }
}

tl::unexpected<HeadError> body_error(int status, std::string code, std::string message) {
    return tl::unexpected(HeadError{status, std::move(code), std::move(message)});
}

tl::unexpected<HeadError> peer_left() {
    return body_error(0, "", "the client closed the connection");
}

tl::unexpected<HeadError> body_too_large(uint64_t max_bytes) {
    return body_error(413, "request_too_large",
                      "the request body is longer than " + std::to_string(max_bytes) + " bytes");
}

// One past the end of the first head in `buffer`, also one that ends in a bare line feed (the
// parser refuses it); npos while incomplete.
size_t head_end(std::string_view buffer, size_t search_from) {
    const size_t start = search_from > 3 ? search_from - 3 : 0;
    for (size_t i = buffer.find('\n', start); i != std::string_view::npos;
         i = buffer.find('\n', i + 1)) {
        if (i == 0 || buffer[i - 1] != '\r') {
            return i + 1;
        }
        if (i >= 3 && buffer[i - 2] == '\n') {
            return i + 1;
        }
    }
    return std::string_view::npos;
}

} // namespace

HttpConnection::HttpConnection(int fd, const ConnectionLimits& limits) : fd_(fd), limits_(limits) {}

HttpConnection::~HttpConnection() {
    ::close(fd_);
}

HttpConnection::ReadStatus HttpConnection::fill(Clock::time_point deadline) {
    std::array<char, kReadBytes> block;
    for (;;) {
        const ssize_t n = ::recv(fd_, block.data(), block.size(), 0);
        if (n > 0) {
            buffer_.append(block.data(), static_cast<size_t>(n));
            return ReadStatus::kOk;
        }
        if (n == 0) {
            return ReadStatus::kClosed;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            return ReadStatus::kClosed;
        }
        if (wait_for(fd_, POLLIN, deadline) == 0) {
            return ReadStatus::kTimeout;
        }
    }
}

tl::expected<std::optional<RequestHead>, HeadError> HttpConnection::read_head() {
    Clock::time_point deadline =
        Clock::now() + (buffer_.empty() ? limits_.keep_alive : limits_.head);
    bool started = !buffer_.empty();
    size_t searched = 0;
    for (;;) {
        while (searched == 0 && buffer_.starts_with("\r\n")) {
            buffer_.erase(0, 2); // empty lines before a request are to be ignored
        }
        const size_t end = head_end(buffer_, searched);
        if (end != std::string::npos || buffer_.size() > kMaxHeadBytes) {
            const size_t n_bytes = std::min(end, buffer_.size());
            auto head = parse_request_head(std::string_view(buffer_).substr(0, n_bytes));
            if (!head) {
                return tl::unexpected(std::move(head.error()));
            }
            buffer_.erase(0, n_bytes);
            return std::move(*head);
        }
        if (buffer_.size() > kMaxRequestLineBytes && buffer_.find('\n') == std::string::npos) {
            return body_error(431, "headers_too_large",
                              "the request line is longer than 8192 bytes");
        }
        searched = buffer_.size();
        const ReadStatus status = fill(deadline);
        if (status == ReadStatus::kClosed || (status == ReadStatus::kTimeout && !started)) {
            return std::nullopt;
        }
        if (status == ReadStatus::kTimeout) {
            return body_error(408, "request_timeout", "the request head took too long");
        }
        if (!started) {
            started = true;
            deadline = Clock::now() + limits_.head;
        }
    }
}

tl::expected<std::string, HeadError> HttpConnection::read_body(const RequestHead& head,
                                                               uint64_t max_bytes) {
    if (head.chunked) {
        return read_chunked(max_bytes);
    }
    if (head.content_length > max_bytes) {
        return body_too_large(max_bytes);
    }
    return read_sized(head.content_length);
}

tl::expected<void, HeadError> HttpConnection::need(size_t n_bytes) {
    while (buffer_.size() < n_bytes) {
        switch (fill(Clock::now() + limits_.body_idle)) {
        case ReadStatus::kOk:
            break;
        case ReadStatus::kClosed:
            return peer_left();
        case ReadStatus::kTimeout:
            return body_error(408, "request_timeout", "the request body took too long");
        }
    }
    return {};
}

tl::expected<std::string, HeadError> HttpConnection::read_sized(uint64_t n_bytes) {
    std::string body;
    while (body.size() < n_bytes) {
        if (buffer_.empty()) {
            if (auto got = need(1); !got) {
                return tl::unexpected(std::move(got.error()));
            }
        }
        const size_t n =
            static_cast<size_t>(std::min<uint64_t>(n_bytes - body.size(), buffer_.size()));
        body.append(buffer_, 0, n);
        buffer_.erase(0, n);
    }
    return body;
}

tl::expected<std::string, HeadError> HttpConnection::body_line() {
    size_t end = 0;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
        if (buffer_.size() > kMaxChunkLineBytes) {
            return body_error(400, "bad_request", "a chunk header line is too long");
        }
        if (auto got = need(buffer_.size() + 1); !got) {
            return tl::unexpected(std::move(got.error()));
        }
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    return line;
}

tl::expected<void, HeadError> HttpConnection::read_trailers() {
    size_t n_bytes = 0;
    for (;;) {
        const auto line = body_line();
        if (!line) {
            return tl::unexpected(line.error());
        }
        if (line->empty()) {
            return {};
        }
        n_bytes += line->size();
        if (n_bytes > kMaxTrailerBytes) {
            return body_error(431, "headers_too_large", "the trailer is too long");
        }
    }
}

tl::expected<std::string, HeadError> HttpConnection::read_chunked(uint64_t max_bytes) {
    std::string body;
    for (;;) {
        const auto line = body_line();
        if (!line) {
            return tl::unexpected(line.error());
        }
        const std::string_view digits =
            std::string_view(*line).substr(0, line->find_first_of("; \t"));
        uint64_t n_bytes = 0;
        const auto [stop, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), n_bytes, 16);
        if (digits.empty() || error != std::errc() || stop != digits.data() + digits.size()) {
            return body_error(400, "bad_request", "a chunk size is not a hexadecimal number");
        }
        if (n_bytes == 0) {
            if (auto trailers = read_trailers(); !trailers) {
                return tl::unexpected(std::move(trailers.error()));
            }
            return body;
        }
        if (n_bytes > max_bytes - body.size()) {
            return body_too_large(max_bytes);
        }
        auto piece = read_sized(n_bytes);
        if (!piece) {
            return piece;
        }
        body += *piece;
        const auto end = body_line();
        if (!end) {
            return tl::unexpected(end.error());
        }
        if (!end->empty()) {
            return body_error(400, "bad_request", "a chunk does not end where it should");
        }
    }
}

bool HttpConnection::write(std::string_view bytes) {
    while (!bytes.empty() && !broken_) {
        const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n >= 0) {
            bytes.remove_prefix(static_cast<size_t>(n));
            bytes_written_ += static_cast<uint64_t>(n);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            const short events = wait_for(fd_, POLLOUT, Clock::now() + limits_.write_idle);
            broken_ = (events & POLLOUT) == 0;
        } else if (errno != EINTR) {
            broken_ = true;
        }
    }
    return !broken_;
}

bool HttpConnection::peer_gone() const {
    if (broken_) {
        return true;
    }
    pollfd entry{fd_, POLLRDHUP, 0};
    if (::poll(&entry, 1, 0) <= 0) {
        return false;
    }
    if ((entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        return true;
    }
    return (entry.revents & POLLRDHUP) != 0 && !limits_.half_close_ok;
}

void HttpConnection::linger() {
    ::shutdown(fd_, SHUT_WR);
    const auto deadline = Clock::now() + kLingerTime;
    for (uint64_t n = 0; n < kLingerBytes && Clock::now() < deadline; n += buffer_.size()) {
        buffer_.clear();
        if (fill(deadline) != ReadStatus::kOk) {
            return;
        }
    }
}

} // namespace dsv4v
