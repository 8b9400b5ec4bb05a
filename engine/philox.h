// Philox4x32-10, the counter-based generator of Salmon et al. (2011): random bits as a pure
// function of a key and a counter, so a draw needs no state and can be repeated or skipped.
#pragma once

#include <array>
#include <cstdint>

namespace dsv4v {

// Four random words for one counter value.
[[nodiscard]] constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                                           std::array<uint32_t, 2> key) {
    constexpr int kRounds = 10;
    constexpr uint64_t kMultiplier0 = 0xD2511F53;
    constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
    constexpr uint32_t kWeyl0 = 0x9E3779B9;
    constexpr uint32_t kWeyl1 = 0xBB67AE85;
    for (int round = 0; round < kRounds; ++round) {
        const uint64_t product0 = kMultiplier0 * counter[0];
        const uint64_t product1 = kMultiplier1 * counter[2];
        counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<uint32_t>(product1),
                   static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<uint32_t>(product0)};
        key = {key[0] + kWeyl0, key[1] + kWeyl1};
    }
    return counter;
}

// Uniform in [0, 1) with 53 random bits: the draw at `output_position` of choice `choice_idx`. The
// seed is the key; position and choice are words 0 and 2 of the counter.
[[nodiscard]] constexpr double uniform_draw(uint64_t seed, uint32_t choice_idx,
                                            uint32_t output_position) {
    const std::array<uint32_t, 4> words =
        philox4x32({output_position, 0, choice_idx, 0},
                   {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const uint64_t bits = (uint64_t{words[0]} << 32) | words[1];
    return static_cast<double>(bits >> 11) * 0x1p-53;
}

} // namespace dsv4v
