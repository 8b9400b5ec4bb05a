#include "server/route_table.h"

#include <optional>
#include <utility>

namespace dsv4v {

namespace {

constexpr std::string_view kIdMark = "{id}";

// What {id} stands for when `path` fits `pattern`; "" for a pattern without {id}.
std::optional<std::string> match_pattern(std::string_view pattern, std::string_view path) {
    const size_t mark = pattern.find(kIdMark);
    if (mark == std::string_view::npos) {
        return pattern == path ? std::optional<std::string>("") : std::nullopt;
    }
    const std::string_view before = pattern.substr(0, mark);
    if (!path.starts_with(before) || path.size() <= before.size()) {
        return std::nullopt;
    }
    return std::string(path.substr(before.size()));
}

} // namespace

RouteTable::RouteTable(std::vector<Route> routes, std::string api_prefix)
    : routes_(std::move(routes)), api_prefix_(std::move(api_prefix)) {}

RouteMatch RouteTable::find(std::string_view method, std::string_view full_path) const {
    if (!full_path.starts_with(api_prefix_)) {
        return {};
    }
    std::string path(full_path.substr(api_prefix_.size()));
    while (path.size() > 1 && path.back() == '/') {
        path.pop_back();
    }
    if (path.empty()) {
        path = "/";
    }
    if (path.front() != '/') {
        return {};
    }
    for (const std::string_view alias : {"", "/beta"}) {
        if (!path.starts_with(alias)) {
            continue;
        }
        const std::string rest = path.substr(alias.size());
        for (const std::string& candidate : {rest, "/v1" + rest}) {
            if (RouteMatch match = find_exact(method, candidate); !match.allow.empty()) {
                return match;
            }
        }
    }
    return {};
}

RouteMatch RouteTable::find_exact(std::string_view method, const std::string& path) const {
    RouteMatch match;
    const std::string_view wanted = method == "HEAD" ? "GET" : method;
    for (const Route& route : routes_) {
        auto id = match_pattern(route.path, path);
        if (!id) {
            continue;
        }
        match.is_admin = match.is_admin || route.access == RouteAccess::kAdmin;
        if (match.route == nullptr && route.method == wanted) {
            match.route = &route;
            match.path = path;
            match.path_id = std::move(*id);
        }
        const std::string methods = route.method == "GET" ? "GET, HEAD" : route.method;
        if (match.allow.find(route.method) == std::string::npos) {
            match.allow += (match.allow.empty() ? "" : ", ") + methods;
        }
    }
    if (!match.allow.empty()) {
        match.allow += ", OPTIONS";
    }
    return match;
}

} // namespace dsv4v
