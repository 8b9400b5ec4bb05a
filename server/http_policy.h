// Who may talk to the server from where: origins of browser pages and Host names. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dsv4v {

// True for localhost, 127.0.0.0/8 and ::1 as `--host` or Host header (port allowed there).
[[nodiscard]] bool is_loopback_host(std::string_view host);

// Host part of "name:port", "[v6]:port" or a bare name or address.
[[nodiscard]] std::string_view strip_port(std::string_view host);

// True when a loopback server may answer this Host header: loopback names and `allowed`. Stops
// pages that rebind their DNS name to 127.0.0.1.
[[nodiscard]] bool host_allowed(std::string_view host, const std::vector<std::string>& allowed);

// True when `origin` ("https://page.example") is in the list: exact, "localhost" (any loopback
// origin) or "*".
[[nodiscard]] bool origin_allowed(std::string_view origin, const std::vector<std::string>& allowed);

// True when `origin` names the same host and port as the Host header.
[[nodiscard]] bool is_same_origin(std::string_view origin, std::string_view host);

// True for application/json and application/*+json, parameters ignored.
[[nodiscard]] bool is_json_content_type(std::string_view content_type);

} // namespace dsv4v
