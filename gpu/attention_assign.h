// Assigns the attention of a step's small sequences to blocks: the segments of all sequences, in order, are
// divided into runs of about the same cost, one for each block of a key-value head, so that a long sequence
// among short ones is spread over the device. A sequence within one run is merged by its block as it
// proceeds; of one that is cut, each segment's partial result is stored, and the last of its blocks to arrive
// merges them (gpu/kernels/attention_ring.h). The result does not depend on the cuts.
//
// Thread: any.
#pragma once

#include "gpu/kernels/kernels_attention.h"

#ifdef __cplusplus
extern "C" {
#endif

struct attention_assign_rules {
    int32_t n_heads, n_kv_heads;
    int32_t n_runs;
    bool may_cut; // the scratch holds the partial results
};

// The number of runs that occupies the device; at least 1.
int32_t attention_assign_runs(const struct attention_pages *pages, int32_t n_heads,
                              const struct attention_device *device);
// Number of arrival counters.
int32_t attention_assign_arrivals(const struct attention_pages *pages, int32_t n_heads,
                                  const struct attention_device *device, int32_t n_sequences);
// Sets n_runs of the sequences, and `runs` [rules->n_runs + 1].
void attention_assign(struct attention_sequence *sequences, int32_t n_sequences,
                      const struct attention_assign_rules *rules, struct attention_run *runs);

#ifdef __cplusplus
}
#endif
