// Sets of files: names, and everything that can be wrong between the shards.
#include "loaders/gguf_split.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loaders/gguf_file.h"
#include "tests/gguf_builder.h"

namespace dsv4v {
namespace {

using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::TemporaryFile;

TEST(ShardName, IsReadFromTheEndOfThePath) {
    const auto name = parse_shard_name("/models/a-b-00002-of-00013.gguf");
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->prefix, "/models/a-b");
    EXPECT_EQ(name->number, 2U);
    EXPECT_EQ(name->n_shards, 13U);
    EXPECT_EQ(shard_path(name->prefix, 1, 13), "/models/a-b-00001-of-00013.gguf");
}

TEST(ShardName, IsNothingForOtherNames) {
    for (const char* path :
         {"model.gguf", "-00001-of-00003.gguf", "a-00000-of-00003.gguf", "a-00004-of-00003.gguf",
          "a-0000x-of-00003.gguf", "a-00001-of-00003.gguf.part", "a-00001_of-00003.gguf", ""}) {
        EXPECT_FALSE(parse_shard_name(path).has_value()) << path;
    }
}

constexpr int kShards = 3;

// Three shards of one tensor each, written to a temporary folder.
class ShardSet {
  public:
    ShardSet() {
        for (int i = 0; i < kShards; ++i) {
            GgufBuilder& shard = shards_[i];
            shard.set_u16("split.no", static_cast<uint16_t>(i));
            shard.set_u16("split.count", kShards);
            shard.set_i32("split.tensors.count", kShards);
            shard.add("tensor" + std::to_string(i), {8}, QuantFormat::kF32).data =
                std::string(32, static_cast<char>('a' + i));
            files_[i] = std::make_unique<TemporaryFile>("set-0000" + std::to_string(i + 1) +
                                                        "-of-00003.gguf");
        }
        shards_[0].set_string("general.architecture", "deepseek4");
    }
    GgufBuilder& operator[](int i) { return shards_[i]; }
    [[nodiscard]] const std::string& path(int i) const { return files_[i]->path(); }
    void skip(int i) { skipped_ = i; }

    [[nodiscard]] Expected<GgufFile> open(int shard_idx = 0) const {
        for (int i = 0; i < kShards; ++i) {
            if (i != skipped_) {
                shards_[i].write(path(i));
            }
        }
        return GgufFile::open(path(shard_idx));
    }

  private:
    GgufBuilder shards_[kShards];
    std::unique_ptr<TemporaryFile> files_[kShards];
    int skipped_ = -1;
};

std::string error_of(const std::function<void(ShardSet&)>& change) {
    ShardSet set;
    change(set);
    const auto file = set.open();
    return file ? "accepted" : file.error().message;
}

TEST(GgufSplit, MergesTheDirectories) {
    for (int i = 0; i < kShards; ++i) {
        ShardSet set;
        const auto file = set.open(i);
        ASSERT_TRUE(file.has_value()) << file.error().message;
        EXPECT_EQ(file->n_shards(), 3U);
        ASSERT_EQ(file->tensors().size(), 3U);
        EXPECT_EQ(file->find_tensor("tensor2")->data[0], std::byte{'c'});
        EXPECT_EQ(file->n_tensor_bytes(), 96U);
        EXPECT_EQ(file->path(), set.path(0));
    }
}

TEST(GgufSplit, EachShardHasItsOwnAlignment) {
    ShardSet set;
    set[1].set_u32("general.alignment", 64);
    set[1].alignment = 64;
    const auto file = set.open();
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(file->find_tensor("tensor1")->data[0], std::byte{'b'});
    EXPECT_EQ(file->shard(1).alignment, 64U);
}

TEST(GgufSplit, RefusesWhatDoesNotFitTogether) {
    EXPECT_THAT(error_of([](auto& s) { s.skip(1); }),
                HasSubstr("set-00002-of-00003.gguf: cannot open"));
    EXPECT_THAT(error_of([](auto& s) { s.skip(0); }),
                HasSubstr("set-00001-of-00003.gguf: cannot open"));
    EXPECT_THAT(error_of([](auto& s) { s[2] = s[1]; }),
                HasSubstr("set-00003-of-00003.gguf: key split.no is 1, wanted 2"));
    EXPECT_THAT(error_of([](auto& s) { s[0].set_u16("split.no", 1); }),
                HasSubstr("set-00001-of-00003.gguf: key split.no is 1, wanted 0"));
    EXPECT_THAT(error_of([](auto& s) { s[1].set_u16("split.count", 4); }),
                HasSubstr("set-00002-of-00003.gguf: key split.count is 4, wanted 3"));
    EXPECT_THAT(error_of([](auto& s) { s[1].set_i32("split.tensors.count", 1371); }),
                HasSubstr("set-00002-of-00003.gguf: key split.tensors.count is 1371, wanted 3"));
    EXPECT_THAT(error_of([](auto& s) { s[1].add("tensor9", {8}, QuantFormat::kF32); }),
                HasSubstr("key split.tensors.count is 3, wanted 4"));
    EXPECT_THAT(error_of([](auto& s) { s[2].tensors[0].name = "tensor0"; }),
                HasSubstr("set-00003-of-00003.gguf: tensor tensor0 is already in an earlier"));
    EXPECT_THAT(error_of([](auto& s) { s[1].erase_key("split.no"); }),
                HasSubstr("set-00002-of-00003.gguf: key split.no is missing"));
    EXPECT_THAT(error_of([](auto& s) { s[0].erase_key("split.tensors.count"); }),
                HasSubstr("key split.tensors.count is missing"));
    EXPECT_THAT(error_of([](auto& s) { s[0].set_string("split.count", "3"); }),
                HasSubstr("key split.count has type string"));
    EXPECT_THAT(error_of([](auto& s) { s[0].set_i32("split.count", -3); }),
                HasSubstr("key split.count is -3"));
    EXPECT_THAT(error_of([](auto& s) { s[0].set_u16("split.count", 60000); }),
                HasSubstr("key split.count is 60000, wanted 0 to 999"));
    EXPECT_THAT(error_of([](auto& s) { s[0].set_u16("split.count", 2); }),
                HasSubstr("the file name must end in -00001-of-00002.gguf"));
    EXPECT_THAT(error_of([](auto& s) { s[1].magic = "PK\x03\x04"; }),
                HasSubstr("set-00002-of-00003.gguf: not a GGUF file"));
}

TEST(GgufSplit, DoesNotOpenAnotherFileThanTheOneNamed) {
    ShardSet set;
    set[0].erase_key("split.count");
    const auto file = set.open(1);
    ASSERT_FALSE(file.has_value());
    EXPECT_THAT(file.error().message, HasSubstr("shard 2 of 3 was asked for"));
}

TEST(GgufSplit, AShardCannotBeParsedFromMemory) {
    ShardSet set;
    const std::string bytes = set[0].build();
    const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "memory");
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(file.error().message, HasSubstr("split.count"));
}

} // namespace
} // namespace dsv4v
