// Prepares arrived jobs between steps, in order of arrival. Short jobs are prepared on the pool, up to a
// number of bytes that delays a step by about 0.1 s at worst. Long jobs are prepared one after the other on a
// thread of their own (batching/prepare_thread.h), so a long job delays only other long jobs.
// Thread: engine.
#pragma once

#include "batching/batcher_state.h"

enum {
    // Size of the largest short record, and the limit on the bytes that one pool thread prepares before a
    // step. Tokenizing takes 0.02 us per byte of ordinary text. The worst case is a text without word
    // boundaries: 0.35 us per byte.
    ARRIVALS_BYTES_MAX = 256 << 10,
};

// Prepares short jobs of `arrived`, writes their prompts to `preparing`, appends them to `prompts` and
// returns their number. If no long job is being prepared, starts the next one.
int32_t arrivals_prepare(struct batcher *b);
// Returns the long job's prompt, appended to `prompts`, once it is prepared. NULL: not prepared within
// wait_ms (-1: no limit), or no long job was started.
struct prompt *arrivals_take_long(struct batcher *b, int wait_ms);
