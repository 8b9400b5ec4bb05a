// A listening socket: TCP (IPv4, IPv6) or unix domain.
#pragma once

#include <memory>
#include <string>

#include "loaders/base/error.h"

namespace dsv4v {

struct AcceptedSocket {
    int fd = -1; // -1: nothing was accepted this time
    std::string remote;
};

// Any one thread may use it at a time; wake() and address() from any thread.
class Listener {
  public:
    // `host`: name, address or "unix:PATH"; a stale socket file is replaced, a living one is an
    // error. Port 0 takes any free one.
    [[nodiscard]] static Expected<std::unique_ptr<Listener>> open(const std::string& host,
                                                                  int port);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Waits for a connection: non-blocking, no-delay, keep-alive. Returns without one after wake()
    // and on temporary failures (out of descriptors), which it sits out briefly.
    [[nodiscard]] AcceptedSocket accept();
    void wake();

    [[nodiscard]] int port() const { return port_; } // 0 for unix sockets
    // "http://127.0.0.1:8080" or "unix:PATH".
    [[nodiscard]] const std::string& address() const { return address_; }

  private:
    Listener() = default;
    [[nodiscard]] Expected<void> open_tcp(const std::string& host, int port);
    [[nodiscard]] Expected<void> open_unix(const std::string& path);

    int fd_ = -1;
    int wake_fd_ = -1;
    int port_ = 0;
    std::string unix_path_;
    std::string address_;
};

} // namespace dsv4v
