// How much memory a model and a set of options need, before anything is allocated. Pure function:
// no files, no device. DESIGN.md "Memory and cache".
#pragma once

#include <cstdint>
#include <string>

#include "loaders/base/error.h"
#include "loaders/model_config.h"

namespace dsv4v {

// Already processed tokens that can be dropped by lowering a sequence's length: rings are this much
// longer than what a step reads of them.
inline constexpr int32_t kRollbackTokens = 8;

struct MemoryRequest {
    int32_t ctx_size = 0;           // positions of one sequence; 0 = the model's context_length
    int32_t max_sequences = 1;      // slots
    int32_t max_batch_tokens = 512; // rows per step
    uint64_t kv_budget_bytes = 0;   // for pages; 0 = a full context for every slot, at most 4 GiB
    uint64_t kv_element_bytes = 4;  // of one value in pages and raw rings
    uint64_t weights_bytes = 0;     // of all tensors
};

struct MemoryPlan {
    // Sequences and pages.
    int32_t max_sequences = 0;
    int32_t max_batch_tokens = 0;
    int32_t context_length = 0; // positions that one sequence can have, alone in the pool
    int32_t n_pages = 0;        // of kPageTokens tokens

    // Pools: bytes of one page in each. Rows of a page: 32 attention and 32 indexer rows of every
    // ratio-4 layer, one row of every ratio-128 layer.
    uint64_t csa_page_bytes = 0;
    uint64_t indexer_page_bytes = 0;
    uint64_t hca_page_bytes = 0;

    // Rings of a slot: positions kept, and bytes over all layers. Compressor states are float32.
    int32_t raw_ring_rows = 0;
    int32_t csa_ring_rows = 0; // attention and indexer compressor of ratio-4 layers
    int32_t hca_ring_rows = 0;
    uint64_t raw_ring_bytes = 0;
    uint64_t csa_state_bytes = 0;
    uint64_t indexer_state_bytes = 0;
    uint64_t hca_state_bytes = 0;

    uint64_t weights_bytes = 0;
    uint64_t workspace_bytes = 0; // activations of one step and its logits; an estimate

    [[nodiscard]] uint64_t page_bytes() const {
        return csa_page_bytes + indexer_page_bytes + hca_page_bytes;
    }
    [[nodiscard]] uint64_t slot_bytes() const {
        return raw_ring_bytes + csa_state_bytes + indexer_state_bytes + hca_state_bytes;
    }
    [[nodiscard]] uint64_t pages_bytes() const {
        return static_cast<uint64_t>(n_pages) * page_bytes();
    }
    [[nodiscard]] uint64_t slots_bytes() const {
        return static_cast<uint64_t>(max_sequences) * slot_bytes();
    }
    [[nodiscard]] uint64_t total_bytes() const {
        return weights_bytes + pages_bytes() + slots_bytes() + workspace_bytes;
    }

    // Refuses a context above the model's and a budget that does not hold one page per slot.
    [[nodiscard]] static Expected<MemoryPlan> make(const ModelConfig& config,
                                                   const MemoryRequest& request);

    // A table of several lines, each ended by a newline.
    [[nodiscard]] std::string to_string() const;
};

// "6.72 GiB"; whole bytes below 1 KiB.
[[nodiscard]] std::string format_bytes(uint64_t n_bytes);

} // namespace dsv4v
