// The API handlers over a real engine with a scripted backend, called without sockets: requests in,
// parsed replies and stream events out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "server/api_routes.h"
#include "tests/small_tokenizer.h"
#include "tests/stub_script.h"

namespace dsv4v::testing {

class CollectingSink final : public StreamSink {
  public:
    std::function<bool()> gone;             // empty: never
    std::function<void(std::string&)> seen; // called with everything so far after each write
    std::string bytes;

    bool write(std::string_view more) override {
        bytes.append(more);
        if (seen) {
            seen(bytes);
        }
        return !gone || !gone();
    }
    bool peer_gone() override { return gone && gone(); }
};

struct ApiReply {
    int status = 0;
    std::string content_type;
    std::string body;              // raw, also of streams
    JsonValue json;                // of a whole body
    std::vector<JsonValue> events; // of a stream
    int n_pings = 0;
    bool done = false; // "[DONE]" was the last event
    std::shared_ptr<RequestRecord> record;

    // Member by dotted path and array indices: "choices.0.message.content".
    [[nodiscard]] const JsonValue* at(std::string_view path) const { return at(json, path); }
    [[nodiscard]] static const JsonValue* at(const JsonValue& root, std::string_view path) {
        const JsonValue* value = &root;
        while (value != nullptr && !path.empty()) {
            const size_t dot = std::min(path.find('.'), path.size());
            const std::string_view step = path.substr(0, dot);
            path.remove_prefix(std::min(dot + 1, path.size()));
            if (value->is_array()) {
                const size_t index = static_cast<size_t>(std::stoi(std::string(step)));
                value = index < value->items.size() ? &value->items[index] : nullptr;
            } else {
                value = value->find(step);
            }
        }
        return value;
    }
    [[nodiscard]] std::string text(std::string_view path) const {
        const JsonValue* value = at(path);
        return value == nullptr ? "(absent)" : value->is_null() ? "(null)" : value->text;
    }
    [[nodiscard]] int64_t number(std::string_view path) const {
        const JsonValue* value = at(path);
        return value != nullptr ? value->as_int().value_or(-1) : -1;
    }
};

// Splits an event stream by the rules of the format; a comment is a keep-alive.
inline void parse_events(ApiReply& reply) {
    std::string_view rest = reply.body;
    while (!rest.empty()) {
        const size_t end = rest.find("\n\n");
        ASSERT_NE(end, std::string_view::npos) << "unfinished event: " << rest;
        std::string_view event = rest.substr(0, end);
        rest.remove_prefix(end + 2);
        while (event.starts_with(": ")) {
            ++reply.n_pings;
            event.remove_prefix(std::min(event.find('\n') + 1, event.size()));
            if (event.find('\n') == std::string_view::npos && !event.starts_with("data: ")) {
                event = {};
            }
        }
        if (event.empty()) {
            continue;
        }
        ASSERT_TRUE(event.starts_with("data: ")) << event;
        ASSERT_FALSE(reply.done) << "an event after [DONE]: " << event;
        event.remove_prefix(6);
        ASSERT_EQ(event.find('\n'), std::string_view::npos) << event;
        if (event == "[DONE]") {
            reply.done = true;
            continue;
        }
        auto json = parse_json(event);
        ASSERT_TRUE(json.has_value()) << event << json.error().message;
        reply.events.push_back(std::move(*json));
    }
}

inline BackendLimits api_limits() {
    BackendLimits limits;
    limits.max_sequences = 8;
    limits.n_pages = 256;
    limits.max_batch_tokens = 512;
    limits.context_length = 4096;
    limits.vocab_size = first_extra_id();
    return limits;
}

inline Options api_options() {
    Options options;
    options.alias = "tiny";
    return options;
}

class TestApi {
  public:
    // `scripts`: JSON lines of stub_script.h.
    explicit TestApi(std::string_view scripts, Options options = api_options(),
                     BackendLimits limits = api_limits(), EngineOptions engine_options = {},
                     const std::vector<std::string>& extra_tokens = {})
        : options_(std::move(options)), metrics_("tiny"), context_(options_, metrics_),
          script_tokenizer_(small_tokenizer(extra_tokens)) {
        limits.vocab_size = script_tokenizer_.vocab_size();
        auto backend = make_stub_backend(scripts, stub_vocabulary(script_tokenizer_), limits);
        EXPECT_TRUE(backend.has_value()) << (backend ? "" : backend.error().message);
        ModelConfig config;
        config.vocab_size = limits.vocab_size;
        auto model = std::unique_ptr<LoadedModel>(
            new LoadedModel{nullptr, config, small_tokenizer(extra_tokens),
                            std::make_unique<Engine>(std::move(*backend), engine_options),
                            "0123456789abcdef", "none", 0, 0, 0, "scripted"});
        context_.publish(std::move(model));
        routes_ = api_routes(context_);
    }

    ServingContext& context() { return context_; }
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
    Engine& engine() { return context_.engine(); }
    const Tokenizer& tokenizer() { return context_.model().tokenizer; }

    ApiReply post(const std::string& path, const std::string& body,
                  std::function<bool()> gone = nullptr, CollectingSink* sink = nullptr) {
        HttpRequest request;
        request.method = "POST";
        request.path = path;
        request.body = body;
        request.request_id = "req-1";
        request.peer_gone = gone ? gone : [] { return false; };
        for (const Route& route : routes_) {
            if (route.path == path && route.method == "POST") {
                return finish(route.handler(request), request, gone, sink);
            }
        }
        ADD_FAILURE() << "no route " << path;
        return {};
    }
    ApiReply chat(const std::string& body) { return post("/v1/chat/completions", body); }
    ApiReply complete(const std::string& body) { return post("/v1/completions", body); }

    // Waits until nothing runs or waits, at most 2 s.
    [[nodiscard]] bool idle() {
        for (int k = 0; k < 400; ++k) {
            const EngineStats stats = engine().stats();
            if (stats.n_running == 0 && stats.n_waiting == 0 && stats.n_pages_used == 0) {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return false;
    }

  private:
    static ApiReply finish(HttpReply reply, const HttpRequest& request,
                           const std::function<bool()>& gone, CollectingSink* sink) {
        ApiReply out;
        out.status = reply.status;
        out.content_type = reply.content_type;
        out.record = request.record;
        CollectingSink own;
        own.gone = gone;
        CollectingSink& used = sink != nullptr ? *sink : own;
        if (reply.stream) {
            reply.stream(used);
            out.body = used.bytes;
        } else {
            out.body = reply.body;
        }
        if (out.content_type.starts_with("text/event-stream")) {
            parse_events(out);
        } else if (!out.body.empty()) {
            auto json = parse_json(out.body);
            EXPECT_TRUE(json.has_value()) << out.body;
            if (json) {
                out.json = std::move(*json);
            }
        }
        return out;
    }

    const Options options_;
    Metrics metrics_;
    ServingContext context_;
    Tokenizer script_tokenizer_; // the backend's
    std::vector<Route> routes_;
};

} // namespace dsv4v::testing
