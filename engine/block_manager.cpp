#include "engine/block_manager.h"

#include "loaders/base/check.h"

namespace dsv4v {

BlockManager::BlockManager(int32_t n_pages) {
    DSV4V_CHECK(n_pages >= 0);
    n_owners_.assign(static_cast<size_t>(n_pages), 0);
    free_.reserve(static_cast<size_t>(n_pages));
    for (int32_t page = n_pages - 1; page >= 0; --page) {
        free_.push_back(page);
    }
}

int32_t BlockManager::allocate() {
    if (free_.empty()) {
        return -1;
    }
    const int32_t page = free_.back();
    free_.pop_back();
    n_owners_[static_cast<size_t>(page)] = 1;
    return page;
}

void BlockManager::share(int32_t page) {
    DSV4V_CHECK(n_owners(page) > 0);
    ++n_owners_[static_cast<size_t>(page)];
}

void BlockManager::release(int32_t page) {
    DSV4V_CHECK(n_owners(page) > 0);
    if (--n_owners_[static_cast<size_t>(page)] == 0) {
        free_.push_back(page);
    }
}

int32_t BlockManager::n_owners(int32_t page) const {
    DSV4V_CHECK(page >= 0 && page < n_pages());
    return n_owners_[static_cast<size_t>(page)];
}

void BlockManager::check_invariants() const {
    std::vector<bool> is_free(n_owners_.size(), false);
    for (const int32_t page : free_) {
        DSV4V_CHECK(page >= 0 && page < n_pages());
        DSV4V_CHECK(!is_free[static_cast<size_t>(page)]);
        is_free[static_cast<size_t>(page)] = true;
    }
    for (size_t page = 0; page < n_owners_.size(); ++page) {
        DSV4V_CHECK(n_owners_[page] >= 0);
        DSV4V_CHECK(is_free[page] == (n_owners_[page] == 0));
    }
}

} // namespace dsv4v
