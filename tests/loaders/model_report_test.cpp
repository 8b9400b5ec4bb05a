// The report, on the golden models and on a file of the published model's size.
#include "loaders/model_report.h"

#include <chrono>
#include <string>

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden.h"
#include "tests/real_size_model.h"

namespace dsv4v {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFile;
using testing::unpacked;

TEST(ModelReport, DescribesAGoldenModel) {
    const auto report = check_model(unpacked("models/tiny-b-mixed-00003-of-00003.gguf"));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    for (const char* part :
         {"files       3, ", "184 tensors", "tiny-b-mixed-00002-of-00003.gguf: GGUF v3, 3 keys",
          "model       tiny-b, architecture deepseek4",
          "layers      6 (2 window-only, 2 ratio 4, 2 ratio 128), 3 hash-routed",
          "experts     6 of 16 used", "IQ2_XXS", "routing biases present",
          "warning: key deepseek4.attention.layer_norm_rms_epsilon is 1e-6"}) {
        EXPECT_THAT(*report, HasSubstr(part));
    }
}

TEST(ModelReport, SaysWhatIsWrong) {
    const auto missing = check_model("/nonexistent.gguf");
    ASSERT_FALSE(missing.has_value());
    EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent.gguf"));
}

int64_t max_resident_kib() {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// 1371 tensors, 129280 tokens, 82 GiB of which all but the expert tables are holes: the check must
// read headers only.
TEST(ModelReport, ChecksAFullSizeFileWithinSeconds) {
    const TemporaryFile file("full-size.gguf");
    testing::real_size_model().write_sparse(file.path());
    const int64_t resident_before = max_resident_kib();
    const auto begin = std::chrono::steady_clock::now();
    const auto report = check_model(file.path());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_THAT(*report, HasSubstr("1371 tensors"));
    EXPECT_THAT(*report, HasSubstr("layers      43 (2 window-only, 21 ratio 4, 20 ratio 128)"));
    EXPECT_THAT(*report, ::testing::Not(HasSubstr("warning")));
    EXPECT_LT(elapsed.count(), 5);
    EXPECT_LT(max_resident_kib() - resident_before, 512 * 1024);
}

TEST(ModelReport, ATextCheckpointHas1328Tensors) {
    testing::GgufBuilder builder = testing::real_size_model();
    std::erase_if(builder.tensors,
                  [](const auto& t) { return t.name.ends_with("exp_probs_b_vl.bias"); });
    const TemporaryFile file("full-size-text.gguf");
    builder.write_sparse(file.path());
    const auto report = check_model(file.path());
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_THAT(*report, HasSubstr("1328 tensors"));
    EXPECT_THAT(*report, HasSubstr("image requests are refused"));
}

} // namespace
} // namespace dsv4v
