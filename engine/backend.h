// The seam between scheduling and arithmetic. Called once per step by the engine thread only.
// Implementations: ReferenceBackend (engine/reference), the CUDA backend, the tests' FakeBackend.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/batch.h"
#include "loaders/base/error.h"

namespace dsv4v {

class Probe;

inline constexpr int32_t kPageTokens = 128; // tokens per KV page; DESIGN.md "Memory and cache"

struct BackendLimits {
    int32_t max_sequences = 0;    // slots
    int32_t n_pages = 0;          // KV pages of kPageTokens tokens
    int32_t max_batch_tokens = 0; // rows per step
    int32_t context_length = 0;   // positions per sequence
    int32_t vocab_size = 0;
};

struct PageCopy {
    int32_t from_page = 0;
    int32_t to_page = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;

    [[nodiscard]] virtual const BackendLimits& limits() const = 0;

    // Runs one step. The bits of a sequence's results depend on nothing but its own tokens: not on
    // its neighbours, its slot, its pages or how its prompt was cut into chunks. An error means
    // the backend can no longer be trusted; bad values in one row only are reported in its
    // SampledToken.
    [[nodiscard]] virtual Expected<void> step(const Batch& batch, StepResult& result) = 0;

    // Copies whole pages (copy on write); ordered before the next step.
    virtual void copy_pages(std::span<const PageCopy> copies) = 0;

    // Forgets a slot's ring state before another sequence uses it.
    virtual void reset_slot(int32_t slot) = 0;

    // Directs intermediate values of the following steps to `probe`; null turns it off.
    virtual void set_probe(Probe* probe) = 0;

    // One line for logs and /version: name, arithmetic, threads or card.
    [[nodiscard]] virtual std::string description() const = 0;
};

} // namespace dsv4v
