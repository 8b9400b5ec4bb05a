// The lightning indexer of ratio-4 layers: which compressed rows a query attends to.
#pragma once

#include <cstdint>
#include <span>

#include "engine/reference/step_context.h"

namespace dsv4v {

// Rows of the n_best largest scores (all rows if there are no more), ascending, into `selected`;
// returns how many. Equal scores: lower row first. NaN ranks last. `order` is scratch of
// scores.size() entries.
int32_t select_best_rows(std::span<const float> scores, int32_t n_best, int32_t* order,
                         int32_t* selected);

// Builds this step's indexer rows and fills ws.selected and ws.n_selected for every row.
void run_indexer(const StepContext& ctx, const ReferenceLayer& layer);

} // namespace dsv4v
