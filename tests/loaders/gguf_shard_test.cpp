// Broken GGUF files, one rule at a time: each is refused, and the message names the offender.
#include "loaders/gguf_shard.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gguf_builder.h"
#include "tests/golden.h"

namespace dsv4v {
namespace {

using testing::encode;
using testing::encode_string;
using testing::ExactBytes;
using testing::GgufBuilder;
using ::testing::HasSubstr;

constexpr uint64_t kMax64 = UINT64_MAX;

// Two keys and two tensors, nothing wrong with it.
GgufBuilder valid_file() {
    GgufBuilder builder;
    builder.set_string("general.architecture", "deepseek4");
    builder.set_u32("some.number", 7);
    builder.add("first.weight", {32, 2}, QuantFormat::kQ8_0);
    builder.add("second.weight", {8}, QuantFormat::kF32);
    return builder;
}

Expected<GgufShard> parse(const std::string& bytes) {
    const ExactBytes exact(bytes);
    Expected<GgufShard> shard = parse_gguf_shard("test.gguf", exact.span());
    if (shard) {
        shard->tensors.clear(); // they point into `exact`
        shard->metadata = GgufMetadata();
    }
    return shard;
}

std::string error_of(const std::string& bytes) {
    const Expected<GgufShard> shard = parse(bytes);
    return shard ? "accepted" : shard.error().message;
}

struct BrokenFile {
    const char* rule;
    std::function<void(GgufBuilder&)> damage;
    const char* message; // must occur in the error
};

std::string nested_arrays(int depth) {
    std::string value;
    for (int i = 0; i < depth; ++i) {
        value += encode<uint32_t>(9) + encode<uint64_t>(1);
    }
    return value + encode<uint32_t>(0) + encode<uint64_t>(0);
}

std::string array_head(uint32_t element_type, uint64_t count) {
    return encode(element_type) + encode(count);
}

const std::vector<BrokenFile>& broken_headers() {
    static const std::vector<BrokenFile> cases = {
        {"magic", [](auto& b) { b.magic = "GGML"; }, "starts with \"GGML\""},
        {"binary magic", [](auto& b) { b.magic = "\x1b\x00\xff\n"; }, "starts with \"\\x1b"},
        {"version 0", [](auto& b) { b.version = 0; }, "version 0"},
        {"version 1", [](auto& b) { b.version = 1; }, "version 1"},
        {"version 4", [](auto& b) { b.version = 4; }, "version 4"},
        {"version 2^31", [](auto& b) { b.version = 1U << 31; }, "big-endian"},
        {"big endian", [](auto& b) { b.version = 3U << 24; }, "big-endian"},
        {"n_kv 2^64-1", [](auto& b) { b.n_keys = kMax64; }, "n_kv is 18446744073709551615"},
        {"n_kv 2^63", [](auto& b) { b.n_keys = 1ULL << 63; }, "n_kv is 9223372036854775808"},
        {"n_kv too many for the bytes", [](auto& b) { b.n_keys = 1000; }, "n_kv is 1000"},
        {"n_kv above the cap",
         [](auto& b) {
             b.n_keys = 65537;
             b.tensors[0].n_bytes = 1 << 20;
         },
         "n_kv is 65537"},
        {"n_tensors 2^64-1", [](auto& b) { b.n_tensors = kMax64; }, "n_tensors is 184467"},
        {"n_tensors 2^63", [](auto& b) { b.n_tensors = 1ULL << 63; }, "n_tensors is 9223"},
        {"n_tensors above the cap",
         [](auto& b) {
             b.n_tensors = 65537;
             b.tensors[0].n_bytes = 4 << 20;
         },
         "n_tensors is 65537"},
        {"one tensor too many",
         [](auto& b) {
             b.n_tensors = 3;
             b.tensors[1].n_bytes = 0;
         },
         "tensor 2 of 3"},
        {"one key too many",
         [](auto& b) {
             b.tensors.clear();
             b.n_keys = 3;
         },
         "key 2 of 3 lies past the end"},
    };
    return cases;
}

const std::vector<BrokenFile>& broken_keys() {
    static const std::vector<BrokenFile> cases = {
        {"empty key", [](auto& b) { b.keys[1].name = ""; }, "key 1 of 2 has a name of 0 bytes"},
        {"key of 64 KiB + 1", [](auto& b) { b.keys[1].name.assign(65537, 'k'); },
         "key 1 of 2 has a name of 65537 bytes"},
        {"duplicate key", [](auto& b) { b.keys[1].name = "general.architecture"; },
         "key general.architecture occurs twice"},
        {"value type 13", [](auto& b) { b.set("some.number", 13, encode(7)); },
         "key some.number has type 13"},
        {"value type -1", [](auto& b) { b.set("some.number", UINT32_MAX, encode(7)); },
         "key some.number has type 4294967295"},
        {"bool of 2", [](auto& b) { b.set("some.number", 7, encode<uint8_t>(2)); },
         "key some.number is a bool of value 2"},
        {"string of 2^64-1 bytes", [](auto& b) { b.set("some.number", 8, encode(kMax64)); },
         "key some.number holds a string of 18446744073709551615"},
        {"string past the end", [](auto& b) { b.set("some.number", 8, encode<uint64_t>(100000)); },
         "value of key some.number runs past the end"},
        {"string above 16 MiB",
         [](auto& b) { b.set("some.number", 8, encode<uint64_t>((16 << 20) + 1)); },
         "key some.number holds a string of 16777217 bytes"},
        {"array of arrays", [](auto& b) { b.set("some.number", 9, nested_arrays(2)); },
         "key some.number is an array of arrays"},
        {"1000 nested arrays", [](auto& b) { b.set("some.number", 9, nested_arrays(1000)); },
         "key some.number is an array of arrays"},
        {"array element type 13", [](auto& b) { b.set("some.number", 9, array_head(13, 0)); },
         "key some.number has element type 13"},
        {"array element type -1",
         [](auto& b) { b.set("some.number", 9, array_head(UINT32_MAX, 0)); },
         "key some.number has element type 4294967295"},
        {"array of 2^63 bytes", [](auto& b) { b.set("some.number", 9, array_head(0, 1ULL << 63)); },
         "key some.number is an array of 9223372036854775808"},
        {"array whose byte count wraps",
         [](auto& b) { b.set("some.number", 9, array_head(10, (1ULL << 61) + 1)); },
         "key some.number is an array of 2305843009213693953"},
        {"array one element too long",
         [](auto& b) {
             b.tensors.clear();
             b.set("some.number", 9, array_head(10, 2) + encode(kMax64));
         },
         "key some.number is an array of 2 elements, at most 1"},
        {"array of strings past the end",
         [](auto& b) { b.set("some.number", 9, array_head(8, 100000)); },
         "key some.number is an array of 100000"},
        {"array string past the end",
         [](auto& b) { b.set("some.number", 9, array_head(8, 1) + encode<uint64_t>(5000)); },
         "value of key some.number runs past the end"},
        {"array string above 1 MiB",
         [](auto& b) {
             b.set("some.number", 9, array_head(8, 1) + encode<uint64_t>((1 << 20) + 1));
         },
         "key some.number holds a string of 1048577 bytes"},
        {"alignment 0", [](auto& b) { b.set_u32("general.alignment", 0); },
         "key general.alignment is 0"},
        {"alignment 3", [](auto& b) { b.set_u32("general.alignment", 3); },
         "key general.alignment is 3"},
        {"alignment 4", [](auto& b) { b.set_u32("general.alignment", 4); },
         "key general.alignment is 4"},
        {"alignment 2 MiB", [](auto& b) { b.set_u32("general.alignment", 2 << 20); },
         "key general.alignment is 2097152"},
        {"alignment 2^31", [](auto& b) { b.set_u32("general.alignment", 1U << 31); },
         "key general.alignment is 2147483648"},
        {"alignment as i32", [](auto& b) { b.set_i32("general.alignment", 32); },
         "key general.alignment has type i32, wanted u32"},
        {"alignment as u64", [](auto& b) { b.set_u64("general.alignment", 32); },
         "key general.alignment has type u64"},
        {"alignment as string", [](auto& b) { b.set_string("general.alignment", "32"); },
         "key general.alignment has type string"},
        {"alignment as array", [](auto& b) { b.set_i32_array("general.alignment", {32}); },
         "key general.alignment has type array"},
    };
    return cases;
}

const std::vector<BrokenFile>& broken_tensors() {
    static const std::vector<BrokenFile> cases = {
        {"empty name", [](auto& b) { b.tensors[1].name = ""; }, "tensor 1 of 2 has a name of 0"},
        {"name of 64 bytes", [](auto& b) { b.tensors[1].name.assign(64, 'n'); },
         "tensor 1 of 2 has a name of 64 bytes"},
        {"name with NUL", [](auto& b) { b.tensors[1].name = std::string("a\0b", 3); },
         "name \"a\\x00b\""},
        {"name with a newline", [](auto& b) { b.tensors[1].name = "a\nb"; }, "name \"a\\x0ab\""},
        {"name with DEL", [](auto& b) { b.tensors[1].name = "a\x7f"; }, "name \"a\\x7f\""},
        {"name with a slash", [](auto& b) { b.tensors[1].name = "../x"; }, "name \"../x\""},
        {"duplicate name", [](auto& b) { b.tensors[1].name = "first.weight"; },
         "tensor first.weight occurs twice"},
        {"no dimensions",
         [](auto& b) {
             b.tensors[0].n_dims = 0;
             b.tensors[0].ne.clear();
         },
         "tensor first.weight has 0 dimensions"},
        {"5 dimensions", [](auto& b) { b.tensors[0].n_dims = 5; },
         "tensor first.weight has 5 dimensions"},
        {"2^32-1 dimensions", [](auto& b) { b.tensors[0].n_dims = UINT32_MAX; },
         "tensor first.weight has 4294967295 dimensions"},
        {"zero dimension", [](auto& b) { b.tensors[0].ne[1] = 0; },
         "tensor first.weight: ne[1] is 0"},
        {"zero width", [](auto& b) { b.tensors[0].ne[0] = 0; }, "tensor first.weight: ne[0] is 0"},
        {"negative dimension", [](auto& b) { b.tensors[0].ne[1] = kMax64; },
         "tensor first.weight: ne[1] is 18446744073709551615"},
        {"dimension above 2^40", [](auto& b) { b.tensors[0].ne[0] = (1ULL << 40) + 32; },
         "tensor first.weight: ne[0] is 1099511627808"},
        {"product wraps to 0",
         [](auto& b) {
             b.tensors[0].ne = {1ULL << 32, 1ULL << 32};
         },
         "tensor first.weight: the size of shape"},
        {"product wraps to 0 over three dimensions",
         [](auto& b) {
             b.tensors[0].ne = {1ULL << 31, 1ULL << 31, 4};
         },
         "tensor first.weight: the size of shape"},
        {"product wraps to a small number",
         [](auto& b) {
             b.tensors[0].ne = {(1ULL << 33) + 32, 1ULL << 33, 1ULL << 30};
         },
         "tensor first.weight: the size of shape"},
        {"product is 2^63",
         [](auto& b) {
             b.tensors[0].ne = {1ULL << 32, 1ULL << 31};
         },
         "tensor first.weight: the size of shape"},
        {"elements fit, bytes do not",
         [](auto& b) {
             b.tensors[1].ne = {1ULL << 31, 1ULL << 31};
         },
         "tensor second.weight: the size of shape"},
        {"type 4 (removed)", [](auto& b) { b.tensors[0].type = 4; },
         "tensor first.weight has type id 4,"},
        {"type 5 (removed)", [](auto& b) { b.tensors[0].type = 5; }, "type id 5,"},
        {"type 9 (activations)", [](auto& b) { b.tensors[0].type = 9; }, "type id 9,"},
        {"type 15 (activations)", [](auto& b) { b.tensors[0].type = 15; }, "type id 15,"},
        {"type 31 (removed)", [](auto& b) { b.tensors[0].type = 31; }, "type id 31,"},
        {"type 36 (removed)", [](auto& b) { b.tensors[0].type = 36; }, "type id 36,"},
        {"type 38 (removed)", [](auto& b) { b.tensors[0].type = 38; }, "type id 38,"},
        {"type 99", [](auto& b) { b.tensors[0].type = 99; }, "type id 99,"},
        {"type -1", [](auto& b) { b.tensors[0].type = UINT32_MAX; }, "type id 4294967295,"},
        {"width not a multiple of 32", [](auto& b) { b.tensors[0].ne[0] = 33; },
         "tensor first.weight: ne[0] is 33, wanted a multiple of 32, the block of Q8_0"},
        {"width not a multiple of 256",
         [](auto& b) { b.tensors[0].type = static_cast<uint32_t>(QuantFormat::kQ4_K); },
         "tensor first.weight: ne[0] is 32, wanted a multiple of 256, the block of Q4_K"},
        {"offset not aligned", [](auto& b) { b.tensors[1].offset = 97; },
         "tensor second.weight: offset 97"},
        {"offset aligned to less than the key says",
         [](auto& b) { b.set_u32("general.alignment", 64); }, "tensor second.weight: offset 96"},
        {"offset past the end", [](auto& b) { b.tensors[1].offset = 1 << 20; },
         "tensor second.weight needs 32 bytes at offset 1048576"},
        {"offset wraps", [](auto& b) { b.tensors[1].offset = kMax64 - 31; },
         "tensor second.weight needs 32 bytes at offset 18446744073709551584"},
        {"same offset twice", [](auto& b) { b.tensors[1].offset = 0; },
         "tensors first.weight and second.weight overlap at offset 0"},
        {"overlap by one block", [](auto& b) { b.tensors[1].offset = 64; },
         "tensors first.weight and second.weight overlap at offset 64"},
        {"larger than the file", [](auto& b) { b.tensors[1].ne[0] = 4096; },
         "tensor second.weight needs 16384 bytes"},
    };
    return cases;
}

void expect_all_refused(const std::vector<BrokenFile>& cases) {
    for (const BrokenFile& broken : cases) {
        SCOPED_TRACE(broken.rule);
        GgufBuilder builder = valid_file();
        broken.damage(builder);
        const std::string message = error_of(builder.build());
        EXPECT_THAT(message, HasSubstr("test.gguf: "));
        EXPECT_THAT(message, HasSubstr(broken.message));
        EXPECT_LT(message.size(), 400U);
    }
}

TEST(GgufShard, AcceptsTheFileThatTheBrokenOnesStartFrom) {
    EXPECT_EQ(error_of(valid_file().build()), "accepted");
}

TEST(GgufShard, RefusesBrokenHeaders) {
    expect_all_refused(broken_headers());
}
TEST(GgufShard, RefusesBrokenKeys) {
    expect_all_refused(broken_keys());
}
TEST(GgufShard, RefusesBrokenTensors) {
    expect_all_refused(broken_tensors());
}

TEST(GgufShard, TheTablesHoldManyDistinctRules) {
    EXPECT_GE(broken_headers().size() + broken_keys().size() + broken_tensors().size(), 80U);
}

TEST(GgufShard, RefusesADataSectionOneByteShort) {
    GgufBuilder builder = valid_file();
    std::string bytes = builder.build();
    bytes.pop_back();
    EXPECT_THAT(error_of(bytes), HasSubstr("tensor second.weight needs 32 bytes"));
}

TEST(GgufShard, RefusesPathologicalNamesWithoutFloodingTheMessage) {
    GgufBuilder builder = valid_file();
    builder.keys[1].name.assign(60000, '\x01');
    builder.keys[1].type = 77;
    const std::string message = error_of(builder.build());
    EXPECT_THAT(message, HasSubstr("\\x01"));
    EXPECT_LT(message.size(), 600U);
}

TEST(GgufShard, AcceptsEveryStorageFormat) {
    GgufBuilder builder;
    for (const QuantFormatInfo& info : quant_formats()) {
        builder.add(info.name, {512, 3}, info.format);
    }
    EXPECT_EQ(error_of(builder.build()), "accepted");
}

TEST(GgufShard, AcceptsAnyTensorOrder) {
    GgufBuilder builder = valid_file();
    builder.tensors[0].offset = 32; // 68 bytes, behind the other tensor
    builder.tensors[1].offset = 0;
    EXPECT_EQ(error_of(builder.build()), "accepted");
}

TEST(GgufShard, IgnoresBytesAfterTheLastTensor) {
    EXPECT_EQ(error_of(valid_file().build() + "trailing"), "accepted");
}

// Each prefix must be refused or accepted; a sanitizer watches that nothing reads past its end.
void parse_every_truncation(const std::string& bytes, size_t step) {
    size_t n_refused = 0;
    constexpr size_t kHeaderBytes = 4096; // behind it only tensor data is cut
    for (size_t n_bytes = 0; n_bytes < bytes.size();
         n_bytes += n_bytes < kHeaderBytes ? step : 61) {
        n_refused += parse(bytes.substr(0, n_bytes)) ? 0 : 1;
    }
    EXPECT_GT(n_refused, 0U);
}

const std::vector<std::string>& valid_files() {
    static const std::vector<std::string> names = {"ok_min",
                                                   "ok_v2",
                                                   "ok_no_tensors",
                                                   "ok_align64",
                                                   "ok_align8",
                                                   "ok_all_kv_types",
                                                   "ok_last_tensor_unpadded",
                                                   "ok_trailing_bytes",
                                                   "bad_gap",
                                                   "ok_all_tensor_types",
                                                   "split-00001-of-00003",
                                                   "split-00002-of-00003",
                                                   "split-00003-of-00003"};
    return names;
}

TEST(GgufShard, SurvivesEveryTruncationOfEveryValidFile) {
    for (const std::string& name : valid_files()) {
        SCOPED_TRACE(name);
        parse_every_truncation(
            testing::read_whole_file(testing::source_data("gguf/" + name + ".gguf")), 1);
    }
    parse_every_truncation(
        testing::read_whole_file(testing::unpacked("models/tiny-b-mixed-00001-of-00003.gguf")), 7);
}

TEST(GgufShard, SurvivesEveryByteFlipOfEveryValidFile) {
    for (const std::string& name : valid_files()) {
        std::string bytes =
            testing::read_whole_file(testing::source_data("gguf/" + name + ".gguf"));
        bytes.resize(std::min<size_t>(bytes.size(), 4096));
        for (char& byte : bytes) {
            const char before = byte;
            for (const int mask : {0x01, 0x80, 0xff}) {
                byte = static_cast<char>(before ^ mask);
                (void)parse(bytes);
            }
            byte = before;
        }
    }
}

} // namespace
} // namespace dsv4v
