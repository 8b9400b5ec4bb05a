#include "engine/bpe.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

using Ids = std::vector<int32_t>;
using Merges = std::map<std::pair<int32_t, int32_t>, Merge>;

// The definition, step by step.
Ids join_by_definition(const Merges& merges, Ids ids) {
    while (true) {
        Merge best;
        size_t best_left = 0;
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            const auto found = merges.find({ids[i], ids[i + 1]});
            if (found != merges.end() && found->second.rank < best.rank) {
                best = found->second;
                best_left = i;
            }
        }
        if (best.rank == Merge::kNoRank) {
            return ids;
        }
        ids[best_left] = best.merged_id;
        ids.erase(ids.begin() + static_cast<ptrdiff_t>(best_left) + 1);
    }
}

// Merges over `n_base` tokens and what they make. Ranks are shuffled when `ordered` is false, so
// that a merge can bring up a pair of lower rank, which a trained vocabulary never does.
Merges random_merges(std::mt19937& random, int32_t n_base, uint32_t n_merges, bool ordered) {
    std::vector<uint32_t> ranks(n_merges);
    for (uint32_t i = 0; i < n_merges; ++i) {
        ranks[i] = i;
    }
    if (!ordered) {
        std::shuffle(ranks.begin(), ranks.end(), random);
    }
    Merges merges;
    int32_t n_tokens = n_base;
    while (merges.size() < n_merges) {
        const auto any = [&] {
            return static_cast<int32_t>(random() % static_cast<uint32_t>(n_tokens));
        };
        const bool is_new =
            merges.emplace(std::pair{any(), any()}, Merge{ranks[merges.size()], n_tokens}).second;
        n_tokens += is_new ? 1 : 0;
    }
    return merges;
}

TEST(Bpe, ShortAndLongPiecesFollowTheDefinition) {
    std::mt19937 random(3);
    BpeScratch scratch; // shared, as between the pieces of a text
    for (int round = 0; round < 600; ++round) {
        const int32_t n_base = 1 + static_cast<int32_t>(random() % 4);
        const uint32_t n_merges = 1 + random() % 40;
        const Merges merges = random_merges(random, n_base, n_merges, round % 2 == 0);
        MergeTable table(n_merges);
        for (const auto& [pair, merge] : merges) {
            ASSERT_TRUE(table.add(pair.first, pair.second, merge));
            ASSERT_FALSE(table.add(pair.first, pair.second, merge));
        }
        scratch.first_of_rank.clear();
        for (const size_t length : {size_t{0}, size_t{1}, size_t{2}, size_t{random() % 60},
                                    size_t{100 + random() % 300}}) {
            Ids ids(length);
            for (int32_t& id : ids) {
                id = static_cast<int32_t>(random() % static_cast<uint32_t>(n_base));
            }
            scratch.ids = ids;
            encode_bpe(table, scratch);
            ASSERT_EQ(scratch.ids, join_by_definition(merges, ids)) << "round " << round;
        }
    }
}

TEST(Bpe, EqualRanksJoinFromTheLeft) {
    MergeTable table(1);
    table.add(0, 0, Merge{0, 1});
    for (const size_t n : {3u, 201u}) {
        BpeScratch scratch;
        scratch.ids.assign(n, 0);
        encode_bpe(table, scratch);
        Ids expected(n / 2, 1);
        expected.push_back(0);
        EXPECT_EQ(scratch.ids, expected);
    }
}

TEST(MergeTable, FindsOnlyWhatWasAdded) {
    MergeTable table(3);
    EXPECT_TRUE(table.add(1, 2, Merge{0, 7}));
    EXPECT_TRUE(table.add(2, 1, Merge{1, 8}));
    EXPECT_TRUE(table.add(0, 0, Merge{2, 9}));
    EXPECT_EQ(table.find(1, 2).merged_id, 7);
    EXPECT_EQ(table.find(2, 1).merged_id, 8);
    EXPECT_EQ(table.find(0, 0).rank, 2u);
    EXPECT_EQ(table.find(1, 1).rank, Merge::kNoRank);
    EXPECT_EQ(MergeTable(0).find(0, 0).rank, Merge::kNoRank);
}

} // namespace
} // namespace dsv4v
