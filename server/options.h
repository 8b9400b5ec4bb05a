// Every setting of the server: parsed once from flags, environment, config file and defaults (in
// this order of precedence), then const and passed by reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

enum class NumericsChoice { kAuthor, kPlain };
enum class SsePingMode { kComment, kCommentNl, kChunk, kOff };
enum class LogFormat { kText, kJson };

struct Options {
    // Model
    std::string model;              // GGUF file, any shard of a set
    std::string mmproj;             // vision GGUF
    std::string alias;              // comma list: names in /v1/models; first = model id
    int32_t ctx_size = 0;           // positions per sequence; 0 = the model's
    int32_t parallel = 16;          // sequences that run at once
    int32_t max_batch_tokens = 512; // rows per engine step
    int32_t prefill_chunk = 256;    // prompt rows of one sequence per step
    uint64_t kv_memory = 0;         // bytes of KV pages; 0 = one full context, at most 4 GiB
    int32_t threads = 0;            // compute threads; 0 = all cores
    NumericsChoice numerics = NumericsChoice::kAuthor;

    // Listening
    std::string host = "127.0.0.1"; // name, address or unix:PATH
    int32_t port = 8080;            // 0 = any free port
    int32_t max_connections = 4096;
    std::string api_prefix; // "/p": everything lives under it
    uint64_t max_body = 48ULL << 20;
    double keep_alive_s = 75;     // idle connection
    double header_timeout_s = 10; // whole request head
    double body_timeout_s = 30;   // silence while reading a body

    // Access
    std::vector<std::string> api_keys;
    std::string api_key_file;
    std::vector<std::string> admin_keys;
    std::string admin_key_file;
    bool require_key = false; // a non-loopback bind without keys is fatal
    bool auth_all = false;
    bool metrics_auth = false;
    std::vector<std::string> cors_origins;  // "*", "localhost" or origins
    std::vector<std::string> allowed_hosts; // Host names accepted on a loopback bind

    // Requests
    int32_t max_queue = 256;
    int32_t max_n = 8;
    bool strict_model = false;  // an unknown `model` is 404 instead of the loaded one
    bool strict_params = false; // unknown fields are 400
    bool lenient_content_type = false;
    bool thinking = true;                  // default of a request that does not say
    std::string reasoning_effort = "high"; // low, high, max
    bool thinking_fixed_sampling = false;  // thinking requests ignore sampling fields
    bool reasoning_alias = false;          // also write `reasoning` beside `reasoning_content`
    bool deepseek_status_codes = false;    // 422 for invalid values
    bool error_code_int = false;           // error.code is the HTTP status
    bool allow_special_in_content = false; // message text may spell control tokens
    bool drop_tools_on_none = false;       // tool_choice "none" removes the tools from the prompt

    // Time (seconds; 0 = no limit unless said otherwise)
    double request_timeout_s = 0;
    double queue_timeout_s = 0;
    double idle_write_timeout_s = 60;
    double drain_timeout_s = 30;     // 0 = cancel at once
    double sse_ping_interval_s = 15; // 0 = no keep-alive
    SsePingMode sse_ping_mode = SsePingMode::kComment;
    bool half_close_ok = false;  // a peer that only shut down its write side is not gone
    double json_keepalive_s = 0; // > 0: spaces before a slow non-stream answer
    double engine_stall_timeout_s = 120;
    bool watchdog = true;

    // Logs
    std::string log_level = "info"; // error, warn, info, debug, trace
    LogFormat log_format = LogFormat::kText;
    std::string log_file; // "" = stderr
    bool log_content = false;
    bool slots = true; // GET /slots

    // One-shot modes
    bool check_model = false;
    bool dry_run = false;
    bool print_config = false;
    bool health_check = false;
    bool version = false;

    std::vector<std::string> notices; // accepted but meaningless flags, to be logged at start

    // Name that answers carry: first alias, else the model file's stem without shard suffix.
    [[nodiscard]] std::string model_id() const;
    // model_id() and the further aliases.
    [[nodiscard]] std::vector<std::string> model_ids() const;
};

// How parsing ended when the server shall not go on: text for stdout (exit code 0) or stderr.
struct OptionsExit {
    int exit_code = 0;
    std::string text;
};

// Parses argv (argv[0] is the program) and the process environment. Wrong input never throws:
// it ends in exit code 2 and a text that names the flag, variable or key.
[[nodiscard]] tl::expected<Options, OptionsExit> parse_options(int argc, const char* const* argv);

// The effective configuration as a JSON object; keys are masked.
[[nodiscard]] std::string options_json(const Options& options);

// "12", "4K", "1.5G" (powers of 1024) -> bytes.
[[nodiscard]] Expected<uint64_t> parse_size(const std::string& text);

} // namespace dsv4v
