#include "engine/cpu/attention.h"

#include "engine/cpu/memory.h"
#include "engine/elementary.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_BYTES = 16 << 20, // parts of dealt-out segments: 32 heads of 64 dimensions over 1,985 segments
    TASKS_PER_THREAD = 4,  // fewer tiles than that: segments are dealt out
    DEALT_TILES_MAX = TASKS_PER_THREAD * POOL_THREADS_MAX,
};

// One thread's memory.
struct scratch {
    float
        *queries;  // [ATTENTION_TILE / ATTENTION_QUERIES, key_dim, ATTENTION_QUERIES]: packed for the kernels
    float *scores; // [ATTENTION_QUERIES, ATTENTION_SEGMENT]
    float *out;    // [ATTENTION_QUERIES, width]: one segment's
    float *tile_out; // [ATTENTION_TILE, width]
    struct attention_state states[ATTENTION_TILE];
    bool started[ATTENTION_TILE];
};

// What one segment left for one query, when segments are dealt out.
struct kept {
    struct attention_state state;
    bool present;
};

struct attention {
    const struct pages *pages;
    struct pool *pool;
    const struct attention_kernels *kernels;
    struct scratch *scratch; // [n_threads]
    float *scratch_memory;
    size_t scratch_bytes;

    int32_t n_sequences_max;
    int64_t *first_tiles; // [n_sequences_max + 1] number of each sequence's first tile, heads not counted

    int64_t n_kept_max;
    struct kept *kept; // [n_kept_max]
    float *kept_out;   // [n_kept_max, width]
    size_t kept_bytes;
    atomic_int *n_chunks_left; // [DEALT_TILES_MAX]
};

// One call of attention_run.
struct run {
    struct attention *attention;
    struct attention_sequences sequences;
    const struct attention_parameters *parameters;
    struct attention_rows q, out;
    const float *sinks;
    int32_t n_group; // query heads of one key-value head
    int32_t n_kv_heads;
    int64_t n_tiles;
    int32_t chunk; // segments of one task
    // Dealt out: of each (tile, key-value head), its first task and first kept part.
    int n_dealt;
    int32_t first_task[DEALT_TILES_MAX + 1];
    int64_t first_kept[DEALT_TILES_MAX + 1];
};

struct tile {
    const struct step_sequence *sequence;
    int64_t query_begin; // row * n_group + head in group
    int n_queries;
    int32_t kv_head;
    int32_t segment_begin, segment_end; // that hold a position some query sees
};

static size_t scratch_floats(const struct pages *pages)
{
    size_t width = (size_t)pages->value_width;
    return (size_t)pages->shape.key_dim * ATTENTION_TILE + ATTENTION_QUERIES * ATTENTION_SEGMENT +
           (ATTENTION_QUERIES + ATTENTION_TILE) * width;
}

static bool memory_create(struct attention *attention)
{
    const struct pages *pages = attention->pages;
    size_t width = (size_t)pages->value_width;
    int n_threads = pool_n_threads(attention->pool);
    size_t floats = scratch_floats(pages);
    attention->scratch_bytes = (size_t)n_threads * floats * sizeof(float);
    attention->scratch_memory = memory_map(attention->scratch_bytes);
    attention->scratch = calloc((size_t)n_threads, sizeof *attention->scratch);
    attention->n_kept_max = KEPT_BYTES / (int64_t)(width * sizeof(float) + sizeof(struct kept));
    attention->kept_bytes = (size_t)attention->n_kept_max * width * sizeof(float);
    attention->kept_out = memory_map(attention->kept_bytes);
    attention->kept = malloc((size_t)attention->n_kept_max * sizeof *attention->kept);
    attention->n_chunks_left = calloc(DEALT_TILES_MAX, sizeof *attention->n_chunks_left);
    if (!attention->scratch_memory || !attention->scratch || !attention->kept_out || !attention->kept ||
        !attention->n_chunks_left)
        return false;
    float *at = attention->scratch_memory;
    for (int i = 0; i < n_threads; i++, at += floats) {
        struct scratch *scratch = &attention->scratch[i];
        scratch->scores = at;
        scratch->out = scratch->scores + ATTENTION_QUERIES * ATTENTION_SEGMENT;
        scratch->tile_out = scratch->out + ATTENTION_QUERIES * width;
        scratch->queries = scratch->tile_out + ATTENTION_TILE * width;
    }
    return true;
}

enum status attention_create(struct attention **out, const struct pages *pages, struct pool *pool,
                             const struct attention_kernels *kernels, struct error *error)
{
    struct attention *attention = calloc(1, sizeof *attention);
    *out = attention;
    if (!attention)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "attention: no memory");
    attention->pages = pages;
    attention->pool = pool;
    attention->kernels = kernels;
    if (!memory_create(attention)) {
        attention_destroy(attention);
        *out = NULL;
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "attention: no memory for scratch of %d threads", pool_n_threads(pool));
    }
    return STATUS_OK;
}

void attention_destroy(struct attention *attention)
{
    if (!attention)
        return;
    memory_unmap(attention->scratch_memory, attention->scratch_bytes);
    memory_unmap(attention->kept_out, attention->kept_bytes);
    free(attention->scratch);
    free(attention->kept);
    free(attention->n_chunks_left);
    free(attention->first_tiles);
    free(attention);
}

enum status attention_reserve(struct attention *attention, int32_t n_sequences_max, struct error *error)
{
    if (n_sequences_max <= attention->n_sequences_max)
        return STATUS_OK;
    int64_t *first_tiles =
        realloc(attention->first_tiles, ((size_t)n_sequences_max + 1) * sizeof *first_tiles);
    if (!first_tiles)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "attention: no memory for %d sequences",
                         n_sequences_max);
    attention->first_tiles = first_tiles;
    attention->n_sequences_max = n_sequences_max;
    return STATUS_OK;
}

// First position that a row at `position` sees.
static int32_t visible_begin(const struct run *run, int32_t position)
{
    int32_t window = run->parameters->window;
    return window > 0 && position >= window ? position - window + 1 : 0;
}

// Tile `index` counts key-value heads fastest.
static struct tile tile_at(const struct run *run, int64_t index)
{
    const int64_t *first = run->attention->first_tiles;
    int64_t number = index / run->n_kv_heads;
    int32_t low = 0, high = run->sequences.n; // first[low] <= number < first[high]
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (first[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    struct tile tile = {.sequence = &run->sequences.items[low],
                        .kv_head = (int32_t)(index % run->n_kv_heads)};
    int64_t n_queries = (int64_t)tile.sequence->n_rows * run->n_group;
    tile.query_begin = (number - first[low]) * ATTENTION_TILE;
    n_queries -= tile.query_begin;
    tile.n_queries = n_queries < ATTENTION_TILE ? (int)n_queries : ATTENTION_TILE;
    int32_t first_row = (int32_t)(tile.query_begin / run->n_group);
    int32_t last_row = (int32_t)((tile.query_begin + tile.n_queries - 1) / run->n_group);
    tile.segment_begin = visible_begin(run, tile.sequence->position + first_row) / ATTENTION_SEGMENT;
    tile.segment_end = (tile.sequence->position + last_row) / ATTENTION_SEGMENT + 1;
    return tile;
}

static int32_t head_of(const struct run *run, const struct tile *tile, int number)
{
    return tile->kv_head * run->n_group + (int32_t)((tile->query_begin + number) % run->n_group);
}

static int64_t row_of(const struct run *run, const struct tile *tile, int number)
{
    return tile->sequence->first_row + (tile->query_begin + number) / run->n_group;
}

static int32_t position_of(const struct run *run, const struct tile *tile, int number)
{
    return tile->sequence->position + (int32_t)((tile->query_begin + number) / run->n_group);
}

// A segment's blocks, as far as the tile sees them; NULL elsewhere, where the block table need not reach.
struct segment {
    int32_t index;
    const void *keys[SEGMENT_BLOCKS], *values[SEGMENT_BLOCKS];
};

static void segment_locate(const struct run *run, const struct tile *tile, int32_t index,
                           struct segment *segment)
{
    const struct pages *pages = run->attention->pages;
    int32_t page_blocks = pages->shape.page_positions / PAGE_BLOCK, layer = run->parameters->layer;
    int32_t first_row = (int32_t)(tile->query_begin / run->n_group);
    int32_t last_row = (int32_t)((tile->query_begin + tile->n_queries - 1) / run->n_group);
    int32_t first_block = visible_begin(run, tile->sequence->position + first_row) / PAGE_BLOCK;
    int32_t last_block = (tile->sequence->position + last_row) / PAGE_BLOCK;
    segment->index = index;
    for (int32_t i = 0; i < SEGMENT_BLOCKS; i++) {
        int32_t block = index * SEGMENT_BLOCKS + i;
        segment->keys[i] = segment->values[i] = NULL;
        if (block < first_block || block > last_block)
            continue;
        int32_t page = tile->sequence->pages[block / page_blocks];
        segment->keys[i] = pages_keys(pages, layer, page, tile->kv_head, block % page_blocks);
        segment->values[i] = pages_values(pages, layer, page, tile->kv_head, block % page_blocks);
    }
}

// Up to ATTENTION_QUERIES of a tile's queries, which go through a segment together, with the positions that
// each sees there. A query that sees none has begin == end.
struct company {
    int first, n; // in the tile
    int begin[ATTENTION_QUERIES], end[ATTENTION_QUERIES];
    int begin_least, begin_most, end_least, end_most; // of those that see some
    int n_seeing;
};

static struct company company_gather(const struct run *run, const struct tile *tile, int first,
                                     int32_t segment)
{
    struct company company = {
        .first = first, .begin_least = ATTENTION_SEGMENT, .end_least = ATTENTION_SEGMENT};
    company.n = tile->n_queries - first < ATTENTION_QUERIES ? tile->n_queries - first : ATTENTION_QUERIES;
    for (int i = 0; i < company.n; i++) {
        int32_t position = position_of(run, tile, first + i);
        int64_t start = (int64_t)segment * ATTENTION_SEGMENT;
        int64_t begin = visible_begin(run, position) - start, end = position + 1 - start;
        begin = begin > 0 ? begin : 0;
        end = end < ATTENTION_SEGMENT ? end : ATTENTION_SEGMENT;
        if (begin >= end)
            continue;
        company.n_seeing++;
        company.begin[i] = (int)begin;
        company.end[i] = (int)end;
        company.begin_least = begin < company.begin_least ? (int)begin : company.begin_least;
        company.begin_most = begin > company.begin_most ? (int)begin : company.begin_most;
        company.end_least = end < company.end_least ? (int)end : company.end_least;
        company.end_most = end > company.end_most ? (int)end : company.end_most;
    }
    return company;
}

static float *packed_queries(const struct run *run, const struct scratch *scratch, int first)
{
    return scratch->queries + (size_t)first * (size_t)run->attention->pages->shape.key_dim;
}

static void queries_pack(const struct run *run, const struct tile *tile, struct scratch *scratch)
{
    int32_t key_dim = run->attention->pages->shape.key_dim;
    for (int number = 0; number < tile->n_queries; number++) {
        const float *query = run->q.items + row_of(run, tile, number) * run->q.stride +
                             (int64_t)head_of(run, tile, number) * key_dim;
        int place = number % ATTENTION_QUERIES;
        float *packed = packed_queries(run, scratch, number - place) + place;
        for (int32_t d = 0; d < key_dim; d++)
            packed[d * ATTENTION_QUERIES] = query[d];
    }
}

// Weighs the values: positions that all see together, the ragged ends query by query, each query's in order.
static void values_weigh(const struct run *run, const struct company *company, struct attention_blocks values,
                         const float *weights, float *out)
{
    const struct pages *pages = run->attention->pages;
    const size_t width = (size_t)pages->value_width;
    void (*weigh)(const float *, int, struct attention_blocks, int, int, int32_t, float *) =
        run->attention->kernels->values[pages->shape.type];
    bool together = company->n_seeing == company->n && company->begin_most < company->end_least;
    int begin = together ? company->begin_most : ATTENTION_SEGMENT;
    int end = together ? company->end_least : ATTENTION_SEGMENT;
    memset(out, 0, (size_t)company->n * width * sizeof *out);
    for (int i = 0; i < company->n; i++) {
        int head_end = begin < company->end[i] ? begin : company->end[i];
        if (company->begin[i] < head_end)
            weigh(weights + i * ATTENTION_SEGMENT, 1, values, company->begin[i], head_end, (int32_t)width,
                  out + (size_t)i * width);
    }
    if (together)
        weigh(weights, company->n, values, begin, end, (int32_t)width, out);
    for (int i = 0; i < company->n; i++)
        if (end < company->end[i])
            weigh(weights + i * ATTENTION_SEGMENT, 1, values, end, company->end[i], (int32_t)width,
                  out + (size_t)i * width);
}

// One segment's part for a company: states and out [ATTENTION_QUERIES, width]. The first company of a tile
// has the values fetched while it scores, and `next` segment's keys while it weighs.
static void company_attend(const struct run *run, const struct tile *tile, const struct company *company,
                           const struct segment *segment, const struct segment *next, struct scratch *scratch,
                           struct attention_state *states, float *out)
{
    const struct attention *attention = run->attention;
    const struct pages *pages = attention->pages;
    const struct attention_parameters *parameters = run->parameters;
    struct attention_scoring scoring = {
        .scale = parameters->softcap != 0.0f ? parameters->scale : parameters->scale * LOG2_E,
        .softcap = parameters->softcap,
        .cap_scale = parameters->softcap * LOG2_E,
    };
    const void *ahead[SEGMENT_BLOCKS];
    for (int i = 0; i < SEGMENT_BLOCKS; i++)
        ahead[i] = next && next->keys[i] ? next->keys[i] : segment->values[i];
    struct attention_blocks keys = {segment->keys, next ? segment->values : segment->keys,
                                    (int32_t)pages->value_block_bytes};
    struct attention_blocks values = {segment->values, ahead, (int32_t)pages->key_block_bytes};
    attention->kernels->scores[pages->shape.type](
        packed_queries(run, scratch, company->first), company->n, keys, company->begin_least / PAGE_BLOCK,
        (company->end_most + PAGE_BLOCK - 1) / PAGE_BLOCK, pages->shape.key_dim, scratch->scores);
    for (int i = 0; i < company->n; i++) {
        if (company->begin[i] == company->end[i])
            continue;
        int number = company->first + i;
        scoring.first_distance = (float)(segment->index * ATTENTION_SEGMENT - position_of(run, tile, number));
        if (parameters->alibi_bias_max > 0.0f)
            scoring.slope = LOG2_E * attention_slope(head_of(run, tile, number), parameters->n_heads,
                                                     parameters->alibi_bias_max);
        attention->kernels->soften(scratch->scores + i * ATTENTION_SEGMENT, company->begin[i],
                                   company->end[i], &scoring, &states[i]);
    }
    values_weigh(run, company, values, scratch->scores, out);
}

static void out_write(const struct run *run, const struct tile *tile, int number,
                      const struct attention_state *state, const float *state_out)
{
    const struct attention *attention = run->attention;
    int32_t head = head_of(run, tile, number), value_dim = attention->pages->shape.value_dim;
    float *out = run->out.items + row_of(run, tile, number) * run->out.stride + (int64_t)head * value_dim;
    attention->kernels->finish(out, state, state_out, value_dim, run->sinks ? &run->sinks[head] : NULL);
}

// Takes a company's part of one segment into the tile's states.
static void company_merge(const struct run *run, const struct company *company, struct scratch *scratch,
                          const struct attention_state *states, const float *out)
{
    const size_t width = (size_t)run->attention->pages->value_width;
    for (int i = 0; i < company->n; i++) {
        if (company->begin[i] == company->end[i])
            continue;
        int number = company->first + i;
        float *tile_out = scratch->tile_out + (size_t)number * width;
        if (scratch->started[number]) {
            run->attention->kernels->merge(&scratch->states[number], tile_out, &states[i],
                                           out + (size_t)i * width, (int32_t)width);
        } else {
            scratch->states[number] = states[i];
            memcpy(tile_out, out + (size_t)i * width, width * sizeof *out);
            scratch->started[number] = true;
        }
    }
}

// A whole tile: its states travel through the segments.
static void tile_task(void *context, int index, int thread)
{
    const struct run *run = context;
    const struct attention *attention = run->attention;
    struct scratch *scratch = &attention->scratch[thread];
    const size_t width = (size_t)attention->pages->value_width;
    struct tile tile = tile_at(run, index);
    queries_pack(run, &tile, scratch);
    memset(scratch->started, 0, (size_t)tile.n_queries * sizeof *scratch->started);
    struct segment segments[2];
    segment_locate(run, &tile, tile.segment_begin, &segments[0]);
    for (int32_t i = tile.segment_begin, now = 0; i < tile.segment_end; i++, now ^= 1) {
        struct segment *next = &segments[now ^ 1];
        if (i + 1 < tile.segment_end) {
            segment_locate(run, &tile, i + 1, next);
        } else if (index + 1 < run->n_tiles) { // the thread's next task, unless it is stolen
            struct tile next_tile = tile_at(run, index + 1);
            segment_locate(run, &next_tile, next_tile.segment_begin, next);
        }
        for (int first = 0; first < tile.n_queries; first += ATTENTION_QUERIES) {
            struct company company = company_gather(run, &tile, first, i);
            struct attention_state states[ATTENTION_QUERIES];
            if (company.n_seeing == 0)
                continue;
            company_attend(run, &tile, &company, &segments[now], first == 0 ? next : NULL, scratch, states,
                           scratch->out);
            company_merge(run, &company, scratch, states, scratch->out);
        }
    }
    for (int number = 0; number < tile.n_queries; number++)
        out_write(run, &tile, number, &scratch->states[number], scratch->tile_out + (size_t)number * width);
}

// All parts of a dealt-out tile are there: merges them in order into the first one.
static void kept_merge(const struct run *run, const struct tile *tile, int64_t first_kept)
{
    struct attention *attention = run->attention;
    const size_t width = (size_t)attention->pages->value_width;
    int32_t n_segments = tile->segment_end - tile->segment_begin;
    for (int number = 0; number < tile->n_queries; number++) {
        struct attention_state *state = NULL;
        float *out = NULL;
        for (int32_t segment = 0; segment < n_segments; segment++) {
            int64_t slot = first_kept + (int64_t)segment * tile->n_queries + number;
            struct kept *kept = &attention->kept[slot];
            float *part = attention->kept_out + (size_t)slot * width;
            if (!kept->present)
                continue;
            if (state) {
                attention->kernels->merge(state, out, &kept->state, part, (int32_t)width);
            } else {
                state = &kept->state;
                out = part;
            }
        }
        assert(state);
        out_write(run, tile, number, state, out);
    }
}

// A run of segments of one tile; each segment's part is kept by itself.
static void dealt_task(void *context, int index, int thread)
{
    const struct run *run = context;
    struct attention *attention = run->attention;
    struct scratch *scratch = &attention->scratch[thread];
    const size_t width = (size_t)attention->pages->value_width;
    int dealt = 0;
    while (run->first_task[dealt + 1] <= index)
        dealt++;
    struct tile tile = tile_at(run, dealt);
    int32_t begin = tile.segment_begin + (index - run->first_task[dealt]) * run->chunk;
    int32_t end = begin + run->chunk < tile.segment_end ? begin + run->chunk : tile.segment_end;
    queries_pack(run, &tile, scratch);
    struct segment segments[2];
    segment_locate(run, &tile, begin, &segments[0]);
    for (int32_t i = begin, now = 0; i < end; i++, now ^= 1) {
        if (i + 1 < end)
            segment_locate(run, &tile, i + 1, &segments[now ^ 1]);
        const struct segment *next = i + 1 < end ? &segments[now ^ 1] : &segments[now];
        int64_t slot = run->first_kept[dealt] + (int64_t)(i - tile.segment_begin) * tile.n_queries;
        for (int first = 0; first < tile.n_queries; first += ATTENTION_QUERIES) {
            struct company company = company_gather(run, &tile, first, i);
            struct attention_state states[ATTENTION_QUERIES] = {{0}};
            if (company.n_seeing > 0)
                company_attend(run, &tile, &company, &segments[now], first == 0 ? next : NULL, scratch,
                               states, attention->kept_out + (size_t)(slot + first) * width);
            for (int query = 0; query < company.n; query++)
                attention->kept[slot + first + query] =
                    (struct kept){states[query], company.begin[query] < company.end[query]};
        }
    }
    if (atomic_fetch_sub_explicit(&attention->n_chunks_left[dealt], 1, memory_order_acq_rel) == 1)
        kept_merge(run, &tile, run->first_kept[dealt]);
}

// Fills in first_task and first_kept. False: segments are not dealt out.
static bool deal(struct run *run)
{
    int64_t n_tiles = run->n_tiles;
    struct attention *attention = run->attention;
    int64_t n_tasks_wanted = (int64_t)TASKS_PER_THREAD * pool_n_threads(attention->pool);
    if (n_tiles >= n_tasks_wanted || pool_n_threads(attention->pool) == 1)
        return false;
    int64_t n_segments = 0, n_kept = 0;
    int32_t n_segments_most = 0;
    for (int64_t i = 0; i < n_tiles; i++) {
        struct tile tile = tile_at(run, i);
        int32_t n = tile.segment_end - tile.segment_begin;
        n_segments += n;
        n_segments_most = n > n_segments_most ? n : n_segments_most;
        run->first_kept[i] = n_kept;
        n_kept += (int64_t)n * tile.n_queries;
    }
    run->chunk = n_segments > n_tasks_wanted ? (int32_t)(n_segments / n_tasks_wanted) : 1;
    if (n_kept > attention->n_kept_max || run->chunk >= n_segments_most)
        return false;
    run->n_dealt = (int)n_tiles;
    run->first_task[0] = 0;
    for (int64_t i = 0; i < n_tiles; i++) {
        struct tile tile = tile_at(run, i);
        int32_t n_chunks = (tile.segment_end - tile.segment_begin + run->chunk - 1) / run->chunk;
        run->first_task[i + 1] = run->first_task[i] + n_chunks;
        atomic_store_explicit(&attention->n_chunks_left[i], n_chunks, memory_order_relaxed);
    }
    return true;
}

void attention_run(struct attention *attention, struct attention_sequences sequences,
                   const struct attention_parameters *parameters, struct attention_rows q,
                   struct attention_rows out, const float *sinks)
{
    const struct kv_shape *shape = &attention->pages->shape;
    assert(parameters->n_heads % shape->n_kv_heads == 0 && sequences.n <= attention->n_sequences_max);
    struct run run;
    run.attention = attention;
    run.sequences = sequences;
    run.parameters = parameters;
    run.q = q;
    run.out = out;
    run.sinks = sinks;
    run.n_kv_heads = shape->n_kv_heads;
    run.n_group = parameters->n_heads / shape->n_kv_heads;
    attention->first_tiles[0] = 0;
    for (int32_t i = 0; i < sequences.n; i++) {
        int64_t n_queries = (int64_t)sequences.items[i].n_rows * run.n_group;
        attention->first_tiles[i + 1] =
            attention->first_tiles[i] + (n_queries + ATTENTION_TILE - 1) / ATTENTION_TILE;
    }
    run.n_tiles = attention->first_tiles[sequences.n] * run.n_kv_heads;
    if (deal(&run))
        pool_run(attention->pool, run.first_task[run.n_tiles], dealt_task, &run);
    else
        pool_run(attention->pool, (int)run.n_tiles, tile_task, &run);
}

float attention_slope(int32_t head, int32_t n_heads, float bias_max)
{
    int32_t n_even = 1; // the largest power of two that is not above n_heads
    while (n_even * 2 <= n_heads)
        n_even *= 2;
    double power =
        head < n_even ? (double)(head + 1) / n_even : (2.0 * (head - n_even) + 1.0) / (2.0 * n_even);
    return (float)elementary_exp(-0.69314718055994530942 * (double)bias_max * power);
}
