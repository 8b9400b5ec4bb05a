#include "engine/bpe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <utility>

#include "loaders/base/check.h"

namespace dsv4v {
namespace {

// Up to this length scanning for the best pair is faster than keeping chains.
constexpr size_t kMaxScannedSymbols = 48;

void encode_by_scanning(const MergeTable& table, std::vector<int32_t>& ids,
                        std::vector<Merge>& merges) {
    merges.clear();
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
        merges.push_back(table.find(ids[i], ids[i + 1]));
    }
    while (!merges.empty()) {
        const auto best =
            std::min_element(merges.begin(), merges.end(),
                             [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
        if (best->rank == Merge::kNoRank) {
            return;
        }
        const auto left = static_cast<size_t>(best - merges.begin());
        ids[left] = best->merged_id;
        ids.erase(ids.begin() + static_cast<ptrdiff_t>(left) + 1);
        merges.erase(best);
        if (left < merges.size()) {
            merges[left] = table.find(ids[left], ids[left + 1]);
        }
        if (left > 0) {
            merges[left - 1] = table.find(ids[left - 1], ids[left]);
        }
    }
}

// The symbols of one piece as a linked list, and every mergeable pair in a chain of its rank. A
// pair whose symbols have changed since stays in its chain and is skipped when it comes up.
class ChainEncoder {
  public:
    using Symbol = BpeScratch::Symbol;

    ChainEncoder(const MergeTable& table, BpeScratch& scratch) : table_(table), scratch_(scratch) {
        const auto n = static_cast<int32_t>(scratch.ids.size());
        scratch.first_of_rank.resize(table.size(), -1);
        scratch.symbols.clear();
        scratch.candidates.clear();
        for (int32_t i = 0; i < n; ++i) {
            scratch.symbols.push_back(
                {scratch.ids[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
        }
        for (int32_t i = 0; i + 1 < n; ++i) {
            add_candidate(i);
        }
    }

    void run() {
        while (!scratch_.waiting_ranks.empty()) {
            join_pairs_of(take_lowest_rank());
        }
        scratch_.ids.clear();
        for (int32_t i = 0; i >= 0; i = symbol(i).next) {
            scratch_.ids.push_back(symbol(i).token_id);
        }
    }

  private:
    Symbol& symbol(int32_t idx) { return scratch_.symbols[static_cast<size_t>(idx)]; }

    // The merge of a symbol with the one to its right.
    Merge merge_at(int32_t left) {
        const Symbol& symbol_left = symbol(left);
        return symbol_left.token_id < 0 || symbol_left.next < 0
                   ? Merge{}
                   : table_.find(symbol_left.token_id, symbol(symbol_left.next).token_id);
    }

    void add_candidate(int32_t left) {
        if (const uint32_t rank = merge_at(left).rank; rank != Merge::kNoRank) {
            chain_up(rank, left);
        }
    }

    void chain_up(uint32_t rank, int32_t left) {
        int32_t& first = scratch_.first_of_rank[rank];
        if (first < 0) {
            scratch_.waiting_ranks.push_back(rank);
            std::push_heap(scratch_.waiting_ranks.begin(), scratch_.waiting_ranks.end(),
                           std::greater<>());
        }
        scratch_.candidates.push_back({left, first});
        first = static_cast<int32_t>(scratch_.candidates.size()) - 1;
    }

    // Moves the chain of the lowest rank to `lefts`, sorted.
    uint32_t take_lowest_rank() {
        auto& ranks = scratch_.waiting_ranks;
        std::pop_heap(ranks.begin(), ranks.end(), std::greater<>());
        const uint32_t rank = ranks.back();
        ranks.pop_back();
        auto& lefts = scratch_.lefts;
        lefts.clear();
        for (int32_t i = std::exchange(scratch_.first_of_rank[rank], -1); i >= 0;
             i = scratch_.candidates[static_cast<size_t>(i)].next_candidate) {
            lefts.push_back(scratch_.candidates[static_cast<size_t>(i)].left);
        }
        std::reverse(lefts.begin(), lefts.end()); // mostly chained up from left to right
        if (!std::is_sorted(lefts.begin(), lefts.end())) {
            std::sort(lefts.begin(), lefts.end());
        }
        return rank;
    }

    // Joins the pairs in `lefts` from left to right, as long as no lower rank turns up.
    void join_pairs_of(uint32_t rank) {
        size_t n_done = 0;
        while (n_done < scratch_.lefts.size() &&
               (scratch_.waiting_ranks.empty() || scratch_.waiting_ranks.front() > rank)) {
            const int32_t left = scratch_.lefts[n_done++];
            if (const Merge merge = merge_at(left); merge.rank == rank) {
                join(left, merge.merged_id);
            }
        }
        for (size_t i = n_done; i < scratch_.lefts.size(); ++i) {
            chain_up(rank, scratch_.lefts[i]);
        }
    }

    void join(int32_t left, int32_t merged_id) {
        const int32_t right = symbol(left).next;
        const int32_t after = symbol(right).next;
        symbol(left).token_id = merged_id;
        symbol(left).next = after;
        symbol(right).token_id = -1;
        if (after >= 0) {
            symbol(after).previous = left;
        }
        if (symbol(left).previous >= 0) {
            add_candidate(symbol(left).previous);
        }
        add_candidate(left);
    }

    const MergeTable& table_;
    BpeScratch& scratch_;
};

uint64_t pair_key(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

} // namespace

MergeTable::MergeTable(size_t n_merges)
    : n_merges_(n_merges), slots_(std::bit_ceil(2 * n_merges + 2)) {}

size_t MergeTable::slot_of(uint64_t pair) const {
    constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15; // spreads consecutive ids (Knuth)
    const size_t mask = slots_.size() - 1;
    size_t slot = static_cast<size_t>(((pair ^ (pair >> 29)) * kGoldenRatio) >> 32) & mask;
    while (slots_[slot].pair != kEmpty && slots_[slot].pair != pair) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

bool MergeTable::add(int32_t left, int32_t right, Merge merge) {
    const uint64_t pair = pair_key(left, right);
    Slot& slot = slots_[slot_of(pair)];
    if (slot.pair == pair) {
        return false;
    }
    slot = {pair, merge};
    return true;
}

Merge MergeTable::find(int32_t left, int32_t right) const {
    return slots_[slot_of(pair_key(left, right))].merge;
}

void encode_bpe(const MergeTable& merges, BpeScratch& scratch) {
    if (scratch.ids.size() <= kMaxScannedSymbols) {
        encode_by_scanning(merges, scratch.ids, scratch.merges);
    } else {
        DSV4V_CHECK(scratch.ids.size() <= INT32_MAX / 4);
        ChainEncoder(merges, scratch).run();
    }
}

} // namespace dsv4v
