#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/build_info.h"

namespace dsv4v {

namespace {

using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = Histogram::BucketBoundaries;

const Buckets kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kInterTokenBuckets = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                    .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const Buckets kRequestBuckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kHttpBuckets = {.001, .0025, .005, .01, .025, .05, .1, .25,
                              .5,   1,     2.5,  5,   10,   30,  60, 300};
const Buckets kCountBuckets = {1, 2, 4, 8, 16, 32, 64, 128};

// 1-2-5 series up to a million tokens.
Buckets token_buckets() {
    Buckets out;
    for (double decade = 1; decade <= 1e6; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) {
            if (decade * step <= 1e6) {
                out.push_back(decade * step);
            }
        }
    }
    return out;
}

// One family with unlabelled (but for model_name) samples computed at scrape time.
class Sampled {
  public:
    Sampled(std::vector<MetricFamily>& out, std::string model_name)
        : out_(out), model_name_(std::move(model_name)) {}

    void gauge(const std::string& name, const std::string& help, double value) {
        ClientMetric metric = labelled({});
        metric.gauge.value = std::isfinite(value) ? value : 0;
        add(name, help, MetricType::Gauge, std::move(metric));
    }
    void counter(const std::string& name, const std::string& help, double value,
                 const std::vector<std::pair<std::string, std::string>>& labels = {}) {
        ClientMetric metric = labelled(labels);
        metric.counter.value = std::isfinite(value) ? value : 0;
        add(name, help, MetricType::Counter, std::move(metric));
    }
    void constant(const std::string& name, const std::string& help,
                  const std::vector<std::pair<std::string, std::string>>& labels) {
        ClientMetric metric = labelled(labels);
        metric.gauge.value = 1;
        add(name, help, MetricType::Gauge, std::move(metric));
    }
    // `counts`: per bucket, the one above the last bound at the end.
    void histogram(const std::string& name, const std::string& help, std::span<const double> bounds,
                   const std::vector<uint64_t>& counts, double sum) {
        ClientMetric metric = labelled({});
        uint64_t cumulative = 0;
        for (size_t i = 0; i <= bounds.size(); ++i) {
            cumulative += i < counts.size() ? counts[i] : 0;
            const double bound =
                i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
            metric.histogram.bucket.push_back({cumulative, bound});
        }
        metric.histogram.sample_count = cumulative;
        metric.histogram.sample_sum = sum;
        add(name, help, MetricType::Histogram, std::move(metric));
    }

  private:
    [[nodiscard]] ClientMetric
    labelled(const std::vector<std::pair<std::string, std::string>>& labels) const {
        ClientMetric metric;
        metric.label.push_back({"model_name", model_name_});
        for (const auto& [name, value] : labels) {
            metric.label.push_back({name, value});
        }
        return metric;
    }
    // Samples of one family follow each other.
    void add(const std::string& name, const std::string& help, MetricType type,
             ClientMetric metric) {
        if (out_.empty() || out_.back().name != name) {
            out_.push_back({name, help, type, {}});
        }
        out_.back().metric.push_back(std::move(metric));
    }

    std::vector<MetricFamily>& out_;
    std::string model_name_;
};

size_t count_entries(const char* directory) {
    std::error_code error;
    size_t n = 0;
    for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
        ++n;
    }
    return n;
}

// Value of a "Name:   123 kB" line of /proc/self/status in bytes or as a plain number.
double status_value(const std::string& status, const std::string& name) {
    const size_t at = status.find("\n" + name + ":");
    if (at == std::string::npos) {
        return 0;
    }
    const std::string line = status.substr(at + 1, status.find('\n', at + 1) - at - 1);
    const double number = std::strtod(line.c_str() + name.size() + 1, nullptr);
    return line.ends_with("kB") ? number * 1024 : number;
}

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void sample_process(Sampled& out, double start_time) {
    std::ifstream in("/proc/self/status");
    const std::string status{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const double resident = status_value(status, "VmRSS");
    out.gauge("process_start_time_seconds", "Start of the process, Unix time", start_time);
    out.counter("process_cpu_seconds_total", "CPU time used", cpu_seconds());
    out.gauge("process_resident_memory_bytes", "Resident memory", resident);
    out.gauge("dsv4v:host_memory_rss_bytes", "Resident memory", resident);
    out.gauge("dsv4v:host_memory_anon_swap_bytes", "Anonymous memory, resident or swapped out",
              status_value(status, "RssAnon") + status_value(status, "VmSwap"));
    out.gauge("dsv4v:open_fds", "Open file descriptors",
              static_cast<double>(count_entries("/proc/self/fd")));
    out.gauge("dsv4v:threads", "Threads of the process", status_value(status, "Threads"));
}

void sample_engine(Sampled& out, const EngineStats& stats) {
    const auto number = [](auto value) { return static_cast<double>(value); };
    out.gauge("dsv4v:num_requests_running", "Sequences being computed", stats.n_running);
    out.gauge("dsv4v:num_requests_waiting", "Sequences in the queue", stats.n_waiting);
    out.gauge("dsv4v:kv_cache_usage_perc", "Share of KV pages in use, 0 to 1",
              stats.n_pages > 0 ? number(stats.n_pages_used) / stats.n_pages : 0);
    out.counter("dsv4v:num_preemptions_total", "Sequences put back into the queue",
                number(stats.n_preemptions));
    const char* cancelled = "dsv4v:cancelled_requests_total";
    const char* cancelled_help = "Sequences whose client left, by phase";
    out.counter(cancelled, cancelled_help, number(stats.n_cancelled_queue), {{"phase", "queue"}});
    out.counter(cancelled, cancelled_help, number(stats.n_cancelled_prefill),
                {{"phase", "prefill"}});
    out.counter(cancelled, cancelled_help, number(stats.n_cancelled_decode), {{"phase", "decode"}});
    out.counter("dsv4v:engine_steps_total", "Steps of the engine", number(stats.n_steps));
    out.histogram("dsv4v:engine_step_seconds", "Duration of a step", kStepSecondsBounds,
                  stats.step_seconds_histogram, stats.step_seconds_sum);
    out.counter("dsv4v:nonfinite_logits_total", "Rows with logits that were not finite",
                number(stats.n_non_finite));
}

} // namespace

class Metrics::Impl {
  public:
    explicit Impl(const std::string& model_name) : model_name_(model_name), start_time_(now()) {
        for (const char* reason : {"stop", "length", "tool_calls", "abort", "error"}) {
            success_.Add({{"finished_reason", reason}});
        }
        for (const char* type :
             {"invalid_request_error", "authentication_error", "rate_limit_error", "server_error",
              "unavailable_error", "timeout_error"}) {
            errors_.Add({{"type", type}});
        }
    }

    void record_http(std::string_view route, int status, double seconds) {
        http_requests_.Add({{"path", std::string(route)}, {"code", std::to_string(status)}})
            .Increment();
        http_seconds_.Observe(seconds);
    }

    void record_error(std::string_view type) {
        errors_.Add({{"type", std::string(type)}}).Increment();
    }

    void record_request(const RequestRecord& record) {
        prompt_tokens_.Increment(record.n_prompt);
        generation_tokens_.Increment(record.n_generated);
        cached_tokens_.Increment(record.n_cached);
        image_tokens_.Increment(record.n_image_tokens);
        reasoning_tokens_.Increment(record.n_reasoning);
        if (!record.finish_reason.empty()) {
            success_.Add({{"finished_reason", record.finish_reason}}).Increment();
        }
        if (record.ttft_ms >= 0) {
            first_token_.Observe(record.ttft_ms / 1e3);
        }
        e2e_.Observe(record.total_ms / 1e3);
        queue_.Observe(record.queue_ms / 1e3);
        prefill_.Observe(record.prompt_ms / 1e3);
        decode_.Observe(record.decode_ms / 1e3);
        inference_.Observe((record.prompt_ms + record.decode_ms) / 1e3);
        prompt_length_.Observe(record.n_prompt);
        generation_length_.Observe(record.n_generated);
        max_tokens_.Observe(record.max_tokens);
        n_.Observe(record.n_choices);
    }

    void observe_inter_token(double seconds) { inter_token_.Observe(seconds); }
    void record_dropped_log_lines(uint64_t n) { dropped_lines_.Increment(static_cast<double>(n)); }

    std::string exposition(const EngineStats* stats, const BackendLimits* limits) {
        std::vector<MetricFamily> families = registry_.Collect();
        std::sort(families.begin(), families.end(),
                  [](const auto& a, const auto& b) { return a.name < b.name; });
        Sampled sampled(families, model_name_);
        sample_engine(sampled, stats != nullptr ? *stats : EngineStats{});
        if (limits != nullptr) {
            sampled.constant("dsv4v:cache_config_info", "Shape of the KV cache",
                             {{"block_size", std::to_string(kPageTokens)},
                              {"num_gpu_blocks", std::to_string(limits->n_pages)},
                              {"max_num_seqs", std::to_string(limits->max_sequences)},
                              {"max_model_len", std::to_string(limits->context_length)}});
        }
        sampled.constant("dsv4v:build_info", "Version of the server",
                         {{"version", build_info().version}, {"commit", build_info().commit}});
        sample_process(sampled, start_time_);
        std::ostringstream out;
        prometheus::TextSerializer().Serialize(out, families);
        return out.str();
    }

  private:
    static double now() {
        return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    }

    Family<Counter>& counter_family(const std::string& name, const std::string& help) {
        return prometheus::BuildCounter()
            .Name(name)
            .Help(help)
            .Labels({{"model_name", model_name_}})
            .Register(registry_);
    }
    Counter& counter(const std::string& name, const std::string& help) {
        return counter_family(name, help).Add({});
    }
    Histogram& histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
        return prometheus::BuildHistogram()
            .Name(name)
            .Help(help)
            .Labels({{"model_name", model_name_}})
            .Register(registry_)
            .Add({}, buckets);
    }

    const std::string model_name_;
    const double start_time_;
    prometheus::Registry registry_;
    Counter& prompt_tokens_ =
        counter("dsv4v:prompt_tokens_total", "Prompt tokens of finished requests");
    Counter& generation_tokens_ =
        counter("dsv4v:generation_tokens_total", "Generated tokens of finished requests");
    Counter& cached_tokens_ =
        counter("dsv4v:prompt_tokens_cached_total", "Prompt tokens taken from the cache");
    Counter& image_tokens_ =
        counter("dsv4v:image_tokens_total", "Prompt tokens that stand for pictures");
    Counter& reasoning_tokens_ =
        counter("dsv4v:reasoning_tokens_total", "Generated tokens inside reasoning");
    Counter& dropped_lines_ =
        counter("dsv4v:log_lines_dropped_total", "Log lines that were not written in time");
    Family<Counter>& success_ =
        counter_family("dsv4v:request_success_total", "Finished generations");
    Family<Counter>& errors_ =
        counter_family("dsv4v:request_errors_total", "Errors told to clients");
    Family<Counter>& http_requests_ = counter_family("dsv4v:http_requests_total", "HTTP exchanges");
    Histogram& http_seconds_ = histogram("dsv4v:http_request_duration_seconds",
                                         "Duration of HTTP exchanges", kHttpBuckets);
    Histogram& first_token_ = histogram("dsv4v:time_to_first_token_seconds",
                                        "Arrival to first token", kFirstTokenBuckets);
    Histogram& inter_token_ = histogram("dsv4v:inter_token_latency_seconds",
                                        "Time between two tokens of a choice", kInterTokenBuckets);
    Histogram& e2e_ =
        histogram("dsv4v:e2e_request_latency_seconds", "Whole request", kRequestBuckets);
    Histogram& queue_ =
        histogram("dsv4v:request_queue_time_seconds", "Time in the queue", kRequestBuckets);
    Histogram& prefill_ = histogram("dsv4v:request_prefill_time_seconds",
                                    "First scheduled to first token", kRequestBuckets);
    Histogram& decode_ =
        histogram("dsv4v:request_decode_time_seconds", "First to last token", kRequestBuckets);
    Histogram& inference_ =
        histogram("dsv4v:request_inference_time_seconds", "Prefill and decode", kRequestBuckets);
    Histogram& prompt_length_ =
        histogram("dsv4v:request_prompt_tokens", "Prompt length", token_buckets());
    Histogram& generation_length_ =
        histogram("dsv4v:request_generation_tokens", "Answer length", token_buckets());
    Histogram& max_tokens_ =
        histogram("dsv4v:request_params_max_tokens", "max_tokens of requests", token_buckets());
    Histogram& n_ = histogram("dsv4v:request_params_n", "n of requests", kCountBuckets);
};

Metrics::Metrics(const std::string& model_name) : impl_(std::make_unique<Impl>(model_name)) {}

Metrics::~Metrics() = default;

void Metrics::record_http(std::string_view route, int status, double seconds) {
    impl_->record_http(route, status, seconds);
}

void Metrics::record_request(const RequestRecord& record) {
    impl_->record_request(record);
}

void Metrics::observe_inter_token(double seconds) {
    impl_->observe_inter_token(seconds);
}

void Metrics::record_error(std::string_view type) {
    impl_->record_error(type);
}

void Metrics::record_dropped_log_lines(uint64_t n) {
    impl_->record_dropped_log_lines(n);
}

std::string Metrics::exposition(const EngineStats* stats, const BackendLimits* limits) {
    return impl_->exposition(stats, limits);
}

} // namespace dsv4v
