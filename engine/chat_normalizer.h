// The `messages` of a request in the shapes that clients send -> the messages that encode_chat
// takes. docs/chat-format.md. Pure functions, thread-safe.
#pragma once

#include "engine/json_value.h"
#include "loaders/base/error.h"

namespace dsv4v {

// Checks the OpenAI-style `messages` and returns them with one spelling per thing:
// - roles `developer` -> `system`, `function` -> `tool`; leading system messages become one;
// - `content` is a string or a list of `text` and `image_url`/`image` parts (null is empty text;
//   input_text, input_image, file and refusal parts are translated; other types are errors);
// - `reasoning` and `thinking` -> `reasoning_content`; legacy `function_call` -> `tool_calls`;
// - `tools` (array, or null pointer: none) and `response_schema` (the bare JSON schema object, or
//   null pointer: none) are put on the first system message, which is inserted when there is none;
// - members that the encoder does not know are removed. `prefix` of a last assistant message is the
//   caller's: it selects ChatOptions::continue_final_message.
// Errors: kInvalidArgument with param = "messages[i].field" or "tools[i].field".
[[nodiscard]] Expected<JsonValue> normalize_messages(const JsonValue& messages,
                                                     const JsonValue* tools,
                                                     const JsonValue* response_schema);

} // namespace dsv4v
