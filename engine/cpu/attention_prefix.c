// Finds the sequences of a step that share leading pages.
#include "engine/cpu/attention_parts.h"

#include <stdlib.h>
#include <string.h>

// A group that is being collected; its first sequence represents it.
struct shared_candidate {
    const struct step_sequence *leader;
    int32_t n_sequences;
    int32_t n_segments; // segments that all share; unknown for a single sequence
    int32_t n_rows;
    int32_t group; // index of the group; -1: it has only one sequence
};

void sharing_finish(struct sharing *sharing)
{
    free(sharing->groups);
    free(sharing->rows);
    free(sharing->group_of);
    free(sharing->first_state);
    free(sharing->candidates);
    *sharing = (struct sharing){0};
}

enum status sharing_reserve(struct sharing *sharing, int32_t n_max, struct error *error)
{
    if (n_max <= sharing->n_max)
        return STATUS_OK;
    sharing_finish(sharing);
    size_t n = (size_t)n_max;
    sharing->groups = malloc(n * sizeof *sharing->groups);
    sharing->rows = malloc(n * sizeof *sharing->rows);
    sharing->group_of = malloc(n * sizeof *sharing->group_of);
    sharing->first_state = malloc(n * sizeof *sharing->first_state);
    sharing->candidates = malloc(n * sizeof *sharing->candidates);
    if (!sharing->groups || !sharing->rows || !sharing->group_of || !sharing->first_state ||
        !sharing->candidates) {
        sharing_finish(sharing);
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "attention: no memory for %d sequences",
                         n_max);
    }
    sharing->n_max = n_max;
    return STATUS_OK;
}

// Counts the leading segments that have the same pages in both sequences and precede the rows of both.
static int32_t common_segments(const struct step_sequence *a, const struct step_sequence *b,
                               int32_t page_positions)
{
    int32_t n_pages = ATTENTION_SEGMENT / page_positions,
            n = a->position < b->position ? a->position : b->position;
    n /= ATTENTION_SEGMENT;
    int32_t i = 0;
    while (i < n &&
           memcmp(a->pages + i * n_pages, b->pages + i * n_pages, (size_t)n_pages * sizeof *a->pages) == 0)
        i++;
    return i;
}

// Chooses the candidate that shares the most segments with the sequence. Skips candidates whose total of
// shared segments would shrink if the sequence joined. -1: none.
static int32_t best_candidate(const struct sharing *sharing, int32_t n, const struct step_sequence *sequence,
                              int32_t page_positions, int32_t *n_segments)
{
    int32_t best = -1;
    *n_segments = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct shared_candidate *candidate = &sharing->candidates[i];
        if (candidate->leader->pages[0] != sequence->pages[0])
            continue;
        int32_t common = common_segments(candidate->leader, sequence, page_positions);
        if (candidate->n_sequences > 1) {
            if (common > candidate->n_segments)
                common = candidate->n_segments;
            if ((int64_t)common * (candidate->n_sequences + 1) <
                (int64_t)candidate->n_segments * candidate->n_sequences)
                continue;
        }
        if (common > *n_segments) {
            *n_segments = common;
            best = i;
        }
    }
    return best;
}

// Collects the candidates and sets the candidate of each sequence in group_of. Returns the number of
// candidates.
static int32_t candidates_gather(struct sharing *sharing, struct attention_sequences sequences,
                                 int32_t page_positions)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sequences.n; i++) {
        const struct step_sequence *sequence = &sequences.items[i];
        sharing->group_of[i] = -1;
        if (sequence->position < ATTENTION_SEGMENT)
            continue;
        int32_t n_segments, best = best_candidate(sharing, n, sequence, page_positions, &n_segments);
        if (best < 0) {
            best = n++;
            sharing->candidates[best] = (struct shared_candidate){.leader = sequence, .group = -1};
        }
        struct shared_candidate *candidate = &sharing->candidates[best];
        candidate->n_segments = n_segments;
        candidate->n_sequences++;
        candidate->n_rows += sequence->n_tokens;
        sharing->group_of[i] = best;
    }
    return n;
}

void sharing_find(struct sharing *sharing, struct attention_sequences sequences, int32_t page_positions)
{
    int32_t n_candidates = candidates_gather(sharing, sequences, page_positions);
    sharing->n_groups = sharing->n_rows = 0;
    for (int32_t i = 0; i < n_candidates; i++) {
        struct shared_candidate *candidate = &sharing->candidates[i];
        if (candidate->n_sequences < 2)
            continue;
        candidate->group = sharing->n_groups++;
        sharing->groups[candidate->group] =
            (struct span){.pages = candidate->leader->pages,
                          .rows = sharing->rows + sharing->n_rows,
                          .position = candidate->n_segments * ATTENTION_SEGMENT,
                          .segment_end = candidate->n_segments,
                          .first_state = sharing->n_rows,
                          .is_group = true};
        sharing->n_rows += candidate->n_rows;
    }
    for (int32_t i = 0; i < sequences.n; i++) {
        const struct step_sequence *sequence = &sequences.items[i];
        int32_t group = sharing->group_of[i] < 0 ? -1 : sharing->candidates[sharing->group_of[i]].group;
        sharing->group_of[i] = group;
        if (group < 0)
            continue;
        struct span *span = &sharing->groups[group];
        sharing->first_state[i] = span->first_state + span->n_rows;
        for (int32_t r = 0; r < sequence->n_tokens; r++)
            sharing->rows[span->first_state + span->n_rows++] = sequence->first_row + r;
    }
}
