#include "server/serve_reply.h"

#include <algorithm>
#include <utility>

namespace dsv4v {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{100};
constexpr std::chrono::milliseconds kProgressInterval{250};
constexpr int kClientClosedRequest = 499;

HttpReply client_gone() {
    HttpReply reply;
    reply.status = kClientClosedRequest;
    return reply;
}

std::chrono::milliseconds to_ms(double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// Time since something was last sent, and whether it is too long.
class SilenceClock {
  public:
    explicit SilenceClock(double limit_s) : limit_(to_ms(limit_s)) {}
    void restart() { since_ = Clock::now(); }
    [[nodiscard]] bool due() const { return limit_.count() > 0 && Clock::now() - since_ >= limit_; }
    [[nodiscard]] std::chrono::milliseconds next_wait() const {
        if (limit_.count() <= 0) {
            return kPoll;
        }
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(since_ + limit_ - Clock::now());
        return std::clamp(left, std::chrono::milliseconds(1), kPoll);
    }

  private:
    std::chrono::milliseconds limit_;
    Clock::time_point since_ = Clock::now();
};

// What a reply needs while it is written; shared with the stream callback.
struct Serving {
    ServingContext& context;
    StreamFlags flags;
    std::unique_ptr<GenerationRun> run;
    std::unique_ptr<ReplyWriter> writer;
    std::shared_ptr<RequestRecord> record;
    std::string request_id;
    SilenceClock silence;
    std::vector<ChoiceUpdate> updates = {}; // read, not written
    RunState state = RunState::kRunning;
};

// Event streams

double ping_interval_s(const Options& options) {
    return options.sse_ping_mode == SsePingMode::kOff ? 0 : options.sse_ping_interval_s;
}

bool send_event(StreamSink& sink, std::string_view json) {
    std::string event = "data: ";
    event.append(json).append("\n\n");
    return sink.write(event);
}

bool send_ping(Serving& serving, StreamSink& sink) {
    serving.silence.restart();
    switch (serving.context.options.sse_ping_mode) {
    case SsePingMode::kComment:
        return sink.write(": keep-alive\n\n");
    case SsePingMode::kCommentNl:
        return sink.write(": keep-alive\n");
    case SsePingMode::kChunk:
        return send_event(sink, serving.writer->empty_event());
    case SsePingMode::kOff:
        break;
    }
    return true;
}

bool send_updates(Serving& serving, StreamSink& sink) {
    std::vector<std::string> events;
    for (const ChoiceUpdate& update : serving.updates) {
        serving.writer->write_update(update, *serving.run, events);
    }
    serving.updates.clear();
    if (serving.state == RunState::kFinished) {
        serving.writer->write_end(*serving.run, events);
    }
    std::string bytes;
    for (const std::string& event : events) {
        bytes.append("data: ").append(event).append("\n\n");
    }
    if (bytes.empty()) {
        return true;
    }
    serving.silence.restart();
    return sink.write(bytes);
}

void send_failure(Serving& serving, StreamSink& sink) {
    const ApiError& error = serving.run->error();
    ErrorStyle style = serving.context.error_style;
    style.int_codes = true; // the status line is gone: the event carries the status
    serving.record->error_type = error.type;
    if (send_event(sink, error_body(error, serving.request_id, style))) {
        sink.write("data: [DONE]\n\n");
    }
}

void write_stream(Serving& serving, StreamSink& sink) {
    Clock::time_point progress_at{};
    bool begun = false;
    while (true) {
        begun = begun || !serving.updates.empty();
        bool sent = send_updates(serving, sink);
        if (sent && serving.state == RunState::kFinished) {
            sink.write("data: [DONE]\n\n");
            return;
        }
        if (serving.state == RunState::kFailed) {
            send_failure(serving, sink);
            return;
        }
        if (sent && serving.flags.progress && !begun &&
            Clock::now() - progress_at >= kProgressInterval) {
            progress_at = Clock::now();
            serving.silence.restart();
            sent = send_event(sink, serving.writer->progress_event(*serving.run));
        }
        if (sent && serving.silence.due()) {
            sent = send_ping(serving, sink);
        }
        if (!sent) {
            serving.run->abandon();
            return;
        }
        serving.state = serving.run->advance(
            serving.silence.next_wait(), [&sink] { return sink.peer_gone(); }, serving.updates);
        if (serving.state == RunState::kGone) {
            return;
        }
    }
}

// Waits until the headers must go out: the first token, the first keep-alive or progress event.
HttpReply start_stream(const std::shared_ptr<Serving>& serving, const HttpRequest& request) {
    while (serving->updates.empty() && serving->state == RunState::kRunning &&
           !serving->silence.due() && !serving->flags.progress) {
        serving->state = serving->run->advance(serving->silence.next_wait(), request.peer_gone,
                                               serving->updates);
    }
    if (serving->state == RunState::kGone) {
        return client_gone();
    }
    if (serving->state == RunState::kFailed && serving->updates.empty()) {
        return error_reply(serving->run->error(), request, serving->context.error_style);
    }
    HttpReply reply;
    reply.content_type = "text/event-stream; charset=utf-8";
    reply.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    reply.stream = [serving](StreamSink& sink) { write_stream(*serving, sink); };
    return reply;
}

// Whole bodies

void collect_updates(Serving& serving) {
    for (ChoiceUpdate& update : serving.updates) {
        serving.writer->collect(std::move(update));
    }
    serving.updates.clear();
}

// The answer is slow: the status line goes out, blanks keep the connection alive.
void write_late_body(Serving& serving, StreamSink& sink) {
    while (serving.state == RunState::kRunning) {
        if (serving.silence.due()) {
            serving.silence.restart();
            if (!sink.write("\n")) {
                serving.run->abandon();
                return;
            }
        }
        serving.state = serving.run->advance(
            serving.silence.next_wait(), [&sink] { return sink.peer_gone(); }, serving.updates);
        collect_updates(serving);
    }
    if (serving.state == RunState::kFinished) {
        sink.write(serving.writer->body(*serving.run));
    } else if (serving.state == RunState::kFailed) {
        const ApiError& error = serving.run->error();
        ErrorStyle style = serving.context.error_style;
        style.int_codes = true;
        serving.record->error_type = error.type;
        sink.write(error_body(error, serving.request_id, style));
    }
}

HttpReply make_body(const std::shared_ptr<Serving>& serving, const HttpRequest& request) {
    while (serving->state == RunState::kRunning && !serving->silence.due()) {
        serving->state = serving->run->advance(serving->silence.next_wait(), request.peer_gone,
                                               serving->updates);
        collect_updates(*serving);
    }
    HttpReply reply;
    switch (serving->state) {
    case RunState::kRunning:
        reply.stream = [serving](StreamSink& sink) { write_late_body(*serving, sink); };
        return reply;
    case RunState::kFinished:
        reply.body = serving->writer->body(*serving->run);
        return reply;
    case RunState::kFailed:
        return error_reply(serving->run->error(), request, serving->context.error_style);
    case RunState::kGone:
        break;
    }
    return client_gone();
}

} // namespace

HttpReply serve_reply(ServingContext& context, const HttpRequest& request, const StreamFlags& flags,
                      std::unique_ptr<GenerationRun> run, std::unique_ptr<ReplyWriter> writer) {
    const Options& options = context.options;
    const double silence_s = flags.stream ? ping_interval_s(options) : options.json_keepalive_s;
    auto serving = std::make_shared<Serving>(Serving{context, flags, std::move(run),
                                                     std::move(writer), request.record,
                                                     request.request_id, SilenceClock(silence_s)});
    return flags.stream ? start_stream(serving, request) : make_body(serving, request);
}

} // namespace dsv4v
