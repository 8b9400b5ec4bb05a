// A file that is written at explicit offsets, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "loaders/base/error.h"

namespace dsv4v {

class OutputFile {
  public:
    // Creates or truncates `path` at `n_bytes`; bytes never written read as zero and take no disk.
    [[nodiscard]] static Expected<OutputFile> create(const std::string& path, uint64_t n_bytes);

    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    [[nodiscard]] Expected<void> write_at(uint64_t offset, std::span<const std::byte> bytes) const;

  private:
    OutputFile(std::string path, int descriptor)
        : path_(std::move(path)), descriptor_(descriptor) {}
    std::string path_;
    int descriptor_ = -1;
};

} // namespace dsv4v
