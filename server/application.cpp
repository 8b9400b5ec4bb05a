#include "server/application.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loaders/model_report.h"
#include "loaders/vocab.h"
#include "server/api_routes.h"
#include "server/auth.h"
#include "server/build_info.h"
#include "server/health_check.h"
#include "server/http_policy.h"
#include "server/http_server.h"
#include "server/logging.h"
#include "server/metrics.h"
#include "server/model_loader.h"
#include "server/ops_handlers.h"
#include "server/serving_context.h"
#include "server/web_assets.h"

namespace dsv4v {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kTick = milliseconds(100);
constexpr auto kLastWords = milliseconds(400); // for final events and replies at the end

int fail(const std::string& message, int exit_code = kExitFailure) {
    std::cerr << "dsv4v-server: " << message << "\n";
    return exit_code;
}

int report_model(const Options& options) {
    const auto files = open_model_files(options);
    if (!files) {
        return fail(files.error().message);
    }
    auto vocab = Vocab::from_gguf(files->file);
    if (!vocab) {
        return fail(vocab.error().message);
    }
    if (const auto tokenizer = Tokenizer::create(std::move(*vocab)); !tokenizer) {
        return fail(tokenizer.error().message);
    }
    std::cout << model_report(files->file, files->config, files->weights);
    std::cout << (files->has_projector ? "ok, vision file ok\n" : "ok\n");
    return 0;
}

int dry_run(const Options& options) {
    const auto files = open_model_files(options);
    if (!files) {
        return fail(files.error().message);
    }
    const auto plan = plan_memory(*files, options);
    if (!plan) {
        return fail(plan.error().message);
    }
    std::cout << plan->to_string();
    return 0;
}

sigset_t waited_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
        sigaddset(&signals, signal);
    }
    return signals;
}

// Every connection is a descriptor: use what the system allows.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

} // namespace

// Main thread: signals and supervision. One thread loads the model; the engine and the HTTP server
// have their own.
class Application {
  public:
    Application(const Options& options, std::unique_ptr<Authenticator> authenticator)
        : options_(options), authenticator_(std::move(authenticator)), metrics_(options.model_id()),
          context_(options, metrics_), server_(context_, *authenticator_, routes()) {}

    ~Application() {
        if (loader_.joinable()) {
            loader_.join();
        }
    }

    int run() {
        if (const auto started = server_.start(); !started) {
            return fail(started.error().message);
        }
        log_line(LogLevel::kInfo, "listening",
                 {{"address", server_.address()},
                  {"version", build_info().version},
                  {"model", options_.model_id()}});
        loader_ = std::thread([this] { load(); });
        return supervise();
    }

  private:
    std::vector<Route> routes() {
        std::vector<Route> all =
            ops_routes(context_, {.reload_keys = [this] { return authenticator_->reload(); }});
        for (auto& more : {api_routes(context_), web_routes(embedded_files())}) {
            all.insert(all.end(), more.begin(), more.end());
        }
        return all;
    }

    void load() {
        const auto begin = Clock::now();
        auto model =
            load_model(options_, [this](double fraction) { context_.set_progress(fraction); });
        if (!model) {
            load_error_ = model.error().message;
            load_failed_ = true;
            return;
        }
        for (const std::string& warning : (*model)->config.warnings) {
            log_line(LogLevel::kWarn, warning);
        }
        if ((*model)->has_projector) {
            log_line(LogLevel::kWarn, "the vision file is valid; this version answers text only");
        }
        const std::chrono::duration<double> elapsed = Clock::now() - begin;
        log_line(LogLevel::kInfo, "model loaded",
                 {{"backend", (*model)->backend},
                  {"context", int64_t{(*model)->engine->limits().context_length}},
                  {"slots", int64_t{(*model)->engine->limits().max_sequences}},
                  {"kv_pages", int64_t{(*model)->engine->limits().n_pages}},
                  {"seconds", elapsed.count()}});
        context_.publish(std::move(*model));
    }

    int supervise() {
        const sigset_t signals = waited_signals();
        for (;;) {
            const timespec tick{0, std::chrono::nanoseconds(kTick).count()};
            const int signal = sigtimedwait(&signals, nullptr, &tick);
            if (signal > 0) {
                handle_signal(signal);
            }
            if (const auto exit_code = check_state()) {
                return *exit_code;
            }
        }
    }

    void handle_signal(int signal) {
        switch (signal) {
        case SIGHUP:
            reload();
            break;
        case SIGUSR1:
            dump_slots();
            break;
        default:
            if (drain_deadline_) { // asked twice: now
                stop_logging();
                ::_exit(128 + signal);
            }
            begin_drain();
        }
    }

    void reload() {
        for (const auto& result : {authenticator_->reload(), reopen_log()}) {
            if (!result) {
                log_line(LogLevel::kError, "reload failed", {{"what", result.error().message}});
            }
        }
        log_line(LogLevel::kInfo, "reloaded");
    }

    void dump_slots() {
        const LoadedModel* model = context_.loaded();
        if (model == nullptr) {
            return;
        }
        const EngineStats stats = model->engine->stats();
        log_line(LogLevel::kInfo, "state",
                 {{"running", int64_t{stats.n_running}},
                  {"waiting", int64_t{stats.n_waiting}},
                  {"pages_used", int64_t{stats.n_pages_used}},
                  {"pages", int64_t{stats.n_pages}},
                  {"connections", static_cast<int64_t>(server_.n_connections())}});
        for (const SlotSnapshot& slot : model->engine->slots()) {
            log_line(LogLevel::kInfo, "slot",
                     {{"slot", int64_t{slot.slot}},
                      {"req", slot.request_id},
                      {"state", slot.state},
                      {"prompt", int64_t{slot.n_prompt}},
                      {"processed", int64_t{slot.n_processed}},
                      {"decoded", int64_t{slot.n_decoded}},
                      {"age_ms", slot.age_ms}});
        }
    }

    void begin_drain() {
        log_line(LogLevel::kWarn, "draining", {{"seconds", options_.drain_timeout_s}});
        context_.set_state(ServingState::kDraining);
        if (const LoadedModel* model = context_.loaded()) {
            model->engine->drain();
        }
        drain_deadline_ =
            Clock::now() + milliseconds(static_cast<int64_t>(options_.drain_timeout_s * 1e3));
    }

    // The exit code when it is time to end.
    std::optional<int> check_state() {
        count_dropped_lines();
        if (load_failed_) {
            context_.set_state(ServingState::kFailed);
            log_line(LogLevel::kError, "model not loaded", {{"what", load_error_}});
            server_.stop(milliseconds(0));
            return kExitFailure;
        }
        const LoadedModel* model = context_.loaded();
        if (model == nullptr) {
            if (drain_deadline_) {
                end_while_loading();
            }
            return std::nullopt;
        }
        const EngineStats stats = model->engine->stats();
        if (stats.failed) {
            context_.set_state(ServingState::kFailed);
            log_line(LogLevel::kError, "the engine has failed");
            server_.stop(kLastWords);
            return kExitEngineFailed;
        }
        watch(stats);
        if (!drain_deadline_) {
            return std::nullopt;
        }
        const bool idle = stats.n_running == 0 && stats.n_waiting == 0;
        if (idle || Clock::now() >= *drain_deadline_) {
            model->engine->stop(); // streams end with an error event
            server_.stop(kLastWords);
            log_line(LogLevel::kInfo, "stopped");
            return 0;
        }
        return std::nullopt;
    }

    // The loader cannot be interrupted and owns nothing that must be saved.
    [[noreturn]] void end_while_loading() {
        log_line(LogLevel::kInfo, "stopped while loading");
        server_.stop(milliseconds(0));
        stop_logging();
        ::_exit(0);
    }

    void watch(const EngineStats& stats) {
        const bool stalled = stats.ms_since_last_step > options_.engine_stall_timeout_s * 1e3;
        if (stalled && !stalled_) {
            log_line(LogLevel::kError, "the engine makes no progress",
                     {{"ms_since_last_step", stats.ms_since_last_step}});
            dump_slots();
        }
        stalled_ = stalled;
        if (stalled && options_.watchdog) {
            stop_logging(); // the engine thread hangs: it cannot be joined
            ::_exit(kExitEngineFailed);
        }
    }

    void count_dropped_lines() {
        const uint64_t dropped = dropped_log_lines();
        if (dropped > dropped_lines_) {
            metrics_.record_dropped_log_lines(dropped - dropped_lines_);
            dropped_lines_ = dropped;
        }
    }

    const Options& options_;
    std::unique_ptr<Authenticator> authenticator_;
    Metrics metrics_;
    ServingContext context_;
    HttpServer server_;
    std::thread loader_;
    std::string load_error_; // written before load_failed_
    std::atomic<bool> load_failed_{false};
    std::optional<Clock::time_point> drain_deadline_;
    bool stalled_ = false;
    uint64_t dropped_lines_ = 0;
};

namespace {

// Rules about who may reach the server; the text of a refusal.
std::optional<std::string> check_exposure(const Options& options,
                                          const Authenticator& authenticator) {
    const bool local = is_loopback_host(options.host) || options.host.starts_with("unix:");
    if (local || authenticator.has_keys()) {
        return std::nullopt;
    }
    if (options.require_key) {
        return fmt::format("--host {} without an API key, and --require-key is set", options.host);
    }
    log_line(LogLevel::kWarn, "other machines can reach this server without a key; see --api-key",
             {{"host", options.host}});
    return std::nullopt;
}

int serve(const Options& options) {
    auto authenticator = Authenticator::create(options);
    if (!authenticator) {
        return fail(authenticator.error().message);
    }
    if (const auto started = start_logging(options); !started) {
        return fail(started.error().message);
    }
    for (const std::string& notice : options.notices) {
        log_line(LogLevel::kInfo, notice);
    }
    int exit_code = 0;
    if (const auto refusal = check_exposure(options, **authenticator)) {
        exit_code = fail(*refusal);
    } else {
        raise_descriptor_limit();
        Application application(options, std::move(*authenticator));
        exit_code = application.run();
    }
    stop_logging();
    return exit_code;
}

} // namespace

int run_application(const Options& options) {
    const sigset_t signals = waited_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    if (options.version) {
        std::cout << build_info_json() << "\n";
        return 0;
    }
    if (options.print_config) {
        std::cout << options_json(options) << "\n";
        return 0;
    }
    if (options.health_check) {
        return run_health_check(options);
    }
    if (options.model.empty()) {
        return fail(
            "no model: give --model FILE.gguf (a DeepSeek-V4-Flash GGUF; of a split set any "
            "part), and --mmproj FILE.gguf for pictures",
            kExitUsage);
    }
    if (options.check_model) {
        return report_model(options);
    }
    return options.dry_run ? dry_run(options) : serve(options);
}

} // namespace dsv4v
