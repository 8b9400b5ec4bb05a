// Named intermediate values of a step, announced by every backend under the same names
// (docs/model.md lists them: "L07.attn_norm", "L02.indexer_selected", "logits"), so that a test
// finds the first point where two backends, or a backend and a golden, differ.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace dsv4v {

class Probe {
  public:
    virtual ~Probe() = default;
    // `values` is row-major with `shape`; the first axis counts the rows of the step unless the
    // name says otherwise. Called on the thread that runs the step.
    virtual void record(std::string_view name, std::span<const float> values,
                        std::initializer_list<int64_t> shape) = 0;
    virtual void record(std::string_view name, std::span<const int32_t> values,
                        std::initializer_list<int64_t> shape) = 0;
};

} // namespace dsv4v
