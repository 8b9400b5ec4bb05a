// Which KV pages are free and how many owners each used page has. Pure integers: the storage behind
// the page ids belongs to the backend. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

namespace dsv4v {

class BlockManager {
  public:
    explicit BlockManager(int32_t n_pages);

    // A page with one owner, or -1 when none is free. O(1).
    [[nodiscard]] int32_t allocate();
    // One more owner for a used page. O(1).
    void share(int32_t page);
    // One owner less; without owners the page is free again. O(1).
    void release(int32_t page);

    [[nodiscard]] int32_t n_pages() const { return static_cast<int32_t>(n_owners_.size()); }
    [[nodiscard]] int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
    [[nodiscard]] int32_t n_used() const { return n_pages() - n_free(); }
    [[nodiscard]] int32_t n_owners(int32_t page) const;

    // Aborts unless the free list holds exactly the pages without owner, each once. O(n_pages).
    void check_invariants() const;

  private:
    std::vector<int32_t> n_owners_; // [n_pages]; 0 = free
    std::vector<int32_t> free_;     // last freed is reused first
};

} // namespace dsv4v
