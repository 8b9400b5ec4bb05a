// POST /v1/completions: raw text or token ids in, their continuation out. No template is applied.
#pragma once

#include "server/api_service.h"
#include "server/http_types.h"

namespace dsv4v {

[[nodiscard]] HttpReply handle_completion(ApiService& service, const HttpRequest& request);

} // namespace dsv4v
