// The second seam: patches -> rows for the language model. One call per image.
#pragma once

#include <vector>

#include "engine/image_input.h"
#include "loaders/base/error.h"

namespace dsv4v {

class ImageEncoder {
  public:
    virtual ~ImageEncoder() = default;
    // Aligned features, row-major [cells, hidden] float32, cells in reading order.
    [[nodiscard]] virtual Expected<std::vector<float>> encode(const ImageInput& image) = 0;
};

} // namespace dsv4v
