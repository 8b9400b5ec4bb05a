#include "engine/unicode_classes.h"

#include <sstream>
#include <string>
#include <vector>

#include "tests/golden.h"

namespace dsv4v {
namespace {

CharClass class_of_letter(char letter) {
    switch (letter) {
    case 'L':
        return CharClass::kLetter;
    case 'M':
        return CharClass::kMark;
    case 'N':
        return CharClass::kNumber;
    case 'P':
        return CharClass::kPunctuation;
    case 'S':
        return CharClass::kSymbol;
    case 'W':
        return CharClass::kSpace;
    default:
        ADD_FAILURE() << letter;
        return CharClass::kOther;
    }
}

TEST(UnicodeClasses, EveryCodePointAgreesWithTheReference) {
    std::vector<CharClass> expected(0x110000, CharClass::kOther);
    std::istringstream lines(
        testing::read_whole_file(testing::source_data("tokenizer/unicode_classes.txt")));
    int n_ranges = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('#')) {
            continue;
        }
        std::istringstream fields(line);
        char letter = 0;
        uint32_t first = 0;
        uint32_t last = 0;
        ASSERT_TRUE(fields >> letter >> std::hex >> first >> last) << line;
        for (uint32_t c = first; c <= last; ++c) {
            expected[c] = class_of_letter(letter);
        }
        ++n_ranges;
    }
    EXPECT_GT(n_ranges, 1500);
    for (char32_t c = 0; c < expected.size(); ++c) {
        ASSERT_EQ(char_class(c), expected[c]) << "U+" << std::hex << static_cast<uint32_t>(c);
    }
    EXPECT_EQ(char_class(0x110000), CharClass::kOther);
    EXPECT_EQ(char_class(0xFFFFFFFF), CharClass::kOther);
}

} // namespace
} // namespace dsv4v
