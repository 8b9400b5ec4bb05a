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

// The path is there so that a client learns why, instead of suspecting a wrong address.
HttpReply refuse_embeddings(ApiService& service, const HttpRequest& request) {
    return refuse(service.context, request, not_supported("this model has no embedding output"));
}

HttpReply refuse_dialect(ApiService& service, const HttpRequest& request) {
    return refuse(service.context, request,
                  not_supported("this API dialect is not offered; use /v1/chat/completions"));
}

} // namespace

std::vector<Route> api_routes(ServingContext& context) {
    const auto service = std::make_shared<ApiService>(context);
    std::vector<Route> routes = {
        post(service, "/v1/chat/completions", handle_chat),
        post(service, "/v1/chat/completions/input_tokens", handle_chat_token_count),
        post(service, "/v1/chat/completions/control", handle_chat_control),
        post(service, "/v1/completions", handle_completion),
        post(service, "/tokenize", handle_tokenize),
        post(service, "/detokenize", handle_detokenize),
        post(service, "/apply-template", handle_apply_template),
    };
    for (const char* path :
         {"/v1/responses", "/v1/responses/input_tokens", "/v1/messages",
          "/v1/messages/count_tokens", "/anthropic/v1/messages", "/anthropic/messages"}) {
        routes.push_back(post(service, path, refuse_dialect));
    }
    routes.push_back(post(service, "/v1/embeddings", refuse_embeddings));
    return routes;
}

} // namespace dsv4v
