// Sparse attention on the device (or emulated): the kernels select the positions that plain C selects, by the definition in
// gpu/kernels/kernels_selection.h, which also says which of equal scores are first; and the copies of selected keys and
// values have the bytes of a sequence that stored them in this order.
#include "gpu/device.h"
#include "gpu/kernels/kernels_selection.h"
#include "tests/gpu/device_memory.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum {
    PAGE = 32,
    N_PAGES = 80,
    N_LAYERS = 2,
    LAYER = 1,
    N_SEQUENCES = 4,
    N_ROWS = 12,
    POSITIONS_MAX = 800,
    DIM_MAX = 128
};

static struct device *device;

static void *zeros(size_t size_bytes)
{
    void *memory = device_allocate(device, size_bytes);
    assert_non_null(memory);
    device_zero(device, memory, size_bytes);
    return memory;
}

// ---- a step: the last rows of each sequence; the third one has none ----

struct selection_subject {
    int32_t n_heads, dim, n_selected;
    bool whole; // keys, queries and weights are small integers: many scores are equal
};

static const int32_t lengths[N_SEQUENCES] = {POSITIONS_MAX, 41, 0, 300}, rows_of[N_SEQUENCES] = {3, 4, 0, 5};

struct selection_step {
    struct attention_sequence sequences[N_SEQUENCES];
    int32_t tables[N_SEQUENCES][POSITIONS_MAX / PAGE];
    int32_t positions[N_ROWS + 1], row_sequences[N_ROWS + 1]; // with a row of padding
    float keys[N_SEQUENCES][POSITIONS_MAX][DIM_MAX];
};

static float item_of(const struct selection_subject *subject, uint64_t *seed)
{
    float item = random_float(seed);
    return subject->whole ? rintf(item * 1.4f) : item;
}

static void fill_step(struct selection_step *step, const struct selection_subject *subject, uint64_t *seed)
{
    int32_t row = 0, page = 0;
    memset(step, 0, sizeof *step);
    for (int32_t s = 0; s < N_SEQUENCES; s++) {
        step->sequences[s] = (struct attention_sequence){.first_row = row,
                                                         .n_rows = rows_of[s],
                                                         .position = lengths[s] - rows_of[s],
                                                         .first_page = s * (POSITIONS_MAX / PAGE)};
        for (int32_t i = 0; i < rows_of[s]; i++, row++) {
            step->positions[row] = lengths[s] - rows_of[s] + i;
            step->row_sequences[row] = s;
        }
        for (int32_t i = 0; i * PAGE < lengths[s]; i++)
            step->tables[s][i] = page++ * 7 % N_PAGES;
        for (int32_t i = 0; i < lengths[s]; i++)
            for (int32_t d = 0; d < subject->dim; d++)
                step->keys[s][i][d] = item_of(subject, seed);
    }
    step->row_sequences[N_ROWS] = -1;
}

// Stores all keys of all sequences, as a prompt's rows.
static void store_keys(const struct selection_step *step, const struct selection_pages *pages, void *tables)
{
    for (int32_t s = 0; s < N_SEQUENCES; s++) {
        if (lengths[s] == 0)
            continue;
        struct attention_sequence sequence = step->sequences[s];
        int32_t *row_sequences = calloc((size_t)lengths[s], sizeof *row_sequences);
        sequence.first_row = sequence.position = 0;
        sequence.n_rows = lengths[s];
        struct selection_store store = {
            .pages = *pages,
            .layer = LAYER,
            .sequences = to_device(device, &sequence, sizeof sequence),
            .row_sequences = to_device(device, row_sequences, (size_t)lengths[s] * sizeof *row_sequences),
            .tables = tables,
            .n_rows = lengths[s],
            .keys = {to_device(device, step->keys[s], sizeof step->keys[s]), DIM_MAX}};
        launch_selection_store(device_stream(device), &store);
        wait_for_device(device);
        device_free(device, (void *)store.sequences);
        device_free(device, (void *)store.row_sequences);
        device_free(device, store.keys.items);
        free(row_sequences);
    }
}

// ---- expected ----

// Position j is selected if fewer than n positions have a larger score, or an equal one and are before it.
static void select_plainly(const float *scores, int32_t n_positions, int32_t n, int32_t *selected)
{
    for (int32_t j = 0; j < n_positions; j++) {
        int32_t n_before = 0;
        for (int32_t i = 0; i < n_positions; i++)
            n_before += scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
        if (n_before < n)
            *selected++ = j;
    }
}

static void score_plainly(const struct selection_subject *subject, const float keys[][DIM_MAX],
                          int32_t n_positions, const float *queries, const float *weights, float *scores)
{
    for (int32_t j = 0; j < n_positions; j++) {
        scores[j] = 0.0f;
        for (int32_t h = 0; h < subject->n_heads; h++) {
            float dot = 0.0f;
            for (int32_t d = 0; d < subject->dim; d++)
                dot = fmaf(queries[h * subject->dim + d], keys[j][d], dot);
            scores[j] = scores[j] + weights[h] * (dot > 0.0f ? dot : 0.0f);
        }
    }
}

// ---- selection ----

static int count_equal(const float *scores, int32_t n)
{
    int n_equal = 0;
    for (int32_t j = 1; j < n; j++)
        n_equal += scores[j] == scores[j - 1];
    return n_equal;
}

static void check_selection(const struct selection_subject *subject)
{
    static struct selection_step step;
    static int32_t expected[(N_ROWS + 1) * POSITIONS_MAX], selected[(N_ROWS + 1) * POSITIONS_MAX];
    static float scores[POSITIONS_MAX];
    uint64_t seed = 7;
    int32_t n = subject->n_selected, n_queries = subject->n_heads * subject->dim;
    float *queries = calloc((size_t)((N_ROWS + 1) * n_queries), sizeof *queries),
          *weights = calloc((size_t)((N_ROWS + 1) * subject->n_heads), sizeof *weights);
    fill_step(&step, subject, &seed);
    for (int32_t i = 0; i < N_ROWS * n_queries; i++)
        queries[i] = item_of(subject, &seed);
    for (int32_t i = 0; i < N_ROWS * subject->n_heads; i++)
        weights[i] = item_of(subject, &seed);
    int n_equal = 0;
    memset(expected, 0x55, sizeof expected);
    for (int32_t row = 0; row < N_ROWS; row++) {
        int32_t s = step.row_sequences[row], n_positions = step.positions[row] + 1;
        if (n_positions <= n)
            continue;
        score_plainly(subject, (const float(*)[DIM_MAX])step.keys[s], n_positions, queries + row * n_queries,
                      weights + row * subject->n_heads, scores);
        n_equal += count_equal(scores, n_positions);
        select_plainly(scores, n_positions, n, expected + row * n);
    }
    assert_true(!subject->whole || n_equal > 100);

    size_t pages_bytes = (size_t)(N_LAYERS * N_PAGES * PAGE * subject->dim) * sizeof(float),
           selected_bytes = (size_t)((N_ROWS + 1) * n) * sizeof(int32_t);
    struct selection_pages pages = {zeros(pages_bytes), N_LAYERS, N_PAGES, PAGE, subject->dim};
    memset(selected, 0x55, sizeof selected);
    struct selection_launch launch = {
        .pages = pages,
        .layer = LAYER,
        .rows = {.sequences = to_device(device, step.sequences, sizeof step.sequences),
                 .n_sequences = N_SEQUENCES,
                 .tables = to_device(device, step.tables, sizeof step.tables),
                 .positions = to_device(device, step.positions, sizeof step.positions),
                 .n_selected = n,
                 .selected = to_device(device, selected, selected_bytes)},
        .n_heads = subject->n_heads,
        .queries = {to_device(device, queries, (size_t)((N_ROWS + 1) * n_queries) * sizeof *queries),
                    n_queries},
        .weights = {to_device(device, weights, (size_t)((N_ROWS + 1) * subject->n_heads) * sizeof *weights),
                    subject->n_heads},
        .scores = zeros((size_t)5 * 832 * sizeof(float)),
        .n_scores = 832};
    store_keys(&step, &pages, (void *)launch.rows.tables);
    for (; launch.rows.first <= N_ROWS; launch.rows.first += 5) { // some rows at a time, the last one padding
        launch.rows.n = N_ROWS + 1 - launch.rows.first < 5 ? N_ROWS + 1 - launch.rows.first : 5;
        launch_selection(device_stream(device), &launch);
    }
    from_device(device, selected, launch.rows.selected, selected_bytes);
    assert_memory_equal(selected, expected, selected_bytes);
    void *all[] = {pages.memory,
                   (void *)launch.rows.sequences,
                   (void *)launch.rows.tables,
                   (void *)launch.rows.positions,
                   launch.rows.selected,
                   launch.queries.items,
                   launch.weights.items,
                   launch.scores};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(device, all[i]);
    free(queries);
    free(weights);
}

TEST(the_best_positions_are_selected_and_of_equal_ones_the_first)
{
    static const struct selection_subject subjects[] = {
        {10, 20, 40, false}, {10, 20, 40, true}, {1, 3, 1, true}, {3, 128, 299, false}, {8, 5, 257, true},
    };
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        check_selection(&subjects[i]);
}

// ---- copies ----

// The rows' keys and values in the order of `at`, stored as a sequence's from page first_page on.
static void store_heads(const struct attention_pages *pages, int32_t layer, const int32_t *table,
                        int32_t n_table, const float *keys, const float *values, const int32_t *at, int32_t n)
{
    int32_t k_items = pages->n_kv_heads * pages->key_dim, v_items = pages->n_kv_heads * pages->value_dim;
    struct attention_sequence sequence = {.n_rows = n};
    float *k = malloc((size_t)(n * k_items) * sizeof *k), *v = malloc((size_t)(n * v_items) * sizeof *v);
    int32_t *row_sequences = calloc((size_t)n, sizeof *row_sequences);
    for (int32_t i = 0; i < n; i++) {
        int32_t from = at ? at[i] : i;
        memcpy(k + i * k_items, keys + from * k_items, (size_t)k_items * sizeof *k);
        memcpy(v + i * v_items, values + from * v_items, (size_t)v_items * sizeof *v);
    }
    struct attention_store store = {.pages = *pages,
                                    .layer = layer,
                                    .sequences = to_device(device, &sequence, sizeof sequence),
                                    .row_sequences =
                                        to_device(device, row_sequences, (size_t)n * sizeof *row_sequences),
                                    .tables = to_device(device, table, (size_t)n_table * sizeof *table),
                                    .n_rows = n,
                                    .k = to_device(device, k, (size_t)(n * k_items) * sizeof *k),
                                    .v = to_device(device, v, (size_t)(n * v_items) * sizeof *v),
                                    .k_stride = k_items,
                                    .v_stride = v_items};
    launch_attention_store(device_stream(device), &store);
    wait_for_device(device);
    const void *all[] = {store.sequences, store.row_sequences, store.tables, store.k, store.v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(device, (void *)all[i]);
    free(k);
    free(v);
    free(row_sequences);
}

// Two rows of one sequence; the first one selects nothing.
static void check_copies(enum kv_type type, int32_t n_kv_heads, int32_t key_dim, int32_t value_dim,
                         int32_t n_selected)
{
    enum { LENGTH = 100, N_TABLE = 4 };
    uint64_t seed = 9;
    struct attention_pages from = {NULL, N_LAYERS, 6, n_kv_heads, key_dim, value_dim, PAGE, type}, to = from,
                           own;
    int32_t n_each = (n_selected + PAGE - 1) / PAGE, table[N_TABLE] = {4, 1, 5, 0},
            positions[2] = {n_selected - 1, LENGTH - 1}, selected[2 * LENGTH] = {0}, own_table[2 * N_TABLE],
            tables[2 * N_TABLE];
    struct attention_sequence sequences[] = {{.n_rows = 1, .position = n_selected - 1},
                                             {.first_row = 1, .n_rows = 1, .position = LENGTH - 1}},
                              made[2];
    float *keys = malloc((size_t)(LENGTH * n_kv_heads * key_dim) * sizeof *keys),
          *values = malloc((size_t)(LENGTH * n_kv_heads * value_dim) * sizeof *values);
    for (int32_t i = 0; i < LENGTH * n_kv_heads * key_dim; i++)
        keys[i] = random_float(&seed);
    for (int32_t i = 0; i < LENGTH * n_kv_heads * value_dim; i++)
        values[i] = random_float(&seed);
    for (int32_t i = 0; i < n_selected; i++)
        selected[n_selected + i] = i * (LENGTH / n_selected) + i % 2;
    from.memory = zeros(attention_pages_bytes(&from));
    to.n_layers = 1;
    to.n_pages = 2 * n_each;
    own = to;
    to.memory = zeros(attention_pages_bytes(&to));
    own.memory = zeros(attention_pages_bytes(&own));
    store_heads(&from, LAYER, table, N_TABLE, keys, values, NULL, LENGTH);
    for (int32_t i = 0; i < n_each; i++)
        own_table[i] = n_each + i;
    store_heads(&own, 0, own_table, n_each, keys, values, selected + n_selected, n_selected);
    struct selection_gather gather = {.from = from,
                                      .to = to,
                                      .layer = LAYER,
                                      .rows = {.sequences = to_device(device, sequences, sizeof sequences),
                                               .n_sequences = 2,
                                               .tables = to_device(device, table, sizeof table),
                                               .positions = to_device(device, positions, sizeof positions),
                                               .n = 2,
                                               .n_selected = n_selected,
                                               .selected = to_device(device, selected, sizeof selected)},
                                      .n_pages_each = n_each,
                                      .sequences = zeros(sizeof made),
                                      .tables = zeros(sizeof tables)};
    launch_selection_gather(device_stream(device), &gather);
    size_t bytes = attention_pages_bytes(&to);
    unsigned char *copied = malloc(bytes), *expected = malloc(bytes);
    from_device(device, copied, to.memory, bytes);
    from_device(device, expected, own.memory, bytes);
    assert_memory_equal(copied, expected, bytes);
    from_device(device, made, gather.sequences, sizeof made);
    from_device(device, tables, gather.tables, (size_t)(2 * n_each) * sizeof *tables);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(made[i].n_rows, i);
        assert_int_equal(made[i].first_row, i);
        assert_int_equal(made[i].position, n_selected - 1);
        assert_int_equal(made[i].first_page, i * n_each);
        assert_int_equal(made[i].first_part, i);
    }
    for (int32_t i = 0; i < 2 * n_each; i++)
        assert_int_equal(tables[i], i);
    void *all[] = {from.memory,
                   to.memory,
                   own.memory,
                   (void *)gather.rows.sequences,
                   (void *)gather.rows.tables,
                   (void *)gather.rows.positions,
                   gather.rows.selected,
                   gather.sequences,
                   gather.tables};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(device, all[i]);
    free(keys);
    free(values);
    free(copied);
    free(expected);
}

TEST(copies_have_the_bytes_of_a_sequence_of_the_selected_positions)
{
    check_copies(KV_F16, 1, 40, 32, 45);
    check_copies(KV_F16, 2, 33, 17, 16);
    check_copies(KV_Q8_0, 1, 40, 32, 45);
    check_copies(KV_Q8_0, 2, 33, 50, 33);
}

TEST(the_rest_are_the_rows_that_see_no_more_than_they_may_attend_to)
{
    struct attention_sequence in[] =
        {{.first_row = 0, .n_rows = 5, .position = 0, .n_shared = 1, .first_part = 3},
         {.first_row = 5, .n_rows = 5, .position = 8, .n_runs = 2},
         {.first_row = 10, .n_rows = 5, .position = 10},
         {.first_row = 15, .n_rows = 1, .position = 500}},
                              out[4];
    static const int32_t n_rows[] = {5, 2, 0, 0};
    struct attention_sequence *device_in = to_device(device, in, sizeof in), *device_out = zeros(sizeof out);
    launch_selection_rest(device_stream(device), device_out, device_in, 4, 10);
    from_device(device, out, device_out, sizeof out);
    for (int i = 0; i < 4; i++) {
        in[i].n_rows = n_rows[i];
        in[i].n_shared = in[i].n_runs = 0;
    }
    assert_memory_equal(out, in, sizeof in);
    device_free(device, device_in);
    device_free(device, device_out);
}

int main(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    if (!opened)
        return 77; // skipped
    assert_ok(device_load_kernels(device, &error), &error);
    int n_failed = cases_run();
    device_close(device);
    return n_failed;
}
