// web/dist is committed; this proves that it was built from the sources beside it.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "tests/golden.h"

namespace {

namespace fs = std::filesystem;

std::string sha256_hex(const std::string& bytes) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
        hex += "0123456789abcdef"[digest[i] >> 4];
        hex += "0123456789abcdef"[digest[i] & 15];
    }
    return hex;
}

// The order and form that web/build.mjs hashes.
TEST(WebDist, IsBuiltFromTheCommittedSources) {
    const fs::path web = fs::path(dsv4v::testing::source_root()) / "web";
    std::vector<std::string> names = {"build.mjs", "package-lock.json"};
    for (const auto& entry : fs::directory_iterator(web / "src")) {
        names.push_back("src/" + entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    std::string hashed;
    for (const std::string& name : names) {
        hashed += name + '\0' + dsv4v::testing::read_whole_file((web / name).string()) + '\0';
    }
    EXPECT_EQ(sha256_hex(hashed) + "\n",
              dsv4v::testing::read_whole_file((web / "dist/source.sha256").string()))
        << "run `npm ci && npm run build` in web/";
}

} // namespace
