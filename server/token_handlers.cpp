#include "server/token_handlers.h"

#include <utility>

#include "engine/utf8.h"
#include "server/chat_prompt.h"
#include "server/chat_request.h"
#include "server/reply_fields.h"

namespace dsv4v {
namespace {

constexpr size_t kMaxTokens = 16 * 1024 * 1024;

void write_piece(JsonWriter& json, const Tokenizer& tokenizer, int32_t id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    json.begin_object().field("id", id).key("piece");
    if (is_valid_utf8(bytes)) {
        json.value(bytes);
    } else {
        json.begin_array();
        for (const char byte : bytes) {
            json.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
        }
        json.end_array();
    }
    json.end_object();
}

HttpReply token_reply(const ServingContext& context, const std::vector<int32_t>& ids,
                      bool with_pieces) {
    JsonWriter json;
    json.begin_object();
    if (with_pieces) {
        json.key("tokens").begin_array();
        for (const int32_t id : ids) {
            write_piece(json, context.model().tokenizer, id);
        }
        json.end_array();
    } else {
        write_ids(json, "tokens", ids);
    }
    json.field("count", static_cast<uint64_t>(ids.size()));
    json.field("max_model_len", context.engine().limits().context_length).end_object();
    HttpReply reply;
    reply.body = json.take();
    return reply;
}

// A chat body: the ids of its prompt. `with_pieces` is not a field of chat requests.
HttpReply tokenize_chat(const ServingContext& context, const HttpRequest& http, JsonValue body) {
    RequestFields fields(body, "");
    bool with_pieces = false;
    fields.read("with_pieces", with_pieces);
    if (auto result = fields.finish(false); !result) {
        return refuse(context, http, to_api_error(result.error()));
    }
    RequestRules rules = make_rules(context);
    rules.strict_params = false;
    const auto request = parse_chat_request(std::move(body), rules);
    if (!request) {
        return refuse(context, http, request.error());
    }
    const auto prompt = prepare_chat_prompt(*request, context.model().tokenizer,
                                            context.options.allow_special_in_content);
    if (!prompt) {
        return refuse(context, http, prompt.error());
    }
    return token_reply(context, prompt->ids, with_pieces);
}

} // namespace

HttpReply handle_tokenize(ApiService& service, const HttpRequest& http) {
    const ServingContext& context = service.context;
    auto body = parse_body(http.body);
    if (!body) {
        return refuse(context, http, body.error());
    }
    const JsonValue* messages = body->find("messages");
    if (messages != nullptr && !messages->is_null()) {
        return tokenize_chat(context, http, std::move(*body));
    }
    RequestFields fields(*body, "");
    std::string text;
    bool add_special = false;
    bool parse_special = true;
    bool with_pieces = false;
    const bool has_prompt = fields.read("prompt", text, SIZE_MAX);
    if (!fields.read("content", text, SIZE_MAX) && !has_prompt) {
        fields.fail_value("content", JsonValue(), "a string");
    }
    fields.read("add_special", add_special);
    fields.read("parse_special", parse_special);
    fields.read("with_pieces", with_pieces);
    fields.ignore({"model"});
    if (auto result = fields.finish(context.options.strict_params); !result) {
        return refuse(context, http, to_api_error(result.error()));
    }
    const Tokenizer& tokenizer = context.model().tokenizer;
    std::vector<int32_t> ids = tokenizer.encode(text, parse_special);
    if (add_special && (ids.empty() || ids.front() != tokenizer.bos_id())) {
        ids.insert(ids.begin(), tokenizer.bos_id());
    }
    return token_reply(context, ids, with_pieces);
}

HttpReply handle_detokenize(ApiService& service, const HttpRequest& http) {
    const ServingContext& context = service.context;
    const auto body = parse_body(http.body);
    if (!body) {
        return refuse(context, http, body.error());
    }
    const Tokenizer& tokenizer = context.model().tokenizer;
    RequestFields fields(*body, "");
    std::vector<int32_t> ids;
    if (!fields.read("tokens", ids, 0, tokenizer.vocab_size() - 1, kMaxTokens)) {
        fields.fail_value("tokens", JsonValue(), "an array of token ids");
    }
    fields.ignore({"model"});
    if (auto result = fields.finish(context.options.strict_params); !result) {
        return refuse(context, http, to_api_error(result.error()));
    }
    const std::string text = replace_invalid_utf8(tokenizer.decode(ids, true));
    JsonWriter json;
    json.begin_object().field("content", std::string_view(text));
    json.field("prompt", std::string_view(text)).end_object();
    HttpReply reply;
    reply.body = json.take();
    return reply;
}

} // namespace dsv4v
