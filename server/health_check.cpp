#include "server/health_check.h"

#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace dsv4v {
namespace {

constexpr timeval kTimeout{3, 0};
constexpr std::string_view kUnixPrefix = "unix:";

class Socket {
  public:
    explicit Socket(int fd) : fd_(fd) {
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
        setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
    }
    ~Socket() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    [[nodiscard]] int fd() const { return fd_; }

  private:
    int fd_;
};

// The first line of the answer on a connected socket, or "".
std::string status_line(const Socket& socket, const Options& options) {
    const std::string request =
        fmt::format("GET {}/livez HTTP/1.0\r\nHost: localhost\r\n\r\n", options.api_prefix);
    if (send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
        return "";
    }
    std::string answer;
    char buffer[256];
    while (answer.find('\n') == std::string::npos && answer.size() < 4096) {
        const ssize_t n = recv(socket.fd(), buffer, sizeof(buffer), 0);
        if (n <= 0) {
            break;
        }
        answer.append(buffer, static_cast<size_t>(n));
    }
    return answer.substr(0, answer.find('\r'));
}

std::string ask_unix(const Options& options, const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return "";
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    const Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return "";
    }
    return status_line(socket, options);
}

std::string ask_tcp(const Options& options) {
    std::string host = options.host;
    if (host == "0.0.0.0" || host == "::" || host == "[::]") {
        host = host == "0.0.0.0" ? "127.0.0.1" : "::1";
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), std::to_string(options.port).c_str(), &hints, &found) != 0) {
        return "";
    }
    std::string line;
    for (const addrinfo* a = found; a != nullptr && line.empty(); a = a->ai_next) {
        const Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0) {
            line = status_line(socket, options);
        }
    }
    freeaddrinfo(found);
    return line;
}

} // namespace

int run_health_check(const Options& options) {
    const std::string line = options.host.starts_with(kUnixPrefix)
                                 ? ask_unix(options, options.host.substr(kUnixPrefix.size()))
                                 : ask_tcp(options);
    if (line.find(" 200 ") != std::string::npos) {
        return 0;
    }
    fmt::print(stderr, "dsv4v-server: not healthy at {}:{}: {}\n", options.host, options.port,
               line.empty() ? "no answer" : line);
    return 1;
}

} // namespace dsv4v
