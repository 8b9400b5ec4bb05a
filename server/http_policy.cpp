#include "server/http_policy.h"

#include <algorithm>
#include <cctype>

namespace dsv4v {

namespace {

std::string lower_case(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

// "scheme://authority" -> "authority"; "" for anything else, such as "null".
std::string_view authority_of(std::string_view origin) {
    const size_t scheme_end = origin.find("://");
    return scheme_end == std::string_view::npos ? std::string_view{}
                                                : origin.substr(scheme_end + 3);
}

// Adds the default port of the origin's scheme so that "http://h" equals Host "h:80".
std::string with_port(std::string_view authority, std::string_view origin) {
    std::string out = lower_case(authority);
    if (strip_port(out).size() == out.size()) {
        out += origin.starts_with("https:") ? ":443" : ":80";
    }
    return out;
}

} // namespace

std::string_view strip_port(std::string_view host) {
    if (host.starts_with('[')) {
        const size_t end = host.find(']');
        return end == std::string_view::npos ? host : host.substr(0, end + 1);
    }
    const size_t colon = host.find(':');
    const bool bare_v6 = colon != std::string_view::npos && host.find(':', colon + 1) != colon &&
                         host.find(':', colon + 1) != std::string_view::npos;
    return bare_v6 ? host : host.substr(0, colon);
}

bool is_loopback_host(std::string_view host) {
    const std::string name = lower_case(strip_port(host));
    if (name == "localhost" || name == "::1" || name == "[::1]") {
        return true;
    }
    // 127.0.0.0/8, written with digits and dots only: "127.evil.example" is a name.
    return name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string::npos;
}

bool host_allowed(std::string_view host, const std::vector<std::string>& allowed) {
    if (host.empty() || is_loopback_host(host)) {
        return true;
    }
    const std::string name = lower_case(strip_port(host));
    const std::string whole = lower_case(host);
    return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& entry) {
        const std::string wanted = lower_case(entry);
        return wanted == name || wanted == whole || wanted == "*";
    });
}

bool origin_allowed(std::string_view origin, const std::vector<std::string>& allowed) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& entry) {
        if (entry == "*") {
            return true;
        }
        if (entry == "localhost") {
            const std::string_view authority = authority_of(origin);
            return !authority.empty() && is_loopback_host(authority);
        }
        return lower_case(entry) == lower_case(origin);
    });
}

bool is_same_origin(std::string_view origin, std::string_view host) {
    const std::string_view authority = authority_of(origin);
    return !authority.empty() && !host.empty() &&
           with_port(authority, origin) == with_port(host, origin);
}

bool is_json_content_type(std::string_view content_type) {
    std::string type = lower_case(content_type.substr(0, content_type.find(';')));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) {
        type.pop_back();
    }
    constexpr std::string_view kPrefix = "application/";
    constexpr std::string_view kSuffix = "+json";
    return type == "application/json" || (type.size() > kPrefix.size() + kSuffix.size() &&
                                          type.starts_with(kPrefix) && type.ends_with(kSuffix));
}

} // namespace dsv4v
