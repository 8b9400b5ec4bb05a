// POST /v1/chat/completions, its token count, its template preview, and the control of running
// replies. Handlers run on connection threads; prompt rendering and tokenization, too.
#pragma once

#include "server/api_service.h"
#include "server/http_types.h"

namespace dsv4v {

[[nodiscard]] HttpReply handle_chat(ApiService& service, const HttpRequest& request);
// {"object":"response.input_tokens","input_tokens":N} of a chat body.
[[nodiscard]] HttpReply handle_chat_token_count(ApiService& service, const HttpRequest& request);
// {"prompt":text,"token_ids":[...],"images":[]} of a chat body.
[[nodiscard]] HttpReply handle_apply_template(ApiService& service, const HttpRequest& request);
// {"id","action":"reasoning_end"|"cancel"} -> {"success":bool,...}.
[[nodiscard]] HttpReply handle_chat_control(ApiService& service, const HttpRequest& request);

} // namespace dsv4v
