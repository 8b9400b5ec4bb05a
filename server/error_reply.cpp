#include "server/error_reply.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "engine/utf8.h"

namespace dsv4v {

namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

constexpr int kUnavailableRetrySeconds = 5;

void write_string(Writer& writer, std::string_view text) {
    writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void write_key(Writer& writer, std::string_view key) {
    writer.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
}

} // namespace

ApiError bad_request(std::string code, std::string message, std::string param) {
    return {.status = 400,
            .type = "invalid_request_error",
            .code = std::move(code),
            .message = std::move(message),
            .param = std::move(param)};
}

ApiError not_found(std::string code, std::string message) {
    return {.status = 404,
            .type = "not_found_error",
            .code = std::move(code),
            .message = std::move(message)};
}

ApiError not_supported(std::string message) {
    return {.status = 501,
            .type = "not_supported_error",
            .code = "not_supported",
            .message = std::move(message)};
}

ApiError unavailable(std::string code, std::string message) {
    return {.status = 503,
            .type = "unavailable_error",
            .code = std::move(code),
            .message = std::move(message),
            .retry_after_s = kUnavailableRetrySeconds};
}

ApiError rate_limited(std::string code, std::string message, int retry_after_s) {
    return {.status = 429,
            .type = "rate_limit_error",
            .code = std::move(code),
            .message = std::move(message),
            .retry_after_s = std::max(1, std::min(retry_after_s, 60))};
}

ApiError internal_error() {
    return {.message = "The server failed to answer this request. Its log has the details under "
                       "the request id."};
}

ApiError to_api_error(const Error& error) {
    switch (error.code) {
    case ErrorCode::kInvalidArgument:
        return bad_request("invalid_value", error.message, error.param);
    case ErrorCode::kNotFound:
        return not_found("not_found", error.message);
    case ErrorCode::kUnsupported:
        return not_supported(error.message);
    case ErrorCode::kResourceExhausted:
        return rate_limited("queue_full", error.message, 1);
    case ErrorCode::kUnavailable:
        return unavailable("overloaded", error.message);
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
        break;
    }
    return internal_error();
}

int error_status(const ApiError& error, const ErrorStyle& style) {
    const bool invalid_value = error.status == 400 && error.code == "invalid_value";
    return style.deepseek_status_codes && invalid_value ? 422 : error.status;
}

std::string error_body(const ApiError& error, std::string_view request_id,
                       const ErrorStyle& style) {
    rapidjson::StringBuffer buffer;
    Writer writer(buffer);
    writer.StartObject();
    writer.Key("error");
    writer.StartObject();
    writer.Key("message");
    write_string(writer, replace_invalid_utf8(error.message));
    writer.Key("type");
    write_string(writer, error.type);
    writer.Key("param");
    if (error.param.empty()) {
        writer.Null();
    } else {
        write_string(writer, replace_invalid_utf8(error.param));
    }
    writer.Key("code");
    if (style.int_codes) {
        writer.Int(error_status(error, style));
    } else {
        write_string(writer, error.code);
    }
    writer.Key("request_id");
    write_string(writer, request_id);
    for (const auto& [name, value] : error.numbers) {
        write_key(writer, name);
        writer.Int64(value);
    }
    if (error.retry_after_s > 0) {
        writer.Key("retry_after");
        writer.Int(error.retry_after_s);
    }
    writer.EndObject();
    writer.EndObject();
    return {buffer.GetString(), buffer.GetSize()};
}

HttpReply error_reply(const ApiError& error, const HttpRequest& request, const ErrorStyle& style) {
    HttpReply reply;
    reply.status = error_status(error, style);
    reply.body = error_body(error, request.request_id, style);
    if (error.retry_after_s > 0) {
        reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    }
    request.record->error_type = error.type;
    return reply;
}

} // namespace dsv4v
