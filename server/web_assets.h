// The chat page, embedded in the binary from web/dist at build time.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "server/http_types.h"

namespace dsv4v {

struct EmbeddedFile {
    std::string_view path; // "index.html", "assets/app.js"
    std::string_view bytes;
};

// Generated from web/dist.
[[nodiscard]] std::span<const EmbeddedFile> embedded_files();

// GET / and GET /assets/...: with ETag, compressed where the client takes gzip, and a content
// security policy that allows nothing from elsewhere.
[[nodiscard]] std::vector<Route> web_routes(std::span<const EmbeddedFile> files);

} // namespace dsv4v
