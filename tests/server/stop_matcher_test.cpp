#include "server/stop_matcher.h"

#include <random>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

struct Outcome {
    std::string text;
    std::string stop; // "" = none
    bool operator==(const Outcome&) const = default;
};

// The definition: earliest start in the whole text, longest at equal start.
Outcome oracle(const std::string& text, const std::vector<std::string>& stops) {
    size_t best = std::string::npos;
    std::string stop;
    for (const std::string& s : stops) {
        const size_t at = s.empty() ? std::string::npos : text.find(s);
        if (at != std::string::npos && (at < best || (at == best && s.size() > stop.size()))) {
            best = at;
            stop = s;
        }
    }
    return {text.substr(0, best), stop};
}

// The longest proper prefix of a stop string that ends `text`.
size_t longest_open_suffix(const std::string& text, const std::vector<std::string>& stops) {
    size_t longest = 0;
    for (const std::string& s : stops) {
        for (size_t n = 1; n < s.size() && n <= text.size(); ++n) {
            if (text.ends_with(s.substr(0, n))) {
                longest = std::max(longest, n);
            }
        }
    }
    return longest;
}

Outcome run(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
    StopMatcher matcher(stops);
    Outcome outcome;
    for (const std::string& piece : pieces) {
        outcome.text += matcher.feed(piece);
    }
    outcome.text += matcher.finish();
    outcome.stop = matcher.matched() != nullptr ? *matcher.matched() : "";
    return outcome;
}

const std::vector<std::string> kAlphabet = {"a", "b", "\n", "é", "😀"};

std::string random_text(std::mt19937& rng, size_t max_length) {
    std::string out;
    for (size_t n = rng() % (max_length + 1); n > 0; --n) {
        out += kAlphabet[rng() % kAlphabet.size()];
    }
    return out;
}

std::vector<std::string> random_cuts(std::mt19937& rng, const std::string& text) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
        const size_t n = 1 + rng() % 4;
        pieces.push_back(text.substr(at, n));
        at += n;
    }
    return pieces;
}

TEST(StopMatcher, EqualsTheDefinitionForRandomTextsStopsAndCuts) {
    std::mt19937 rng(20260918);
    int n_matched = 0;
    for (int k = 0; k < 10000; ++k) {
        std::vector<std::string> stops(1 + rng() % 4);
        for (std::string& stop : stops) {
            stop = random_text(rng, 4);
        }
        const std::string text = random_text(rng, 14);
        const Outcome expected = oracle(text, stops);
        ASSERT_EQ(run(random_cuts(rng, text), stops), expected) << k << ": " << text;
        ASSERT_EQ(run({text}, stops), expected) << k << ": " << text;
        n_matched += expected.stop.empty() ? 0 : 1;
    }
    EXPECT_GT(n_matched, 2000);
    EXPECT_LT(n_matched, 9900);
}

TEST(StopMatcher, HoldsBackExactlyTheLongestOpenSuffix) {
    std::mt19937 rng(7);
    for (int k = 0; k < 3000; ++k) {
        const std::vector<std::string> stops = {"ab" + random_text(rng, 3),
                                                "\n" + random_text(rng, 2)};
        const std::string text = random_text(rng, 12);
        if (!oracle(text, stops).stop.empty()) {
            continue;
        }
        StopMatcher matcher(stops);
        std::string seen;
        std::string sent;
        for (const std::string& piece : random_cuts(rng, text)) {
            seen += piece;
            sent += matcher.feed(piece);
            ASSERT_EQ(seen.size() - sent.size(), longest_open_suffix(seen, stops)) << seen;
        }
    }
}

TEST(StopMatcher, KnownCases) {
    using V = std::vector<std::string>;
    EXPECT_EQ(run({" Al", "ice", "!..."}, V{"\n", "Alice:"}), (Outcome{" Alice!...", ""}));
    EXPECT_EQ(run({" ", "O", " P Q"}, V{" O"}), (Outcome{"", " O"}));
    EXPECT_EQ(run({"x\n", "\ny"}, V{"\n", "\n\n"}), (Outcome{"x", "\n\n"}));
    EXPECT_EQ(run({"x\n", "y"}, V{"\n", "\n\n"}), (Outcome{"x", "\n"}));
    EXPECT_EQ(run({"abc", "d"}, V{"bc", "abcd"}), (Outcome{"", "abcd"}));
    EXPECT_EQ(run({"abc", "e"}, V{"bc", "abcd"}), (Outcome{"a", "bc"}));
    EXPECT_EQ(run({"whole text"}, V{}), (Outcome{"whole text", ""}));
    EXPECT_EQ(run({"tail ST"}, V{"STOP"}), (Outcome{"tail ST", ""}));
    EXPECT_EQ(run({"aaab"}, V{"aab"}), (Outcome{"a", "aab"}));
}

TEST(StopMatcher, EndsAtOnceWhenNoOtherStopStringCanWin) {
    StopMatcher matcher({"END"});
    EXPECT_EQ(matcher.feed("text END more"), "text ");
    ASSERT_NE(matcher.matched(), nullptr);
    EXPECT_EQ(*matcher.matched(), "END");
    EXPECT_EQ(matcher.feed("ignored"), "");
    EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, LongRepetitiveTextTakesLinearTime) {
    StopMatcher matcher({std::string(1023, 'a') + "b", std::string(1000, 'a') + "c"});
    std::string out;
    for (int k = 0; k < 1000; ++k) {
        out += matcher.feed(std::string(1000, 'a'));
    }
    EXPECT_EQ(out.size(), 1000000u - 1023u);
    out += matcher.finish();
    EXPECT_EQ(out.size(), 1000000u);
}

} // namespace
} // namespace dsv4v
