// The dependency chain loaders < engine < vision < cuda < server: a folder includes itself and
// anything to its left, nothing else of the project.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/golden.h"

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kChain = {"loaders", "engine", "vision", "cuda", "server"};

size_t rank_of(const std::string& folder) {
    return static_cast<size_t>(std::find(kChain.begin(), kChain.end(), folder) - kChain.begin());
}

TEST(Architecture, IncludesPointLeftOnly) {
    const fs::path root = dsv4v::testing::source_root();
    const std::regex include(R"(^\s*#include\s+"([a-z_]+)/)");
    size_t n_includes = 0;
    for (const std::string& folder : kChain) {
        if (!fs::exists(root / folder)) {
            continue;
        }
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            if (!entry.is_regular_file()) {
                continue;
            }
            std::ifstream in(entry.path());
            for (std::string line; std::getline(in, line);) {
                std::smatch match;
                if (!std::regex_search(line, match, include) ||
                    !fs::exists(root / match[1].str())) {
                    continue;
                }
                if (!fs::exists(root / match[1].str())) {
                    continue; // a library
                }
                ++n_includes;
                EXPECT_LE(rank_of(match[1]), rank_of(folder)) << entry.path() << ": " << line;
            }
        }
    }
    EXPECT_GT(n_includes, 50u) << "the scan found almost nothing: it is broken";
}

} // namespace
