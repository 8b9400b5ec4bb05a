#include "loaders/base/printable.h"

namespace dsv4v {

std::string printable(std::string_view bytes, size_t max_bytes) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string text;
    for (const char c : bytes.substr(0, max_bytes)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            text += c;
        } else {
            text += "\\x";
            text += kHex[byte >> 4];
            text += kHex[byte & 15];
        }
    }
    if (bytes.size() > max_bytes) {
        text += "...";
    }
    return text;
}

} // namespace dsv4v
