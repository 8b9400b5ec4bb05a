#include "engine/json_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace dsv4v {
namespace {

// (-1)^negative * digits * 10^exponent, digits without leading or trailing zeros (empty: zero).
struct Decimal {
    bool negative = false;
    std::string digits;
    int64_t exponent = 0;
};

constexpr int64_t kExponentBound = 1'000'000'000'000; // beyond any text length

int64_t bounded_exponent(std::string_view text) {
    if (text.starts_with('+')) {
        text.remove_prefix(1);
    }
    int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc::result_out_of_range) {
        return text.starts_with('-') ? -kExponentBound : kExponentBound;
    }
    return std::clamp(value, -kExponentBound, kExponentBound);
}

Decimal decompose(std::string_view number) {
    Decimal decimal;
    decimal.negative = number.starts_with('-');
    number.remove_prefix(decimal.negative ? 1 : 0);
    if (const size_t e = number.find_first_of("eE"); e != std::string_view::npos) {
        decimal.exponent = bounded_exponent(number.substr(e + 1));
        number = number.substr(0, e);
    }
    const size_t point = std::min(number.find('.'), number.size());
    decimal.digits = number.substr(0, point);
    if (point < number.size()) {
        decimal.digits += number.substr(point + 1);
        decimal.exponent -= static_cast<int64_t>(number.size() - point - 1);
    }
    const size_t last = decimal.digits.find_last_not_of('0');
    const size_t kept = last == std::string::npos ? 0 : last + 1;
    decimal.exponent += static_cast<int64_t>(decimal.digits.size() - kept);
    decimal.digits.resize(kept);
    decimal.digits.erase(0, decimal.digits.find_first_not_of('0'));
    return decimal;
}

// Infinity beyond the range, zero below it, never an error.
double nearest_double(std::string_view number) {
    double value = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
    if (result.ec != std::errc::result_out_of_range) {
        return value;
    }
    const Decimal decimal = decompose(number);
    const int64_t magnitude = static_cast<int64_t>(decimal.digits.size()) + decimal.exponent;
    const double size = magnitude > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    return decimal.negative ? -size : size;
}

bool is_integer_text(std::string_view number) {
    return number.find_first_of(".eE") == std::string_view::npos;
}

// Lays the digits d1 d2 .. (value d1.d2.. * 10^exponent) out without an exponent.
std::string plain_decimal(std::string digits, int exponent) {
    if (exponent < 0) {
        return "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    }
    const size_t n_integral = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= n_integral) {
        digits.append(n_integral - digits.size(), '0');
        return digits + ".0";
    }
    return digits.insert(n_integral, 1, '.');
}

std::string with_exponent(std::string digits, int exponent) {
    if (digits.size() > 1) {
        digits.insert(1, 1, '.');
    }
    const std::string power = std::to_string(std::abs(exponent));
    return digits + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
}

std::string python_double(double value) {
    const std::string sign = std::signbit(value) ? "-" : "";
    if (std::isinf(value)) {
        return sign + "Infinity";
    }
    char buffer[64];
    const auto end = std::to_chars(std::begin(buffer), std::end(buffer), std::abs(value),
                                   std::chars_format::scientific);
    const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
    const size_t e = text.find('e');
    std::string digits(text.substr(0, e));
    std::erase(digits, '.');
    const int exponent = static_cast<int>(bounded_exponent(text.substr(e + 1)));
    return sign + (exponent >= -4 && exponent < 16 ? plain_decimal(std::move(digits), exponent)
                                                   : with_exponent(std::move(digits), exponent));
}

} // namespace

std::optional<int64_t> number_as_int(std::string_view number) {
    Decimal decimal = decompose(number);
    if (decimal.digits.empty()) {
        return 0;
    }
    constexpr int64_t kMaxDigits = std::numeric_limits<int64_t>::digits10 + 1;
    const int64_t n_digits = static_cast<int64_t>(decimal.digits.size()) + decimal.exponent;
    if (decimal.exponent < 0 || n_digits > kMaxDigits) {
        return std::nullopt;
    }
    decimal.digits.append(static_cast<size_t>(decimal.exponent), '0');
    const std::string text = (decimal.negative ? "-" : "") + decimal.digits;
    int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> number_as_finite_double(std::string_view number) {
    const double value = nearest_double(number);
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string python_number(std::string_view number) {
    if (is_integer_text(number)) {
        return number == "-0" ? "0" : std::string(number);
    }
    return python_double(nearest_double(number));
}

} // namespace dsv4v
