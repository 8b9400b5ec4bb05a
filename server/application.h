// The life of the process: one-shot modes, start, signals, watchdog, drain, exit code.
#pragma once

#include "server/options.h"

namespace dsv4v {

// Exit codes besides 0 (done, drained).
inline constexpr int kExitFailure = 1;       // the model or the address cannot be used
inline constexpr int kExitUsage = 2;         // wrong options
inline constexpr int kExitEngineFailed = 70; // the engine failed or made no progress

// Runs until done. Call it from main before any other thread exists: it blocks the signals it
// waits for in all threads.
[[nodiscard]] int run_application(const Options& options);

} // namespace dsv4v
