// Errors as HTTP replies: status, type and code of each kind, and the JSON body (docs/server.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loaders/base/error.h"
#include "server/http_types.h"

namespace dsv4v {

struct ApiError {
    int status = 500;
    std::string type = "server_error";
    std::string code = "internal_error";
    std::string message;
    std::string param = {}; // JSON path of the field, "" = null
    std::vector<std::pair<std::string, int64_t>> numbers =
        {};                // extra members (n_prompt_tokens, n_ctx)
    int retry_after_s = 0; // > 0: Retry-After header and member
};

// How errors are spelled; from Options.
struct ErrorStyle {
    bool int_codes = false;             // --error-code-int: `code` is the status
    bool deepseek_status_codes = false; // --deepseek-status-codes: 422 instead of 400 invalid_value
};

// The kinds that several callers need. `code` as in docs/server.md ("invalid_value", "queue_full").
[[nodiscard]] ApiError bad_request(std::string code, std::string message, std::string param = {});
[[nodiscard]] ApiError not_found(std::string code, std::string message);
[[nodiscard]] ApiError not_supported(std::string message);                 // 501
[[nodiscard]] ApiError unavailable(std::string code, std::string message); // 503, Retry-After
[[nodiscard]] ApiError rate_limited(std::string code, std::string message, int retry_after_s);
[[nodiscard]] ApiError internal_error(); // generic text; log the details under the request id

// Maps a value-error: kInvalidArgument 400, kNotFound 404, kUnsupported 501, kResourceExhausted
// 429 queue_full, kUnavailable 503, everything else 500 with a generic message.
[[nodiscard]] ApiError to_api_error(const Error& error);

// Status after the style is applied.
[[nodiscard]] int error_status(const ApiError& error, const ErrorStyle& style);
// {"error":{message,type,param,code,request_id,...}}; also the payload of an SSE error event.
[[nodiscard]] std::string error_body(const ApiError& error, std::string_view request_id,
                                     const ErrorStyle& style);
// The whole reply. Sets request.record->error_type.
[[nodiscard]] HttpReply error_reply(const ApiError& error, const HttpRequest& request,
                                    const ErrorStyle& style);

} // namespace dsv4v
