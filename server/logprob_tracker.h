// Which sampled tokens belong to which part of a reply. Text may be held back long after its token
// was sampled, or never be returned (markers, tool markup, a stop string); a token's entry is
// released together with the last byte of its text, so that the `bytes` of the entries of a field
// add up to that field. Positions count bytes of decoded text. Not thread-safe; one per choice.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "engine/batch.h"

namespace dsv4v {

class LogprobTracker {
  public:
    // A token was sampled; `decoded` is the text that its bytes completed (maybe of earlier tokens,
    // too), `unfinished`: its last bytes begin a character that is not complete yet.
    void add(SampledToken token, std::string_view decoded, bool unfinished);
    // Text that completed without a token (the end replaced an unfinished character).
    void flush(std::string_view decoded);

    // Moves the entries of tokens that lie inside [begin, end) of the decoded text to `out` and
    // forgets those before `begin`.
    void release(int64_t begin, int64_t end, std::vector<SampledToken>& out);

  private:
    struct Entry {
        SampledToken token;
        int64_t begin = 0;
        int64_t end = -1; // -1: not known yet
    };
    void complete_open_entries(std::string_view decoded);

    std::deque<Entry> entries_;
    size_t n_open_ = 0; // entries at the back whose end is not known
    int64_t position_ = 0;
};

} // namespace dsv4v
