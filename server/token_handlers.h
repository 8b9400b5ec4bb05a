// POST /tokenize and /detokenize. Nothing is generated.
#pragma once

#include "server/api_service.h"
#include "server/http_types.h"

namespace dsv4v {

// {"content"|"prompt": text, "add_special", "parse_special", "with_pieces"} or a chat body ->
// {"tokens":[id] or [{"id","piece"}], "count", "max_model_len"}.
[[nodiscard]] HttpReply handle_tokenize(ApiService& service, const HttpRequest& request);
// {"tokens":[id]} -> {"content","prompt"}: the same text under both names, control tokens spelled.
[[nodiscard]] HttpReply handle_detokenize(ApiService& service, const HttpRequest& request);

} // namespace dsv4v
