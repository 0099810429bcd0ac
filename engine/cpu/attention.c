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
    float *queries;  // [key_dim, ATTENTION_QUERIES]: packed for the kernels
    float *scores;   // [ATTENTION_QUERIES, ATTENTION_SEGMENT]
    float *out;      // [ATTENTION_QUERIES, width]: one segment's
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
    size_t queries = ((size_t)pages->shape.key_dim * ATTENTION_QUERIES + 15) / 16 * 16;
    return queries + ATTENTION_QUERIES * ATTENTION_SEGMENT + (ATTENTION_QUERIES + ATTENTION_TILE) * width;
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

// The queries of a tile that go through a segment together, with the positions that each sees there.
struct company {
    int n;
    int number[ATTENTION_QUERIES]; // in the tile
    int32_t position[ATTENTION_QUERIES];
    int begin[ATTENTION_QUERIES], end[ATTENTION_QUERIES];
    int begin_least, begin_most, end_least, end_most;
};

static struct company company_gather(const struct run *run, const struct tile *tile, int first,
                                     int32_t segment_start)
{
    struct company company = {.begin_least = ATTENTION_SEGMENT, .end_least = ATTENTION_SEGMENT};
    int last = first + ATTENTION_QUERIES < tile->n_queries ? first + ATTENTION_QUERIES : tile->n_queries;
    for (int number = first; number < last; number++) {
        int32_t position = tile->sequence->position + (int32_t)((tile->query_begin + number) / run->n_group);
        int64_t begin = (int64_t)visible_begin(run, position) - segment_start;
        int64_t end = (int64_t)position + 1 - segment_start;
        begin = begin > 0 ? begin : 0;
        end = end < ATTENTION_SEGMENT ? end : ATTENTION_SEGMENT;
        if (begin >= end)
            continue;
        int i = company.n++;
        company.number[i] = number;
        company.position[i] = position;
        company.begin[i] = (int)begin;
        company.end[i] = (int)end;
        company.begin_least = begin < company.begin_least ? (int)begin : company.begin_least;
        company.begin_most = begin > company.begin_most ? (int)begin : company.begin_most;
        company.end_least = end < company.end_least ? (int)end : company.end_least;
        company.end_most = end > company.end_most ? (int)end : company.end_most;
    }
    return company;
}

static int32_t head_of(const struct run *run, const struct tile *tile, int number)
{
    return tile->kv_head * run->n_group + (int32_t)((tile->query_begin + number) % run->n_group);
}

static int64_t row_of(const struct run *run, const struct tile *tile, int number)
{
    return tile->sequence->first_row + (tile->query_begin + number) / run->n_group;
}

static void queries_pack(const struct run *run, const struct tile *tile, const struct company *company,
                         float *packed)
{
    int32_t key_dim = run->attention->pages->shape.key_dim;
    for (int i = 0; i < company->n; i++) {
        int number = company->number[i];
        const float *query = run->q.items + row_of(run, tile, number) * run->q.stride +
                             (int64_t)head_of(run, tile, number) * key_dim;
        for (int32_t d = 0; d < key_dim; d++)
            packed[d * ATTENTION_QUERIES + i] = query[d];
    }
}

// Weighs the values: positions that all see together, the ragged ends query by query, each query's in order.
static void values_weigh(const struct run *run, const struct company *company, const void *const *values,
                         struct scratch *scratch)
{
    const struct pages *pages = run->attention->pages;
    int32_t width = pages->value_width;
    void (*weigh)(const float *, int, const void *const *, int, int, int32_t, float *) =
        run->attention->kernels->values[pages->shape.type];
    memset(scratch->out, 0, (size_t)company->n * (size_t)width * sizeof(float));
    bool together = company->begin_most < company->end_least;
    int begin = together ? company->begin_most : ATTENTION_SEGMENT;
    int end = together ? company->end_least : ATTENTION_SEGMENT;
    for (int i = 0; i < company->n; i++) {
        int head_end = begin < company->end[i] ? begin : company->end[i];
        if (company->begin[i] < head_end)
            weigh(scratch->scores + i * ATTENTION_SEGMENT, 1, values, company->begin[i], head_end, width,
                  scratch->out + (size_t)i * (size_t)width);
    }
    if (together)
        weigh(scratch->scores, company->n, values, begin, end, width, scratch->out);
    for (int i = 0; i < company->n; i++)
        if (end < company->end[i])
            weigh(scratch->scores + i * ATTENTION_SEGMENT, 1, values, end, company->end[i], width,
                  scratch->out + (size_t)i * (size_t)width);
}

// Computes one segment for up to ATTENTION_QUERIES of a tile's queries: states[i] and scratch->out.
static void segment_attend(const struct run *run, const struct tile *tile, const struct company *company,
                           int32_t segment, const void *const *keys, const void *const *values,
                           struct scratch *scratch, struct attention_state *states)
{
    const struct attention *attention = run->attention;
    const struct attention_kernels *kernels = attention->kernels;
    const struct kv_shape *shape = &attention->pages->shape;
    const struct attention_parameters *parameters = run->parameters;
    float bias_max = parameters->alibi_bias_max;
    queries_pack(run, tile, company, scratch->queries);
    kernels->scores[shape->type](scratch->queries, company->n, keys, company->begin_least / PAGE_BLOCK,
                                 (company->end_most + PAGE_BLOCK - 1) / PAGE_BLOCK, shape->key_dim,
                                 scratch->scores);
    for (int i = 0; i < company->n; i++) {
        int32_t head = head_of(run, tile, company->number[i]);
        struct attention_scoring scoring = {
            .scale = parameters->scale,
            .softcap = parameters->softcap,
            .slope = bias_max > 0.0f ? attention_slope(head, parameters->n_heads, bias_max) : 0.0f,
            .first_distance = (float)(segment * ATTENTION_SEGMENT - company->position[i]),
        };
        kernels->soften(scratch->scores + i * ATTENTION_SEGMENT, company->begin[i], company->end[i], &scoring,
                        &states[i]);
    }
    values_weigh(run, company, values, scratch);
}

static void segment_blocks(const struct run *run, const struct tile *tile, int32_t segment, const void **keys,
                           const void **values)
{
    const struct pages *pages = run->attention->pages;
    int32_t page_blocks = pages->shape.page_positions / PAGE_BLOCK;
    int32_t last_row = (int32_t)((tile->query_begin + tile->n_queries - 1) / run->n_group);
    int32_t last_block = (tile->sequence->position + last_row) / PAGE_BLOCK;
    int32_t first_visible =
        visible_begin(run, tile->sequence->position + (int32_t)(tile->query_begin / run->n_group));
    for (int32_t i = 0; i < SEGMENT_BLOCKS; i++) {
        int32_t block = segment * SEGMENT_BLOCKS + i;
        keys[i] = values[i] = NULL;
        if (block > last_block || block < first_visible / PAGE_BLOCK)
            continue; // the block table need not reach there
        int32_t page = tile->sequence->pages[block / page_blocks];
        keys[i] = pages_keys(pages, run->parameters->layer, page, tile->kv_head, block % page_blocks);
        values[i] = pages_values(pages, run->parameters->layer, page, tile->kv_head, block % page_blocks);
    }
}

static void out_write(const struct run *run, const struct tile *tile, int number,
                      const struct attention_state *state, const float *state_out)
{
    const struct attention *attention = run->attention;
    int32_t head = head_of(run, tile, number), value_dim = attention->pages->shape.value_dim;
    float *out = run->out.items + row_of(run, tile, number) * run->out.stride + (int64_t)head * value_dim;
    attention->kernels->finish(out, state, state_out, value_dim, run->sinks ? &run->sinks[head] : NULL);
}

// A whole tile: its states travel through the segments.
static void tile_task(void *context, int index, int thread)
{
    const struct run *run = context;
    const struct attention *attention = run->attention;
    struct scratch *scratch = &attention->scratch[thread];
    const size_t width = (size_t)attention->pages->value_width;
    struct tile tile = tile_at(run, index);
    memset(scratch->started, 0, (size_t)tile.n_queries * sizeof *scratch->started);
    for (int32_t segment = tile.segment_begin; segment < tile.segment_end; segment++) {
        const void *keys[SEGMENT_BLOCKS], *values[SEGMENT_BLOCKS];
        segment_blocks(run, &tile, segment, keys, values);
        for (int first = 0; first < tile.n_queries; first += ATTENTION_QUERIES) {
            struct company company = company_gather(run, &tile, first, segment * ATTENTION_SEGMENT);
            if (company.n == 0)
                continue;
            struct attention_state states[ATTENTION_QUERIES];
            segment_attend(run, &tile, &company, segment, keys, values, scratch, states);
            for (int i = 0; i < company.n; i++) {
                int number = company.number[i];
                float *tile_out = scratch->tile_out + (size_t)number * width,
                      *part = scratch->out + (size_t)i * width;
                if (scratch->started[number]) {
                    attention->kernels->merge(&scratch->states[number], tile_out, &states[i], part,
                                              (int32_t)width);
                } else {
                    scratch->states[number] = states[i];
                    memcpy(tile_out, part, width * sizeof *part);
                    scratch->started[number] = true;
                }
            }
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
    for (int32_t segment = begin; segment < end; segment++) {
        const void *keys[SEGMENT_BLOCKS], *values[SEGMENT_BLOCKS];
        segment_blocks(run, &tile, segment, keys, values);
        int64_t slot = run->first_kept[dealt] + (int64_t)(segment - tile.segment_begin) * tile.n_queries;
        for (int number = 0; number < tile.n_queries; number++)
            attention->kept[slot + number].present = false;
        for (int first = 0; first < tile.n_queries; first += ATTENTION_QUERIES) {
            struct company company = company_gather(run, &tile, first, segment * ATTENTION_SEGMENT);
            struct attention_state states[ATTENTION_QUERIES];
            if (company.n == 0)
                continue;
            segment_attend(run, &tile, &company, segment, keys, values, scratch, states);
            for (int i = 0; i < company.n; i++) {
                int64_t own = slot + company.number[i];
                attention->kept[own] = (struct kept){states[i], true};
                memcpy(attention->kept_out + (size_t)own * width, scratch->out + (size_t)i * width,
                       width * sizeof(float));
            }
        }
    }
    if (atomic_fetch_sub_explicit(&attention->n_chunks_left[dealt], 1, memory_order_acq_rel) == 1)
        kept_merge(run, &tile, run->first_kept[dealt]);
}

// Fills in first_task and first_kept. False: segments are not dealt out.
static bool deal(struct run *run, int64_t n_tiles)
{
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
    int64_t n_tiles = attention->first_tiles[sequences.n] * run.n_kv_heads;
    if (deal(&run, n_tiles))
        pool_run(attention->pool, run.first_task[n_tiles], dealt_task, &run);
    else
        pool_run(attention->pool, (int)n_tiles, tile_task, &run);
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
