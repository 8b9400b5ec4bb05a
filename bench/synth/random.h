// Small counter-based random numbers: the same for a seed on every machine and thread count.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace dsv4v {

class SplitMix {
  public:
    explicit SplitMix(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        state_ += 0x9e3779b97f4a7c15ull;
        uint64_t z = state_;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    // [0, 1)
    float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }
    // [low, high)
    float uniform(float low, float high) { return low + (high - low) * uniform(); }
    float normal() {
        const float radius = std::sqrt(-2.0f * std::log(1.0f - uniform()));
        return radius * std::cos(6.2831853f * uniform());
    }
    // [0, n); the bias of the modulus is far below what n < 2^32 could show.
    uint64_t below(uint64_t n) { return next() % n; }

  private:
    uint64_t state_;
};

// A seed for a named part of something seeded.
[[nodiscard]] inline uint64_t derive_seed(uint64_t seed, std::string_view name, uint64_t part = 0) {
    for (const char c : name) {
        seed = SplitMix(seed ^ static_cast<unsigned char>(c)).next();
    }
    return SplitMix(seed + part).next();
}

} // namespace dsv4v
