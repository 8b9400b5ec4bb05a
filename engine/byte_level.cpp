#include "engine/byte_level.h"

#include <array>

#include "engine/utf8.h"

namespace dsv4v {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

constexpr bool stands_for_itself(int byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<char32_t, 256> make_code_points() {
    std::array<char32_t, 256> code_points{};
    char32_t next = kFirstStandIn;
    for (int byte = 0; byte < 256; ++byte) {
        code_points[static_cast<size_t>(byte)] =
            stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    }
    return code_points;
}

constexpr std::array<char32_t, 256> kCodePoints = make_code_points();
constexpr size_t kEndCodePoint = kFirstStandIn + 68; // 68 bytes are not printable

constexpr std::array<int16_t, kEndCodePoint> make_bytes() {
    std::array<int16_t, kEndCodePoint> bytes{};
    bytes.fill(-1);
    for (size_t byte = 0; byte < kCodePoints.size(); ++byte) {
        bytes[kCodePoints[byte]] = static_cast<int16_t>(byte);
    }
    return bytes;
}

constexpr std::array<int16_t, kEndCodePoint> kBytes = make_bytes();

} // namespace

std::string byte_level_char(uint8_t byte) {
    const char32_t code_point = kCodePoints[byte];
    if (code_point < 0x80) {
        return {static_cast<char>(code_point)};
    }
    return {static_cast<char>(0xC0 | (code_point >> 6)),
            static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::optional<std::string> byte_level_decode(std::string_view spelling) {
    std::string bytes;
    bytes.reserve(spelling.size());
    while (!spelling.empty()) {
        const Utf8Char c = first_utf8_char(spelling);
        if (c.state != Utf8Char::State::kValid || c.code_point >= kEndCodePoint ||
            kBytes[c.code_point] < 0) {
            return std::nullopt;
        }
        bytes += static_cast<char>(kBytes[c.code_point]);
        spelling.remove_prefix(c.n_bytes);
    }
    return bytes;
}

} // namespace dsv4v
