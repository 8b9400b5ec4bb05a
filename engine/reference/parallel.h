// The one way this backend spreads work over threads: independent items, each computed by one
// thread in its own fixed order, so that results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include <omp.h>

namespace dsv4v {

// Calls body(item, thread_idx) for every item in [0, n_items); thread_idx < the number of threads
// set with omp_set_num_threads, for per-thread scratch memory.
template <class Body>
void parallel_for(int64_t n_items, const Body& body) {
#pragma omp parallel for schedule(dynamic) if (n_items > 1)
    for (int64_t item = 0; item < n_items; ++item) {
        body(item, omp_get_thread_num());
    }
}

} // namespace dsv4v
