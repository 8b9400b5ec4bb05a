// Reads many keys of one GGUF in a row: each call checks kind and range, the first failure sticks
// and every later call returns a harmless value, so that the caller checks once at the end.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loaders/base/error.h"

namespace dsv4v {

class GgufFile;

class KeyReader {
  public:
    // `prefix` is put in front of every key ("deepseek4.").
    KeyReader(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

    [[nodiscard]] bool has(std::string_view key) const;

    // Required values. Ranges are inclusive; non-finite floats are always refused.
    [[nodiscard]] int32_t integer(std::string_view key, int32_t min, int32_t max);
    [[nodiscard]] float number(std::string_view key, double min, double max);
    [[nodiscard]] bool boolean(std::string_view key);
    [[nodiscard]] std::string text(std::string_view key);

    // The same with a value for a missing key.
    [[nodiscard]] int32_t integer_or(std::string_view key, int32_t min, int32_t max,
                                     int32_t fallback);
    [[nodiscard]] float number_or(std::string_view key, double min, double max, float fallback);

    // Arrays of at least `n_wanted` elements, cut to the first n_wanted.
    [[nodiscard]] std::vector<int32_t> integers(std::string_view key, size_t n_wanted, int32_t min,
                                                int32_t max);
    // As above; a scalar stands for n_wanted equal elements.
    [[nodiscard]] std::vector<int32_t> integers_or_scalar(std::string_view key, size_t n_wanted,
                                                          int32_t min, int32_t max);
    [[nodiscard]] std::vector<float> numbers_or_scalar(std::string_view key, size_t n_wanted,
                                                       double min, double max);

    // Records "PATH: key KEY REASON" unless something failed before.
    void fail(std::string_view key, const std::string& reason);
    void fail(Error error);

    [[nodiscard]] bool failed() const { return error_.has_value(); }
    [[nodiscard]] Expected<void> result() const;

  private:
    [[nodiscard]] std::string full(std::string_view key) const {
        return prefix_ + std::string(key);
    }
    [[nodiscard]] bool check_length(std::string_view key, size_t n_wanted);

    const GgufFile& file_;
    std::string prefix_;
    std::optional<Error> error_;
};

} // namespace dsv4v
