// A bounded read position over bytes nobody vouches for: moves forward only, never past the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace dsv4v {

static_assert(std::endian::native == std::endian::little, "GGUF bytes are read in host order");

class GgufCursor {
  public:
    explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

    [[nodiscard]] uint64_t position() const { return position_; }
    [[nodiscard]] uint64_t remaining() const { return bytes_.size() - position_; }

    // The next little-endian number, or nothing (and no move) when fewer bytes are left. Numbers
    // lie unaligned in the file, hence the copy.
    template <class T>
    [[nodiscard]] std::optional<T> read() {
        if (remaining() < sizeof(T)) {
            return std::nullopt;
        }
        T value;
        std::memcpy(&value, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return value;
    }

    // The next `n_bytes` bytes, or nothing (and no move) when fewer are left.
    [[nodiscard]] std::optional<std::span<const std::byte>> take(uint64_t n_bytes) {
        if (remaining() < n_bytes) {
            return std::nullopt;
        }
        const std::span<const std::byte> taken = bytes_.subspan(position_, n_bytes);
        position_ += n_bytes;
        return taken;
    }

  private:
    std::span<const std::byte> bytes_;
    size_t position_ = 0;
};

[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace dsv4v
