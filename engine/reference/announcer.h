// Hands intermediate values to the probe, if there is one. Names are listed in docs/model.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/probe.h"

namespace dsv4v {

class Announcer {
  public:
    explicit Announcer(Probe* probe = nullptr) : probe_(probe) {}

    [[nodiscard]] bool on() const { return probe_ != nullptr; }

    // The first product(shape) values, under `name`.
    template <class T>
    void value(const std::string& name, const std::vector<T>& values,
               std::initializer_list<int64_t> shape) const {
        int64_t n = 1;
        for (const int64_t extent : shape) {
            n *= extent;
        }
        probe_->record(name, std::span<const T>(values.data(), static_cast<size_t>(n)), shape);
    }

    // The same under "L<two digits>.<name>".
    template <class T>
    void layer_value(int32_t layer_idx, const std::string& name, const std::vector<T>& values,
                     std::initializer_list<int64_t> shape) const {
        const std::string digits = std::to_string(layer_idx);
        value((digits.size() < 2 ? "L0" : "L") + digits + "." + name, values, shape);
    }

  private:
    Probe* probe_;
};

} // namespace dsv4v
