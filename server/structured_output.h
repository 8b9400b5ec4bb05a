// The request fields that ask for constrained output. None is offered: a request that needs one is
// refused instead of running unconstrained. docs/api.md "Structured output".
#pragma once

#include <tl/expected.hpp>

#include "engine/json_value.h"
#include "server/error_reply.h"
#include "server/request_fields.h"

namespace dsv4v {

// Marks the fields as known. 400 for wrong types and for more than one of them, 501 for the rest;
// `response_format` {"type":"text"} passes.
[[nodiscard]] tl::expected<void, ApiError> refuse_structured_output(RequestFields& fields);

} // namespace dsv4v
