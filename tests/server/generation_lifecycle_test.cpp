// What happens around a generation: clients that leave, limits, failures, keep-alives, control.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/server/api_fixture.h"
#include "tests/server/stream_checker.h"

namespace dsv4v::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kEndless = R"({"text":"abc ","finish":"none","step_ms":2})";
constexpr std::string_view kSlowPrefill =
    R"({"text":"ok","prefill_ms_per_token":8,"step_ms":1})"; // about half a second

std::string body(const std::string& members) {
    return R"({"messages":[{"role":"user","content":")" + std::string(60, 'x') +
           R"("}],"thinking":{"type":"disabled"})" + (members.empty() ? "" : "," + members) + "}";
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

EngineOptions small_chunks() {
    EngineOptions options;
    options.prefill_chunk = 8;
    return options;
}

TEST(GenerationLifecycle, ALeavingClientEndsAWholeBodyRequest) {
    TestApi api(kEndless);
    std::atomic<bool> gone = false;
    std::thread leaver([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        gone = true;
    });
    const auto start = Clock::now();
    const ApiReply reply = api.post("/v1/chat/completions", body(""), [&] { return gone.load(); });
    leaver.join();
    EXPECT_EQ(reply.status, 499);
    EXPECT_LT(seconds_since(start), 1.5);
    EXPECT_EQ(reply.record->finish_reason, "abort");
    EXPECT_TRUE(api.idle());
    EXPECT_EQ(api.engine().stats().n_cancelled_decode, 1u);
}

TEST(GenerationLifecycle, ALeavingClientEndsAStream) {
    TestApi api(kEndless);
    std::atomic<bool> gone = false;
    CollectingSink sink;
    sink.gone = [&] { return gone.load(); };
    sink.seen = [&](std::string& bytes) { gone = bytes.size() > 2000; };
    const ApiReply reply =
        api.post("/v1/chat/completions", body(R"("stream":true)"), sink.gone, &sink);
    EXPECT_FALSE(reply.done);
    EXPECT_EQ(reply.record->finish_reason, "abort");
    EXPECT_TRUE(api.idle());
}

TEST(GenerationLifecycle, LeavingDuringPrefillAndInTheQueue) {
    BackendLimits limits = api_limits();
    limits.max_sequences = 1;
    TestApi api(R"({"text":"x","finish":"none","step_ms":1,"prefill_ms_per_token":10})",
                api_options(), limits, small_chunks());
    std::atomic<bool> first_gone = false;
    std::thread first([&] {
        (void)api.post("/v1/chat/completions", body(""), [&] { return first_gone.load(); });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const ApiReply queued = api.post("/v1/chat/completions", body(""), [] { return true; });
    EXPECT_EQ(queued.status, 499);
    first_gone = true;
    first.join();
    EXPECT_TRUE(api.idle());
    const EngineStats stats = api.engine().stats();
    EXPECT_EQ(stats.n_cancelled_queue, 1u) << "never scheduled";
    EXPECT_EQ(stats.n_cancelled_prefill, 1u);
}

TEST(GenerationLifecycle, RandomDeparturesLeaveNothingBehind) {
    TestApi api(R"({"text":"some words and a stop","step_ms":1,"finish":"none"})");
    std::mt19937 rng(5);
    std::vector<std::thread> clients;
    for (int c = 0; c < 6; ++c) {
        clients.emplace_back([&api, seed = rng()] {
            std::mt19937 own(seed);
            for (int k = 0; k < 8; ++k) {
                const auto leave_at = Clock::now() + std::chrono::milliseconds(own() % 40);
                const std::string members = own() % 2 == 0 ? R"("stream":true,"n":2)" : "";
                (void)api.post("/v1/chat/completions", body(members),
                               [&] { return Clock::now() > leave_at; });
            }
        });
    }
    for (std::thread& client : clients) {
        client.join();
    }
    EXPECT_TRUE(api.idle());
    EXPECT_EQ(api.engine().stats().n_errors, 0u);
}

TEST(GenerationLifecycle, TimeLimits) {
    TestApi api(kEndless);
    const ApiReply whole = api.post("/v1/chat/completions", body(R"("timeout":0.1)"));
    EXPECT_EQ(whole.status, 504);
    EXPECT_EQ(whole.text("error.type"), "timeout_error");
    EXPECT_EQ(whole.text("error.code"), "generation_timeout");
    const ApiReply stream =
        api.post("/v1/chat/completions", body(R"("timeout":0.1,"stream":true)"));
    EXPECT_EQ(stream.status, 200);
    ASSERT_TRUE(stream.done);
    EXPECT_EQ(ApiReply::at(stream.events.back(), "error.code")->text, "504");
    EXPECT_EQ(stream.record->finish_reason, "error");
    TestApi slow(kSlowPrefill, api_options(), api_limits(), small_chunks());
    const ApiReply early =
        slow.post("/v1/chat/completions", body(R"("timeout":0.05,"stream":true)"));
    EXPECT_EQ(early.status, 408) << "nothing was sent: a plain error";
    EXPECT_EQ(early.text("error.code"), "request_timeout");
    EXPECT_TRUE(slow.idle());
}

TEST(GenerationLifecycle, TheServerCapsTheTimeLimit) {
    Options options = api_options();
    options.request_timeout_s = 0.1;
    TestApi api(kEndless, options);
    EXPECT_EQ(api.post("/v1/chat/completions", body(R"("timeout":100)")).status, 504);
    EXPECT_EQ(api.post("/v1/chat/completions", body("")).status, 504);
}

TEST(GenerationLifecycle, QueueTimeoutAndFullQueue) {
    BackendLimits limits = api_limits();
    limits.max_sequences = 1;
    Options options = api_options();
    options.queue_timeout_s = 0.15;
    EngineOptions engine_options;
    engine_options.max_queue = 1;
    TestApi api(kEndless, options, limits, engine_options);
    std::atomic<bool> gone = false;
    std::thread running(
        [&] { (void)api.post("/v1/chat/completions", body(""), [&] { return gone.load(); }); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::thread waiting([&] {
        const ApiReply reply = api.post("/v1/chat/completions", body(""));
        EXPECT_EQ(reply.status, 503);
        EXPECT_EQ(reply.text("error.code"), "overloaded");
        EXPECT_GE(reply.number("error.retry_after"), 1);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const ApiReply refused = api.post("/v1/chat/completions", body(""));
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.text("error.code"), "queue_full");
    EXPECT_GE(refused.number("error.retry_after"), 1);
    waiting.join();
    gone = true;
    running.join();
    EXPECT_TRUE(api.idle());
}

TEST(GenerationLifecycle, AFailureBeforeTheFirstTokenIsAPlainError) {
    TestApi api(R"({"text":"abc","fail":{"phase":"decode","step":0,"kind":"nonfinite"}})");
    for (const char* members : {"", R"("stream":true)", R"("n":2,"stream":true)"}) {
        const ApiReply reply = api.post("/v1/chat/completions", body(members));
        EXPECT_EQ(reply.status, 500) << reply.body;
        EXPECT_EQ(reply.text("error.type"), "server_error");
        EXPECT_EQ(reply.text("error.code"), "engine_error");
    }
    EXPECT_TRUE(api.idle());
}

TEST(GenerationLifecycle, AFailureInsideAStreamIsAnEvent) {
    TestApi api(
        R"({"text":"abcdefgh","step_ms":1,"fail":{"phase":"decode","step":5,"kind":"nonfinite"}})");
    const ApiReply reply = api.post("/v1/chat/completions", body(R"("stream":true)"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_TRUE(reply.done);
    ASSERT_GE(reply.events.size(), 2u);
    const JsonValue* error = reply.events.back().find("error");
    ASSERT_NE(error, nullptr) << reply.body;
    EXPECT_EQ(error->find("code")->as_int(), 500);
    EXPECT_EQ(error->find("type")->text, "server_error");
    EXPECT_EQ(error->find("request_id")->text, "req-1");
    EXPECT_EQ(reply.record->finish_reason, "error");
    EXPECT_EQ(reply.record->error_type, "server_error");
}

TEST(GenerationLifecycle, ADeviceFaultAfterKeepAlivesIsAnEvent) {
    Options options = api_options();
    options.sse_ping_interval_s = 0.05;
    TestApi api(
        R"({"text":"abc","prefill_ms_per_token":8,"fail":{"phase":"decode","step":0,"kind":"cuda"}})",
        options, api_limits(), small_chunks());
    const ApiReply reply = api.post("/v1/chat/completions", body(R"("stream":true)"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_GE(reply.n_pings, 2);
    EXPECT_TRUE(reply.done);
    ASSERT_EQ(reply.events.size(), 1u);
    EXPECT_NE(reply.events[0].find("error"), nullptr);
}

TEST(GenerationLifecycle, ShutdownTellsStreams) {
    TestApi api(kEndless);
    std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(80));
        api.engine().stop();
    });
    const ApiReply reply = api.post("/v1/chat/completions", body(R"("stream":true)"));
    stopper.join();
    EXPECT_TRUE(reply.done);
    EXPECT_EQ(ApiReply::at(reply.events.back(), "error.code")->text, "503");
    EXPECT_EQ(api.post("/v1/chat/completions", body("")).status, 503);
}

TEST(GenerationLifecycle, KeepAliveForms) {
    const std::pair<SsePingMode, const char*> forms[] = {
        {SsePingMode::kComment, ": keep-alive\n\n"},
        {SsePingMode::kCommentNl, ": keep-alive\n"},
        {SsePingMode::kChunk, R"("delta":{})"},
    };
    for (const auto& [mode, text] : forms) {
        Options options = api_options();
        options.sse_ping_interval_s = 0.05;
        options.sse_ping_mode = mode;
        TestApi api(kSlowPrefill, options, api_limits(), small_chunks());
        std::vector<double> gaps;
        auto last = Clock::now();
        CollectingSink sink;
        sink.seen = [&](std::string&) {
            gaps.push_back(seconds_since(last));
            last = Clock::now();
        };
        const ApiReply reply =
            api.post("/v1/chat/completions", body(R"("stream":true)"), nullptr, &sink);
        EXPECT_NE(reply.body.find(text), std::string::npos) << reply.body;
        EXPECT_TRUE(reply.done);
        EXPECT_GE(gaps.size(), 4u);
        for (const double gap : gaps) {
            EXPECT_LT(gap, 0.5);
        }
    }
    Options options = api_options();
    options.sse_ping_interval_s = 0.05;
    options.sse_ping_mode = SsePingMode::kOff;
    TestApi quiet(kSlowPrefill, options, api_limits(), small_chunks());
    EXPECT_EQ(quiet.post("/v1/chat/completions", body(R"("stream":true)")).n_pings, 0);
}

TEST(GenerationLifecycle, SlowWholeBodiesCanBeKeptAliveWithBlanks) {
    Options options = api_options();
    options.json_keepalive_s = 0.05;
    TestApi api(kSlowPrefill, options, api_limits(), small_chunks());
    const ApiReply reply = api.post("/v1/chat/completions", body(""));
    EXPECT_TRUE(reply.body.starts_with("\n"));
    EXPECT_EQ(reply.text("choices.0.message.content"), "ok");
}

TEST(GenerationLifecycle, ProgressEventsComeBeforeTheFirstToken) {
    TestApi api(kSlowPrefill, api_options(), api_limits(), small_chunks());
    const ApiReply reply =
        api.post("/v1/chat/completions", body(R"("stream":true,"return_progress":true)"));
    ASSERT_TRUE(reply.done);
    const JsonValue* progress = reply.events[0].find("progress");
    ASSERT_NE(progress, nullptr) << reply.body;
    EXPECT_EQ(names_of(*progress), (std::vector<std::string>{"phase", "queue_position", "total",
                                                             "cached", "processed", "time_ms"}));
    EXPECT_TRUE(reply.events[0].find("choices")->items.empty());
    size_t n_progress = 0;
    while (reply.events[n_progress].find("progress") != nullptr) {
        ++n_progress;
    }
    EXPECT_LE(n_progress, 5u) << "at most 4 per second";
    for (size_t k = n_progress; k < reply.events.size(); ++k) {
        EXPECT_EQ(reply.events[k].find("progress"), nullptr);
    }
}

std::string first_id(const std::string& bytes) {
    const size_t at = bytes.find("chatcmpl-");
    return at == std::string::npos ? "" : bytes.substr(at, bytes.find('"', at) - at);
}

TEST(GenerationLifecycle, ControlEndsReasoningAndReplies) {
    TestApi api(kEndless);
    for (const char* action : {"reasoning_end", "cancel"}) {
        CollectingSink sink;
        std::atomic<bool> sent = false;
        sink.seen = [&](std::string& bytes) {
            if (bytes.size() > 1500 && !sent.exchange(true)) {
                const ApiReply reply = api.post(
                    "/v1/chat/completions/control",
                    fmt::format(R"({{"id":"{}","action":"{}"}})", first_id(bytes), action));
                EXPECT_EQ(reply.status, 200);
                EXPECT_EQ(reply.body, R"({"success":true})");
            }
        };
        const ApiReply reply = api.post(
            "/v1/chat/completions",
            R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"max_tokens":120})",
            nullptr, &sink);
        const StreamedReply stream = check_stream(reply, false);
        const StreamedChoice& choice = stream.choices.at(0);
        EXPECT_FALSE(choice.reasoning.empty());
        if (std::string_view(action) == "cancel") {
            EXPECT_EQ(choice.finish_reason, "stop");
            EXPECT_LT(choice.reasoning.size(), 119u);
        } else {
            EXPECT_FALSE(choice.content.empty());
            EXPECT_EQ(choice.finish_reason, "length");
        }
        EXPECT_TRUE(api.idle());
    }
    const ApiReply unknown =
        api.post("/v1/chat/completions/control", R"({"id":"chatcmpl-x","action":"cancel"})");
    EXPECT_EQ(unknown.status, 200);
    EXPECT_EQ(unknown.at("success")->boolean, false);
    EXPECT_EQ(api.post("/v1/chat/completions/control", R"({"id":"x","action":"explode"})").status,
              400);
    EXPECT_EQ(api.post("/v1/chat/completions/control", R"({"action":"cancel"})").status, 400);
}

TEST(GenerationLifecycle, AStopStringFreesTheSequence) {
    TestApi api(kEndless);
    const auto start = Clock::now();
    const ApiReply reply = api.post("/v1/chat/completions", body(R"("stop":"c a")"));
    EXPECT_EQ(reply.text("choices.0.message.content"), "ab");
    EXPECT_LT(seconds_since(start), 1.0);
    EXPECT_EQ(reply.number("usage.completion_tokens"), 5) << "tokens behind the match don't count";
    EXPECT_TRUE(api.idle());
}

} // namespace
} // namespace dsv4v::testing
