// A picture after decoding, resize and patching: plain data, so that engine needs no vision code.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace dsv4v {

struct ImageInput {
    std::vector<float> patches; // [grid_h*grid_w, 3*14*14], normalised pixels
    int32_t grid_w = 0;         // in patches
    int32_t grid_h = 0;
    std::array<uint8_t, 32> digest = {}; // SHA-256 of what the tower sees; part of cache keys
};

} // namespace dsv4v
