// The codebooks of the IQ formats, one signed byte per element. Block decoders take them as an
// argument, because device code reads its own copy in device memory.
#pragma once

#include <cstdint>

namespace dsv4v {

struct Codebooks {
    const int8_t* iq2_xxs; // [256][8], magnitudes 8, 25, 43
    const int8_t* iq2_xs;  // [512][8], same
    const int8_t* iq2_s;   // [1024][8], same
    const int8_t* iq3_xxs; // [256][4], magnitudes 4 .. 62
    const int8_t* iq3_s;   // [512][4], odd magnitudes 1 .. 15
    const int8_t* iq1;     // [2048][8], values -1, 0, 1
};

// Tables in static memory of this process; same object every call.
[[nodiscard]] const Codebooks& host_codebooks();

} // namespace dsv4v
