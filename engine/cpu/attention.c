// Attention: memory, and the division of a step into tiles and tasks for the pool.
#include "engine/cpu/attention_parts.h"

#include "engine/cpu/product/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    PARTIAL_BYTES = 16 << 20, // partial results of split-KV: 32 heads of 64 dimensions over 1,985 segments
    SHARED_BYTES = 64 << 20,  // results of shared segments: 3,971 rows of 64 heads of 64 dimensions
    TASKS_PER_THREAD = 4,     // with fewer tiles, segments are split over tasks
    TILES_PER_THREAD = 8,     // with fewer tiles, they are made smaller, down to TILE_QUERIES_LEAST
    TILE_QUERIES_LEAST = 64,
    SPLIT_TILES_MAX = TASKS_PER_THREAD * POOL_THREADS_MAX, // a step with more tiles does not split segments
};

// Partial results of segments, for split-KV.
struct partial_results {
    int64_t n_max;
    struct partial *items; // [n_max]
    float *out;            // [n_max, width]
    size_t bytes;
    atomic_int *n_chunks_left; // [SPLIT_TILES_MAX]
};

// Results of segments that several sequences share. They are merged later.
struct shared_results {
    int64_t n_max; // rows * heads
    struct attention_state *states;
    float *out; // [n_max, width]
    size_t bytes;
};

struct attention {
    const struct pages *pages;
    struct pool *pool;
    const struct attention_kernels *kernels;
    struct attention_scratch *scratch; // [n_threads]
    float *scratch_memory;
    size_t scratch_bytes;

    struct attention_sequences sequences; // sequences of the step
    struct sharing sharing;
    struct span *spans;   // [n_sequences_max] spans of one call
    int64_t *first_tiles; // [n_sequences_max + 1] index of each span's first tile, for one key-value head
    int32_t n_sequences_max;

    struct partial_results partial;
    struct shared_results shared;

    // Sparse attention; NULL: none.
    struct pages *gathered;  // [n_threads] selected positions of one row
    int32_t *gathered_pages; // 0, 1, ...
    int32_t *sparse_rows;    // [n_sequences_max]
};

// The division of spans into tiles, and of tiles into tasks.
struct attention_division {
    struct attention *attention;
    const struct attention_call *call;
    const struct span *spans;
    int32_t n_spans;
    int32_t n_kv_heads;
    int tile_queries; // at most ATTENTION_TILE
    int64_t n_tiles;
    int32_t chunk; // segments of one task
    // For split-KV: the first task and the first partial result of each (tile, key-value head).
    int32_t first_task[SPLIT_TILES_MAX + 1];
    int64_t first_partial[SPLIT_TILES_MAX + 1];
};

// ---- memory ----

static size_t rows_floats(void)
{
    return ATTENTION_QUERIES * sizeof(struct attention_row) / sizeof(float);
}

static size_t scratch_floats(const struct pages *pages)
{
    size_t width = (size_t)pages->value_width;
    return rows_floats() + (ATTENTION_QUERIES + ATTENTION_TILE) * width +
           ATTENTION_TILE / ATTENTION_QUERIES * packed_floats(pages);
}

static void scratch_spread(struct attention *attention, int n_threads)
{
    const struct pages *pages = attention->pages;
    size_t width = (size_t)pages->value_width;
    float *at = attention->scratch_memory;
    for (int i = 0; i < n_threads; i++, at += scratch_floats(pages)) {
        struct attention_scratch *scratch = &attention->scratch[i];
        scratch->rows = (struct attention_row *)(void *)at;
        scratch->out = at + rows_floats();
        scratch->tile_out = scratch->out + ATTENTION_QUERIES * width;
        scratch->queries = scratch->tile_out + ATTENTION_TILE * width;
    }
}

static bool memory_create(struct attention *attention)
{
    const struct pages *pages = attention->pages;
    size_t out_bytes = (size_t)pages->value_width * sizeof(float);
    int n_threads = pool_n_threads(attention->pool);
    attention->scratch_bytes = (size_t)n_threads * scratch_floats(pages) * sizeof(float);
    attention->scratch_memory = memory_map(attention->scratch_bytes);
    attention->scratch = calloc((size_t)n_threads, sizeof *attention->scratch);
    attention->partial.n_max = PARTIAL_BYTES / (int64_t)(out_bytes + sizeof(struct partial));
    attention->partial.bytes = (size_t)attention->partial.n_max * out_bytes;
    attention->partial.out = memory_map(attention->partial.bytes);
    attention->partial.items = malloc((size_t)attention->partial.n_max * sizeof *attention->partial.items);
    attention->partial.n_chunks_left = calloc(SPLIT_TILES_MAX, sizeof *attention->partial.n_chunks_left);
    attention->shared.n_max = SHARED_BYTES / (int64_t)(out_bytes + sizeof(struct attention_state));
    attention->shared.bytes = (size_t)attention->shared.n_max * out_bytes;
    attention->shared.out = memory_map(attention->shared.bytes);
    attention->shared.states = malloc((size_t)attention->shared.n_max * sizeof *attention->shared.states);
    if (!attention->scratch_memory || !attention->scratch || !attention->partial.out ||
        !attention->partial.items || !attention->partial.n_chunks_left || !attention->shared.out ||
        !attention->shared.states)
        return false;
    scratch_spread(attention, n_threads);
    return true;
}

static enum status gathered_create(struct attention *attention, struct error *error)
{
    struct kv_shape shape = attention->pages->shape;
    int n_threads = pool_n_threads(attention->pool);
    if (shape.index.n_selected == 0)
        return STATUS_OK;
    shape.n_layers = 1;
    shape.n_pages = (shape.index.n_selected + shape.page_positions - 1) / shape.page_positions;
    attention->gathered = calloc((size_t)n_threads, sizeof *attention->gathered);
    attention->gathered_pages = calloc((size_t)shape.n_pages, sizeof *attention->gathered_pages);
    if (!attention->gathered || !attention->gathered_pages)
        return error_memory(error, STATUS_REFUSE, "sparse attention");
    for (int32_t i = 0; i < shape.n_pages; i++)
        attention->gathered_pages[i] = i;
    enum status status = STATUS_OK;
    for (int i = 0; i < n_threads && status == STATUS_OK; i++)
        status = pages_create(&attention->gathered[i], &shape, error);
    return status;
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
    enum status status = gathered_create(attention, error);
    if (status != STATUS_OK) {
        attention_destroy(attention);
        *out = NULL;
    }
    return status;
}

void attention_destroy(struct attention *attention)
{
    if (!attention)
        return;
    memory_unmap(attention->scratch_memory, attention->scratch_bytes);
    memory_unmap(attention->partial.out, attention->partial.bytes);
    memory_unmap(attention->shared.out, attention->shared.bytes);
    sharing_finish(&attention->sharing);
    free(attention->scratch);
    free(attention->partial.items);
    free(attention->partial.n_chunks_left);
    free(attention->shared.states);
    free(attention->spans);
    free(attention->first_tiles);
    for (int i = 0; attention->gathered && i < pool_n_threads(attention->pool); i++)
        if (attention->gathered[i].memory)
            pages_finish(&attention->gathered[i]);
    free(attention->gathered);
    free(attention->gathered_pages);
    free(attention->sparse_rows);
    free(attention);
}

enum status attention_reserve(struct attention *attention, int32_t n_rows_max, struct error *error)
{
    if (n_rows_max <= attention->n_sequences_max)
        return STATUS_OK;
    enum status status = sharing_reserve(&attention->sharing, n_rows_max, error);
    if (status != STATUS_OK)
        return status;
    int64_t *first_tiles = realloc(attention->first_tiles, ((size_t)n_rows_max + 1) * sizeof *first_tiles);
    if (first_tiles)
        attention->first_tiles = first_tiles;
    struct span *spans = realloc(attention->spans, (size_t)n_rows_max * sizeof *spans);
    if (spans)
        attention->spans = spans;
    bool sparse = attention->gathered != NULL;
    int32_t *rows =
        sparse ? realloc(attention->sparse_rows, (size_t)n_rows_max * sizeof *rows) : attention->sparse_rows;
    if (rows)
        attention->sparse_rows = rows;
    if (!first_tiles || !spans || (sparse && !rows))
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "attention: no memory for %d sequences",
                         n_rows_max);
    attention->n_sequences_max = n_rows_max;
    return STATUS_OK;
}

// ---- division into tiles and tasks ----

// Returns the tile with number `index`. The key-value head varies fastest.
static struct attention_tile tile_at(const struct attention_division *cut, int64_t index)
{
    const int64_t *first = cut->attention->first_tiles;
    int64_t number = index / cut->n_kv_heads;
    int32_t low = 0, high = cut->n_spans; // first[low] <= number < first[high]
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (first[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    const struct span *span = &cut->spans[low];
    int32_t n_group = cut->call->n_group;
    struct attention_tile tile = {.span = span, .kv_head = (int32_t)(index % cut->n_kv_heads)};
    tile.query_begin = (number - first[low]) * cut->tile_queries;
    int64_t n_queries = (int64_t)span->n_rows * n_group - tile.query_begin;
    tile.n_queries = n_queries < cut->tile_queries ? (int)n_queries : cut->tile_queries;
    if (span->is_group) {
        tile.segment_end = span->segment_end;
        return tile;
    }
    int32_t first_row = (int32_t)(tile.query_begin / n_group);
    int32_t last_row = (int32_t)((tile.query_begin + tile.n_queries - 1) / n_group);
    tile.segment_begin = visible_begin(cut->call->parameters, span->position + first_row) / ATTENTION_SEGMENT;
    if (tile.segment_begin < span->segment_begin)
        tile.segment_begin = span->segment_begin;
    tile.segment_end =
        (visible_end(cut->call->parameters, span, span->position + last_row) - 1) / ATTENTION_SEGMENT + 1;
    return tile;
}

static void tile_task(void *context, int index, int thread)
{
    const struct attention_division *cut = context;
    struct attention_tile tile = tile_at(cut, index);
    if (index + 1 < cut->n_tiles) { // the task that the thread runs next, unless another thread steals it
        struct attention_tile follower = tile_at(cut, index + 1);
        tile_compute(cut->call, &tile, &follower, &cut->attention->scratch[thread]);
    } else {
        tile_compute(cut->call, &tile, NULL, &cut->attention->scratch[thread]);
    }
}

// Runs a task of split-KV: computes partial results for some segments of one tile. The last task of a tile
// merges all of them.
static void split_task(void *context, int index, int thread)
{
    const struct attention_division *cut = context;
    struct attention *attention = cut->attention;
    int tile_index = 0;
    while (cut->first_task[tile_index + 1] <= index)
        tile_index++;
    struct attention_tile tile = tile_at(cut, tile_index);
    int32_t begin = tile.segment_begin + (index - cut->first_task[tile_index]) * cut->chunk;
    int32_t end = begin + cut->chunk < tile.segment_end ? begin + cut->chunk : tile.segment_end;
    struct partial *partials = attention->partial.items + cut->first_partial[tile_index];
    float *partial_out =
        attention->partial.out + cut->first_partial[tile_index] * attention->pages->value_width;
    tile_compute_parts(cut->call, &tile, begin, end, &attention->scratch[thread], partials, partial_out);
    if (atomic_fetch_sub_explicit(&attention->partial.n_chunks_left[tile_index], 1, memory_order_acq_rel) ==
        1)
        tile_merge_parts(cut->call, &tile, &attention->scratch[thread], partials, partial_out);
}

// Assigns the first tasks and the first partial results. False: segments are not split.
static bool assign_tiles(struct attention_division *cut)
{
    int64_t n_tiles = cut->n_tiles;
    struct attention *attention = cut->attention;
    int64_t n_tasks_wanted = (int64_t)TASKS_PER_THREAD * pool_n_threads(attention->pool);
    if (n_tiles >= n_tasks_wanted || pool_n_threads(attention->pool) == 1)
        return false;
    int64_t n_segments = 0, n_partials = 0;
    int32_t n_segments_most = 0;
    for (int64_t i = 0; i < n_tiles; i++) {
        struct attention_tile tile = tile_at(cut, i);
        int32_t n = tile.segment_end - tile.segment_begin;
        n_segments += n;
        n_segments_most = n > n_segments_most ? n : n_segments_most;
        cut->first_partial[i] = n_partials;
        n_partials += (int64_t)n * tile.n_queries;
    }
    cut->chunk = n_segments > n_tasks_wanted ? (int32_t)(n_segments / n_tasks_wanted) : 1;
    if (n_partials > attention->partial.n_max || cut->chunk >= n_segments_most)
        return false;
    cut->first_task[0] = 0;
    for (int64_t i = 0; i < n_tiles; i++) {
        struct attention_tile tile = tile_at(cut, i);
        int32_t n_chunks = (tile.segment_end - tile.segment_begin + cut->chunk - 1) / cut->chunk;
        cut->first_task[i + 1] = cut->first_task[i] + n_chunks;
        atomic_store_explicit(&attention->partial.n_chunks_left[i], n_chunks, memory_order_relaxed);
    }
    return true;
}

static int64_t tiles_count(struct attention_division *cut)
{
    int64_t *first_tiles = cut->attention->first_tiles;
    first_tiles[0] = 0;
    for (int32_t i = 0; i < cut->n_spans; i++) {
        int64_t n_queries = (int64_t)cut->spans[i].n_rows * cut->call->n_group;
        first_tiles[i + 1] = first_tiles[i] + (n_queries + cut->tile_queries - 1) / cut->tile_queries;
    }
    return first_tiles[cut->n_spans] * cut->n_kv_heads;
}

static void spans_compute(struct attention *attention, const struct attention_call *call,
                          const struct span *spans, int32_t n)
{
    struct attention_division cut;
    cut.attention = attention;
    cut.call = call;
    cut.spans = spans;
    cut.n_spans = n;
    cut.n_kv_heads = attention->pages->shape.n_kv_heads;
    // Large tiles load a segment fewer times. Small tiles give enough tasks for all threads.
    cut.tile_queries = ATTENTION_TILE;
    cut.n_tiles = tiles_count(&cut);
    while (cut.n_tiles < TILES_PER_THREAD * pool_n_threads(attention->pool) &&
           cut.tile_queries > TILE_QUERIES_LEAST) {
        cut.tile_queries /= 2;
        cut.n_tiles = tiles_count(&cut);
    }
    if (assign_tiles(&cut))
        pool_run(attention->pool, cut.first_task[cut.n_tiles], split_task, &cut);
    else
        pool_run(attention->pool, (int)cut.n_tiles, tile_task, &cut);
}

// ---- sparse attention ----

// Rows that see selected positions only. A task gathers the keys and values of a row in the thread's pages. Tiles
// read these pages as a sequence's.
struct sparse_work {
    struct attention *attention;
    const struct attention_call *call;
    const int32_t *pages;          // of the gathered positions: 0, 1, ...
    int32_t n_parts, n_heads_each; // a task computes some of a group's heads
};

enum { SPARSE_TASKS_PER_THREAD = 2 };

// Computes some of the query heads of one row that share a key-value head.
static void sparse_task(void *context, int item, int thread)
{
    const struct sparse_work *work = context;
    const struct attention *attention = work->attention;
    const struct attention_call *whole = work->call;
    const struct selected_rows *selected = &whole->vectors->selected;
    int32_t n_kv_heads = attention->pages->shape.n_kv_heads, part = item % work->n_parts,
            kv_head = item / work->n_parts % n_kv_heads,
            row = attention->sparse_rows[item / work->n_parts / n_kv_heads];
    int64_t list = (int64_t)row * selected->n_lists + (selected->n_lists > 1 ? kv_head : 0);
    int32_t n = selected->counts[list];
    const struct step_sequence *sequence = attention->sequences.items;
    while (sequence->first_row + sequence->n_tokens <= row)
        sequence++;
    const struct pages *gathered = &attention->gathered[thread];
    pages_gather(attention->pages, whole->parameters->layer, kv_head, sequence->pages,
                 selected->positions + list * selected->n_most, n, gathered);
    struct attention_parameters parameters = *whole->parameters;
    struct attention_call call = *whole;
    struct span span = {
        .pages = work->pages, .first_row = row, .n_rows = 1, .position = n - 1, .first_state = -1};
    parameters.layer = 0;
    call.pages = gathered, call.parameters = &parameters;
    int32_t first = part * work->n_heads_each, n_heads = call.n_group - first;
    n_heads = n_heads < work->n_heads_each ? n_heads : work->n_heads_each;
    for (int32_t done = 0; done < n_heads; done += ATTENTION_TILE) {
        struct attention_tile tile = {.span = &span,
                                      .query_begin = first + done,
                                      .n_queries =
                                          n_heads - done < ATTENTION_TILE ? n_heads - done : ATTENTION_TILE,
                                      .kv_head = kv_head,
                                      .segment_end = (n - 1) / ATTENTION_SEGMENT + 1};
        tile_compute(&call, &tile, NULL, &attention->scratch[thread]);
    }
}

static void sparse_compute(struct attention *attention, const struct attention_call *call, int32_t n_rows)
{
    int32_t n_wanted = SPARSE_TASKS_PER_THREAD * pool_n_threads(attention->pool), n_heads = call->n_group;
    int32_t n_units = n_rows * attention->pages->shape.n_kv_heads;
    int32_t n_parts = (n_wanted + n_units - 1) / n_units,
            n_blocks = (n_heads + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES;
    n_parts = n_parts < n_blocks ? n_parts : n_blocks;
    struct sparse_work work = {.attention = attention, .call = call, .pages = attention->gathered_pages};
    work.n_heads_each = (n_blocks + n_parts - 1) / n_parts * ATTENTION_QUERIES;
    work.n_parts = (n_heads + work.n_heads_each - 1) / work.n_heads_each;
    pool_run(attention->pool, n_units * work.n_parts, sparse_task, &work);
}

// ---- a step ----

void attention_begin(struct attention *attention, struct attention_sequences sequences)
{
    assert(sequences.n <= attention->n_sequences_max);
    attention->sequences = sequences;
    sharing_find(&attention->sharing, sequences, attention->pages->shape.page_positions);
}

// False with a window or ALiBi: a row's result for a segment then depends on the row's position, so segments
// are not shared.
static bool groups_usable(const struct attention *attention, const struct attention_parameters *parameters)
{
    const struct sharing *sharing = &attention->sharing;
    return sharing->n_groups > 0 && parameters->window == 0 && parameters->chunk == 0 &&
           parameters->alibi_bias_max == 0.0f &&
           (int64_t)sharing->n_rows * parameters->n_heads <= attention->shared.n_max;
}

// The rows of a sequence that see all positions.
static int32_t dense_rows(const struct step_sequence *sequence, const struct attention_vectors *vectors)
{
    int32_t n = vectors->selected.n_most - sequence->position;
    if (!vectors->selected.positions || n >= sequence->n_tokens)
        return sequence->n_tokens;
    return n > 0 ? n : 0;
}

void attention_run(struct attention *attention, const struct attention_parameters *parameters,
                   struct attention_rows q, struct attention_rows out,
                   const struct attention_vectors *vectors)
{
    const struct kv_shape *shape = &attention->pages->shape;
    const struct sharing *sharing = &attention->sharing;
    assert(parameters->n_heads % shape->n_kv_heads == 0);
    struct attention_call call = {.pages = attention->pages,
                                  .kernels = attention->kernels,
                                  .parameters = parameters,
                                  .q = q,
                                  .out = out,
                                  .vectors = vectors,
                                  .n_group = parameters->n_heads / shape->n_kv_heads,
                                  .shared_states = attention->shared.states,
                                  .shared_out = attention->shared.out,
                                  .n_shared_rows = sharing->n_rows};
    int32_t n_sparse = 0;
    for (int32_t i = 0; i < attention->sequences.n && vectors->selected.positions; i++) {
        const struct step_sequence *sequence = &attention->sequences.items[i];
        for (int32_t j = dense_rows(sequence, vectors); j < sequence->n_tokens; j++)
            attention->sparse_rows[n_sparse++] = sequence->first_row + j;
    }
    // With sparse rows a group would compute rows that do not need its segments.
    bool grouped = n_sparse == 0 && groups_usable(attention, parameters);
    if (grouped)
        spans_compute(attention, &call, sharing->groups, sharing->n_groups);
    int32_t n_dense = 0;
    for (int32_t i = 0; i < attention->sequences.n; i++) {
        const struct step_sequence *sequence = &attention->sequences.items[i];
        struct span *span = &attention->spans[i];
        n_dense += dense_rows(sequence, vectors);
        *span = (struct span){.pages = sequence->pages,
                              .first_row = sequence->first_row,
                              .n_rows = dense_rows(sequence, vectors),
                              .n_text = sequence->n_text,
                              .position = sequence->position,
                              .first_state = -1};
        if (grouped && sharing->group_of[i] >= 0) {
            span->segment_begin = sharing->groups[sharing->group_of[i]].segment_end;
            span->first_state = sharing->first_state[i];
        }
    }
    if (n_dense > 0)
        spans_compute(attention, &call, attention->spans, attention->sequences.n);
    if (n_sparse > 0)
        sparse_compute(attention, &call, n_sparse);
}
