// One tile of attention: up to ATTENTION_TILE queries of one key-value head over their segments.
#include "engine/cpu/attention_parts.h"

#include "schemas/base/elementary.h"

#include <assert.h>
#include <string.h>

// Integer queries are packed 32 dimensions at a time, in the space of 16 floats.
size_t packed_floats(const struct pages *pages)
{
    return (size_t)((pages->shape.key_dim + 15) / 16 * 16) * ATTENTION_QUERIES;
}

int32_t visible_begin(const struct attention_parameters *parameters, int32_t position)
{
    int32_t window = parameters->window, chunk = parameters->chunk;
    if (chunk > 0)
        return position / chunk * chunk;
    return window > 0 && position >= window ? position - window + 1 : 0;
}

int32_t visible_end(const struct attention_parameters *parameters, const struct span *span, int32_t position)
{
    if (!span->n_text)
        return position + 1;
    int32_t window = parameters->window;
    return window > 0 && window < span->n_text - position ? position + window : span->n_text;
}

// Returns the position of a query's row. A group has one position, because all its rows see all of its
// segments.
static int32_t position_of(const struct attention_call *call, const struct attention_tile *tile, int number)
{
    const struct span *span = tile->span;
    return span->is_group ? span->position
                          : span->position + (int32_t)((tile->query_begin + number) / call->n_group);
}

// The blocks of a segment that the tile sees. Others are NULL, because the block table may end before them.
struct segment {
    int32_t index;
    const void *keys[SEGMENT_BLOCKS], *values[SEGMENT_BLOCKS];
};

static void segment_locate(const struct attention_call *call, const struct attention_tile *tile,
                           int32_t index, struct segment *segment)
{
    const struct pages *pages = call->pages;
    int32_t page_blocks = pages->shape.page_positions / PAGE_BLOCK, layer = call->parameters->layer;
    int32_t first_block = visible_begin(call->parameters, position_of(call, tile, 0)) / PAGE_BLOCK;
    int32_t last_position = position_of(call, tile, tile->n_queries - 1);
    int32_t last_block = (visible_end(call->parameters, tile->span, last_position) - 1) / PAGE_BLOCK;
    segment->index = index;
    for (int32_t i = 0; i < SEGMENT_BLOCKS; i++) {
        int32_t block = index * SEGMENT_BLOCKS + i;
        segment->keys[i] = segment->values[i] = NULL;
        if (block < first_block || block > last_block)
            continue;
        int32_t page = tile->span->pages[block / page_blocks];
        segment->keys[i] = pages_keys(pages, layer, page, tile->kv_head, block % page_blocks);
        segment->values[i] = pages_values(pages, layer, page, tile->kv_head, block % page_blocks);
    }
}

// A segment, and what the kernels prefetch: its values while scores are computed, and the keys of the next
// segment while values are summed. Only the tile's first group of queries prefetches.
struct view {
    const struct segment *segment;
    const void *next_keys[SEGMENT_BLOCKS];
};

static struct view view_open(const struct segment *segment, const struct segment *next)
{
    struct view view = {.segment = segment};
    for (int i = 0; i < SEGMENT_BLOCKS; i++)
        view.next_keys[i] = next && next->keys[i] ? next->keys[i] : segment->values[i];
    return view;
}

// Up to ATTENTION_QUERIES queries of a tile, which kernels process together, and the positions of the segment
// that each sees. If a query sees no position, begin == end.
struct query_group {
    int first, n; // queries of the tile
    int begin[ATTENTION_QUERIES], end[ATTENTION_QUERIES];
    int begin_least, begin_most, end_least, end_most; // over the queries that see a position
    int n_seeing;
};

static struct query_group group_gather(const struct attention_call *call, const struct attention_tile *tile,
                                       const struct attention_scratch *scratch, int first, int32_t segment)
{
    struct query_group group = {.first = first,
                                .begin_least = ATTENTION_SEGMENT,
                                .end_least = ATTENTION_SEGMENT};
    group.n = tile->n_queries - first < ATTENTION_QUERIES ? tile->n_queries - first : ATTENTION_QUERIES;
    for (int i = 0; i < group.n; i++) {
        int32_t position = scratch->positions[first + i];
        int64_t start = (int64_t)segment * ATTENTION_SEGMENT;
        int64_t begin = visible_begin(call->parameters, position) - start,
                end = visible_end(call->parameters, tile->span, position) - start;
        begin = begin > 0 ? begin : 0;
        end = end < ATTENTION_SEGMENT ? end : ATTENTION_SEGMENT;
        if (begin >= end)
            continue;
        group.n_seeing++;
        group.begin[i] = (int)begin;
        group.end[i] = (int)end;
        group.begin_least = begin < group.begin_least ? (int)begin : group.begin_least;
        group.begin_most = begin > group.begin_most ? (int)begin : group.begin_most;
        group.end_least = end < group.end_least ? (int)end : group.end_least;
        group.end_most = end > group.end_most ? (int)end : group.end_most;
    }
    return group;
}

// Adds the weighted values. Positions that all queries see are computed together; positions at the ends,
// which only some queries see, are computed per query. Each query adds its positions in ascending order.
static void values_weigh(const struct attention_call *call, const struct query_group *group,
                         struct attention_blocks values, const struct attention_row *rows, float *out)
{
    const size_t width = (size_t)call->pages->value_width;
    const struct attention_kernels *kernels = call->kernels;
    bool together = group->n_seeing == group->n && group->begin_most < group->end_least;
    int begin = together ? group->begin_most : ATTENTION_SEGMENT;
    int end = together ? group->end_least : ATTENTION_SEGMENT;
    for (int i = 0; i < group->n; i++) {
        int head_end = begin < group->end[i] ? begin : group->end[i];
        if (group->begin[i] < head_end)
            kernels->values[PAGE_F32](&rows[i], 1, values, group->begin[i], head_end, (int32_t)width,
                                      out + (size_t)i * width);
    }
    if (together)
        kernels->values[PAGE_F32](rows, group->n, values, begin, end, (int32_t)width, out);
    for (int i = 0; i < group->n; i++)
        if (end < group->end[i])
            kernels->values[PAGE_F32](&rows[i], 1, values, end, group->end[i], (int32_t)width,
                                      out + (size_t)i * width);
}

// Adds the weighted values for integers. Positions that a query does not see have weight 0.
static void values_weigh_integers(const struct attention_call *call, const struct query_group *group,
                                  struct attention_blocks values, struct attention_row *rows, float *out)
{
    const struct pages *pages = call->pages;
    size_t scales_offset_bytes = pages->value_block_bytes - PAGE_SCALES_BYTES;
    for (int i = 0; i < group->n; i++)
        call->kernels->quantize_weights(&rows[i], group->begin[i], group->end[i], values,
                                        scales_offset_bytes);
    call->kernels->values[pages->items](rows, group->n, values, group->begin_least, group->end_most,
                                        pages->value_width, out);
}

static float *packed_queries(const struct attention_call *call, const struct attention_scratch *scratch,
                             int first)
{
    return scratch->queries + (size_t)(first / ATTENTION_QUERIES) * packed_floats(call->pages);
}

float attention_slope(int32_t head, int32_t n_heads, float bias_max)
{
    int32_t n_even = 1; // the largest power of two up to n_heads
    while (n_even * 2 <= n_heads)
        n_even *= 2;
    double power =
        head < n_even ? (double)(head + 1) / n_even : (2.0 * (head - n_even) + 1.0) / (2.0 * n_even);
    return (float)elementary_exp(-0.69314718055994530942 * (double)bias_max * power);
}

// Sums the terms of disentangled attention of a query and the segment's positions [begin, end).
static void terms_sum(const struct attention_call *call, const struct attention_scratch *scratch, int number,
                      int32_t start, int begin, int end, float biases[ATTENTION_SEGMENT])
{
    const struct attention_terms *terms = &call->vectors->terms;
    const struct span *span = scratch->span;
    int32_t position = scratch->positions[number];
    int64_t column = (int64_t)scratch->heads[number] * terms->n_columns;
    int64_t row = span->first_row + position - span->position, first_key = span->first_row + (int64_t)start;
    const float *query = NULL, *keys = NULL;
    const int32_t *buckets = terms->buckets + (terms->center + start - position);
    if (terms->queries.items)
        query = terms->queries.items + row * terms->queries.stride + column;
    if (terms->keys.items)
        keys = terms->keys.items + first_key * terms->keys.stride + column;
    memset(biases, 0, ATTENTION_SEGMENT * sizeof *biases);
    for (int j = begin; j < end; j++) {
        float sum = query ? query[buckets[j]] : 0.0f;
        sum += keys ? keys[j * terms->keys.stride + buckets[j]] : 0.0f;
        biases[j] = sum * call->parameters->scale;
    }
}

static void group_softmax(const struct attention_call *call, const struct query_group *group, int32_t segment,
                          struct attention_scratch *scratch, struct attention_state *states)
{
    const struct attention_parameters *parameters = call->parameters;
    float scale = parameters->softcap != 0.0f ? parameters->scale : parameters->scale * LOG2_E;
    struct attention_scoring scoring = {.softcap = parameters->softcap,
                                        .cap_scale = parameters->softcap * LOG2_E};
    for (int i = 0; i < group->n; i++) {
        if (group->begin[i] == group->end[i])
            continue;
        int number = group->first + i;
        scoring.scale = scale * scratch->scales[number];
        if (parameters->alibi_bias_max > 0.0f) {
            scoring.first_distance = (float)(segment * ATTENTION_SEGMENT - scratch->positions[number]);
            scoring.slope = LOG2_E * attention_slope(scratch->heads[number], parameters->n_heads,
                                                     parameters->alibi_bias_max);
        }
        if (call->vectors->relative_bias)
            scoring.biases =
                call->vectors->relative_bias + scratch->heads[number] * call->vectors->n_relative +
                parameters->relative_center + (segment * ATTENTION_SEGMENT - scratch->positions[number]);
        float biases[ATTENTION_SEGMENT];
        if (call->vectors->terms.buckets) {
            terms_sum(call, scratch, number, segment * ATTENTION_SEGMENT, group->begin[i], group->end[i],
                      biases);
            scoring.biases = biases;
        }
        call->kernels->soften(&scratch->rows[i], group->begin[i], group->end[i], &scoring, &states[i]);
    }
}

// Computes one segment for a group of queries: their states, and out [ATTENTION_QUERIES, width].
static void group_attend(const struct attention_call *call, const struct query_group *group,
                         const struct view *view, struct attention_scratch *scratch,
                         struct attention_state *states, float *out)
{
    const struct pages *pages = call->pages;
    const struct attention_kernels *kernels = call->kernels;
    const struct segment *segment = view->segment;
    bool first = group->first == 0;
    struct attention_blocks keys = {segment->keys, first ? segment->values : segment->keys,
                                    (int32_t)(first ? pages->value_block_bytes : pages->key_block_bytes)};
    struct attention_blocks values = {segment->values, first ? view->next_keys : segment->values,
                                      (int32_t)(first ? pages->key_block_bytes : pages->value_block_bytes)};
    kernels->scores[pages->items](packed_queries(call, scratch, group->first), group->n, keys,
                                  group->begin_least / PAGE_BLOCK,
                                  (group->end_most + PAGE_BLOCK - 1) / PAGE_BLOCK, pages->shape.key_dim,
                                  scratch->rows);
    group_softmax(call, group, segment->index, scratch, states);
    memset(out, 0, (size_t)group->n * (size_t)pages->value_width * sizeof *out);
    if (pages->items != PAGE_F32)
        values_weigh_integers(call, group, values, scratch->rows, out);
    else
        values_weigh(call, group, values, scratch->rows, out);
}

// Merged results of the queries of a tile.
struct tile_results {
    struct attention_state *states; // [n_queries]
    float *out;                     // [n_queries, width]
    bool *started;                  // [n_queries]
};

// Merges one segment's results of a group into the states of the tile. Consecutive queries that already have
// a state are merged in one call.
static void group_merge(const struct attention_call *call, const struct query_group *group,
                        const struct tile_results *progress, const struct attention_state *states,
                        const float *out)
{
    const size_t width = (size_t)call->pages->value_width;
    for (int i = 0, n; i < group->n; i += n) {
        int number = group->first + i;
        float *tile_out = progress->out + (size_t)number * width;
        n = 0;
        while (i + n < group->n && group->begin[i + n] < group->end[i + n] && progress->started[number + n])
            n++;
        if (n > 0) {
            call->kernels->merge(n, &progress->states[number], tile_out, &states[i], out + (size_t)i * width,
                                 (int32_t)width);
            continue;
        }
        n = 1;
        if (group->begin[i] == group->end[i])
            continue;
        progress->states[number] = states[i];
        memcpy(tile_out, out + (size_t)i * width, width * sizeof *out);
        progress->started[number] = true;
    }
}

// ---- input and output ----

static int32_t head_of(const struct attention_call *call, const struct attention_tile *tile, int number)
{
    return tile->kv_head * call->n_group + (int32_t)((tile->query_begin + number) % call->n_group);
}

static int64_t row_of(const struct attention_call *call, const struct attention_tile *tile, int number)
{
    int64_t row = (tile->query_begin + number) / call->n_group;
    return tile->span->is_group ? tile->span->rows[row] : tile->span->first_row + row;
}

// Returns the index of the first query's state after the shared segments. The states of a tile's queries are
// contiguous.
static int64_t shared_of(const struct attention_call *call, const struct attention_tile *tile)
{
    int64_t first_row = (int64_t)tile->kv_head * call->n_shared_rows + tile->span->first_state;
    return first_row * call->n_group + tile->query_begin;
}

static void queries_pack(const struct attention_call *call, const struct attention_tile *tile,
                         struct attention_scratch *scratch)
{
    int32_t key_dim = call->pages->shape.key_dim;
    const float *queries[ATTENTION_TILE];
    scratch->span = tile->span;
    for (int number = 0; number < tile->n_queries; number++) {
        int32_t head = head_of(call, tile, number);
        queries[number] =
            call->q.items + row_of(call, tile, number) * call->q.stride + (int64_t)head * key_dim;
        scratch->heads[number] = head;
        scratch->positions[number] = position_of(call, tile, number);
    }
    for (int first = 0; first < tile->n_queries; first += ATTENTION_QUERIES) {
        int n = tile->n_queries - first < ATTENTION_QUERIES ? tile->n_queries - first : ATTENTION_QUERIES;
        float *packed = packed_queries(call, scratch, first);
        for (int i = 0; i < n; i++)
            scratch->scales[first + i] = 1.0f;
        if (call->pages->items != PAGE_F32)
            call->kernels->pack_i16((int16_t *)(void *)packed, &scratch->scales[first], queries + first, n,
                                    key_dim);
        else
            call->kernels->pack(packed, queries + first, n, key_dim);
    }
}

static void result_write(const struct attention_call *call, const struct attention_tile *tile, int number,
                         const struct attention_state *state, const float *state_out)
{
    int32_t head = head_of(call, tile, number), value_dim = call->pages->shape.value_dim;
    float *out = call->out.items + row_of(call, tile, number) * call->out.stride + (int64_t)head * value_dim;
    call->kernels->finish(out, state, state_out, value_dim,
                          call->vectors->sinks ? &call->vectors->sinks[head] : NULL);
}

// Prepares the results of a tile. A tile over shared segments stores its states; the tiles of the sequences
// continue from these states.
static struct tile_results progress_begin(const struct attention_call *call,
                                          const struct attention_tile *tile,
                                          struct attention_scratch *scratch)
{
    struct tile_results progress = {scratch->states, scratch->tile_out, scratch->started};
    const struct span *span = tile->span;
    memset(scratch->started, span->first_state >= 0 && !span->is_group, (size_t)tile->n_queries);
    if (span->first_state >= 0) {
        int64_t place = shared_of(call, tile);
        progress.states = call->shared_states + place;
        progress.out = call->shared_out + place * call->pages->value_width;
    }
    return progress;
}

void tile_compute(const struct attention_call *call, const struct attention_tile *tile,
                  const struct attention_tile *follower, struct attention_scratch *scratch)
{
    const size_t width = (size_t)call->pages->value_width;
    queries_pack(call, tile, scratch);
    struct tile_results progress = progress_begin(call, tile, scratch);
    struct segment segments[2];
    segment_locate(call, tile, tile->segment_begin, &segments[0]);
    for (int32_t i = tile->segment_begin, now = 0; i < tile->segment_end; i++, now ^= 1) {
        struct segment *next = &segments[now ^ 1];
        if (i + 1 < tile->segment_end)
            segment_locate(call, tile, i + 1, next);
        else if (follower)
            segment_locate(call, follower, follower->segment_begin, next);
        else
            next = NULL;
        struct view view = view_open(&segments[now], next);
        for (int first = 0; first < tile->n_queries; first += ATTENTION_QUERIES) {
            struct query_group group = group_gather(call, tile, scratch, first, i);
            struct attention_state states[ATTENTION_QUERIES];
            if (group.n_seeing == 0)
                continue;
            group_attend(call, &group, &view, scratch, states, scratch->out);
            group_merge(call, &group, &progress, states, scratch->out);
        }
    }
    for (int number = 0; number < tile->n_queries && !tile->span->is_group; number++)
        result_write(call, tile, number, &progress.states[number], progress.out + (size_t)number * width);
}

void tile_compute_parts(const struct attention_call *call, const struct attention_tile *tile, int32_t begin,
                        int32_t end, struct attention_scratch *scratch, struct partial *partials,
                        float *partial_out)
{
    const size_t width = (size_t)call->pages->value_width;
    queries_pack(call, tile, scratch);
    struct segment segments[2];
    segment_locate(call, tile, begin, &segments[0]);
    for (int32_t i = begin, now = 0; i < end; i++, now ^= 1) {
        struct segment *next = i + 1 < end ? &segments[now ^ 1] : NULL;
        if (next)
            segment_locate(call, tile, i + 1, next);
        struct view view = view_open(&segments[now], next);
        int64_t slot = (int64_t)(i - tile->segment_begin) * tile->n_queries;
        for (int first = 0; first < tile->n_queries; first += ATTENTION_QUERIES) {
            struct query_group group = group_gather(call, tile, scratch, first, i);
            struct attention_state states[ATTENTION_QUERIES] = {{0}};
            if (group.n_seeing > 0)
                group_attend(call, &group, &view, scratch, states,
                             partial_out + (size_t)(slot + first) * width);
            for (int query = 0; query < group.n; query++)
                partials[slot + first + query] =
                    (struct partial){states[query], group.begin[query] < group.end[query]};
        }
    }
}

// Merges the partial results [n_segments] of a query, which are n_queries apart. Merges into the query's
// state if it has one, else into the first partial result.
static void parts_merge(const struct attention_call *call, const struct partial *partials,
                        const float *partial_out, int n_queries, int32_t n_segments, bool started,
                        struct attention_state *state, float *out)
{
    const size_t width = (size_t)call->pages->value_width;
    for (int32_t segment = 0; segment < n_segments; segment++) {
        int64_t slot = (int64_t)segment * n_queries;
        const float *part = partial_out + (size_t)slot * width;
        if (!partials[slot].present)
            continue;
        if (started) {
            call->kernels->merge(1, state, out, &partials[slot].state, part, (int32_t)width);
        } else {
            *state = partials[slot].state;
            memcpy(out, part, width * sizeof *out);
            started = true;
        }
    }
    assert(started);
}

void tile_merge_parts(const struct attention_call *call, const struct attention_tile *tile,
                      struct attention_scratch *scratch, const struct partial *partials,
                      const float *partial_out)
{
    const size_t width = (size_t)call->pages->value_width;
    struct tile_results progress = progress_begin(call, tile, scratch);
    for (int number = 0; number < tile->n_queries; number++) {
        float *out = progress.out + (size_t)number * width;
        parts_merge(call, partials + number, partial_out + (size_t)number * width, tile->n_queries,
                    tile->segment_end - tile->segment_begin, progress.started[number],
                    &progress.states[number], out);
        if (!tile->span->is_group)
            result_write(call, tile, number, &progress.states[number], out);
    }
}
