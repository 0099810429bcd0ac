// Assigns the attention of a step's small sequences to blocks: the segments of all sequences, in order, are
// divided into runs of about the same cost, one for each block of a key-value head, so that a long sequence
// among short ones is spread over the device:
//
//   sequence   A A A A B B B B B B B C D D
//   segment    0 1 2 3 0 1 2 3 4 5 6 0 0 1
//   run        0 0 0 0 0 1 1 1 1 1 2 2 2 2     B is cut; A, C and D are whole
//
// The block of an uncut sequence merges its segments as it proceeds. The partial results of a cut sequence
// are stored for each segment, and its last block to arrive merges them (gpu/kernels/attention_ring.h). The
// result does not depend on the cuts.
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

// Number of runs that keep the whole device busy; at least 1.
int32_t attention_assign_runs(const struct attention_pages *pages, int32_t n_heads,
                              const struct attention_device *device);
// Size of the array of arrival counters.
int32_t attention_assign_arrivals(const struct attention_pages *pages, int32_t n_heads,
                                  const struct attention_device *device, int32_t n_sequences);
// Sets n_runs of the sequences, and `runs` [rules->n_runs + 1].
void attention_assign(struct attention_sequence *sequences, int32_t n_sequences,
                      const struct attention_assign_rules *rules, struct attention_run *runs);

#ifdef __cplusplus
}
#endif
