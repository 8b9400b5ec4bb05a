// A regular file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "loaders/base/error.h"

namespace dsv4v {

// Owns the mapping; immutable after open, so every thread may read it. The size is the one found
// by fstat on the opened descriptor: the path is never looked up twice.
class MappedFile {
  public:
    // Refuses what is not a regular file. An empty file gives empty bytes().
    [[nodiscard]] static Expected<std::unique_ptr<MappedFile>> open(const std::string& path);

    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, n_bytes_}; }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    MappedFile(std::string path, const std::byte* data, size_t n_bytes);

    std::string path_;
    const std::byte* data_ = nullptr;
    size_t n_bytes_ = 0;
};

// A file that shrinks, or whose disk fails, while it is mapped makes reads of it raise SIGBUS.
// After this call such a fault prints one line that names the file and ends the process with status
// 1; faults elsewhere keep their default action. Call once at the start of main.
void install_mapping_fault_handler();

} // namespace dsv4v
