// Chooses the next token from one row of logits; the order of the steps and their formulas are in
// docs/sampling.md. A pure function of its arguments: what else is in the batch does not matter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch.h"

namespace dsv4v {

// Working memory of sample(), kept between calls so that a step does not allocate.
struct SamplerScratch {
    struct Candidate {
        int32_t token_id;
        float scaled;     // (logit - best logit) / temperature, so at most 0
        float weight;     // exp(scaled): probability up to a common factor
        float typicality; // distance of its surprise from the entropy; lower is more typical
    };
    std::vector<float> logits;    // after bans, biases and penalties
    std::vector<int32_t> counts;  // per token; all 0 between uses
    std::vector<int32_t> counted; // tokens whose count is not 0
    std::vector<int32_t> order;   // token ids for logprobs
    std::vector<Candidate> candidates;
};

// `logits` [vocab_size] of the model, `row.params` not null. Token ids outside the vocabulary in
// history (picture positions), biases and bans have no effect. NaN or +inf among the logits, or
// nothing but -inf, sets non_finite_logits and leaves token_id at -1.
[[nodiscard]] SampledToken sample(std::span<const float> logits, const SampleRow& row,
                                  SamplerScratch& scratch);
[[nodiscard]] SampledToken sample(std::span<const float> logits, const SampleRow& row);

} // namespace dsv4v
