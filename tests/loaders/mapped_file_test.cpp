#include "loaders/mapped_file.h"

#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gguf_builder.h"

namespace dsv4v {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFile;

void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

TEST(MappedFile, HoldsTheBytes) {
    const TemporaryFile file("bytes");
    write_file(file.path(), "abc");
    const auto mapped = MappedFile::open(file.path());
    ASSERT_TRUE(mapped.has_value()) << mapped.error().message;
    ASSERT_EQ((*mapped)->bytes().size(), 3U);
    EXPECT_EQ((*mapped)->bytes()[2], std::byte{'c'});
    EXPECT_EQ((*mapped)->path(), file.path());
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
    const TemporaryFile file("empty");
    write_file(file.path(), "");
    const auto mapped = MappedFile::open(file.path());
    ASSERT_TRUE(mapped.has_value()) << mapped.error().message;
    EXPECT_TRUE((*mapped)->bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNotARegularFile) {
    const auto directory = MappedFile::open("/tmp");
    ASSERT_FALSE(directory.has_value());
    EXPECT_THAT(directory.error().message, HasSubstr("/tmp: not a regular file"));

    const TemporaryFile pipe("pipe"); // must not wait for a writer
    ASSERT_EQ(::mkfifo(pipe.path().c_str(), 0600), 0);
    EXPECT_THAT(MappedFile::open(pipe.path()).error().message, HasSubstr("not a regular file"));

    EXPECT_THAT(MappedFile::open("/dev/zero").error().message, HasSubstr("not a regular file"));
}

TEST(MappedFile, NamesWhatIsMissing) {
    const auto missing = MappedFile::open("/nonexistent/x.gguf");
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/x.gguf: cannot open"));
}

void read_after_truncation(const std::string& path) {
    install_mapping_fault_handler();
    const auto mapped = MappedFile::open(path);
    EXPECT_EQ(::truncate(path.c_str(), 0), 0);
    volatile auto sink = std::to_integer<int>((*mapped)->bytes()[100]);
    (void)sink;
}

TEST(MappedFileDeathTest, AShrunkFileEndsTheProcessByName) {
    const TemporaryFile file("shrinks");
    write_file(file.path(), std::string(10000, 'x'));
    EXPECT_EXIT(read_after_truncation(file.path()), ::testing::ExitedWithCode(1),
                "fatal: a model file shrank or became unreadable while in use: .*shrinks");
}

} // namespace
} // namespace dsv4v
