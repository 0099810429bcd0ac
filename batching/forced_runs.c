#include "batching/forced_runs.h"

#include <stdlib.h>

enum { SLOTS = FORCED_RUNS_MAX * 2 };

static void clear_run(struct forced_run *run)
{
    buffer_finish(&run->bytes);
    token_array_finish(&run->tokens);
    *run = (struct forced_run){0};
}

// The slot of the state's run, or the free slot for it.
static struct forced_run *place_of(const struct forced_runs *runs, uint32_t state)
{
    size_t at = state * 2654435761u % SLOTS;
    while (runs->runs[at].bytes.data && runs->runs[at].state != state)
        at = (at + 1) % SLOTS;
    return &runs->runs[at];
}

const struct forced_run *forced_runs_find(struct forced_runs *runs, uint64_t generation, uint32_t state)
{
    if (!runs->runs || runs->generation != generation) {
        forced_runs_finish(runs);
        runs->generation = generation;
        return NULL;
    }
    const struct forced_run *run = place_of(runs, state);
    return run->bytes.data ? run : NULL;
}

void forced_runs_add(struct forced_runs *runs, uint32_t state, struct text bytes, const int32_t *tokens,
                     size_t n_tokens, int32_t likely)
{
    if (!runs->runs)
        runs->runs = calloc(SLOTS, sizeof *runs->runs);
    if (!runs->runs || runs->n_runs == FORCED_RUNS_MAX)
        return;
    struct forced_run *run = place_of(runs, state);
    if (run->bytes.data)
        return;
    run->state = state;
    run->likely = likely;
    buffer_add(&run->bytes, bytes.data, bytes.size);
    buffer_add_byte(&run->bytes, '\0'); // non-NULL also for an empty run: `bytes.data` marks used slots
    run->bytes.size -= !run->bytes.failed;
    for (size_t i = 0; i < n_tokens; i++)
        token_array_add(&run->tokens, tokens[i]);
    if (run->bytes.failed || run->tokens.failed)
        clear_run(run);
    else
        runs->n_runs++;
}

void forced_runs_finish(struct forced_runs *runs)
{
    for (size_t i = 0; runs->runs && i < SLOTS; i++)
        clear_run(&runs->runs[i]);
    free(runs->runs);
    *runs = (struct forced_runs){0};
}
