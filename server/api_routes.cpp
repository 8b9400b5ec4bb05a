#include "server/api_routes.h"

#include <string>
#include <utility>

#include "server/api_service.h"
#include "server/chat_handler.h"
#include "server/completion_handler.h"
#include "server/token_handlers.h"

namespace dsv4v {
namespace {

using ApiHandler = HttpReply (*)(ApiService&, const HttpRequest&);

Route post(const std::shared_ptr<ApiService>& service, std::string path, ApiHandler handler) {
    return {.method = "POST",
            .path = std::move(path),
            .access = RouteAccess::kKey,
            .needs_model = true,
            .handler = [service, handler](const HttpRequest& request) {
                return handler(*service, request);
            }};
}

} // namespace

std::vector<Route> api_routes(ServingContext& context) {
    const auto service = std::make_shared<ApiService>(context);
    return {
        post(service, "/v1/chat/completions", handle_chat),
        post(service, "/v1/chat/completions/input_tokens", handle_chat_token_count),
        post(service, "/v1/chat/completions/control", handle_chat_control),
        post(service, "/v1/completions", handle_completion),
        post(service, "/tokenize", handle_tokenize),
        post(service, "/detokenize", handle_detokenize),
        post(service, "/apply-template", handle_apply_template),
    };
}

} // namespace dsv4v
