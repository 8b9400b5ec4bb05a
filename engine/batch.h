// One engine step: what the scheduler asks of a backend and what comes back. Flat arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"

namespace dsv4v {

// The rows of one sequence in this step: consecutive positions, at least one row.
struct SequenceChunk {
    int32_t slot = 0;      // index of the sequence's ring state, [0, max_sequences)
    int32_t first_row = 0; // index into Batch::token_ids
    int32_t n_rows = 0;
    int32_t first_position = 0;   // position of the first row; 0 resets the slot's state
    int32_t first_page_entry = 0; // the sequence's page table: page_table[first_page_entry + k]
    int32_t n_pages = 0;          // holds positions k*128 .. k*128+127; covers all rows
};

// A row whose logits are wanted: draws one token, or scores a given one. Pointers and spans belong
// to the sequence and hold for the duration of the step.
struct SampleRow {
    int32_t row = 0; // index into Batch::token_ids: logits after this token
    const SamplingParams* params = nullptr;
    std::span<const int32_t> history = {}; // prompt and output so far, oldest first
    int32_t n_prompt_tokens = 0;           // how many of `history` are prompt
    int32_t output_position = 0;           // counter of the random draw: position in the output
    int32_t choice_idx = 0;                // with the seed, key of the random draw
    std::span<const int32_t> banned = {};  // token ids masked at this position
    int32_t forced_token = -1;             // >= 0: this token instead of a draw
};

struct Batch {
    std::vector<int32_t> token_ids;     // [n_rows], grouped by chunk
    std::vector<SequenceChunk> chunks;  // in row order
    std::vector<int32_t> page_table;    // concatenated page ids of all chunks
    std::vector<SampleRow> sample_rows; // ascending `row`

    void clear() {
        token_ids.clear();
        chunks.clear();
        page_table.clear();
        sample_rows.clear();
    }
};

struct TokenLogprob {
    int32_t token_id = 0;
    float logprob = 0; // natural log of the model's distribution before temperature and filters
};

struct SampledToken {
    int32_t token_id = -1;
    float logprob = 0;                      // as TokenLogprob; 0 when n_logprobs < 0
    std::vector<TokenLogprob> top_logprobs; // best first, n_logprobs entries
    bool non_finite_logits = false;         // the sequence must end with an engine error
};

struct StepResult {
    std::vector<SampledToken> tokens; // one per SampleRow, same order
};

} // namespace dsv4v
