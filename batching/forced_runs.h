// Tokens that are forced from a state of a constraint, kept with it: jobs of one constraint come to the same
// states, and the tokens are a function of the state. Thread: engine.
#pragma once

#include "engine/tokenizer/tokenizer.h"
#include "schemas/text.h"

struct forced_run {
    uint32_t state; // of the recognizer
    struct buffer bytes;
    struct token_array tokens; // those that are forced
};

enum { FORCED_RUNS_MAX = 1024 }; // of one constraint; further ones are not kept

// Zeroed is empty.
struct forced_runs {
    uint64_t generation;     // of the recognizer's states
    struct forced_run *runs; // [FORCED_RUNS_MAX * 2] by hash of the state; `bytes.data` NULL: free
    size_t n_runs;
};

// NULL: not kept. Runs of another generation are dropped.
const struct forced_run *forced_runs_find(struct forced_runs *runs, uint64_t generation, uint32_t state);
// Copies. Without memory, or with too many, it is not kept.
void forced_runs_add(struct forced_runs *runs, uint32_t state, struct text bytes, const int32_t *tokens,
                     size_t n_tokens);
void forced_runs_finish(struct forced_runs *runs);
