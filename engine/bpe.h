// Byte-pair encoding over token ids: of all adjacent pairs that a merge exists for, the one with
// the lowest rank is joined first, of equal ones the leftmost, until none is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dsv4v {

// What a pair of adjacent tokens becomes.
struct Merge {
    uint32_t rank = kNoRank;
    int32_t merged_id = -1;

    static constexpr uint32_t kNoRank = UINT32_MAX;
};

// Hash table from pairs to merges; a lookup costs about one cache miss.
class MergeTable {
  public:
    explicit MergeTable(size_t n_merges);

    // At most `n_merges` times, ranks below `n_merges`. False, without effect, when the pair is
    // there already.
    bool add(int32_t left, int32_t right, Merge merge);
    [[nodiscard]] size_t size() const { return n_merges_; }
    // The merge of a pair; its rank is Merge::kNoRank when there is none.
    [[nodiscard]] Merge find(int32_t left, int32_t right) const;

  private:
    struct Slot {
        uint64_t pair = kEmpty;
        Merge merge = {};
    };
    static constexpr uint64_t kEmpty = UINT64_MAX; // ids are not negative, so no pair
    [[nodiscard]] size_t slot_of(uint64_t pair) const;

    size_t n_merges_;
    std::vector<Slot> slots_; // power of two, at most half full
};

// Working memory of encode_bpe, kept between pieces so that short ones allocate nothing.
struct BpeScratch {
    struct Symbol {
        int32_t token_id; // -1 once it is part of its left neighbour
        int32_t previous; // -1 at the start
        int32_t next;     // -1 at the end
    };
    // A pair that may be merged, chained with the others of its rank.
    struct Candidate {
        int32_t left;           // index of its left symbol
        int32_t next_candidate; // -1: the last of the chain
    };
    std::vector<int32_t> ids;
    std::vector<Merge> merges;
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;
    std::vector<int32_t> first_of_rank;  // heads of the chains; all -1 between pieces
    std::vector<uint32_t> waiting_ranks; // a heap: the ranks whose chain is not empty
    std::vector<int32_t> lefts;          // the chain being worked on, in text order
};

// Joins `scratch.ids` (one token per byte of a piece) in place. O(n log n).
void encode_bpe(const MergeTable& merges, BpeScratch& scratch);

} // namespace dsv4v
