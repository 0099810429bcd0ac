// Caches the forced tokens (constrained.h) of each state of a constraint: they depend on the state alone.
// Jobs with the same constraint reach the same states. Thread: engine.
#pragma once

#include "engine/tokenizer/tokenizer.h"
#include "schemas/base/text.h"

struct forced_run {
    uint32_t state; // the recognizer's state
    struct buffer bytes;
    struct token_array tokens; // the forced tokens
    int32_t likely;            // first token of the forced bytes, if no token is forced; -1: none
};

enum { FORCED_RUNS_MAX = 1024 }; // per constraint; further runs are not cached

// A zeroed cache is empty.
struct forced_runs {
    uint64_t generation;     // generation of the recognizer's states
    struct forced_run *runs; // [FORCED_RUNS_MAX * 2] by hash of the state; `bytes.data` NULL: free
    size_t n_runs;
};

// NULL: not cached. Runs of another generation are dropped.
const struct forced_run *forced_runs_find(struct forced_runs *runs, uint64_t generation, uint32_t state);
// Copies the run. Stores nothing if memory runs out or the cache is full.
void forced_runs_add(struct forced_runs *runs, uint32_t state, struct text bytes, const int32_t *tokens,
                     size_t n_tokens, int32_t likely);
void forced_runs_finish(struct forced_runs *runs);
