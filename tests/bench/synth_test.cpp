#include "bench/synth/synth.h"

#include <cmath>
#include <filesystem>
#include <set>

#include <unistd.h>

#include "bench/synth/payload.h"
#include "bench/synth/recipe.h"
#include "bench/synth/vocabulary.h"
#include "loaders/gguf_file.h"
#include "loaders/model_config.h"
#include "loaders/vocab.h"
#include "loaders/weights.h"
#include "tests/golden.h"

namespace dsv4v {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// A folder that goes away with the test.
class SynthTest : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::path(::testing::TempDir()) /
                  ("synth-" + std::to_string(::getpid()) + "-" +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] SynthOptions options(const std::string& name) const {
        SynthOptions options;
        options.prefix = (folder_ / name).string();
        return options;
    }
    static SynthReport write(const SynthOptions& options) {
        auto report = write_synthetic_model(options);
        EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
        return report.value_or(SynthReport{});
    }
    static GgufFile open(const std::string& path) {
        auto file = GgufFile::open(path);
        EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message);
        return std::move(*file);
    }

  private:
    std::filesystem::path folder_;
};

// All bytes of all files.
std::vector<std::string> contents(const SynthReport& report) {
    std::vector<std::string> bytes;
    for (const std::string& path : report.paths) {
        bytes.push_back(testing::read_whole_file(path));
    }
    return bytes;
}

void expect_loads(const GgufFile& file) {
    const auto config = ModelConfig::from_gguf(file);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_TRUE(config->warnings.empty()) << config->warnings.front();
    const auto weights = Weights::bind(file, *config);
    ASSERT_TRUE(weights.has_value()) << weights.error().message;
    EXPECT_TRUE(weights->has_image_bias);
    const auto vocab = Vocab::from_gguf(file);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().message;
    EXPECT_EQ(static_cast<int32_t>(vocab->tokens.size()), config->vocab_size);
}

void expect_sane_values(const TensorView& tensor) {
    std::vector<float> row(static_cast<size_t>(tensor.width()));
    double sum = 0;
    double squares = 0;
    const int64_t n_rows = std::min<int64_t>(tensor.n_rows(), 64);
    for (int64_t r = 0; r < n_rows; ++r) {
        decode_row(tensor.format, tensor.row(r), tensor.width(), row.data());
        for (const float value : row) {
            ASSERT_TRUE(std::isfinite(value)) << tensor.name << " row " << r;
            sum += value;
            squares += static_cast<double>(value) * value;
        }
    }
    const auto n = static_cast<double>(n_rows * tensor.width());
    if (tensor.name.ends_with("exps.weight")) {
        const double rms = std::sqrt(squares / n * static_cast<double>(tensor.width()));
        EXPECT_NEAR(rms, 1.0, 0.45) << tensor.name; // MXFP4 has powers of two only
        EXPECT_LT(std::fabs(sum / n) * std::sqrt(static_cast<double>(tensor.width())), 0.2)
            << tensor.name;
    }
}

TEST_F(SynthTest, TinyModelLoads) {
    const SynthReport report = write(options("tiny"));
    const GgufFile file = open(report.paths.at(0));
    expect_loads(file);
    EXPECT_EQ(file.tensors().size(), report.n_tensors);
    EXPECT_EQ(file.n_bytes(), report.n_bytes);
    EXPECT_LT(report.n_bytes, 20u << 20);
    for (const TensorView& tensor : file.tensors()) {
        expect_sane_values(tensor);
    }
}

TEST_F(SynthTest, TinyModelHasEveryLayerKind) {
    const auto config = ModelConfig::from_gguf(open(write(options("tiny")).paths.at(0)));
    ASSERT_TRUE(config.has_value());
    std::set<std::pair<LayerKind, bool>> kinds;
    for (int32_t i = 0; i < config->n_layers; ++i) {
        kinds.emplace(config->layer_kind(i), config->is_hash_layer(i));
    }
    using Kind = LayerKind;
    EXPECT_EQ(
        kinds,
        (std::set<std::pair<Kind, bool>>{
            {Kind::kSwa, true}, {Kind::kCsa, true}, {Kind::kCsa, false}, {Kind::kHca, false}}));
    EXPECT_EQ(config->context_length, 8192);
}

TEST_F(SynthTest, ExpertTableHoldsDistinctExperts) {
    const GgufFile file = open(write(options("tiny")).paths.at(0));
    const TensorView* table = file.find_tensor("blk.0.ffn_gate_tid2eid.weight");
    ASSERT_NE(table, nullptr);
    std::vector<float> row(static_cast<size_t>(table->width()));
    ASSERT_EQ(row.size(), 6u);
    std::set<float> all;
    for (int64_t token = 0; token < table->n_rows(); ++token) {
        decode_row(table->format, table->row(token), table->width(), row.data());
        const std::set<float> experts(row.begin(), row.end());
        ASSERT_EQ(experts.size(), row.size()) << "token " << token;
        ASSERT_GE(*experts.begin(), 0);
        ASSERT_LT(*experts.rbegin(), 16);
        all.insert(experts.begin(), experts.end());
    }
    EXPECT_EQ(all.size(), 16u);
}

TEST_F(SynthTest, BytesDependOnTheSeedOnly) {
    SynthOptions one = options("one");
    one.n_threads = 1;
    SynthOptions two = options("two");
    two.n_threads = 2;
    SynthOptions other = options("other");
    other.seed = 2;
    const auto bytes = contents(write(one));
    EXPECT_EQ(bytes, contents(write(two)));
    EXPECT_NE(bytes, contents(write(other)));
}

TEST_F(SynthTest, FullSizeSparseModelHasThePublishedShape) {
    SynthOptions full = options("full");
    full.recipe = "ud-iq1_s";
    full.n_shards = 3;
    full.sparse = true;
    full.vocab = "real";
    full.vocab_file = testing::source_data("tokenizer/dsv4_vocab.txt.gz");
    const SynthReport report = write(full);
    EXPECT_EQ(report.n_tensors, 1371u);
    EXPECT_NEAR(static_cast<double>(report.n_bytes) / kGiB, 77.0, 0.1);
    EXPECT_NEAR(static_cast<double>(std::filesystem::file_size(report.paths.at(0))), 5.3e6, 0.1e6);

    const GgufFile file = open(report.paths.at(0));
    EXPECT_EQ(file.n_shards(), 3u);
    EXPECT_EQ(file.n_bytes(), report.n_bytes);
    expect_loads(file);
    const auto config = ModelConfig::from_gguf(file);
    EXPECT_EQ(config->context_length, 1048576);
    EXPECT_EQ(config->vocab_size, 129280);
    EXPECT_EQ(config->rms_eps, 1e-20f);
    for (size_t i = 0; i < 43; ++i) { // the first shard holds these and nothing else
        EXPECT_TRUE(file.tensors()[i].name.ends_with("exp_probs_b_vl.bias"));
    }
    EXPECT_FALSE(file.tensors()[43].name.ends_with("exp_probs_b_vl.bias"));
}

TEST_F(SynthTest, EveryRecipeLoads) {
    for (const char* name : recipe_names()) {
        SynthOptions recipe = options(name);
        recipe.recipe = name;
        recipe.sparse = true;
        recipe.n_layers = 5;
        expect_loads(open(write(recipe).paths.at(0)));
    }
}

// Sums of the published two-bit file: 345 Q8_0 tensors (43 * 8 + head) and 80.76 GiB, of which the
// vocabulary and the image biases are not counted here.
TEST(SynthRecipe, TwoBitRecipeMatchesThePublishedFile) {
    const auto model = make_recipe("ds4-q2", 0, 129280);
    ASSERT_TRUE(model.has_value());
    std::map<QuantFormat, int> counts;
    uint64_t n_bytes = 0;
    for (const SynthTensor& tensor : model->tensors) {
        ++counts[tensor.entry.format];
        n_bytes += tensor.entry.n_bytes();
    }
    EXPECT_EQ(counts[QuantFormat::kIQ2_XXS], 86);
    EXPECT_EQ(counts[QuantFormat::kQ2_K], 43);
    EXPECT_EQ(counts[QuantFormat::kQ8_0], 345);
    EXPECT_EQ(counts[QuantFormat::kI32], 3);
    EXPECT_NEAR(static_cast<double>(n_bytes) / kGiB, 80.76, 0.01);
}

TEST(SynthPayload, EveryFormatIsFiniteAndAsWideAsAsked) {
    constexpr float kSigma = 1.0f / 64;
    for (const QuantFormatInfo& info : quant_formats()) {
        if (info.format == QuantFormat::kI32) {
            continue;
        }
        const size_t n_blocks = 65536 / info.block_elements;
        std::vector<std::byte> blocks(n_blocks * info.block_bytes);
        fill_blocks(info.format, kSigma, 5, blocks);
        std::vector<float> values(65536);
        decode_row(info.format, blocks.data(), 65536, values.data());
        double squares = 0;
        for (const float value : values) {
            ASSERT_TRUE(std::isfinite(value)) << info.name;
            squares += static_cast<double>(value) * value;
        }
        const double ratio = std::sqrt(squares / 65536) / kSigma;
        EXPECT_GT(ratio, 0.7) << info.name; // formats with power-of-two scales are coarse
        EXPECT_LT(ratio, 1.5) << info.name;
    }
}

TEST(SynthVocabulary, SmallOneIsConsistent) {
    const Vocab vocab = small_vocabulary();
    const std::set<std::string> tokens(vocab.tokens.begin(), vocab.tokens.end());
    EXPECT_EQ(tokens.size(), vocab.tokens.size());
    EXPECT_EQ(vocab.types.size(), vocab.tokens.size());
    std::set<std::string> known(vocab.tokens.begin(), vocab.tokens.begin() + 259);
    for (size_t i = 0; i < vocab.merges.size(); ++i) {
        const std::string& merge = vocab.merges[i];
        const size_t space = merge.find(' ');
        EXPECT_TRUE(known.contains(merge.substr(0, space))) << merge;
        EXPECT_TRUE(known.contains(merge.substr(space + 1))) << merge;
        const std::string result = merge.substr(0, space) + merge.substr(space + 1);
        EXPECT_EQ(result, vocab.tokens[259 + i]);
        known.insert(result);
    }
    EXPECT_TRUE(tokens.contains("<｜deepseek_image｜>"));
    EXPECT_TRUE(tokens.contains("｜DSML｜"));
}

TEST(SynthVocabulary, RealOneHasItsPublishedSize) {
    const auto vocab = read_vocabulary(testing::source_data("tokenizer/dsv4_vocab.txt.gz"));
    ASSERT_TRUE(vocab.has_value()) << vocab.error().message;
    EXPECT_EQ(vocab->tokens.size(), 129280u);
    EXPECT_EQ(vocab->merges.size(), 127741u);
    EXPECT_EQ(vocab->merges[0].find(' '), vocab->merges[0].rfind(' '));
    EXPECT_EQ(vocab->tokens[129264], "<｜deepseek_image｜>");
}

TEST(SynthVocabulary, RefusesOtherFiles) {
    const auto vocab = read_vocabulary(testing::source_data("tokenizer/unicode_classes.txt"));
    ASSERT_FALSE(vocab.has_value());
    EXPECT_NE(vocab.error().message.find("line 1"), std::string::npos) << vocab.error().message;
    EXPECT_FALSE(read_vocabulary("/nonexistent").has_value());
}

TEST_F(SynthTest, ProjectorForms) {
    SynthOptions fused = options("fused");
    fused.projector = "fused";
    const GgufFile fused_file = open(write(fused).paths.at(1));
    EXPECT_EQ(*fused_file.get_string("general.architecture"), "clip");
    EXPECT_EQ(fused_file.tensors().size(), 9u * 2 + 11);
    SynthOptions full = options("full");
    full.recipe = "q8_0";
    full.n_layers = 1;
    full.sparse = true;
    full.projector = "split";
    const GgufFile file = open(write(full).paths.at(1));
    EXPECT_EQ(file.tensors().size(), 427u); // as the published projector, and of its size
    EXPECT_NEAR(static_cast<double>(file.n_bytes()), 934'462'656.0, 2000.0);
    EXPECT_EQ(file.find_tensor("v.patch_embd.weight")->ne,
              (std::array<int64_t, 4>{14, 14, 3, 1024}));
}

TEST_F(SynthTest, RefusesBadOptionsByName) {
    SynthOptions bad = options("bad");
    bad.recipe = "q9";
    EXPECT_NE(write_synthetic_model(bad).error().message.find("--recipe"), std::string::npos);
    bad = options("bad");
    bad.n_shards = 0;
    EXPECT_NE(write_synthetic_model(bad).error().message.find("--split"), std::string::npos);
    bad = options("bad");
    bad.vocab = "real";
    EXPECT_NE(write_synthetic_model(bad).error().message.find("--vocab-file"), std::string::npos);
    bad = options("no/such/folder/bad");
    EXPECT_EQ(write_synthetic_model(bad).error().code, ErrorCode::kIo);
}

} // namespace
} // namespace dsv4v
