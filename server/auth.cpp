#include "server/auth.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace dsv4v {

namespace {

KeyDigest digest_of(std::string_view key) {
    KeyDigest digest;
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
    return digest;
}

NamedKey make_key(std::string name, std::string_view key) {
    NamedKey out{std::move(name), digest_of(key)};
    if (out.name.empty()) {
        out.name = fmt::format("{:02x}{:02x}", out.digest[0], out.digest[1]);
    }
    return out;
}

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) {
        return {};
    }
    return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool is_key_name(std::string_view name) {
    return !name.empty() && name.size() <= 64 &&
           std::all_of(name.begin(), name.end(), [](char c) { return is_token_char(c); });
}

bool starts_with_bearer(std::string_view value) {
    constexpr std::string_view kScheme = "bearer";
    return value.size() >= kScheme.size() &&
           std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); }) &&
           (value.size() == kScheme.size() || value[kScheme.size()] == ' ' ||
            value[kScheme.size()] == '\t');
}

// The secret that a request carries. Authorization wins over x-api-key.
std::string_view presented_key(const RequestHead& head) {
    if (head.headers.contains("authorization")) {
        const std::string_view value = trimmed(head.header("authorization"));
        return starts_with_bearer(value) ? trimmed(value.substr(6)) : std::string_view{};
    }
    return trimmed(head.header("x-api-key"));
}

// Looks at every key, whatever the outcome, so that time tells nothing.
std::optional<std::string> find_key(const std::vector<NamedKey>& keys, std::string_view secret) {
    const KeyDigest digest = digest_of(secret);
    const NamedKey* found = nullptr;
    for (const NamedKey& key : keys) {
        if (CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0) {
            found = &key;
        }
    }
    return found != nullptr && !secret.empty() ? std::optional<std::string>(found->name)
                                               : std::nullopt;
}

Expected<std::vector<NamedKey>> all_keys(const std::vector<std::string>& inline_keys,
                                         const std::string& file) {
    std::vector<NamedKey> out;
    for (const std::string& key : inline_keys) {
        if (const std::string_view secret = trimmed(key); !secret.empty()) {
            out.push_back(make_key("", secret));
        }
    }
    if (!file.empty()) {
        DSV4V_ASSIGN_OR_RETURN(std::vector<NamedKey> read, read_key_file(file));
        out.insert(out.end(), std::make_move_iterator(read.begin()),
                   std::make_move_iterator(read.end()));
    }
    return out;
}

} // namespace

Expected<std::vector<NamedKey>> read_key_file(const std::string& path) {
    std::ifstream in(path);
    if (!in) {
        return make_error(ErrorCode::kIo, fmt::format("key file {}: cannot read", path));
    }
    std::vector<NamedKey> out;
    std::string line;
    for (int line_number = 1; std::getline(in, line); ++line_number) {
        const std::string_view text = trimmed(line);
        if (text.empty() || text.front() == '#') {
            continue;
        }
        const size_t colon = text.find(':');
        const bool named = colon != std::string_view::npos;
        const std::string_view name = named ? trimmed(text.substr(0, colon)) : std::string_view{};
        const std::string_view key = named ? trimmed(text.substr(colon + 1)) : text;
        if (key.empty() || (named && !is_key_name(name))) {
            return make_error(
                ErrorCode::kInvalidArgument,
                fmt::format("key file {} line {}: wanted `key` or `name:key`", path, line_number));
        }
        out.push_back(make_key(std::string(name), key));
    }
    return out;
}

Expected<std::unique_ptr<Authenticator>> Authenticator::create(const Options& options) {
    std::unique_ptr<Authenticator> out(new Authenticator(options));
    DSV4V_RETURN_IF_ERROR(out->reload());
    return out;
}

Expected<Authenticator::Keys> Authenticator::load() const {
    Keys keys;
    DSV4V_ASSIGN_OR_RETURN(keys.api, all_keys(options_.api_keys, options_.api_key_file));
    DSV4V_ASSIGN_OR_RETURN(keys.admin, all_keys(options_.admin_keys, options_.admin_key_file));
    return keys;
}

Expected<void> Authenticator::reload() {
    DSV4V_ASSIGN_OR_RETURN(Keys loaded, load());
    auto next = std::make_shared<const Keys>(std::move(loaded));
    std::lock_guard lock(mutex_);
    keys_ = std::move(next);
    return {};
}

std::shared_ptr<const Authenticator::Keys> Authenticator::keys() const {
    std::lock_guard lock(mutex_);
    return keys_;
}

bool Authenticator::has_keys() const {
    return !keys()->api.empty();
}

bool Authenticator::has_admin_keys() const {
    return !keys()->admin.empty();
}

std::optional<std::string> Authenticator::api_client(const RequestHead& head) const {
    const auto current = keys();
    const std::string_view secret = presented_key(head);
    auto name = find_key(current->api, secret);
    auto admin = find_key(current->admin, secret);
    return name ? name : admin;
}

std::optional<std::string> Authenticator::admin_client(const RequestHead& head) const {
    return find_key(keys()->admin, presented_key(head));
}

} // namespace dsv4v
