#include "engine/block_manager.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace dsv4v {
namespace {

TEST(BlockManager, HandsOutEveryPageOnce) {
    BlockManager pages(5);
    std::set<int32_t> seen;
    for (int i = 0; i < 5; ++i) {
        seen.insert(pages.allocate());
    }
    EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(pages.allocate(), -1);
    EXPECT_EQ(pages.n_free(), 0);
    EXPECT_EQ(pages.n_used(), 5);
    pages.release(3);
    EXPECT_EQ(pages.allocate(), 3);
}

TEST(BlockManager, SharedPageIsFreeAfterItsLastOwner) {
    BlockManager pages(2);
    const int32_t page = pages.allocate();
    pages.share(page);
    EXPECT_EQ(pages.n_owners(page), 2);
    pages.release(page);
    EXPECT_EQ(pages.n_free(), 1);
    pages.release(page);
    EXPECT_EQ(pages.n_free(), 2);
    pages.check_invariants();
}

TEST(BlockManagerDeathTest, MisuseAborts) {
    BlockManager pages(2);
    const int32_t page = pages.allocate();
    pages.release(page);
    EXPECT_DEATH(pages.release(page), "check failed");
    EXPECT_DEATH(pages.share(page), "check failed");
    EXPECT_DEATH(pages.release(2), "check failed");
    EXPECT_DEATH(pages.release(-1), "check failed");
}

TEST(BlockManager, RandomTrafficMatchesAModel) {
    constexpr int32_t kPages = 50;
    BlockManager pages(kPages);
    std::vector<int32_t> owners(kPages, 0);
    std::mt19937 random(7);
    for (int op = 0; op < 20000; ++op) {
        const auto page = static_cast<int32_t>(random() % kPages);
        switch (random() % 3) {
        case 0: {
            const int32_t got = pages.allocate();
            if (got < 0) {
                EXPECT_EQ(std::ranges::count(owners, 0), 0);
            } else {
                EXPECT_EQ(owners[static_cast<size_t>(got)]++, 0);
            }
            break;
        }
        case 1:
            if (owners[static_cast<size_t>(page)] > 0) {
                pages.share(page);
                ++owners[static_cast<size_t>(page)];
            }
            break;
        default:
            if (owners[static_cast<size_t>(page)] > 0) {
                pages.release(page);
                --owners[static_cast<size_t>(page)];
            }
        }
        ASSERT_EQ(pages.n_free(), std::ranges::count(owners, 0));
        ASSERT_EQ(pages.n_owners(page), owners[static_cast<size_t>(page)]);
        pages.check_invariants();
    }
}

} // namespace
} // namespace dsv4v
