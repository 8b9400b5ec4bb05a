// Errors as values. Every function that reads outside bytes or can run out of room returns
// Expected<T>; the message names the offender and the rule it broke (tensor, key, field: got,
// wanted).
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace dsv4v {

enum class ErrorCode {
    kInvalidArgument,   // bad request or bad option: HTTP 400
    kNotFound,          // file or model that does not exist: HTTP 404
    kCorrupt,           // file whose bytes break a rule of its format
    kUnsupported,       // well-formed, but not offered here: HTTP 501
    kResourceExhausted, // queue full: HTTP 429
    kUnavailable,       // loading, draining, failed: HTTP 503
    kIo,                // the operating system refused
    kInternal,          // our fault: HTTP 500
};

struct Error {
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
    std::string param = {}; // JSON path of the offending request field, empty if none
};

template <class T>
using Expected = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> make_error(ErrorCode code, std::string message,
                                                      std::string param = {}) {
    return tl::unexpected<Error>(Error{code, std::move(message), std::move(param)});
}

} // namespace dsv4v

// Returns the error of `expr` from the enclosing function, or goes on.
#define DSV4V_RETURN_IF_ERROR(expr)                                                                \
    do {                                                                                           \
        if (auto dsv4v_result_ = (expr); !dsv4v_result_) {                                         \
            return ::tl::unexpected<::dsv4v::Error>(std::move(dsv4v_result_.error()));             \
        }                                                                                          \
    } while (false)

#define DSV4V_CONCAT_INNER(a, b) a##b
#define DSV4V_CONCAT(a, b) DSV4V_CONCAT_INNER(a, b)

// `DSV4V_ASSIGN_OR_RETURN(auto x, f());` binds the value or returns the error.
#define DSV4V_ASSIGN_OR_RETURN(lhs, expr)                                                          \
    auto DSV4V_CONCAT(dsv4v_value_, __LINE__) = (expr);                                            \
    if (!DSV4V_CONCAT(dsv4v_value_, __LINE__)) {                                                   \
        return ::tl::unexpected<::dsv4v::Error>(                                                   \
            std::move(DSV4V_CONCAT(dsv4v_value_, __LINE__).error()));                              \
    }                                                                                              \
    lhs = std::move(*DSV4V_CONCAT(dsv4v_value_, __LINE__))
