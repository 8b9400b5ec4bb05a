#include "loaders/mapped_file.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "loaders/base/printable.h"

namespace dsv4v {
namespace {

// Live mappings, for the fault handler: a lock-free table, since a signal handler may not lock. A
// mapping that finds no free entry works all the same, its fault is only reported without a name.
std::array<std::atomic<const MappedFile*>, 1024> g_live_mappings;

void replace_live_mapping(const MappedFile* from, const MappedFile* to) {
    for (std::atomic<const MappedFile*>& entry : g_live_mappings) {
        const MappedFile* expected = from;
        if (entry.compare_exchange_strong(expected, to)) {
            return;
        }
    }
}

class FileDescriptor {
  public:
    explicit FileDescriptor(int fd) : fd_(fd) {}
    ~FileDescriptor() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

tl::unexpected<Error> system_error(const std::string& path, const char* operation) {
    const int error = errno;
    return make_error(
        error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        fmt::format("{}: cannot {}: {}", printable(path, 4096), operation, std::strerror(error)));
}

// Only async-signal-safe calls.
void write_stderr(const char* text, size_t n_bytes) {
    if (::write(STDERR_FILENO, text, n_bytes) < 0) {
        return; // nothing else can be done about it here
    }
}

void on_mapping_fault(int signal, siginfo_t* fault, void* /*context*/) {
    const auto address = reinterpret_cast<uintptr_t>(fault->si_addr);
    for (const std::atomic<const MappedFile*>& entry : g_live_mappings) {
        const MappedFile* file = entry.load();
        if (file == nullptr) {
            continue;
        }
        const auto begin = reinterpret_cast<uintptr_t>(file->bytes().data());
        if (address >= begin && address - begin < file->bytes().size()) {
            constexpr char kReason[] =
                "fatal: a model file shrank or became unreadable while in use: ";
            write_stderr(kReason, sizeof(kReason) - 1);
            write_stderr(file->path().data(), file->path().size());
            write_stderr("\n", 1);
            ::_exit(1);
        }
    }
    ::signal(signal, SIG_DFL); // not ours: the instruction faults again and the default applies
}

} // namespace

MappedFile::MappedFile(std::string path, const std::byte* data, size_t n_bytes)
    : path_(std::move(path)), data_(data), n_bytes_(n_bytes) {
    replace_live_mapping(nullptr, this);
}

MappedFile::~MappedFile() {
    replace_live_mapping(this, nullptr);
    if (data_ != nullptr) {
        ::munmap(const_cast<std::byte*>(data_), n_bytes_);
    }
}

Expected<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
    // O_NONBLOCK: a named pipe must be refused, not waited for.
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) {
        return system_error(path, "open");
    }
    struct stat status = {};
    if (::fstat(fd.get(), &status) != 0) {
        return system_error(path, "read the size");
    }
    if (!S_ISREG(status.st_mode)) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("{}: not a regular file", printable(path, 4096)));
    }
    const auto n_bytes = static_cast<size_t>(status.st_size);
    const std::byte* data = nullptr;
    if (n_bytes > 0) {
        void* address = ::mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
        if (address == MAP_FAILED) {
            return system_error(path, "map into memory");
        }
        data = static_cast<const std::byte*>(address);
    }
    return std::unique_ptr<MappedFile>(new MappedFile(path, data, n_bytes));
}

void install_mapping_fault_handler() {
    struct sigaction action = {};
    action.sa_sigaction = on_mapping_fault;
    action.sa_flags = SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace dsv4v
