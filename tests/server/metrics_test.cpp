#include "server/metrics.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dsv4v {
namespace {

using ::testing::HasSubstr;

// A small checker of the text format: every sample has a TYPE before it, families are not split,
// values are finite, counters end in _total, histogram buckets rise and end at +Inf == _count.
void check_exposition(const std::string& text) {
    std::istringstream lines(text);
    std::map<std::string, std::string> types;
    std::set<std::string> samples;
    std::string family;
    double last_bucket = 0;
    const std::regex sample(R"(([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\} (\S+))");
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# TYPE ")) {
            std::istringstream words(line.substr(7));
            std::string type;
            words >> family >> type;
            EXPECT_FALSE(types.contains(family)) << "family twice: " << family;
            types[family] = type;
            if (type == "counter") {
                EXPECT_TRUE(family.ends_with("_total")) << family;
            }
            continue;
        }
        if (line.starts_with("#") || line.empty()) {
            continue;
        }
        std::smatch match;
        ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
        const std::string name = match[1];
        EXPECT_TRUE(name.starts_with(family)) << line;
        EXPECT_THAT(match[2].str(), HasSubstr("model_name=\"m\"")) << line;
        EXPECT_TRUE(samples.insert(name + match[2].str()).second) << "sample twice: " << line;
        const double value = std::stod(match[3]);
        EXPECT_TRUE(std::isfinite(value)) << line;
        if (name.ends_with("_bucket")) {
            const bool first = match[2].str().find("le=") != std::string::npos &&
                               value < last_bucket &&
                               match[2].str().find("+Inf") == std::string::npos;
            EXPECT_TRUE(value >= last_bucket || first) << line;
            last_bucket = match[2].str().find("+Inf") != std::string::npos ? 0 : value;
        }
    }
    EXPECT_GT(types.size(), 30u);
}

TEST(Metrics, AreValidFromTheStart) {
    Metrics metrics("m");
    const std::string text = metrics.exposition(nullptr, nullptr);
    check_exposition(text);
    EXPECT_EQ(text.find("nan"), std::string::npos);
    EXPECT_THAT(text, HasSubstr("dsv4v:kv_cache_usage_perc{model_name=\"m\"} 0"));
    EXPECT_THAT(text, HasSubstr("dsv4v:num_requests_running"));
    EXPECT_THAT(text, HasSubstr("dsv4v:request_success_total{"));
    EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes"));
}

TEST(Metrics, CountRequestsAndErrors) {
    Metrics metrics("m");
    RequestRecord record;
    record.generated = true;
    record.finish_reason = "length";
    record.n_prompt = 10;
    record.n_generated = 20;
    record.n_reasoning = 5;
    record.ttft_ms = 50;
    record.total_ms = 700;
    metrics.record_request(record);
    metrics.record_http("/v1/chat/completions", 200, 0.7);
    metrics.record_http("/v1/chat/completions", 400, 0.001);
    metrics.record_error("invalid_request_error");
    metrics.observe_inter_token(0.03);
    const std::string text = metrics.exposition(nullptr, nullptr);
    check_exposition(text);
    for (const char* part :
         {"dsv4v:prompt_tokens_total{model_name=\"m\"} 10",
          "dsv4v:generation_tokens_total{model_name=\"m\"} 20",
          "dsv4v:reasoning_tokens_total{model_name=\"m\"} 5",
          "dsv4v:request_success_total{model_name=\"m\",finished_reason=\"length\"} 1",
          "dsv4v:request_errors_total{model_name=\"m\",type=\"invalid_request_error\"} 1",
          "dsv4v:time_to_first_token_seconds_count{model_name=\"m\"} 1",
          "dsv4v:inter_token_latency_seconds_count{model_name=\"m\"} 1",
          "dsv4v:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.04\"} 0",
          "dsv4v:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.06\"} 1"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
    EXPECT_THAT(text,
                ::testing::ContainsRegex("http_requests_total\\{[^}]*code=\"400\"[^}]*\\} 1"));
}

TEST(Metrics, ShowTheEngine) {
    Metrics metrics("m");
    EngineStats stats;
    stats.n_running = 3;
    stats.n_waiting = 2;
    stats.n_pages = 8;
    stats.n_pages_used = 2;
    stats.n_steps = 6;
    stats.n_cancelled_decode = 4;
    stats.step_seconds_histogram.assign(std::size(kStepSecondsBounds) + 1, 0);
    stats.step_seconds_histogram[1] = 5;
    stats.step_seconds_histogram.back() = 1;
    stats.step_seconds_sum = 20;
    BackendLimits limits;
    limits.n_pages = 8;
    const std::string text = metrics.exposition(&stats, &limits);
    check_exposition(text);
    for (const char* part :
         {"dsv4v:num_requests_running{model_name=\"m\"} 3",
          "dsv4v:kv_cache_usage_perc{model_name=\"m\"} 0.25",
          "dsv4v:cancelled_requests_total{model_name=\"m\",phase=\"decode\"} 4",
          "dsv4v:engine_step_seconds_bucket{model_name=\"m\",le=\"0.001\"} 0",
          "dsv4v:engine_step_seconds_bucket{model_name=\"m\",le=\"0.0025\"} 5",
          "dsv4v:engine_step_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 6",
          "dsv4v:engine_step_seconds_sum{model_name=\"m\"} 20", "num_gpu_blocks=\"8\""}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
}

// Two scrapers must not disturb one another.
TEST(Metrics, ReadingChangesNothing) {
    Metrics metrics("m");
    metrics.record_http("/x", 200, 1);
    const auto sample = [&metrics] {
        const std::string text = metrics.exposition(nullptr, nullptr);
        const size_t at = text.find("\ndsv4v:http_requests_total{");
        return text.substr(at, text.find('\n', at + 1) - at);
    };
    EXPECT_EQ(sample(), sample());
}

} // namespace
} // namespace dsv4v
