// Jobs that have arrived are prepared between steps, in their order. Short jobs are prepared on the pool, as
// many as delay a step by about 0.1 s at worst; long jobs one after the other on a thread of their own
// (batching/prepare_thread.h). So a long job delays only other long jobs.
// Thread: engine.
#pragma once

#include "batching/batcher_state.h"

enum {
    // Of the record of a short job, and of those that one thread prepares before a step. Words of normal text
    // take 0.02 us a byte; a text that is one word, the worst, takes 0.35 us.
    ARRIVALS_BYTES_MAX = 256 << 10,
};

// Prepares jobs of `arrived`, writes their prompts to `preparing` and returns their number; they are in
// `prompts` then. Begins with a long job if none is being prepared.
int32_t arrivals_prepare(struct batcher *b);
// The prompt of a long job once it is prepared, in `prompts` then; else NULL, after wait_ms (-1: waits for
// it). NULL at once if there is none.
struct prompt *arrivals_take_long(struct batcher *b, int wait_ms);
