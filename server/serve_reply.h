// Drives a generation to its reply on the connection thread: waits for tokens, writes the body or
// the event stream, sends keep-alives, notices a client that left. docs/api.md "Streaming".
#pragma once

#include <memory>

#include "server/generation_run.h"
#include "server/reply_writer.h"
#include "server/sampling_request.h"

namespace dsv4v {

// A failure before the first token is a plain HTTP error, whatever was asked for. When the client
// leaves, the generation ends and the reply has status 499. `context` must outlive the reply.
[[nodiscard]] HttpReply serve_reply(ServingContext& context, const HttpRequest& request,
                                    const StreamFlags& flags, std::unique_ptr<GenerationRun> run,
                                    std::unique_ptr<ReplyWriter> writer);

} // namespace dsv4v
