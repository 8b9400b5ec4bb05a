// Readers for the block and product cases of tests/data/quants.tar.xz.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "loaders/quant/quant_format.h"
#include "tests/golden.h"

namespace dsv4v::testing {

// Reads little-endian values one after the other; padding is counted from the start of the file.
class GoldenCursor {
  public:
    explicit GoldenCursor(std::string bytes) : bytes_(std::move(bytes)) {}
    template <class T>
    std::vector<T> take(size_t n) {
        std::vector<T> values(n);
        EXPECT_LE(offset_ + n * sizeof(T), bytes_.size());
        std::memcpy(values.data(), bytes_.data() + offset_, n * sizeof(T));
        offset_ += n * sizeof(T);
        return values;
    }
    uint32_t take_u32() { return take<uint32_t>(1)[0]; }
    void skip(size_t n) { offset_ += n; }
    void align() { offset_ = (offset_ + 15) / 16 * 16; }
    [[nodiscard]] bool at_end() const { return offset_ == bytes_.size(); }

  private:
    std::string bytes_;
    size_t offset_ = 0;
};

// The golden files spell K formats q4_K and everything else in lower case.
inline std::string golden_name(const QuantFormatInfo& info) {
    std::string name = info.name;
    for (char& c : name) {
        c = static_cast<char>(std::tolower(c));
    }
    if (name.size() == 4 && name.ends_with("_k")) {
        name[3] = 'K';
    }
    return name;
}

} // namespace dsv4v::testing
