// How a reply looks on the wire, for one API dialect: takes what happened to the choices and writes
// stream events or the whole body. A body is collected from the same updates that a stream shows,
// so both tell the same. One per reply; not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "server/generation_run.h"

namespace dsv4v {

class ReplyWriter {
  public:
    virtual ~ReplyWriter() = default;

    // Streaming. Each appends the JSON of the events to send.
    virtual void write_update(const ChoiceUpdate& update, const GenerationRun& run,
                              std::vector<std::string>& events) = 0;
    virtual void write_end(const GenerationRun& run, std::vector<std::string>& events) = 0;
    // An event that says nothing (keep-alive) and one about waiting and prefill.
    [[nodiscard]] virtual std::string empty_event() const = 0;
    [[nodiscard]] virtual std::string progress_event(const GenerationRun& run) const = 0;

    // Not streaming.
    virtual void collect(ChoiceUpdate update) = 0;
    [[nodiscard]] virtual std::string body(const GenerationRun& run) = 0;
};

// What every reply and chunk of a request carries.
struct ReplyIdentity {
    std::string id;
    int64_t created = 0; // seconds since 1970
    std::string model;
    std::string fingerprint;
};

} // namespace dsv4v
