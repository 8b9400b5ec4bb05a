// The hand-made files of tests/data/gguf with their verdicts, and split sets.
#include "loaders/gguf_file.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden.h"

namespace dsv4v {
namespace {

using ::testing::HasSubstr;
using testing::source_data;
using testing::unpacked;

struct ManifestRow {
    std::string file;
    std::string expected;
    std::string why;
};

std::vector<ManifestRow> read_manifest() {
    std::ifstream in(source_data("gguf/manifest.tsv"));
    std::vector<ManifestRow> rows;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
        std::istringstream fields(line);
        ManifestRow row;
        std::string skipped;
        std::getline(fields, row.file, '\t');
        std::getline(fields, skipped, '\t');
        std::getline(fields, row.expected, '\t');
        std::getline(fields, skipped, '\t');
        std::getline(fields, row.why, '\t');
        rows.push_back(row);
    }
    return rows;
}

TEST(GgufFile, AgreesWithEveryVerdictOfTheManifest) {
    const std::vector<ManifestRow> rows = read_manifest();
    ASSERT_EQ(rows.size(), 73U);
    for (const ManifestRow& row : rows) {
        SCOPED_TRACE(row.file + ": " + row.why);
        const std::string path = source_data("gguf/" + row.file);
        const Expected<GgufFile> file = GgufFile::open(path);
        if (row.expected.starts_with("accept-or-reject") ||
            row.file == "ok_all_tensor_types.gguf") {
            continue; // our choices, tested below
        }
        EXPECT_EQ(file.has_value(), row.expected.starts_with("accept"))
            << (file ? std::string("accepted") : file.error().message);
        if (!file) {
            EXPECT_THAT(file.error().message, HasSubstr(".gguf: "));
            EXPECT_LT(file.error().message.size(), path.size() + 400);
        }
    }
}

TEST(GgufFile, AcceptsGapsAndRefusesZeroDimensions) {
    EXPECT_TRUE(GgufFile::open(source_data("gguf/bad_gap.gguf")).has_value());
    const auto zero = GgufFile::open(source_data("gguf/ok_zero_dim_element.gguf"));
    ASSERT_FALSE(zero.has_value());
    EXPECT_THAT(zero.error().message, HasSubstr("is 0, wanted 1 to"));
}

// The file also holds plain integers and doubles (ids 24, 25, 27, 28), which no tensor of this
// model uses and no code here decodes.
TEST(GgufFile, RefusesStorageTypesItCannotDecode) {
    const auto file = GgufFile::open(source_data("gguf/ok_all_tensor_types.gguf"));
    ASSERT_FALSE(file.has_value());
    EXPECT_THAT(file.error().message, HasSubstr("tensor t24.weight has type id 24"));
}

TEST(GgufFile, OpensASetFromAnyShard) {
    for (const char* shard : {"00001", "00002", "00003"}) {
        const auto file =
            GgufFile::open(source_data(std::string("gguf/split-") + shard + "-of-00003.gguf"));
        ASSERT_TRUE(file.has_value()) << file.error().message;
        EXPECT_EQ(file->n_shards(), 3U);
        EXPECT_THAT(file->path(), HasSubstr("split-00001-of-00003.gguf"));
        EXPECT_EQ(file->n_bytes(), 352U + 928U + 800U);
        EXPECT_EQ(file->tensors().size(),
                  static_cast<size_t>(*file->get_int("split.tensors.count")));
    }
}

TEST(GgufFile, ReadsTheGoldenModels) {
    const auto tiny_a = GgufFile::open(unpacked("models/tiny-a-bf16.gguf"));
    ASSERT_TRUE(tiny_a.has_value()) << tiny_a.error().message;
    EXPECT_EQ(tiny_a->tensors().size(), 219U);
    EXPECT_EQ(*tiny_a->get_string("general.name"), "tiny-a");
    EXPECT_EQ(*tiny_a->get_int("deepseek4.block_count"), 7);
    EXPECT_FLOAT_EQ(static_cast<float>(*tiny_a->get_float("deepseek4.rope.freq_base")), 1e4F);
    EXPECT_TRUE(*tiny_a->get_bool("deepseek4.expert_weights_norm"));
    EXPECT_EQ(*tiny_a->get_int_array("deepseek4.attention.compress_ratios"),
              (std::vector<int64_t>{0, 0, 4, 128, 4, 128, 4}));
    EXPECT_EQ(tiny_a->get_float_array("deepseek4.swiglu_clamp_exp")->size(), 7U);
    EXPECT_EQ(tiny_a->get_string_array("tokenizer.ggml.tokens")->at(511), "<｜System｜>");
    const TensorView* down = tiny_a->find_tensor("blk.0.ffn_down_exps.weight");
    ASSERT_NE(down, nullptr);
    EXPECT_EQ(down->ne, (std::array<int64_t, 4>{32, 128, 16, 1}));
    EXPECT_EQ(down->format, QuantFormat::kBF16);
    EXPECT_EQ(tiny_a->find_tensor("blk.7.attn_norm.weight"), nullptr);

    const auto tiny_b = GgufFile::open(unpacked("models/tiny-b-mixed-00002-of-00003.gguf"));
    ASSERT_TRUE(tiny_b.has_value()) << tiny_b.error().message;
    EXPECT_EQ(tiny_b->n_shards(), 3U);
    EXPECT_EQ(tiny_b->tensors().size(), 184U);
}

TEST(GgufFile, ReadsEveryValueType) {
    const auto file = GgufFile::open(source_data("gguf/ok_all_kv_types.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().message;
    for (const std::string_view key : file->keys()) {
        if (key == "t.u64") {
            EXPECT_THAT(file->get_int(key).error().message, HasSubstr("key t.u64 is 18446744073709"
                                                                      "551615, above"));
            continue;
        }
        const bool readable = file->get_int(key).has_value() || file->get_float(key).has_value() ||
                              file->get_bool(key).has_value() ||
                              file->get_string(key).has_value() ||
                              file->get_array_length(key).has_value();
        EXPECT_TRUE(readable) << key;
    }
}

TEST(GgufFile, NamesAMissingFile) {
    const auto file = GgufFile::open("/nonexistent/model.gguf");
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(file.error().message, HasSubstr("/nonexistent/model.gguf"));
}

} // namespace
} // namespace dsv4v
