#include "engine/reference/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "engine/philox.h"
#include "loaders/base/check.h"

namespace dsv4v {
namespace {

using Candidate = SamplerScratch::Candidate;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowestLogprob = -9999.0f; // what JSON can carry instead of -inf

// The best finite logit, or nothing if the row cannot be sampled from.
std::optional<float> best_logit(std::span<const float> logits) {
    float best = -kInfinity;
    bool is_usable = true;
    for (const float logit : logits) {
        is_usable &= logit < kInfinity; // false for NaN
        best = std::max(best, logit);
    }
    return is_usable && best > -kInfinity ? std::optional(best) : std::nullopt;
}

// Higher first; of equal ones the lower id.
int32_t argmax(std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Log of the sum of exponentials; summed in double so that the order hardly matters.
double log_sum_exp(std::span<const float> logits, float best) {
    double sum = 0;
    for (const float logit : logits) {
        sum += std::exp(logit - best);
    }
    return best + std::log(sum);
}

void add_logprobs(std::span<const float> logits, float best, int32_t n_top,
                  std::vector<int32_t>& order, SampledToken& sampled) {
    const double normaliser = log_sum_exp(logits, best);
    const auto logprob_of = [&](int32_t id) {
        return std::max(static_cast<float>(logits[static_cast<size_t>(id)] - normaliser),
                        kLowestLogprob);
    };
    sampled.logprob = logprob_of(sampled.token_id);
    order.resize(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t n = std::min(static_cast<size_t>(n_top), logits.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(n), order.end(),
                      [&](int32_t a, int32_t b) {
                          const float logit_a = logits[static_cast<size_t>(a)];
                          const float logit_b = logits[static_cast<size_t>(b)];
                          return logit_a != logit_b ? logit_a > logit_b : a < b;
                      });
    for (size_t i = 0; i < n; ++i) {
        sampled.top_logprobs.push_back({order[i], logprob_of(order[i])});
    }
}

// Counts the tokens of `history` for the life of the object.
class TokenCounts {
  public:
    TokenCounts(std::span<const int32_t> history, size_t vocab_size, SamplerScratch& scratch)
        : scratch_(scratch) {
        scratch.counts.resize(vocab_size, 0);
        for (const int32_t id : history) {
            if (id < 0 || static_cast<size_t>(id) >= vocab_size) {
                continue;
            }
            if (scratch.counts[static_cast<size_t>(id)]++ == 0) {
                scratch.counted.push_back(id);
            }
        }
    }
    ~TokenCounts() {
        for (const int32_t id : scratch_.counted) {
            scratch_.counts[static_cast<size_t>(id)] = 0;
        }
        scratch_.counted.clear();
    }
    TokenCounts(const TokenCounts&) = delete;
    TokenCounts& operator=(const TokenCounts&) = delete;

    // Calls `change(logit, count)` for every counted token.
    template <class Change>
    void apply(std::span<float> logits, Change change) const {
        for (const int32_t id : scratch_.counted) {
            const auto idx = static_cast<size_t>(id);
            change(logits[idx], static_cast<float>(scratch_.counts[idx]));
        }
    }

  private:
    SamplerScratch& scratch_;
};

void ban(std::span<const int32_t> banned, std::span<float> logits) {
    for (const int32_t id : banned) {
        if (id >= 0 && static_cast<size_t>(id) < logits.size()) {
            logits[static_cast<size_t>(id)] = -kInfinity;
        }
    }
}

void add_biases(const SamplingParams& params, std::span<float> logits) {
    for (const auto& [id, bias] : params.logit_bias) {
        if (id >= 0 && static_cast<size_t>(id) < logits.size()) {
            logits[static_cast<size_t>(id)] += bias;
        }
    }
}

void penalise_repetition(const SampleRow& row, std::span<float> logits, SamplerScratch& scratch) {
    const SamplingParams& params = *row.params;
    if (params.repetition_penalty == 1.0f) {
        return;
    }
    const size_t n_all = row.history.size();
    const size_t n = params.repeat_last_n < 0
                         ? n_all
                         : std::min(n_all, static_cast<size_t>(params.repeat_last_n));
    TokenCounts(row.history.last(n), logits.size(), scratch)
        .apply(logits, [&](float& logit, float /*count*/) {
            const float penalised =
                logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
            logit = std::min(penalised, std::numeric_limits<float>::max());
        });
}

void penalise_output(const SampleRow& row, std::span<float> logits, SamplerScratch& scratch) {
    const SamplingParams& params = *row.params;
    if (params.presence_penalty == 0.0f && params.frequency_penalty == 0.0f) {
        return;
    }
    const auto output = row.history.subspan(static_cast<size_t>(row.n_prompt_tokens));
    TokenCounts(output, logits.size(), scratch).apply(logits, [&](float& logit, float count) {
        logit -= params.presence_penalty + params.frequency_penalty * count;
    });
}

// Logits after bans, biases and penalties. When those leave nothing, the bans alone count; when
// they too leave nothing, the model's own logits.
std::span<const float> adjusted_logits(std::span<const float> raw, const SampleRow& row,
                                       SamplerScratch& scratch) {
    scratch.logits.assign(raw.begin(), raw.end());
    const std::span<float> logits = scratch.logits;
    ban(row.banned, logits);
    add_biases(*row.params, logits);
    penalise_repetition(row, logits, scratch);
    penalise_output(row, logits, scratch);
    if (best_logit(logits)) {
        return logits;
    }
    std::copy(raw.begin(), raw.end(), logits.begin());
    ban(row.banned, logits);
    return best_logit(logits) ? logits : raw;
}

bool is_likelier(const Candidate& a, const Candidate& b) {
    return a.scaled != b.scaled ? a.scaled > b.scaled : a.token_id < b.token_id;
}
bool is_more_typical(const Candidate& a, const Candidate& b) {
    return a.typicality != b.typicality ? a.typicality < b.typicality : a.token_id < b.token_id;
}
bool has_lower_id(const Candidate& a, const Candidate& b) {
    return a.token_id < b.token_id;
}

double total_weight(const std::vector<Candidate>& candidates) {
    double total = 0;
    for (const Candidate& candidate : candidates) {
        total += candidate.weight;
    }
    return total;
}

// The filters keep the list in the order of ids, so that sums do not depend on how it was sorted.
void keep_first(std::vector<Candidate>& candidates, size_t n) {
    candidates.resize(n);
    std::sort(candidates.begin(), candidates.end(), has_lower_id);
}

// Shortest prefix in the order of `is_better` that has `share` of the weight. Sorts in growing
// steps, because the prefix is mostly short and the vocabulary long.
template <class IsBetter>
void keep_share(std::vector<Candidate>& candidates, float share, IsBetter is_better) {
    constexpr ptrdiff_t kFirstStep = 64;
    const double wanted = static_cast<double>(share) * total_weight(candidates);
    double covered = 0;
    auto sorted_end = candidates.begin();
    for (ptrdiff_t step = kFirstStep; sorted_end != candidates.end(); step *= 4) {
        const auto step_begin = sorted_end;
        sorted_end += std::min(step, candidates.end() - step_begin);
        if (sorted_end != candidates.end()) {
            std::nth_element(step_begin, sorted_end, candidates.end(), is_better);
        }
        std::sort(step_begin, sorted_end, is_better);
        for (auto it = step_begin; it != sorted_end; ++it) {
            covered += it->weight;
            if (covered >= wanted) {
                keep_first(candidates, static_cast<size_t>(it - candidates.begin()) + 1);
                return;
            }
        }
    }
    keep_first(candidates, candidates.size());
}

void filter_top_k(std::vector<Candidate>& candidates, int32_t top_k) {
    const auto n = static_cast<size_t>(top_k);
    if (top_k <= 0 || n >= candidates.size()) {
        return;
    }
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(n),
                     candidates.end(), is_likelier);
    keep_first(candidates, n);
}

void filter_typical(std::vector<Candidate>& candidates, float typical_p) {
    if (typical_p >= 1.0f) {
        return;
    }
    const double log_total = std::log(total_weight(candidates));
    double entropy = 0;
    for (const Candidate& candidate : candidates) {
        if (candidate.weight > 0) {
            const double surprise = log_total - candidate.scaled;
            entropy += std::exp(-surprise) * surprise;
        }
    }
    for (Candidate& candidate : candidates) {
        const double surprise = log_total - candidate.scaled;
        candidate.typicality = static_cast<float>(std::abs(surprise - entropy));
    }
    keep_share(candidates, typical_p, is_more_typical);
}

void filter_top_p(std::vector<Candidate>& candidates, float top_p) {
    if (top_p < 1.0f) {
        keep_share(candidates, top_p, is_likelier);
    }
}

void filter_min_p(std::vector<Candidate>& candidates, float min_p) {
    if (min_p <= 0.0f) {
        return;
    }
    const float best = std::min_element(candidates.begin(), candidates.end(), is_likelier)->weight;
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < min_p * best; });
}

// Tokens that cannot be drawn are left out at once; the best one always stays.
void fill_candidates(std::span<const float> logits, float temperature,
                     std::vector<Candidate>& candidates) {
    const float best = *best_logit(logits);
    candidates.clear();
    for (size_t id = 0; id < logits.size(); ++id) {
        const float scaled = (logits[id] - best) / temperature; // 0 for the best, at worst -inf
        const float weight = std::exp(scaled);
        if (weight > 0) {
            candidates.push_back({static_cast<int32_t>(id), scaled, weight, 0});
        }
    }
}

int32_t draw(const std::vector<Candidate>& candidates, double uniform) {
    const double target = uniform * total_weight(candidates);
    double covered = 0;
    for (const Candidate& candidate : candidates) {
        covered += candidate.weight;
        if (covered > target) {
            return candidate.token_id;
        }
    }
    return candidates.back().token_id; // the product was rounded up to the total
}

int32_t choose(std::span<const float> raw, const SampleRow& row, SamplerScratch& scratch) {
    const SamplingParams& params = *row.params;
    const std::span<const float> logits = adjusted_logits(raw, row, scratch);
    if (params.temperature <= 0.0f) {
        return argmax(logits);
    }
    std::vector<Candidate>& candidates = scratch.candidates;
    fill_candidates(logits, params.temperature, candidates);
    filter_top_k(candidates, params.top_k);
    filter_typical(candidates, params.typical_p);
    filter_top_p(candidates, params.top_p);
    filter_min_p(candidates, params.min_p);
    return draw(candidates, uniform_draw(params.seed, static_cast<uint32_t>(row.choice_idx),
                                         static_cast<uint32_t>(row.output_position)));
}

} // namespace

SampledToken sample(std::span<const float> logits, const SampleRow& row, SamplerScratch& scratch) {
    DSV4V_CHECK(row.params != nullptr && !logits.empty());
    DSV4V_CHECK(static_cast<size_t>(row.n_prompt_tokens) <= row.history.size());
    DSV4V_CHECK(row.forced_token < static_cast<int64_t>(logits.size()));
    SampledToken sampled;
    const std::optional<float> best = best_logit(logits);
    if (!best) {
        sampled.non_finite_logits = true;
        return sampled;
    }
    sampled.token_id = row.forced_token >= 0 ? row.forced_token : choose(logits, row, scratch);
    if (row.params->n_logprobs >= 0) {
        add_logprobs(logits, *best, row.params->n_logprobs, scratch.order, sampled);
    }
    return sampled;
}

SampledToken sample(std::span<const float> logits, const SampleRow& row) {
    SamplerScratch scratch;
    return sample(logits, row, scratch);
}

} // namespace dsv4v
