#include "bench/synth/output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace dsv4v {
namespace {

tl::unexpected<Error> io_error(const char* action, const std::string& path) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

} // namespace

Expected<OutputFile> OutputFile::create(const std::string& path, uint64_t n_bytes) {
    OutputFile file(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.descriptor_ < 0) {
        return io_error("create", path);
    }
    if (::ftruncate(file.descriptor_, static_cast<off_t>(n_bytes)) != 0) {
        return io_error("set the size", path);
    }
    return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

Expected<void> OutputFile::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t n =
            ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return io_error("write", path_);
        }
        bytes = bytes.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
    return {};
}

} // namespace dsv4v
