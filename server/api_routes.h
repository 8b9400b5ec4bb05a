// The routes of the generating and token endpoints.
#pragma once

#include <memory>
#include <vector>

#include "server/http_types.h"
#include "server/serving_context.h"

namespace dsv4v {

// `context` must outlive the routes. All need a loaded model.
[[nodiscard]] std::vector<Route> api_routes(ServingContext& context);

} // namespace dsv4v
