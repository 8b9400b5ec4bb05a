#include "engine/reference/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "engine/philox.h"

namespace dsv4v {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The rules written down plainly, in double and with full sorts.
class Oracle {
  public:
    Oracle(std::span<const float> raw, const SampleRow& row)
        : params_(*row.params), logits_(raw.begin(), raw.end()) {
        for (const int32_t id : row.banned) {
            logits_[static_cast<size_t>(id)] = -INFINITY;
        }
        for (const auto& [id, bias] : params_.logit_bias) {
            logits_[static_cast<size_t>(id)] += bias;
        }
        penalise(row);
    }

    // Token ids in ascending order with their probability.
    [[nodiscard]] std::map<int32_t, double> distribution() {
        std::vector<Entry> entries;
        const double best = *std::max_element(logits_.begin(), logits_.end());
        for (size_t id = 0; id < logits_.size(); ++id) {
            const double scaled = (logits_[id] - best) / params_.temperature;
            entries.push_back({static_cast<int32_t>(id), scaled, std::exp(scaled)});
        }
        std::stable_sort(entries.begin(), entries.end(), likelier);
        if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < entries.size()) {
            entries.resize(static_cast<size_t>(params_.top_k));
        }
        normalise(entries);
        keep_typical(entries);
        std::stable_sort(entries.begin(), entries.end(), likelier);
        cut(entries, params_.top_p);
        std::erase_if(entries, [&, top = entries.front().p](const Entry& e) {
            return e.p < static_cast<double>(params_.min_p) * top;
        });
        normalise(entries);
        std::map<int32_t, double> result;
        for (const Entry& entry : entries) {
            result[entry.id] = entry.p;
        }
        return result;
    }

    [[nodiscard]] int32_t draw(double uniform) {
        const auto probabilities = distribution();
        double covered = 0;
        for (const auto& [id, p] : probabilities) {
            covered += p;
            if (covered > uniform) {
                return id;
            }
        }
        return probabilities.rbegin()->first;
    }

    [[nodiscard]] const std::vector<double>& logits() const { return logits_; }

  private:
    struct Entry {
        int32_t id;
        double scaled;
        double p;
    };
    static bool likelier(const Entry& a, const Entry& b) {
        return a.scaled != b.scaled ? a.scaled > b.scaled : a.id < b.id;
    }

    void penalise(const SampleRow& row) {
        size_t n = row.history.size();
        if (params_.repeat_last_n >= 0) {
            n = std::min(n, static_cast<size_t>(params_.repeat_last_n));
        }
        const auto window = row.history.last(n);
        for (const int32_t id : std::set<int32_t>(window.begin(), window.end())) {
            double& logit = logits_[static_cast<size_t>(id)];
            logit =
                logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
        }
        std::map<int32_t, int> counts;
        for (size_t i = static_cast<size_t>(row.n_prompt_tokens); i < row.history.size(); ++i) {
            ++counts[row.history[i]];
        }
        for (const auto& [id, count] : counts) {
            logits_[static_cast<size_t>(id)] -=
                params_.presence_penalty + params_.frequency_penalty * count;
        }
    }

    static void normalise(std::vector<Entry>& entries) {
        double total = 0;
        for (const Entry& entry : entries) {
            total += entry.p;
        }
        for (Entry& entry : entries) {
            entry.p /= total;
        }
    }

    // Entries are normalised; keeps the shortest prefix with mass `share`, and normalises.
    static void cut(std::vector<Entry>& entries, float share) {
        if (share >= 1) {
            return;
        }
        double covered = 0;
        for (size_t i = 0; i < entries.size(); ++i) {
            covered += entries[i].p;
            if (covered >= static_cast<double>(share)) {
                entries.resize(i + 1);
            }
        }
        normalise(entries);
    }

    void keep_typical(std::vector<Entry>& entries) const {
        if (params_.typical_p >= 1) {
            return;
        }
        double entropy = 0;
        for (const Entry& entry : entries) {
            entropy -= entry.p > 0 ? entry.p * std::log(entry.p) : 0;
        }
        std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
            const double da = std::abs(-std::log(a.p) - entropy);
            const double db = std::abs(-std::log(b.p) - entropy);
            return da != db ? da < db : a.id < b.id;
        });
        cut(entries, params_.typical_p);
    }

    const SamplingParams& params_;
    std::vector<double> logits_;
};

std::vector<float> random_logits(std::mt19937& random, size_t n, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> logits(n);
    for (float& logit : logits) {
        logit = normal(random);
    }
    return logits;
}

SampleRow row_of(const SamplingParams& params) {
    SampleRow row;
    row.params = &params;
    return row;
}

// Every token that `n_draws` draws give.
std::set<int32_t> drawn(std::span<const float> logits, const SamplingParams& params,
                        int n_draws = 3000) {
    std::set<int32_t> tokens;
    SampleRow row = row_of(params);
    SamplerScratch scratch;
    for (row.output_position = 0; row.output_position < n_draws; ++row.output_position) {
        tokens.insert(sample(logits, row, scratch).token_id);
    }
    return tokens;
}

TEST(Sampler, DrawsWhatThePlainRulesDraw) {
    std::mt19937 random(11);
    SamplerScratch scratch;
    const auto pick = [&](std::initializer_list<float> values) {
        return *(values.begin() + random() % values.size());
    };
    for (int round = 0; round < 3000; ++round) {
        const size_t n = 2 + random() % 500;
        const auto any_id = [&] { return static_cast<int32_t>(random() % n); };
        const std::vector<float> logits = random_logits(random, n, pick({0.5f, 2.0f, 6.0f}));
        SamplingParams params;
        params.temperature = pick({0.01f, 0.3f, 0.7f, 1.0f, 1.5f, 5.0f});
        params.top_p = pick({1.0f, 1.0f, 0.99f, 0.9f, 0.5f, 0.01f});
        params.min_p = pick({0.0f, 0.0f, 0.02f, 0.3f, 1.0f});
        params.typical_p = pick({1.0f, 1.0f, 0.95f, 0.3f});
        params.top_k = static_cast<int32_t>(pick({0, 0, 1, 2, 40, 1000}));
        params.presence_penalty = pick({0.0f, 0.0f, 0.8f, -1.0f});
        params.frequency_penalty = pick({0.0f, 0.0f, 0.3f, -0.2f});
        params.repetition_penalty = pick({1.0f, 1.0f, 1.3f, 0.8f});
        params.repeat_last_n = static_cast<int32_t>(pick({-1, 0, 5, 64}));
        params.seed = random();
        std::vector<int32_t> history(random() % 30);
        std::generate(history.begin(), history.end(), any_id);
        std::vector<int32_t> banned(random() % 2);
        std::generate(banned.begin(), banned.end(), any_id);
        if (random() % 3 == 0) {
            params.logit_bias = {{any_id(), 3.0f}, {any_id(), -2.5f}};
        }
        SampleRow row = row_of(params);
        row.history = history;
        row.n_prompt_tokens = static_cast<int32_t>(random() % (history.size() + 1));
        row.banned = banned;
        row.choice_idx = static_cast<int32_t>(random() % 3);
        row.output_position = static_cast<int32_t>(random() % 1000);
        const double uniform = uniform_draw(params.seed, static_cast<uint32_t>(row.choice_idx),
                                            static_cast<uint32_t>(row.output_position));
        ASSERT_EQ(sample(logits, row, scratch).token_id, Oracle(logits, row).draw(uniform))
            << "round " << round;
        params.temperature = 0;
        const std::vector<double> processed = Oracle(logits, row).logits();
        ASSERT_EQ(sample(logits, row, scratch).token_id,
                  std::max_element(processed.begin(), processed.end()) - processed.begin());
    }
}

TEST(Sampler, DrawsInProportion) {
    std::mt19937 random(5);
    const std::vector<float> logits = random_logits(random, 30, 1.0f);
    SamplingParams params;
    params.temperature = 0.8f;
    params.top_p = 0.95f;
    params.seed = 1234567;
    SampleRow row = row_of(params);
    SamplerScratch scratch;
    constexpr int kDraws = 200'000;
    std::map<int32_t, int> counts;
    for (row.output_position = 0; row.output_position < kDraws; ++row.output_position) {
        ++counts[sample(logits, row, scratch).token_id];
    }
    const auto expected = Oracle(logits, row).distribution();
    double chi_square = 0;
    for (const auto& [id, p] : expected) {
        const double difference = counts[id] - kDraws * p;
        chi_square += difference * difference / (kDraws * p);
    }
    ASSERT_EQ(counts.size(), expected.size());
    const auto degrees = static_cast<double>(expected.size() - 1);
    EXPECT_LT(chi_square, degrees + 3.3 * std::sqrt(2 * degrees)); // about one in a thousand
}

TEST(Sampler, SameSeedChoiceAndPositionGiveTheSameDraw) {
    std::mt19937 random(6);
    const std::vector<float> logits = random_logits(random, 1000, 1.0f);
    SamplingParams params;
    params.seed = 99;
    SampleRow row = row_of(params);
    row.output_position = 17;
    const int32_t token = sample(logits, row).token_id;
    // The place in the batch, the history and the scratch of earlier calls do not matter.
    const std::vector<int32_t> history = {1, 2, 3, 4};
    SampleRow elsewhere = row;
    elsewhere.row = 40;
    elsewhere.history = history;
    elsewhere.n_prompt_tokens = 2;
    SamplerScratch used;
    params.presence_penalty = 2.0f;
    params.n_logprobs = 5;
    (void)sample(random_logits(random, 70, 1.0f), elsewhere, used);
    params.presence_penalty = 0.0f;
    EXPECT_EQ(sample(logits, elsewhere, used).token_id, token);
    std::set<int32_t> others;
    for (row.choice_idx = 0; row.choice_idx < 20; ++row.choice_idx) {
        others.insert(sample(logits, row).token_id);
    }
    EXPECT_GT(others.size(), 10u);
}

TEST(Sampler, FiltersKeepWhatTheySay) {
    // Probabilities 0.4, 0.3, 0.2, 0.1 under ids 2, 0, 3, 1.
    const std::vector<float> logits = {std::log(0.3f), std::log(0.1f), std::log(0.4f),
                                       std::log(0.2f)};
    using Set = std::set<int32_t>;
    const auto with = [&](auto set) {
        SamplingParams params;
        set(params);
        return drawn(logits, params);
    };
    EXPECT_EQ(with([](SamplingParams&) {}), (Set{0, 1, 2, 3}));
    EXPECT_EQ(with([](SamplingParams& p) { p.top_k = 1; }), (Set{2}));
    EXPECT_EQ(with([](SamplingParams& p) { p.top_k = 3; }), (Set{0, 2, 3}));
    EXPECT_EQ(with([](SamplingParams& p) { p.top_p = 0.001f; }), (Set{2}));
    EXPECT_EQ(with([](SamplingParams& p) { p.top_p = 0.39f; }), (Set{2}));
    EXPECT_EQ(with([](SamplingParams& p) { p.top_p = 0.69f; }), (Set{0, 2}));
    EXPECT_EQ(with([](SamplingParams& p) { p.top_p = 0.71f; }), (Set{0, 2, 3}));
    EXPECT_EQ(with([](SamplingParams& p) { p.min_p = 0.6f; }), (Set{0, 2}));
    EXPECT_EQ(with([](SamplingParams& p) { p.min_p = 1.0f; }), (Set{2}));
    // After top_k 2 the rest is 4/7 and 3/7, so that a share of 0.5 is the first one alone.
    EXPECT_EQ(with([](SamplingParams& p) {
                  p.top_k = 2;
                  p.top_p = 0.5f;
              }),
              (Set{2}));
    // Entropy 1.28; surprises 0.92 (id 2), 1.20 (0), 1.61 (3), 2.30 (1).
    EXPECT_EQ(with([](SamplingParams& p) { p.typical_p = 0.29f; }), (Set{0}));
    EXPECT_EQ(with([](SamplingParams& p) { p.typical_p = 0.45f; }), (Set{0, 3}));
    // Typicality comes before top_p: of ids 0 and 3 the likelier one stays.
    EXPECT_EQ(with([](SamplingParams& p) {
                  p.typical_p = 0.45f;
                  p.top_p = 0.5f;
              }),
              (Set{0}));
    // Temperature comes before min_p: at 1/4 the second has (3/4)^4 = 0.32 of the first.
    EXPECT_EQ(with([](SamplingParams& p) {
                  p.temperature = 0.25f;
                  p.min_p = 0.33f;
              }),
              (Set{2}));
}

TEST(Sampler, TiesGoToTheLowerId) {
    const std::vector<float> logits(100, 1.5f);
    SamplingParams params;
    params.temperature = 0;
    EXPECT_EQ(sample(logits, row_of(params)).token_id, 0);
    params.temperature = 1;
    params.top_k = 3;
    EXPECT_EQ(drawn(logits, params), (std::set<int32_t>{0, 1, 2}));
    params.top_k = 0;
    params.top_p = 0.0201f;
    EXPECT_EQ(drawn(logits, params), (std::set<int32_t>{0, 1, 2}));
    params.n_logprobs = 4;
    const auto top = sample(logits, row_of(params)).top_logprobs;
    ASSERT_EQ(top.size(), 4u);
    for (int32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(top[static_cast<size_t>(i)].token_id, i);
    }
}

TEST(Sampler, PenaltiesFollowTheirFormulas) {
    SamplingParams params;
    params.temperature = 0;
    const std::vector<int32_t> history = {0, 1, 1,
                                          2, 2, 2}; // two of the prompt, four of the output
    SampleRow row = row_of(params);
    row.history = history;
    row.n_prompt_tokens = 2;
    const auto best = [&](const std::vector<float>& logits) {
        return sample(logits, row).token_id;
    };
    // Presence counts once, and only output: id 2 loses 1, id 0 nothing.
    params.presence_penalty = 1.0f;
    EXPECT_EQ(best({5.0f, 0.0f, 5.9f, 0.0f}), 0);
    EXPECT_EQ(best({5.0f, 0.0f, 6.1f, 0.0f}), 2);
    params.presence_penalty = 0;
    params.frequency_penalty = 1.0f; // id 2 loses 3, id 1 loses 1
    EXPECT_EQ(best({5.0f, 0.0f, 7.9f, 0.0f}), 0);
    EXPECT_EQ(best({5.0f, 0.0f, 8.1f, 0.0f}), 2);
    EXPECT_EQ(best({5.0f, 6.1f, 0.0f, 0.0f}), 1);
    params.frequency_penalty = 0;
    params.repetition_penalty = 2.0f; // prompt counts too; positive halves, negative doubles
    EXPECT_EQ(best({7.9f, 0.0f, 0.0f, 4.0f}), 3);
    EXPECT_EQ(best({8.1f, 0.0f, 0.0f, 4.0f}), 0);
    EXPECT_EQ(best({-2.1f, -9.0f, -9.0f, -4.0f}), 3);
    EXPECT_EQ(best({-1.9f, -9.0f, -9.0f, -4.0f}), 0);
    params.repeat_last_n = 3; // only id 2
    EXPECT_EQ(best({7.9f, 0.0f, 0.0f, 4.0f}), 0);
    params.repeat_last_n = 0;
    EXPECT_EQ(best({0.0f, 0.0f, 4.1f, 4.0f}), 2);
}

TEST(Sampler, IgnoresIdsOutsideTheVocabulary) {
    SamplingParams params;
    params.temperature = 0;
    params.repetition_penalty = 2.0f;
    params.frequency_penalty = 1.0f;
    params.logit_bias = {{4, 100.0f}, {-1, 100.0f}};
    const std::vector<int32_t> history = {129300, -5, 4, 129280};
    const std::vector<int32_t> banned = {4, -1, 1 << 30};
    SampleRow row = row_of(params);
    row.history = history;
    row.banned = banned;
    EXPECT_EQ(sample(std::vector<float>{1, 2, 3, 2}, row).token_id, 2);
}

TEST(Sampler, BansAndBiasesComeFirst) {
    SamplingParams params;
    params.temperature = 0;
    params.logit_bias = {{1, 100.0f}, {2, -kInf}};
    const std::vector<int32_t> banned = {1};
    SampleRow row = row_of(params);
    row.banned = banned;
    const std::vector<float> logits = {0.0f, 1.0f, 9.0f, 0.5f};
    EXPECT_EQ(sample(logits, row).token_id, 3); // no bias brings a banned token back
    params.temperature = 1;
    EXPECT_EQ(drawn(logits, params), (std::set<int32_t>{1}));
    // Bias before the repetition penalty: (2 + 4) / 3 = 2, not 2 / 3 + 4.
    params.temperature = 0;
    params.logit_bias = {{0, 4.0f}};
    params.repetition_penalty = 3.0f;
    const std::vector<int32_t> history = {0};
    row.history = history;
    row.banned = {};
    EXPECT_EQ(sample(std::vector<float>{2.0f, 3.0f}, row).token_id, 1);
}

TEST(Sampler, WhenEverythingIsBannedTheBansAloneCountThenTheModel) {
    SamplingParams params;
    params.logit_bias = {{0, -kInf}, {2, -kInf}};
    std::vector<int32_t> banned = {1};
    SampleRow row = row_of(params);
    row.banned = banned;
    const std::vector<float> logits = {0.0f, 30.0f, 20.0f};
    for (const float temperature : {0.0f, 0.5f}) {
        params.temperature = temperature;
        EXPECT_EQ(sample(logits, row).token_id, 2);
        EXPECT_FALSE(sample(logits, row).non_finite_logits);
    }
    banned = {0, 1, 2};
    row.banned = banned;
    EXPECT_EQ(sample(logits, row).token_id, 1);
}

TEST(Sampler, ReportsUnusableLogits) {
    SamplingParams params;
    params.n_logprobs = 2;
    for (const float temperature : {0.0f, 1.0f}) {
        params.temperature = temperature;
        SampleRow row = row_of(params);
        for (const int32_t forced : {-1, 0}) {
            row.forced_token = forced;
            for (const std::vector<float>& logits :
                 {std::vector<float>{1, kNan, 2}, {1, kInf, 2}, {-kInf, -kInf, -kInf}, {kNan}}) {
                const SampledToken sampled = sample(logits, row);
                EXPECT_TRUE(sampled.non_finite_logits);
                EXPECT_EQ(sampled.token_id, -1);
                EXPECT_TRUE(sampled.top_logprobs.empty());
            }
        }
        row.forced_token = -1;
        const SampledToken sampled = sample(std::vector<float>{-kInf, 1, -kInf}, row);
        EXPECT_FALSE(sampled.non_finite_logits);
        EXPECT_EQ(sampled.token_id, 1);
    }
}

TEST(Sampler, TinyAndHugeTemperaturesAndLogitsStayFinite) {
    constexpr float kMax = std::numeric_limits<float>::max();
    SamplingParams params;
    for (const float temperature : {std::numeric_limits<float>::denorm_min(), 1e-30f, 1e-6f}) {
        params.temperature = temperature;
        EXPECT_EQ(drawn(std::vector<float>{1, 3, 2.9f, -5}, params, 50), (std::set<int32_t>{1}));
        EXPECT_EQ(drawn(std::vector<float>{-kMax, kMax, 0}, params, 50), (std::set<int32_t>{1}));
    }
    params.temperature = 1e30f;
    EXPECT_EQ(drawn(std::vector<float>{1, 3, 2, -5}, params).size(), 4u);
    params.temperature = 1;
    params.repetition_penalty = 1e-3f;
    const std::vector<int32_t> history = {1};
    SampleRow row = row_of(params);
    row.history = history;
    EXPECT_EQ(sample(std::vector<float>{1, kMax, 2}, row).token_id, 1);
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
    const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -kInf, -20000.0f};
    SamplingParams params;
    params.n_logprobs = 5;
    params.temperature = 0.1f; // none of this shows
    params.top_k = 1;
    params.presence_penalty = 1.0f;
    params.logit_bias = {{0, 100.0f}};
    const std::vector<int32_t> history = {0, 1};
    SampleRow row = row_of(params);
    row.history = history;
    const SampledToken sampled = sample(logits, row);
    const double total = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
    EXPECT_EQ(sampled.token_id, 0);
    EXPECT_NEAR(sampled.logprob, 1.0 - std::log(total), 1e-6);
    ASSERT_EQ(sampled.top_logprobs.size(), 5u);
    const int32_t ids[] = {1, 2, 0, 4, 3};
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(sampled.top_logprobs[i].token_id, ids[i]);
    }
    EXPECT_NEAR(sampled.top_logprobs[0].logprob, 3.0 - std::log(total), 1e-6);
    EXPECT_EQ(sampled.top_logprobs[3].logprob, -9999.0f);
    EXPECT_EQ(sampled.top_logprobs[4].logprob, -9999.0f);

    params.n_logprobs = 0;
    EXPECT_TRUE(sample(logits, row).top_logprobs.empty());
    EXPECT_NEAR(sample(logits, row).logprob, 1.0 - std::log(total), 1e-6);
    params.n_logprobs = -1;
    EXPECT_EQ(sample(logits, row).logprob, 0.0f);
    params.n_logprobs = 20; // more than there are
    EXPECT_EQ(sample(logits, row).top_logprobs.size(), 5u);
}

TEST(Sampler, ForcedTokenIsScoredNotDrawn) {
    const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
    SamplingParams params;
    params.n_logprobs = 1;
    const std::vector<int32_t> banned = {0};
    SampleRow row = row_of(params);
    row.banned = banned;
    row.forced_token = 0;
    const SampledToken sampled = sample(logits, row);
    EXPECT_EQ(sampled.token_id, 0);
    EXPECT_NEAR(sampled.logprob, 1.0 - std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0)),
                1e-6);
    EXPECT_EQ(sampled.top_logprobs[0].token_id, 1);
}

TEST(Sampler, IsQuickOverTheRealVocabulary) {
    std::mt19937 random(8);
    const std::vector<float> logits = random_logits(random, 129280, 3.0f);
    struct Case {
        const char* name;
        SamplingParams params;
    };
    std::vector<Case> cases(6);
    cases[0].name = "greedy";
    cases[0].params.temperature = 0;
    cases[1].name = "plain";
    cases[2].name = "top_p 0.95";
    cases[2].params.top_p = 0.95f;
    cases[3].name = "top_k 40, min_p";
    cases[3].params.top_k = 40;
    cases[3].params.min_p = 0.05f;
    cases[4].name = "typical 0.9";
    cases[4].params.typical_p = 0.9f;
    cases[5].name = "20 logprobs";
    cases[5].params.n_logprobs = 20;
    SamplerScratch scratch;
    for (const Case& c : cases) {
        SampleRow row = row_of(c.params);
        const std::clock_t start = std::clock();
        constexpr int kDraws = 20;
        for (row.output_position = 0; row.output_position < kDraws; ++row.output_position) {
            ASSERT_GE(sample(logits, row, scratch).token_id, 0);
        }
        const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kDraws;
        std::printf("%-16s %6.2f ms\n", c.name, ms);
        EXPECT_LT(ms, 1000) << c.name;
    }
}

} // namespace
} // namespace dsv4v
