// Jobs that have arrived are prepared between steps, in their order: short ones on the pool, as many as keep a
// step waiting for about 0.1 s at worst; long ones one after the other beside the steps
// (batching/prepare_thread.h). So a long job delays long ones alone.
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
