#include "server/listener.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dsv4v {

namespace {

constexpr int kBacklog = 4096; // the kernel caps it at net.core.somaxconn

std::string numeric_address(const sockaddr* address, socklen_t length, int* port) {
    char host[NI_MAXHOST] = "";
    char service[NI_MAXSERV] = "";
    if (::getnameinfo(address, length, host, sizeof host, service, sizeof service,
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "";
    }
    if (port != nullptr) {
        *port = std::atoi(service);
    }
    return host;
}

void set_option(int fd, int level, int name) {
    const int on = 1;
    ::setsockopt(fd, level, name, &on, sizeof on); // best effort: a refusal only costs speed
}

// A bound, listening socket for one resolved address, or -1 with errno.
int listen_at(const addrinfo& info) {
    const int fd =
        ::socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info.ai_protocol);
    if (fd < 0) {
        return -1;
    }
    set_option(fd, SOL_SOCKET, SO_REUSEADDR);
    if (::bind(fd, info.ai_addr, info.ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) {
        return fd;
    }
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
}

bool someone_listens(const sockaddr_un& address) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool alive =
        fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (fd >= 0) {
        ::close(fd);
    }
    return alive;
}

tl::unexpected<Error> bind_error(const std::string& where) {
    return make_error(ErrorCode::kIo,
                      fmt::format("cannot listen on {}: {}", where, std::strerror(errno)));
}

} // namespace

Expected<std::unique_ptr<Listener>> Listener::open(const std::string& host, int port) {
    std::unique_ptr<Listener> listener(new Listener());
    listener->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->wake_fd_ < 0) {
        return bind_error(host);
    }
    constexpr std::string_view kUnix = "unix:";
    DSV4V_RETURN_IF_ERROR(host.starts_with(kUnix) ? listener->open_unix(host.substr(kUnix.size()))
                                                  : listener->open_tcp(host, port));
    return listener;
}

Listener::~Listener() {
    for (const int fd : {fd_, wake_fd_}) {
        if (fd >= 0) {
            ::close(fd);
        }
    }
    if (!unix_path_.empty()) {
        ::unlink(unix_path_.c_str());
    }
}

Expected<void> Listener::open_tcp(const std::string& host, int port) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    std::string name = host;
    if (name.starts_with('[') && name.ends_with(']')) {
        name = name.substr(1, name.size() - 2);
    }
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (error != 0) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--host {}: {}", host, ::gai_strerror(error)));
    }
    for (const addrinfo* info = found; info != nullptr && fd_ < 0; info = info->ai_next) {
        fd_ = listen_at(*info);
    }
    const int bind_errno = errno;
    ::freeaddrinfo(found);
    if (fd_ < 0) {
        errno = bind_errno;
        return bind_error(fmt::format("{} port {}", host, port));
    }
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &length);
    const std::string text = numeric_address(reinterpret_cast<sockaddr*>(&bound), length, &port_);
    const bool v6 = bound.ss_family == AF_INET6;
    address_ = fmt::format("http://{}{}{}:{}", v6 ? "[" : "", text, v6 ? "]" : "", port_);
    return {};
}

Expected<void> Listener::open_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--host unix:{}: wanted a path of 1 to {} bytes", path,
                                      sizeof address.sun_path - 1));
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    if (someone_listens(address)) {
        errno = EADDRINUSE;
        return bind_error("unix:" + path);
    }
    ::unlink(path.c_str());
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd_, kBacklog) != 0) {
        return bind_error("unix:" + path);
    }
    unix_path_ = path;
    address_ = "unix:" + path;
    return {};
}

AcceptedSocket Listener::accept() {
    pollfd entries[] = {{fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (::poll(entries, 2, -1) <= 0 || (entries[0].revents & POLLIN) == 0) {
        return {};
    }
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    const int fd =
        ::accept4(fd_, reinterpret_cast<sockaddr*>(&peer), &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return {};
    }
    if (peer.ss_family == AF_UNIX) {
        return {fd, "unix"};
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE);
    return {fd, numeric_address(reinterpret_cast<sockaddr*>(&peer), length, nullptr)};
}

void Listener::wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof one); // full = already woken
}

} // namespace dsv4v
