// Which of the two files of a model a GGUF is: general.architecture.
#pragma once

#include "loaders/base/error.h"

namespace dsv4v {

class GgufFile;

// The language model: "deepseek4". An image projector passed in its place is refused with a hint.
[[nodiscard]] Expected<void> require_language_model(const GgufFile& file);

// The image projector: "clip". A language model passed in its place is refused with a hint.
[[nodiscard]] Expected<void> require_image_projector(const GgufFile& file);

} // namespace dsv4v
