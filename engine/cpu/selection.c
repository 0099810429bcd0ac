#include "engine/cpu/selection.h"

#include "engine/cpu/product/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCORES_LEAST = 4 << 20, // scores at a time: 16 MiB
    TASK_SEGMENTS = 8,      // of one task
    BUCKETS = 1 << 11,
};

enum status selection_create(struct selection *selection, const struct kv_shape *shape, struct pool *pool,
                             const struct attention_kernels *kernels, struct error *error)
{
    const struct index_shape *index = &shape->index;
    struct kv_shape own = {.n_layers = index->n_layers,
                           .n_kv_heads = 1,
                           .key_dim = index->key_dim,
                           .page_positions = shape->page_positions,
                           .n_pages = shape->n_pages,
                           .type = KV_F32};
    *selection = (struct selection){
        .shape = *index, .pool = pool, .kernels = kernels, .n_lists = index->by_head ? index->n_heads : 1};
    enum status status = pages_create(&selection->keys, &own, error);
    if (status != STATUS_OK)
        return status;
    int64_t longest = (int64_t)shape->n_pages * shape->page_positions;
    if (shape->n_positions_most > 0 && shape->n_positions_most < longest)
        longest = shape->n_positions_most;
    longest = (longest + ATTENTION_SEGMENT - 1) / ATTENTION_SEGMENT * ATTENTION_SEGMENT;
    longest *= selection->n_lists;
    selection->n_scores = longest > SCORES_LEAST ? longest : SCORES_LEAST;
    int32_t n_groups = (index->n_heads + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES;
    selection->n_packed = (int64_t)n_groups * ATTENTION_QUERIES * ((index->key_dim + 15) / 16 * 16);
    selection->scores = malloc((size_t)selection->n_scores * sizeof(float));
    selection->packed = calloc((size_t)pool_n_threads(pool), (size_t)selection->n_packed * sizeof(float));
    if (!selection->scores || !selection->packed)
        return error_memory(error, STATUS_REFUSE, "an indexer's scores");
    return STATUS_OK;
}

void selection_finish(struct selection *selection)
{
    if (selection->keys.memory)
        pages_finish(&selection->keys);
    free(selection->packed);
    free(selection->scores);
    free(selection->rows);
    free(selection->positions);
    free(selection->counts);
    *selection = (struct selection){0};
}

enum status selection_reserve(struct selection *selection, int32_t n_rows_max, struct error *error)
{
    if (n_rows_max <= selection->n_rows_max || selection->shape.n_selected == 0)
        return STATUS_OK;
    free(selection->rows);
    free(selection->positions);
    free(selection->counts);
    selection->n_rows_max = 0;
    size_t n_rows = (size_t)n_rows_max, n_lists = n_rows * (size_t)selection->n_lists;
    selection->rows = malloc(n_rows * sizeof *selection->rows);
    selection->counts = malloc(n_lists * sizeof *selection->counts);
    selection->positions =
        malloc(n_lists * (size_t)selection->shape.n_selected * sizeof *selection->positions);
    if (!selection->rows || !selection->positions || !selection->counts)
        return error_memory(error, STATUS_REFUSE, "selected positions of %d rows", n_rows_max);
    selection->n_rows_max = n_rows_max;
    return STATUS_OK;
}

// Rows whose scores are in memory together; the scores of row i's lists begin at i * n_each.
struct selecting {
    struct selection *selection;
    int32_t layer;
    struct attention_sequences sequences;
    struct attention_rows queries, weights;
    const int32_t *rows;
    int32_t n_rows;
    int64_t n_each, n_list; // floats of a row, of a list
    int32_t n_parts;        // tasks of a row
};

static const struct step_sequence *sequence_of(struct attention_sequences sequences, int32_t row)
{
    int32_t low = 0, high = sequences.n;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        *(sequences.items[middle].first_row <= row ? &low : &high) = middle;
    }
    return &sequences.items[low];
}

static int32_t position_of(const struct selecting *work, int32_t row)
{
    const struct step_sequence *sequence = sequence_of(work->sequences, row);
    return sequence->position + (row - sequence->first_row);
}

static float *pack_queries(const struct selecting *work, int32_t row, int thread)
{
    const struct selection *selection = work->selection;
    int32_t n_heads = selection->shape.n_heads, dim = selection->shape.key_dim;
    float *packed = selection->packed + thread * selection->n_packed, *to = packed;
    for (int32_t head = 0; head < n_heads;
         head += ATTENTION_QUERIES, to += ATTENTION_QUERIES * ((dim + 15) / 16 * 16)) {
        const float *queries[ATTENTION_QUERIES];
        int n = n_heads - head < ATTENTION_QUERIES ? n_heads - head : ATTENTION_QUERIES;
        for (int i = 0; i < n; i++)
            queries[i] = work->queries.items + row * work->queries.stride + (int64_t)(head + i) * dim;
        selection->kernels->pack(to, queries, n, dim);
    }
    return packed;
}

// Adds max(0, x) times the weight to each score.
static void add_head(float *scores, const float *x, float weight, int n)
{
    for (int j = 0; j < n; j++)
        scores[j] += weight * (x[j] > 0.0f ? x[j] : 0.0f);
}

// The scores of up to TASK_SEGMENTS segments of a row.
static void score_task(void *context, int item, int thread)
{
    const struct selecting *work = context;
    const struct selection *selection = work->selection;
    int32_t row = work->rows[item / work->n_parts], part = item % work->n_parts,
            position = position_of(work, row);
    int32_t n_heads = selection->shape.n_heads, dim = selection->shape.key_dim;
    bool by_head = selection->shape.by_head, means = selection->shape.means;
    int32_t page_blocks = selection->keys.shape.page_positions / PAGE_BLOCK,
            last_block = position / PAGE_BLOCK;
    int32_t n_segments = position / ATTENTION_SEGMENT + 1, end = (part + 1) * TASK_SEGMENTS;
    const int32_t *pages = sequence_of(work->sequences, row)->pages;
    struct attention_row dots[ATTENTION_QUERIES];
    const float *packed = NULL;
    for (int32_t segment = part * TASK_SEGMENTS; segment < end && segment < n_segments; segment++) {
        const void *blocks[SEGMENT_BLOCKS];
        int n_blocks = 0;
        for (; n_blocks < SEGMENT_BLOCKS && segment * SEGMENT_BLOCKS + n_blocks <= last_block; n_blocks++) {
            int32_t block = segment * SEGMENT_BLOCKS + n_blocks;
            blocks[n_blocks] =
                pages_keys(&selection->keys, work->layer, pages[block / page_blocks], 0, block % page_blocks);
        }
        packed = packed ? packed : pack_queries(work, row, thread);
        struct attention_blocks keys = {blocks, blocks, (int32_t)selection->keys.key_block_bytes};
        float *scores =
            selection->scores + item / work->n_parts * work->n_each + (int64_t)segment * ATTENTION_SEGMENT;
        if (!by_head)
            memset(scores, 0, ATTENTION_SEGMENT * sizeof *scores);
        for (int32_t head = 0; head < n_heads; head += ATTENTION_QUERIES) {
            int n = n_heads - head < ATTENTION_QUERIES ? n_heads - head : ATTENTION_QUERIES;
            selection->kernels->scores[PAGE_F32](packed + (int64_t)head * ((dim + 15) / 16 * 16), n, keys, 0,
                                                 n_blocks, dim, dots);
            for (int i = 0; i < n; i++)
                if (by_head)
                    memcpy(scores + (head + i) * work->n_list, dots[i].items,
                           (size_t)n_blocks * PAGE_BLOCK * sizeof *scores);
                else
                    add_head(scores, dots[i].items,
                             means ? 1.0f : work->weights.items[row * work->weights.stride + head + i],
                             n_blocks * PAGE_BLOCK);
        }
    }
}

// Unsigned integers in the order of the floats.
static uint32_t order_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The order of the n_wanted-th largest score, found digit by digit. *n_equal: how many scores of that order are
// among the n_wanted largest.
static uint32_t find_threshold(const float *scores, int32_t n, int32_t n_wanted, int32_t *n_equal)
{
    static const int shifts[] = {21, 10, 0}, bits[] = {11, 11, 10};
    uint32_t prefix = 0, mask = 0;
    for (int digit = 0; digit < 3; digit++) {
        int32_t counts[BUCKETS] = {0};
        uint32_t n_buckets = 1u << bits[digit], bucket = n_buckets - 1;
        for (int32_t j = 0; j < n; j++) {
            uint32_t order = order_of(scores[j]);
            if ((order & mask) == prefix)
                counts[order >> shifts[digit] & (n_buckets - 1)]++;
        }
        for (; counts[bucket] < n_wanted; bucket--)
            n_wanted -= counts[bucket];
        prefix |= bucket << shifts[digit];
        mask |= (n_buckets - 1) << shifts[digit];
    }
    *n_equal = n_wanted;
    return prefix;
}

// Replaces the scores of n positions by their blocks' scores; returns the number of blocks. In place, because block b's
// score is written at index b, not after the scores of its positions.
static int32_t score_blocks(const struct index_shape *shape, float *scores, int32_t n)
{
    int32_t n_blocks = (n - 1) / shape->block + 1;
    if (shape->means) {
        for (int32_t b = 0; b < n / shape->block; b++)
            scores[b] = scores[(b + 1) * shape->block - 1];
        return n / shape->block;
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        int32_t begin = b * shape->block, end = n - begin < shape->block ? n : begin + shape->block;
        float largest = scores[begin];
        for (int32_t j = begin + 1; j < end; j++)
            largest = scores[j] > largest ? scores[j] : largest;
        scores[b] = largest;
    }
    for (int32_t b = n_blocks - shape->n_local; b < n_blocks; b++)
        scores[b] = INFINITY;
    return n_blocks;
}

static void pick_task(void *context, int item, int thread)
{
    const struct selecting *work = context;
    const struct selection *selection = work->selection;
    const struct index_shape *shape = &selection->shape;
    int32_t list = item % selection->n_lists, place = item / selection->n_lists, row = work->rows[place],
            n = position_of(work, row) + 1, n_equal;
    float *scores = selection->scores + place * work->n_each + list * work->n_list;
    int64_t number = (int64_t)row * selection->n_lists + list;
    int32_t n_blocks = shape->block > 1 || shape->means ? score_blocks(shape, scores, n) : n;
    uint32_t threshold = find_threshold(scores, n_blocks, shape->n_selected / shape->block, &n_equal);
    int32_t *first = selection->positions + number * shape->n_selected, *out = first;
    for (int32_t b = 0; b < n_blocks; b++) {
        uint32_t order = order_of(scores[b]);
        if (order > threshold || (order == threshold && n_equal-- > 0))
            for (int32_t j = b * shape->block; j < n && j - b * shape->block < shape->block; j++)
                *out++ = j;
    }
    for (int32_t j = n_blocks * shape->block; j < n; j++) // after the last complete block
        *out++ = j;
    assert(out > first && out <= first + shape->n_selected);
    selection->counts[number] = (int32_t)(out - first);
    (void)thread;
}

struct selected_rows selection_rows(const struct selection *selection)
{
    return (struct selected_rows){.positions = selection->positions,
                                  .counts = selection->counts,
                                  .n_most = selection->shape.n_selected,
                                  .n_lists = selection->n_lists};
}

void selection_run(struct selection *selection, int32_t layer, struct attention_sequences sequences,
                   struct attention_rows queries, struct attention_rows weights)
{
    int32_t n = 0, longest = 0;
    for (int32_t i = 0; i < sequences.n; i++) {
        const struct step_sequence *sequence = &sequences.items[i];
        for (int32_t j = 0; j < sequence->n_tokens; j++)
            if (sequence->position + j >= selection->shape.n_selected) {
                selection->rows[n++] = sequence->first_row + j;
                longest = sequence->position + j > longest ? sequence->position + j : longest;
            }
    }
    struct selecting work = {.selection = selection,
                             .layer = layer,
                             .sequences = sequences,
                             .queries = queries,
                             .weights = weights,
                             .n_list = (int64_t)(longest / ATTENTION_SEGMENT + 1) * ATTENTION_SEGMENT,
                             .n_parts = longest / ATTENTION_SEGMENT / TASK_SEGMENTS + 1};
    work.n_each = work.n_list * selection->n_lists;
    int64_t n_most = selection->n_scores / work.n_each;
    for (int32_t first = 0; first < n; first += work.n_rows) {
        work.rows = selection->rows + first;
        work.n_rows = n - first < n_most ? n - first : (int32_t)n_most;
        pool_run(selection->pool, work.n_rows * work.n_parts, score_task, &work);
        pool_run(selection->pool, work.n_rows * selection->n_lists, pick_task, &work);
    }
}
