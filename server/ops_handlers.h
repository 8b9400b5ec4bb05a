// Endpoints about the server itself: health, readiness, models, version, properties, running
// requests, metrics, administration, and the paths that exist only to say why they are not offered.
#pragma once

#include <functional>
#include <vector>

#include "loaders/base/error.h"
#include "server/http_types.h"
#include "server/serving_context.h"

namespace dsv4v {

// What administration needs from the application.
struct AdminActions {
    std::function<Expected<void>()> reload_keys;
};

// `context` must outlive the routes.
[[nodiscard]] std::vector<Route> ops_routes(ServingContext& context, AdminActions actions);

} // namespace dsv4v
