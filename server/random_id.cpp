#include "server/random_id.h"

#include <openssl/rand.h>

#include <array>
#include <cstring>

#include "loaders/base/check.h"

namespace dsv4v {
namespace {

template <size_t N>
std::array<unsigned char, N> random_bytes() {
    std::array<unsigned char, N> bytes;
    DSV4V_CHECK(RAND_bytes(bytes.data(), static_cast<int>(N)) == 1);
    return bytes;
}

} // namespace

std::string random_base62(size_t n) {
    constexpr std::string_view kDigits =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    constexpr unsigned kFair = 248; // largest multiple of 62 below 256: larger bytes are skipped
    std::string out;
    while (out.size() < n) {
        for (const unsigned byte : random_bytes<32>()) {
            if (byte < kFair && out.size() < n) {
                out += kDigits[byte % kDigits.size()];
            }
        }
    }
    return out;
}

uint64_t random_u64() {
    const auto bytes = random_bytes<8>();
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
}

} // namespace dsv4v
