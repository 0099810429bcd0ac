// Steps of several sequences in any chunks, for tests that compare the first sequence's bytes.
#pragma once

#include "engine/backend.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    N_VOCAB = 320,
    PAGE_POSITIONS = 16,
    LENGTH_MAX = 300,
    PAGES_EACH = (LENGTH_MAX + PAGE_POSITIONS - 1) / PAGE_POSITIONS + 1, // with a spare one
    STEP_SEQUENCES_MAX = 5,
    STEP_ROWS_MAX = STEP_SEQUENCES_MAX * LENGTH_MAX,
};

struct running {
    int32_t ids[LENGTH_MAX + 1], pages[PAGES_EACH];
    int32_t length, done, chunk;
    int32_t spare; // page: from time to time the last one moves to it
    int32_t state; // slot of its recurrent state; it moves between two of its own from step to step
    int32_t adapter_set;
};

static inline void start_sequences(struct running *running, int n_sequences, int length, int chunk)
{
    for (int s = 0; s < n_sequences; s++) {
        // The first one is always the same; the others are shorter and cut differently.
        running[s] = (struct running){.length = s ? length / 3 + 7 * s : length, .chunk = s ? 3 * s : chunk};
        running[s].state = 2 * s;
        for (int i = 0; i < LENGTH_MAX; i++)
            running[s].ids[i] = (i * 89 + s * 31 + i * i % 17) % N_VOCAB;
        for (int i = 0; i < PAGES_EACH; i++) // scattered, and elsewhere in each way
            running[s].pages[i] = (PAGES_EACH - 1 - i) * n_sequences + (s + 1) % n_sequences;
        running[s].spare = running[s].pages[PAGES_EACH - 1];
    }
}

struct made_step {
    struct step step;
    struct step_sequence sequences[STEP_SEQUENCES_MAX + 1]; // with one of draft tokens
    struct page_copy copies[STEP_SEQUENCES_MAX];
    int32_t tokens[STEP_ROWS_MAX], positions[STEP_ROWS_MAX], outputs[STEP_ROWS_MAX];
    int32_t first_output, n_first_outputs; // the first sequence's
    int32_t n_accepted;                    // draft tokens, whose outputs are the last ones but the rejected
    int32_t n_rejected;
};

// A chunk of every unfinished sequence; all rows of the first are read, of the others the last one. The order
// rotates, so that the first sequence's rows are anywhere in the step. False: all are finished.
static inline bool make_step(struct made_step *made, struct running *running, int n_sequences, int turn)
{
    *made = (struct made_step){.step = {.tokens = made->tokens,
                                        .positions = made->positions,
                                        .sequences = made->sequences,
                                        .copies = made->copies,
                                        .output_rows = made->outputs}};
    struct step *step = &made->step;
    for (int i = 0; i < n_sequences; i++) {
        int s = (i + turn) % n_sequences;
        struct running *r = &running[s];
        int32_t n = r->length - r->done < r->chunk ? r->length - r->done : r->chunk;
        if (n <= 0)
            continue;
        int32_t *last = &r->pages[r->done / PAGE_POSITIONS], spare = r->spare;
        if (r->done % PAGE_POSITIONS && turn % 3 == 1) {
            made->copies[step->n_copies++] = (struct page_copy){.from = *last, .to = spare};
            r->spare = *last;
            *last = spare;
        }
        made->sequences[step->n_sequences++] = (struct step_sequence){.first_row = step->n_tokens,
                                                                      .n_tokens = n,
                                                                      .position = r->done,
                                                                      .pages = r->pages,
                                                                      .state_in = r->state,
                                                                      .state_out = r->state ^ turn % 2,
                                                                      .adapter_set = r->adapter_set};
        r->state ^= turn % 2;
        if (s == 0)
            made->first_output = step->n_outputs, made->n_first_outputs = n;
        for (int32_t j = 0; j < n; j++) {
            if (s == 0 || j == n - 1)
                made->outputs[step->n_outputs++] = step->n_tokens;
            made->tokens[step->n_tokens] = r->ids[r->done];
            made->positions[step->n_tokens++] = r->done++;
        }
    }
    return step->n_tokens > 0;
}

// Adds n draft tokens behind the first sequence's, as a sequence of their own at the step's end: in turns none
// are right, the first ones, or all. The wrong ones' places in the pages are computed again later.
static inline void add_drafts(struct made_step *made, struct running *running, int32_t n, int turn)
{
    struct step *step = &made->step;
    struct running *r = &running[0];
    int32_t left = r->length - r->done;
    n = n < left ? n : left;
    if (n <= 0 || made->n_first_outputs == 0)
        return;
    made->n_accepted = turn % 3 == 0 ? 0 : turn % 3 == 1 ? (n + 1) / 2 : n;
    made->n_rejected = n - made->n_accepted;
    made->sequences[step->n_sequences++] = (struct step_sequence){.first_row = step->n_tokens,
                                                                  .n_tokens = n,
                                                                  .position = r->done,
                                                                  .pages = r->pages,
                                                                  .adapter_set = r->adapter_set};
    for (int32_t j = 0; j < n; j++) {
        int32_t right = r->ids[r->done + j];
        made->outputs[step->n_outputs++] = step->n_tokens;
        made->positions[step->n_tokens] = r->done + j;
        made->tokens[step->n_tokens++] = j < made->n_accepted ? right : (right + 5) % N_VOCAB;
    }
    r->done += made->n_accepted;
}
