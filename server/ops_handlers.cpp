#include "server/ops_handlers.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "server/build_info.h"
#include "server/logging.h"

namespace dsv4v {

namespace {

// A small front of rapidjson's Writer: values with their keys in one call.
class Json {
  public:
    template <class Fill>
    Json& object(const char* key, Fill fill) {
        name(key);
        writer_.StartObject();
        fill(*this);
        writer_.EndObject();
        return *this;
    }
    template <class Fill>
    Json& array(const char* key, Fill fill) {
        name(key);
        writer_.StartArray();
        fill(*this);
        writer_.EndArray();
        return *this;
    }
    Json& text(const char* key, std::string_view value) {
        name(key);
        writer_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
        return *this;
    }
    Json& integer(const char* key, int64_t value) {
        name(key);
        writer_.Int64(value);
        return *this;
    }
    Json& number(const char* key, double value) {
        name(key);
        writer_.Double(value);
        return *this;
    }
    Json& boolean(const char* key, bool value) {
        name(key);
        writer_.Bool(value);
        return *this;
    }
    Json& raw(const char* key, const std::string& json) {
        name(key);
        writer_.RawValue(json.data(), json.size(), rapidjson::kObjectType);
        return *this;
    }
    [[nodiscard]] HttpReply reply(int status = 200) const {
        HttpReply out;
        out.status = status;
        out.body.assign(buffer_.GetString(), buffer_.GetSize());
        return out;
    }

  private:
    void name(const char* key) {
        if (key != nullptr) {
            writer_.Key(key);
        }
    }
    rapidjson::StringBuffer buffer_;
    rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

bool query_flag(const HttpRequest& request, const std::string& name) {
    const auto found = request.query.find(name);
    return found != request.query.end() && found->second != "0" && found->second != "false";
}

// In the shape that llama-server's clients poll for.
HttpReply unhealthy(const char* message) {
    return Json()
        .object(nullptr,
                [&](Json& root) {
                    root.object("error", [&](Json& error) {
                        error.integer("code", 503)
                            .text("message", message)
                            .text("type", "unavailable_error");
                    });
                })
        .reply(503);
}

HttpReply status_reply(const char* status, int code = 200) {
    return Json().object(nullptr, [&](Json& root) { root.text("status", status); }).reply(code);
}

bool engine_stalled(const ServingContext& context) {
    const LoadedModel* model = context.loaded();
    return model != nullptr &&
           model->engine->stats().ms_since_last_step > context.options.engine_stall_timeout_s * 1e3;
}

HttpReply health(const ServingContext& context) {
    switch (context.state()) {
    case ServingState::kLoading:
        return unhealthy("Loading model");
    case ServingState::kFailed:
        return unhealthy("The engine has failed");
    case ServingState::kReady:
    case ServingState::kDraining:
        break;
    }
    return status_reply("ok");
}

HttpReply livez(const ServingContext& context) {
    return engine_stalled(context) ? unhealthy("The engine makes no progress") : status_reply("ok");
}

// Why new work cannot be taken now; nothing when it can.
std::optional<const char*> not_ready(const ServingContext& context, bool need_free_slot) {
    switch (context.state()) {
    case ServingState::kLoading:
        return "loading";
    case ServingState::kDraining:
        return "draining";
    case ServingState::kFailed:
        return "failed";
    case ServingState::kReady:
        break;
    }
    const EngineStats stats = context.engine().stats();
    if (stats.failed) {
        return "failed";
    }
    const bool no_slot =
        need_free_slot && stats.n_running >= context.engine().limits().max_sequences;
    return stats.n_waiting >= context.options.max_queue || no_slot
               ? std::optional<const char*>("overloaded")
               : std::nullopt;
}

HttpReply ready(const ServingContext& context, const HttpRequest& request) {
    const auto reason = not_ready(context, query_flag(request, "fail_on_no_slot"));
    if (!reason) {
        return status_reply("ok");
    }
    HttpReply reply =
        Json()
            .object(nullptr,
                    [&](Json& root) {
                        root.text("status", *reason).number("progress", context.progress());
                    })
            .reply(503);
    reply.headers.emplace_back("Retry-After", "5");
    return reply;
}

void write_model_meta(Json& json, const LoadedModel& model) {
    json.integer("n_vocab", model.config.vocab_size)
        .integer("n_ctx_train", model.config.context_length)
        .integer("n_ctx", model.engine->limits().context_length)
        .integer("n_embd", model.config.hidden)
        .integer("n_params", static_cast<int64_t>(model.n_params))
        .integer("size_bytes", static_cast<int64_t>(model.size_bytes))
        .text("quant", model.quant)
        .text("description", model.config.description);
}

void write_model(Json& json, const ServingContext& context, const std::string& id) {
    json.object(nullptr, [&](Json& entry) {
        entry.text("id", id)
            .text("object", "model")
            .integer("created", std::chrono::system_clock::to_time_t(context.started_at))
            .text("owned_by", "dsv4v")
            .text("root", context.options.model_id());
        if (const LoadedModel* model = context.loaded()) {
            entry.integer("max_model_len", model->engine->limits().context_length);
            entry.object("meta", [&](Json& meta) { write_model_meta(meta, *model); });
        }
        entry.object("capabilities", [](Json& capabilities) {
            capabilities.boolean("vision", false)
                .boolean("tools", true)
                .boolean("reasoning", true)
                .boolean("json_schema", false);
        });
        entry.array("input_modalities", [](Json& list) { list.text(nullptr, "text"); });
    });
}

HttpReply models(const ServingContext& context) {
    return Json()
        .object(nullptr,
                [&](Json& root) {
                    root.text("object", "list").array("data", [&](Json& list) {
                        for (const std::string& id : context.options.model_ids()) {
                            write_model(list, context, id);
                        }
                    });
                })
        .reply();
}

HttpReply model_by_id(const ServingContext& context, const HttpRequest& request) {
    const std::vector<std::string> ids = context.options.model_ids();
    if (std::find(ids.begin(), ids.end(), request.path_id) == ids.end()) {
        return error_reply(
            not_found("model_not_found",
                      fmt::format("No such model: {}; served is {}", request.path_id, ids.front())),
            request, context.error_style);
    }
    Json json;
    write_model(json, context, request.path_id);
    return json.reply();
}

void write_limits(Json& json, const Options& options) {
    json.integer("max_body_bytes", static_cast<int64_t>(options.max_body))
        .integer("max_queue", options.max_queue)
        .integer("max_n", options.max_n)
        .integer("max_batch_tokens", options.max_batch_tokens)
        .integer("prefill_chunk", options.prefill_chunk)
        .integer("max_connections", options.max_connections);
}

void write_default_settings(Json& json, const Options& options) {
    json.number("temperature", 1.0)
        .number("top_p", 1.0)
        .integer("top_k", 0)
        .number("min_p", 0.0)
        .number("presence_penalty", 0.0)
        .number("frequency_penalty", 0.0)
        .number("repeat_penalty", 1.0)
        .boolean("thinking", options.thinking)
        .text("reasoning_effort", options.reasoning_effort);
}

HttpReply props(const ServingContext& context) {
    const Options& options = context.options;
    const LoadedModel& model = context.model();
    const BackendLimits& limits = model.engine->limits();
    return Json()
        .object(nullptr,
                [&](Json& root) {
                    root.object("default_generation_settings",
                                [&](Json& json) { write_default_settings(json, options); });
                    root.integer("total_slots", limits.max_sequences)
                        .integer("n_ctx", limits.context_length)
                        .text("model_alias", options.model_id())
                        .text("model_path",
                              std::filesystem::path(options.model).filename().string())
                        .text("model_digest", model.digest)
                        .text("backend", model.backend);
                    root.object("modalities", [](Json& json) {
                        json.boolean("vision", false).boolean("audio", false);
                    });
                    root.object("limits", [&](Json& json) { write_limits(json, options); });
                    root.object("thinking_default", [&](Json& json) {
                        json.boolean("enabled", options.thinking)
                            .text("effort", options.reasoning_effort);
                    });
                    root.object("kv", [&](Json& json) {
                        json.integer("block_tokens", kPageTokens)
                            .integer("blocks_total", limits.n_pages)
                            .integer("bytes", static_cast<int64_t>(model.kv_bytes))
                            .text("dtype", "f32");
                    });
                    root.raw("build_info", build_info_json());
                })
        .reply();
}

HttpReply slots(const ServingContext& context) {
    Json json;
    json.array(nullptr, [&](Json& list) {
        for (const SlotSnapshot& slot : context.engine().slots()) {
            list.object(nullptr, [&](Json& entry) {
                entry.integer("id", slot.slot)
                    .text("request_id", slot.request_id)
                    .text("state", slot.state)
                    .integer("n_prompt", slot.n_prompt)
                    .integer("n_processed", slot.n_processed)
                    .integer("n_decoded", slot.n_decoded)
                    .integer("max_tokens", slot.max_tokens)
                    .integer("kv_blocks", slot.n_pages)
                    .number("age_ms", slot.age_ms)
                    .text("client", slot.client)
                    .boolean("stream", slot.stream);
            });
        }
    });
    return json.reply();
}

// {id} is a slot number or a request id.
HttpReply cancel_slot(ServingContext& context, const HttpRequest& request) {
    const auto action = request.query.find("action");
    if (action == request.query.end() || action->second != "cancel") {
        return error_reply(bad_request("invalid_value", "wanted action=cancel", "action"), request,
                           context.error_style);
    }
    std::string request_id = request.path_id;
    for (const SlotSnapshot& slot : context.engine().slots()) {
        if (slot.slot >= 0 && std::to_string(slot.slot) == request.path_id) {
            request_id = slot.request_id;
        }
    }
    if (!context.requests.cancel(request_id)) {
        return error_reply(
            not_found("not_found", fmt::format("Nothing runs under {}", request.path_id)), request,
            context.error_style);
    }
    return Json()
        .object(nullptr,
                [&](Json& root) { root.text("status", "ok").text("cancelled", request_id); })
        .reply();
}

HttpReply metrics(ServingContext& context) {
    HttpReply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (const LoadedModel* model = context.loaded()) {
        const EngineStats stats = model->engine->stats();
        reply.body = context.metrics.exposition(&stats, &model->engine->limits());
    } else {
        reply.body = context.metrics.exposition(nullptr, nullptr);
    }
    return reply;
}

HttpReply change_state(ServingContext& context, const HttpRequest& request, ServingState from,
                       ServingState to, const char* name) {
    if (!context.change_state(from, to) && context.state() != to) {
        return error_reply(unavailable("loading", "Not in a state in which this can be done"),
                           request, context.error_style);
    }
    log_line(LogLevel::kWarn, name, {{"req", request.request_id}, {"key", request.client}});
    return status_reply(name);
}

HttpReply set_level(const ServingContext& context, const HttpRequest& request) {
    const auto wanted = request.query.find("level");
    const auto level =
        wanted == request.query.end() ? std::nullopt : parse_log_level(wanted->second);
    if (!level) {
        return error_reply(
            bad_request("invalid_value", "wanted ?level=error|warn|info|debug|trace", "level"),
            request, context.error_style);
    }
    set_log_level(*level);
    return status_reply("ok");
}

HttpReply reload_keys(const ServingContext& context, const AdminActions& actions,
                      const HttpRequest& request) {
    if (const auto reloaded = actions.reload_keys(); !reloaded) {
        log_line(LogLevel::kError, "keys not reloaded", {{"what", reloaded.error().message}});
        return error_reply(internal_error(), request, context.error_style);
    }
    return status_reply("ok");
}

// Paths that clients try; 404 would read as a wrong base URL.
std::vector<Route> refused_routes(ServingContext& context) {
    struct Refused {
        const char* path;
        RouteAccess access;
        const char* reason;
    };
    static constexpr Refused kRefused[] = {
        {"/v1/embeddings", RouteAccess::kKey, "This model has no embedding head."},
        {"/v1/responses", RouteAccess::kKey,
         "The Responses dialect is not offered; use /v1/chat/completions."},
        {"/v1/responses/input_tokens", RouteAccess::kKey,
         "The Responses dialect is not offered; use /v1/chat/completions/input_tokens."},
        {"/v1/messages", RouteAccess::kKey,
         "The Anthropic dialect is not offered; use /v1/chat/completions."},
        {"/v1/messages/count_tokens", RouteAccess::kKey,
         "The Anthropic dialect is not offered; use /v1/chat/completions/input_tokens."},
        {"/anthropic/v1/messages", RouteAccess::kKey,
         "The Anthropic dialect is not offered; use /v1/chat/completions."},
        {"/anthropic/messages", RouteAccess::kKey,
         "The Anthropic dialect is not offered; use /v1/chat/completions."},
        {"/v1/cache/{id}", RouteAccess::kAdmin, "This server keeps no prefix cache."},
    };
    std::vector<Route> routes;
    for (const Refused& refused : kRefused) {
        routes.push_back({"POST", refused.path, refused.access, false,
                          [&context, reason = refused.reason](const HttpRequest& request) {
                              return error_reply(not_supported(reason), request,
                                                 context.error_style);
                          }});
    }
    return routes;
}

std::vector<Route> health_routes(ServingContext& context) {
    std::vector<Route> routes;
    for (const char* path : {"/health", "/v1/health", "/healthz"}) {
        routes.push_back({"GET", path, RouteAccess::kPublic, false,
                          [&context](const HttpRequest&) { return health(context); }});
    }
    for (const char* path : {"/ready", "/readyz"}) {
        routes.push_back(
            {"GET", path, RouteAccess::kPublic, false,
             [&context](const HttpRequest& request) { return ready(context, request); }});
    }
    routes.push_back({"GET", "/livez", RouteAccess::kPublic, false,
                      [&context](const HttpRequest&) { return livez(context); }});
    return routes;
}

std::vector<Route> description_routes(ServingContext& context) {
    const RouteAccess metrics_access =
        context.options.metrics_auth ? RouteAccess::kKey : RouteAccess::kDiscovery;
    std::vector<Route> routes = {
        {"GET", "/metrics", metrics_access, false,
         [&context](const HttpRequest&) { return metrics(context); }},
        {"GET", "/version", RouteAccess::kDiscovery, false,
         [](const HttpRequest&) {
             HttpReply reply;
             reply.body = build_info_json();
             return reply;
         }},
        {"GET", "/v1/models", RouteAccess::kDiscovery, false,
         [&context](const HttpRequest&) { return models(context); }},
        {"GET", "/v1/models/{id}", RouteAccess::kDiscovery, false,
         [&context](const HttpRequest& request) { return model_by_id(context, request); }},
        {"GET", "/props", RouteAccess::kKey, true,
         [&context](const HttpRequest&) { return props(context); }},
    };
    if (context.options.slots) {
        routes.push_back({"GET", "/slots", RouteAccess::kKey, true,
                          [&context](const HttpRequest&) { return slots(context); }});
    }
    return routes;
}

std::vector<Route> admin_routes(ServingContext& context, const AdminActions& actions) {
    return {
        {"POST", "/slots/{id}", RouteAccess::kAdmin, true,
         [&context](const HttpRequest& request) { return cancel_slot(context, request); }},
        {"POST", "/admin/drain", RouteAccess::kAdmin, false,
         [&context](const HttpRequest& request) {
             return change_state(context, request, ServingState::kReady, ServingState::kDraining,
                                 "draining");
         }},
        {"POST", "/admin/undrain", RouteAccess::kAdmin, false,
         [&context](const HttpRequest& request) {
             return change_state(context, request, ServingState::kDraining, ServingState::kReady,
                                 "ready");
         }},
        {"POST", "/admin/log-level", RouteAccess::kAdmin, false,
         [&context](const HttpRequest& request) { return set_level(context, request); }},
        {"POST", "/admin/reload-keys", RouteAccess::kAdmin, false,
         [&context, actions](const HttpRequest& request) {
             return reload_keys(context, actions, request);
         }},
    };
}

} // namespace

std::vector<Route> ops_routes(ServingContext& context, AdminActions actions) {
    std::vector<Route> routes;
    for (auto& group : {health_routes(context), description_routes(context),
                        admin_routes(context, actions), refused_routes(context)}) {
        routes.insert(routes.end(), group.begin(), group.end());
    }
    return routes;
}

} // namespace dsv4v
