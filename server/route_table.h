// Finds the handler of a path. Knows the spellings that clients use for one endpoint: with and
// without /v1, under /beta, under the configured prefix, with a trailing slash. Immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http_types.h"

namespace dsv4v {

struct RouteMatch {
    const Route* route = nullptr; // null: no route of this path has the method
    std::string path;             // canonical spelling
    std::string path_id;          // value of {id}
    std::string allow;            // methods of the path for Allow; "" if the path is unknown
    bool is_admin = false;        // the path belongs to the administrator
};

class RouteTable {
  public:
    // `api_prefix` is "" or "/p".
    RouteTable(std::vector<Route> routes, std::string api_prefix);

    // `method` HEAD finds GET routes. `path` is decoded and without query.
    [[nodiscard]] RouteMatch find(std::string_view method, std::string_view path) const;

  private:
    [[nodiscard]] RouteMatch find_exact(std::string_view method, const std::string& path) const;

    std::vector<Route> routes_;
    std::string api_prefix_;
};

} // namespace dsv4v
