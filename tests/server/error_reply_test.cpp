#include "server/error_reply.h"

#include <gtest/gtest.h>

#include "engine/json_value.h"

namespace dsv4v {
namespace {

TEST(ErrorReply, MapsValueErrors) {
    const std::pair<ErrorCode, int> expected[] = {{ErrorCode::kInvalidArgument, 400},
                                                  {ErrorCode::kNotFound, 404},
                                                  {ErrorCode::kUnsupported, 501},
                                                  {ErrorCode::kResourceExhausted, 429},
                                                  {ErrorCode::kUnavailable, 503},
                                                  {ErrorCode::kCorrupt, 500},
                                                  {ErrorCode::kIo, 500},
                                                  {ErrorCode::kInternal, 500}};
    for (const auto& [code, status] : expected) {
        EXPECT_EQ(to_api_error({code, "text", ""}).status, status);
    }
    // What went wrong inside stays inside.
    EXPECT_EQ(to_api_error({ErrorCode::kIo, "/secret/path", ""}).message.find("/secret"),
              std::string::npos);
}

TEST(ErrorReply, HasTheDocumentedBody) {
    ApiError error = bad_request("context_length_exceeded", "too \"long\"\n\xff", "messages[0]");
    error.numbers = {{"n_prompt_tokens", 12}, {"n_ctx", 10}};
    HttpRequest request;
    request.request_id = "req-1";
    const HttpReply reply = error_reply(error, request, {});
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(request.record->error_type, "invalid_request_error");
    const auto json = parse_json(reply.body);
    ASSERT_TRUE(json.has_value()) << reply.body;
    const JsonValue& body = *json->find("error");
    EXPECT_EQ(body.find("message")->text, "too \"long\"\n\xEF\xBF\xBD");
    EXPECT_EQ(body.find("type")->text, "invalid_request_error");
    EXPECT_EQ(body.find("param")->text, "messages[0]");
    EXPECT_EQ(body.find("code")->text, "context_length_exceeded");
    EXPECT_EQ(body.find("request_id")->text, "req-1");
    EXPECT_EQ(body.find("n_prompt_tokens")->text, "12");
    EXPECT_EQ(body.find("n_ctx")->text, "10");
    EXPECT_TRUE(parse_json(error_body(not_found("x", "y"), "", {}))
                    ->find("error")
                    ->find("param")
                    ->is_null());
}

TEST(ErrorReply, TellsWhenToRetry) {
    HttpRequest request;
    const HttpReply reply = error_reply(rate_limited("queue_full", "full", 500), request, {});
    ASSERT_EQ(reply.headers.size(), 1u);
    EXPECT_EQ(reply.headers[0], (std::pair<std::string, std::string>{"Retry-After", "60"}));
    EXPECT_EQ(rate_limited("queue_full", "full", 0).retry_after_s, 1);
}

TEST(ErrorReply, FollowsTheConfiguredStyle) {
    HttpRequest request;
    const ErrorStyle style{.int_codes = true, .deepseek_status_codes = true};
    const HttpReply invalid = error_reply(bad_request("invalid_value", "x"), request, style);
    EXPECT_EQ(invalid.status, 422);
    EXPECT_EQ(parse_json(invalid.body)->find("error")->find("code")->as_int(), 422);
    EXPECT_EQ(error_reply(bad_request("invalid_json", "x"), request, style).status, 400);
}

} // namespace
} // namespace dsv4v
