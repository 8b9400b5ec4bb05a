// The one way this backend spreads work over threads: independent items, each computed by one
// thread in its own fixed order, so that results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "engine/reference/worker_pool.h"

namespace dsv4v {

// Items of less work than this in all are done by the calling thread: sharing costs more.
inline constexpr int64_t kMinParallelWork = 1 << 16; // multiplications or similar

// What other operations cost, in multiplications of vector code.
inline constexpr int64_t kExpWork = 32;      // exp, sin and the like
inline constexpr int64_t kRoundingWork = 16; // one value of a quantize-dequantize round trip
inline constexpr int64_t kHadamardWork = 8;  // one value of the rotation

// Calls body(item, thread_idx) for every item in [0, n_items), each about `work_per_item`
// multiplications, on the current worker pool; thread_idx serves to pick scratch memory.
template <class Body>
void parallel_for(int64_t n_items, int64_t work_per_item, const Body& body) {
    if (n_items < 2 || n_items * work_per_item < kMinParallelWork) {
        for (int64_t item = 0; item < n_items; ++item) {
            body(item, 0);
        }
        return;
    }
    const auto call = [](const void* erased, int64_t item, int32_t thread_idx) {
        (*static_cast<const Body*>(erased))(item, thread_idx);
    };
    current_worker_pool().run(n_items, {call, &body});
}

} // namespace dsv4v
