#include "server/ops_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/json_value.h"
#include "loaders/gguf_file.h"
#include "loaders/vocab.h"
#include "tests/fake_backend.h"
#include "tests/golden.h"
#include "tests/server/http_test_server.h"

namespace dsv4v::testing {
namespace {

using ::testing::HasSubstr;

class OpsTest : public ::testing::Test {
  protected:
    void start() {
        server_.options.model = "/secret/folder/tiny-00001-of-00002.gguf";
        server_.options.alias = "tiny,deepseek-chat";
        server_.options.admin_keys = {"boss"};
        // Routes are built over the context, which start() makes: reach it through a pointer.
        server_.metrics = std::make_unique<Metrics>("tiny");
        server_.context = std::make_unique<ServingContext>(server_.options, *server_.metrics);
        server_.authenticator = std::move(*Authenticator::create(server_.options));
        server_.server =
            std::make_unique<HttpServer>(*server_.context, *server_.authenticator,
                                         ops_routes(*server_.context, {.reload_keys = [this] {
                                             ++n_reloads_;
                                             return server_.authenticator->reload();
                                         }}));
        ASSERT_TRUE(server_.server->start().has_value());
    }
    void load(std::unique_ptr<FakeBackend> backend = std::make_unique<FakeBackend>()) {
        const auto file = GgufFile::open(unpacked("models/tiny-a-bf16.gguf"));
        ASSERT_TRUE(file.has_value()) << file.error().message;
        auto tokenizer = Tokenizer::create(*Vocab::from_gguf(*file));
        ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
        server_.context->publish(std::make_unique<LoadedModel>(
            LoadedModel{.storage = nullptr,
                        .config = *ModelConfig::from_gguf(*file),
                        .tokenizer = std::move(*tokenizer),
                        .engine = std::make_unique<Engine>(std::move(backend), EngineOptions{}),
                        .digest = "abc",
                        .quant = "BF16",
                        .n_params = 123,
                        .size_bytes = 456,
                        .kv_bytes = 789,
                        .backend = "fake",
                        .has_projector = false}));
    }
    std::string fetch(const std::string& request) { return server_.connect().exchange(request); }
    JsonValue json(const std::string& request) {
        const std::string reply = fetch(request);
        auto parsed = parse_json(body_of(reply));
        EXPECT_TRUE(parsed.has_value()) << reply;
        return parsed ? std::move(*parsed) : JsonValue();
    }

    TestServer server_;
    int n_reloads_ = 0;
};

const std::string kAdmin = "x-api-key: boss\r\n";

TEST_F(OpsTest, HealthAndReadinessFollowTheState) {
    start();
    for (const char* path : {"/health", "/v1/health", "/healthz"}) {
        const std::string loading = fetch(get(path));
        EXPECT_EQ(status_of(loading), 503);
        EXPECT_EQ(body_of(loading),
                  R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})");
    }
    EXPECT_EQ(status_of(fetch(get("/livez"))), 200);
    server_.context->set_progress(0.5);
    const std::string not_ready = fetch(get("/ready"));
    EXPECT_EQ(status_of(not_ready), 503);
    EXPECT_THAT(not_ready, HasSubstr(R"({"status":"loading","progress":0.5})"));
    EXPECT_TRUE(has_header(not_ready, "Retry-After: "));

    load();
    EXPECT_EQ(body_of(fetch(get("/health"))), R"({"status":"ok"})");
    EXPECT_EQ(status_of(fetch(get("/readyz"))), 200);

    EXPECT_EQ(status_of(fetch(post("/admin/drain", "", kAdmin))), 200);
    EXPECT_THAT(fetch(get("/ready")), HasSubstr(R"("status":"draining")"));
    EXPECT_EQ(status_of(fetch(get("/health"))), 200);
    EXPECT_EQ(status_of(fetch(get("/props"))), 503);
    EXPECT_EQ(status_of(fetch(post("/admin/undrain", "", kAdmin))), 200);
    EXPECT_EQ(status_of(fetch(get("/ready"))), 200);

    server_.context->set_state(ServingState::kFailed);
    EXPECT_EQ(status_of(fetch(get("/health"))), 503);
    EXPECT_EQ(status_of(fetch(post("/admin/undrain", "", kAdmin))), 503);
}

TEST_F(OpsTest, ListsModels) {
    start();
    load();
    const JsonValue list = json(get("/v1/models"));
    ASSERT_EQ(list.find("data")->items.size(), 2u);
    const JsonValue& first = list.find("data")->items[0];
    EXPECT_EQ(first.find("id")->text, "tiny");
    EXPECT_EQ(first.find("max_model_len")->as_int(), 2048);
    EXPECT_EQ(first.find("meta")->find("n_params")->as_int(), 123);
    EXPECT_EQ(json(get("/models/deepseek-chat")).find("id")->text, "deepseek-chat");
    const std::string missing = fetch(get("/v1/models/other"));
    EXPECT_EQ(status_of(missing), 404);
    EXPECT_THAT(missing, HasSubstr("model_not_found"));
}

TEST_F(OpsTest, DescribesItselfWithoutPaths) {
    start();
    load();
    const JsonValue version = json(get("/version"));
    for (const char* key : {"version", "commit", "compiler", "cuda", "build_type", "sanitizers"}) {
        EXPECT_NE(version.find(key), nullptr) << key;
    }
    const std::string props = fetch(get("/props"));
    EXPECT_EQ(props.find("/secret"), std::string::npos);
    EXPECT_EQ(props.find("boss"), std::string::npos);
    const auto parsed = parse_json(body_of(props));
    ASSERT_TRUE(parsed.has_value()) << props;
    EXPECT_EQ(parsed->find("n_ctx")->as_int(), 2048);
    EXPECT_EQ(parsed->find("model_path")->text, "tiny-00001-of-00002.gguf");
    EXPECT_EQ(parsed->find("kv")->find("blocks_total")->as_int(), 64);
}

TEST_F(OpsTest, ShowsAndCancelsRunningRequests) {
    server_.options.port = 0;
    start();
    auto backend = std::make_unique<FakeBackend>();
    load(std::move(backend));
    EXPECT_EQ(body_of(fetch(get("/slots"))), "[]");
    const RequestRegistry::Entry entry(server_.context->requests, "req-x");
    EXPECT_EQ(status_of(fetch(post("/slots/req-x?action=stop", "", kAdmin))), 400);
    EXPECT_EQ(status_of(fetch(post("/slots/other?action=cancel", "", kAdmin))), 404);
    EXPECT_EQ(status_of(fetch(post("/slots/req-x?action=cancel", ""))), 401);
    EXPECT_FALSE(entry.cancelled());
    EXPECT_EQ(status_of(fetch(post("/slots/req-x?action=cancel", "", kAdmin))), 200);
    EXPECT_TRUE(entry.cancelled());
}

TEST_F(OpsTest, SlotsCanBeTurnedOff) {
    server_.options.slots = false;
    start();
    load();
    EXPECT_EQ(status_of(fetch(get("/slots"))), 404);
}

TEST_F(OpsTest, ExposesMetricsAlways) {
    start();
    EXPECT_THAT(fetch(get("/metrics")), HasSubstr("dsv4v:num_requests_running"));
    fetch(get("/nowhere"));
    load();
    const std::string after = fetch(get("/metrics"));
    EXPECT_TRUE(has_header(after, "Content-Type: text/plain; version=0.0.4"));
    EXPECT_THAT(after, HasSubstr("dsv4v:cache_config_info"));
    EXPECT_THAT(after, HasSubstr("path=\"other\""));
}

TEST_F(OpsTest, SaysWhatIsNotOffered) {
    start();
    load();
    for (const char* path : {"/v1/embeddings", "/embeddings", "/v1/responses", "/v1/messages",
                             "/anthropic/v1/messages", "/anthropic/messages",
                             "/v1/messages/count_tokens", "/v1/responses/input_tokens"}) {
        const std::string reply = fetch(post(path, "{}"));
        EXPECT_EQ(status_of(reply), 501) << path;
        EXPECT_THAT(reply, HasSubstr("not_supported_error"));
    }
    EXPECT_EQ(status_of(fetch(post("/v1/cache/flush", "{}", kAdmin))), 501);
    EXPECT_EQ(status_of(fetch(post("/v1/cache/flush", "{}"))), 401);
}

TEST_F(OpsTest, Administers) {
    start();
    EXPECT_EQ(status_of(fetch(post("/admin/reload-keys", "", kAdmin))), 200);
    EXPECT_EQ(n_reloads_, 1);
    EXPECT_EQ(status_of(fetch(post("/admin/log-level?level=debug", "", kAdmin))), 200);
    EXPECT_EQ(status_of(fetch(post("/admin/log-level?level=loud", "", kAdmin))), 400);
    EXPECT_EQ(status_of(fetch(post("/admin/log-level?level=info", "", kAdmin))), 200);
}

} // namespace
} // namespace dsv4v::testing
