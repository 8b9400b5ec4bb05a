// Unguessable identifiers and seeds from the operating system's generator. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dsv4v {

// `n` characters of [0-9A-Za-z], uniform.
[[nodiscard]] std::string random_base62(size_t n);
[[nodiscard]] uint64_t random_u64();

} // namespace dsv4v
