#include "loaders/key_reader.h"

#include <cmath>

#include <fmt/format.h>

#include "loaders/gguf_file.h"

namespace dsv4v {
namespace {

// Per-layer arrays carry a few entries more than layers (draft stages), never thousands.
constexpr size_t kMaxArrayLength = 4096;

template <class T, class Range>
bool in_range(T value, Range min, Range max) {
    return value >= min && value <= max; // false for NaN
}

template <class T, class Range>
std::string out_of_range(T value, Range min, Range max) {
    return fmt::format("is {}, wanted {} to {}", value, min, max);
}

} // namespace

bool KeyReader::has(std::string_view key) const {
    return file_.has(full(key));
}

int32_t KeyReader::integer(std::string_view key, int32_t min, int32_t max) {
    const Expected<int64_t> value = file_.get_int(full(key));
    if (!value) {
        fail(value.error());
        return min;
    }
    if (!in_range<int64_t, int64_t>(*value, min, max)) {
        fail(key, out_of_range(*value, min, max));
        return min;
    }
    return static_cast<int32_t>(*value);
}

float KeyReader::number(std::string_view key, double min, double max) {
    const Expected<double> value = file_.get_float(full(key));
    if (!value) {
        fail(value.error());
        return static_cast<float>(min);
    }
    if (!in_range(*value, min, max)) {
        fail(key, out_of_range(*value, min, max));
        return static_cast<float>(min);
    }
    return static_cast<float>(*value);
}

bool KeyReader::boolean(std::string_view key) {
    const Expected<bool> value = file_.get_bool(full(key));
    if (!value) {
        fail(value.error());
        return false;
    }
    return *value;
}

std::string KeyReader::text(std::string_view key) {
    Expected<std::string> value = file_.get_string(full(key));
    if (!value) {
        fail(value.error());
        return {};
    }
    return *std::move(value);
}

int32_t KeyReader::integer_or(std::string_view key, int32_t min, int32_t max, int32_t fallback) {
    return has(key) ? integer(key, min, max) : fallback;
}

float KeyReader::number_or(std::string_view key, double min, double max, float fallback) {
    return has(key) ? number(key, min, max) : fallback;
}

bool KeyReader::check_length(std::string_view key, size_t n_wanted) {
    const Expected<uint64_t> length = file_.get_array_length(full(key));
    if (!length) {
        fail(length.error());
        return false;
    }
    if (*length < n_wanted || *length > kMaxArrayLength) {
        fail(key,
             fmt::format("has {} elements, wanted {} to {}", *length, n_wanted, kMaxArrayLength));
        return false;
    }
    return true;
}

std::vector<int32_t> KeyReader::integers(std::string_view key, size_t n_wanted, int32_t min,
                                         int32_t max) {
    std::vector<int32_t> values(n_wanted, min);
    if (!check_length(key, n_wanted)) {
        return values;
    }
    const Expected<std::vector<int64_t>> elements = file_.get_int_array(full(key));
    if (!elements) {
        fail(elements.error());
        return values;
    }
    for (size_t i = 0; i < n_wanted; ++i) {
        const int64_t element = (*elements)[i];
        if (!in_range<int64_t, int64_t>(element, min, max)) {
            fail(key, fmt::format("element {} {}", i, out_of_range(element, min, max)));
            return values;
        }
        values[i] = static_cast<int32_t>(element);
    }
    return values;
}

std::vector<int32_t> KeyReader::integers_or_scalar(std::string_view key, size_t n_wanted,
                                                   int32_t min, int32_t max) {
    if (file_.is_array(full(key))) {
        return integers(key, n_wanted, min, max);
    }
    return std::vector<int32_t>(n_wanted, integer(key, min, max));
}

std::vector<float> KeyReader::numbers_or_scalar(std::string_view key, size_t n_wanted, double min,
                                                double max) {
    if (!file_.is_array(full(key))) {
        return std::vector<float>(n_wanted, number(key, min, max));
    }
    std::vector<float> values(n_wanted, static_cast<float>(min));
    if (!check_length(key, n_wanted)) {
        return values;
    }
    const Expected<std::vector<double>> elements = file_.get_float_array(full(key));
    if (!elements) {
        fail(elements.error());
        return values;
    }
    for (size_t i = 0; i < n_wanted; ++i) {
        const double element = (*elements)[i];
        if (!in_range(element, min, max)) {
            fail(key, fmt::format("element {} {}", i, out_of_range(element, min, max)));
            return values;
        }
        values[i] = static_cast<float>(element);
    }
    return values;
}

void KeyReader::fail(std::string_view key, const std::string& reason) {
    fail(Error{ErrorCode::kCorrupt, fmt::format("{}: key {} {}", file_.path(), full(key), reason)});
}

void KeyReader::fail(Error error) {
    if (!error_) {
        error_ = std::move(error);
    }
}

Expected<void> KeyReader::result() const {
    if (error_) {
        return tl::unexpected<Error>(*error_);
    }
    return {};
}

} // namespace dsv4v
