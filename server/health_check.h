// `--health-check`: asks a server that runs with the same settings whether it is alive. For
// containers, whose run image has no HTTP client.
#pragma once

#include "server/options.h"

namespace dsv4v {

// GET /livez at the address of `options` (a wildcard host means this machine), 3 s at most.
// 0 when the answer is 200, else 1 with a line on stderr.
[[nodiscard]] int run_health_check(const Options& options);

} // namespace dsv4v
