// Replies as bytes: status line, header fields, chunk frames.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http_connection.h"
#include "server/http_types.h"

namespace dsv4v {

inline constexpr size_t kMaxTranscriptBytes = 2048; // of a body in the log, with --log-content

enum class BodyFraming {
    kLength,     // Content-Length
    kChunked,    // Transfer-Encoding: chunked
    kUntilClose, // HTTP/1.0 stream
};

[[nodiscard]] std::string_view status_text(int status);

// Status line and header fields including the empty line. `length` only for kLength.
[[nodiscard]] std::string
reply_head(int status, const std::vector<std::pair<std::string, std::string>>& headers,
           BodyFraming framing, uint64_t length, bool keep_alive);

// StreamSink over a connection. finish() ends the body; false if the peer is gone.
class ConnectionSink final : public StreamSink {
  public:
    // `gone` answers peer_gone(). `transcript`, if not null, gets the beginning of what is written.
    ConnectionSink(HttpConnection& connection, BodyFraming framing, std::function<bool()> gone,
                   std::string* transcript)
        : connection_(connection), framing_(framing), gone_(std::move(gone)),
          transcript_(transcript) {}
    bool write(std::string_view bytes) override;
    [[nodiscard]] bool peer_gone() override { return gone_(); }
    [[nodiscard]] bool finish();

  private:
    HttpConnection& connection_;
    const BodyFraming framing_;
    const std::function<bool()> gone_;
    std::string* const transcript_;
};

} // namespace dsv4v
