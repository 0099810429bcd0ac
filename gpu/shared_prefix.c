#include "gpu/shared_prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// A small sequence, sorted by block table.
struct shared_run {
    const struct step_sequence *sequence;
    int32_t index;   // index in the step
    int32_t n_whole; // number of segments that end before its first row
    int32_t segment_pages;
    int32_t n_common; // leading segments with the same pages as the previous sequence
};

enum status shared_prefix_init(struct shared_prefix *shared, int32_t n_sequences_max, int32_t n_rows_max,
                               struct error *error)
{
    size_t n = (size_t)n_sequences_max;
    *shared = (struct shared_prefix){.n_sequences_max = n_sequences_max, .n_rows_max = n_rows_max};
    shared->runs = calloc(n, sizeof *shared->runs);
    shared->first_parts = calloc(n, sizeof *shared->first_parts);
    shared->n_shared = calloc(n, sizeof *shared->n_shared);
    shared->members = calloc((size_t)n_rows_max, sizeof *shared->members);
    shared->tiles = calloc(SHARED_TILES_MAX, sizeof *shared->tiles);
    if (shared->runs && shared->first_parts && shared->n_shared && shared->members && shared->tiles)
        return STATUS_OK;
    shared_prefix_finish(shared);
    return error_memory(error, STATUS_REFUSE, "the shared prefixes of %d sequences", n_sequences_max);
}

void shared_prefix_finish(struct shared_prefix *shared)
{
    free(shared->runs);
    free(shared->first_parts);
    free(shared->n_shared);
    free(shared->members);
    free(shared->tiles);
    *shared = (struct shared_prefix){0};
}

static int by_pages(const void *left, const void *right)
{
    const struct shared_run *a = left, *b = right;
    int32_t n = a->n_whole < b->n_whole ? a->n_whole : b->n_whole;
    int order =
        n ? memcmp(a->sequence->pages, b->sequence->pages, (size_t)(n * a->segment_pages) * sizeof(int32_t))
          : 0;
    if (order == 0)
        order = (a->n_whole > b->n_whole) - (a->n_whole < b->n_whole);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static int32_t common_segments(const struct shared_run *a, const struct shared_run *b)
{
    int32_t n = a->n_whole < b->n_whole ? a->n_whole : b->n_whole, pages = a->segment_pages, common = 0;
    while (common < n && memcmp(a->sequence->pages + common * pages, b->sequence->pages + common * pages,
                                (size_t)pages * sizeof(int32_t)) == 0)
        common++;
    return common;
}

// Sorts the small sequences by their block tables and fills `members` with their rows. Returns the number of
// sequences.
static int32_t sort_sequences(struct shared_prefix *shared, const struct step *step,
                              const struct shared_rules *rules)
{
    int32_t n = 0;
    for (int32_t i = 0; i < step->n_sequences; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        shared->first_parts[i] = shared->n_shared[i] = 0;
        if (!attention_is_small(sequence->n_tokens, rules->n_heads, rules->n_kv_heads))
            continue;
        shared->runs[n++] = (struct shared_run){.sequence = sequence,
                                                .index = i,
                                                .n_whole = sequence->position / ATTENTION_SEGMENT,
                                                .segment_pages = ATTENTION_SEGMENT / rules->page_positions};
    }
    qsort(shared->runs, (size_t)n, sizeof *shared->runs, by_pages);
    for (int32_t i = 0; i < n; i++) {
        struct shared_run *run = &shared->runs[i];
        run->n_common = i ? common_segments(run - 1, run) : 0;
        shared->first_parts[run->index] = shared->n_part_rows;
        for (int32_t j = 0; j < run->sequence->n_tokens; j++)
            shared->members[shared->n_part_rows++] = run->sequence->first_row + j;
    }
    return n;
}

// Adds the tiles of one segment for sequences [begin, end) of the sorted order, if a shared tile reads less
// than the separate sequences would.
static void add_group(struct shared_prefix *shared, const struct shared_rules *rules, int32_t segment,
                      int32_t begin, int32_t end)
{
    int32_t group = rules->n_heads / rules->n_kv_heads, position_least = INT32_MAX;
    int64_t n_queries = 0, n_reads = 0;
    for (int32_t i = begin; i < end; i++) {
        const struct step_sequence *sequence = shared->runs[i].sequence;
        int64_t queries = (int64_t)sequence->n_tokens * group;
        n_queries += queries;
        n_reads += (queries + rules->small_queries - 1) / rules->small_queries;
        position_least = sequence->position < position_least ? sequence->position : position_least;
    }
    int64_t n_tiles = (n_queries + rules->tile_queries - 1) / rules->tile_queries;
    if (end - begin < SHARED_SEQUENCES_LEAST || n_tiles >= n_reads ||
        n_tiles > SHARED_TILES_MAX - shared->n_tiles)
        return;
    const struct shared_run *first = &shared->runs[begin];
    for (int64_t tile = 0; tile < n_tiles; tile++) {
        int64_t left = n_queries - tile * rules->tile_queries;
        shared->tiles[shared->n_tiles++] =
            (struct attention_shared_tile){.segment = segment,
                                           .first_page = first->index,
                                           .first_member = shared->first_parts[first->index],
                                           .first_query = (int32_t)(tile * rules->tile_queries),
                                           .n_queries = left < rules->tile_queries ? (int32_t)left
                                                                                   : rules->tile_queries,
                                           .position_least = position_least};
    }
    for (int32_t i = begin; i < end; i++)
        shared->n_shared[shared->runs[i].index] = segment + 1;
    shared->n_reads_saved += n_reads - n_tiles;
    shared->n_segments = segment + 1;
}

void shared_prefix_find(struct shared_prefix *shared, const struct step *step,
                        const struct shared_rules *rules)
{
    shared->n_tiles = shared->n_segments = shared->n_part_rows = 0;
    shared->n_reads_saved = 0;
    assert(step->n_sequences <= shared->n_sequences_max && step->n_tokens <= shared->n_rows_max);
    int32_t n = sort_sequences(shared, step, rules);
    for (int32_t segment = 0; segment < rules->n_segments_most && shared->n_segments == segment; segment++)
        for (int32_t begin = 0, end; begin < n; begin = end) {
            for (end = begin + 1; end < n && shared->runs[end].n_common > segment;)
                end++;
            // Requires that the sequences share all earlier segments too: the shared segments of a sequence
            // are its first n_shared.
            if (shared->runs[begin].n_whole > segment &&
                shared->n_shared[shared->runs[begin].index] == segment)
                add_group(shared, rules, segment, begin, end);
        }
}
