// API and admin keys. Compared in constant time over SHA-256 digests; never logged: a key is named
// by its name or the first four hex digits of its digest. All functions: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loaders/base/error.h"
#include "server/http_head.h"
#include "server/options.h"

namespace dsv4v {

using KeyDigest = std::array<uint8_t, 32>;

struct NamedKey {
    std::string name;
    KeyDigest digest{};
};

// Reads `key` or `name:key` lines; # begins a comment line. Errors name file and line.
[[nodiscard]] Expected<std::vector<NamedKey>> read_key_file(const std::string& path);

class Authenticator {
  public:
    // Reads the key files named in `options`, which must outlive the object.
    [[nodiscard]] static Expected<std::unique_ptr<Authenticator>> create(const Options& options);

    // Reads the files again; on error the keys stay as they are.
    [[nodiscard]] Expected<void> reload();

    [[nodiscard]] bool has_keys() const;
    [[nodiscard]] bool has_admin_keys() const;

    // Name of the key that the request carries (Authorization: Bearer, else x-api-key); nothing if
    // it carries none that is known. Admin keys are API keys too.
    [[nodiscard]] std::optional<std::string> api_client(const RequestHead& head) const;
    [[nodiscard]] std::optional<std::string> admin_client(const RequestHead& head) const;

  private:
    struct Keys {
        std::vector<NamedKey> api;
        std::vector<NamedKey> admin;
    };

    explicit Authenticator(const Options& options) : options_(options) {}
    [[nodiscard]] Expected<Keys> load() const;
    [[nodiscard]] std::shared_ptr<const Keys> keys() const;

    const Options& options_;
    mutable std::mutex mutex_;
    std::shared_ptr<const Keys> keys_ = std::make_shared<Keys>();
};

} // namespace dsv4v
