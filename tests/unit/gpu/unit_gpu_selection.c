// Planning of sparse attention on the CUDA backend, before its kernels run (gpu/selection.c): its memory, and the runs
// of rows in which a step is computed. The launches are this program's.
#include "gpu/state.h"
#include "tests/support/cases.h"

enum {
    INDEX_HEADS = 5,
    INDEX_DIM = 20,
    SELECTED = 40,
    PAGE = 16,
    PAGES = 1000,
    ROWS = 600,
    HEADS = 8,
    KEY_DIM = 40,
    VALUE_DIM = 32
};

static struct gpu_backend backend;
static struct error error;
static bool enqueues;
static uint64_t allocated_bytes;
static uint64_t fails_at_bytes; // above this sum; 0: never
static struct {
    int n_stores, n_selections, n_gathers, n_rests, n_attentions;
    int32_t first[1024], n[1024]; // of selections, or of gathers
    struct selection_launch selection;
    struct selection_gather gather;
    struct attention_launch attention[2];
} launched;

bool gpu_enqueues(struct gpu_backend *of)
{
    return enqueues;
}

enum status gpu_scratch_reserve(struct gpu_backend *of, struct device_scratch *scratch, uint64_t size_bytes,
                                const char *what, struct error *fault)
{
    allocated_bytes += size_bytes;
    if (fails_at_bytes && allocated_bytes > fails_at_bytes)
        return error_set(fault, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "none left");
    *scratch = (struct device_scratch){malloc(1), size_bytes};
    return STATUS_OK;
}

void gpu_scratch_finish(struct gpu_backend *of, struct device_scratch *scratch)
{
    free(scratch->memory);
    *scratch = (struct device_scratch){0};
}

static size_t copied_bytes[3];

void device_copy_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                      size_t stride_bytes)
{
    assert_ptr_equal(to, (char *)backend.sparse.pages.memory + 7 * row_bytes);
    assert_ptr_equal(from, (char *)backend.sparse.pages.memory + 3 * row_bytes);
    copied_bytes[0] = n_rows, copied_bytes[1] = row_bytes, copied_bytes[2] = stride_bytes;
}

void launch_selection_store(void *stream, const struct selection_store *store)
{
    assert_int_equal(store->n_rows, backend.current.padded.n_rows);
    launched.n_stores++;
}

void launch_selection(void *stream, const struct selection_launch *selection)
{
    launched.first[launched.n_selections] = selection->rows.first;
    launched.n[launched.n_selections++] = selection->rows.n;
    launched.selection = *selection;
}

void launch_selection_gather(void *stream, const struct selection_gather *gather)
{
    launched.first[launched.n_gathers] = gather->rows.first;
    launched.n[launched.n_gathers++] = gather->rows.n;
    launched.gather = *gather;
}

void launch_selection_rest(void *stream, struct attention_sequence *out, const struct attention_sequence *in,
                           int32_t n_sequences, int32_t n_selected)
{
    assert_ptr_equal(out, backend.sparse.places.memory);
    assert_int_equal(n_selected, SELECTED);
    launched.n_rests++;
}

void launch_attention(void *stream, const struct attention_launch *attention)
{
    launched.attention[launched.n_attentions > 0] = *attention; // the first and the last one
    launched.n_attentions++;
}

static struct kv_shape sparse_shape(void)
{
    return (struct kv_shape){.n_layers = 3,
                             .n_kv_heads = 1,
                             .key_dim = KEY_DIM,
                             .value_dim = VALUE_DIM,
                             .page_positions = PAGE,
                             .n_pages = PAGES,
                             .type = KV_F16,
                             .n_heads = HEADS,
                             .index = {INDEX_HEADS, INDEX_DIM, SELECTED, 2},
                             .n_rows_most = ROWS};
}

static int begin(void **state)
{
    static unsigned char upload[256];
    memset(&backend, 0, sizeof backend);
    memset(&launched, 0, sizeof launched);
    allocated_bytes = fails_at_bytes = 0;
    enqueues = true;
    backend.kv = sparse_shape();
    backend.memory.upload.memory = upload;
    return 0;
}

static int end(void **state)
{
    gpu_selection_finish(&backend);
    return 0;
}

TEST(the_memory_is_what_was_planned)
{
    uint64_t pages_bytes = 2ull * PAGES * PAGE * INDEX_DIM * sizeof(float);
    assert_int_equal(gpu_index_bytes(&backend.kv), pages_bytes);
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    assert_int_equal(allocated_bytes, pages_bytes + gpu_selection_bytes(&backend.kv));
    // Scores of all positions and copies of three pages, for each of few rows.
    assert_int_equal(backend.sparse.scores.size_bytes, ROWS * PAGES * PAGE * sizeof(float));
    assert_int_equal(backend.sparse.copies.size_bytes, ROWS * 3 * (2 * 1024 + 2 * 512));
    assert_int_equal(backend.sparse.selected.size_bytes, ROWS * SELECTED * sizeof(int32_t));
}

TEST(models_without_an_index_need_none)
{
    backend.kv.index = (struct index_shape){0};
    assert_int_equal(gpu_index_bytes(&backend.kv), 0);
    assert_int_equal(gpu_selection_bytes(&backend.kv), 0);
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    assert_int_equal(allocated_bytes, 0);
    backend.current.longest.n_positions = 1000;
    assert_false(gpu_selects(&backend));
}

TEST(long_contexts_are_scored_some_rows_at_a_time)
{
    backend.kv.n_pages = 1 << 16; // 4 MiB of scores a row
    backend.kv.n_rows_most = 100;
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    assert_int_equal(backend.sparse.scores.size_bytes, 128 << 20);
    gpu_selection_finish(&backend);
    backend.kv.n_pages = 1 << 22; // 256 MiB: one row still
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    assert_int_equal(backend.sparse.scores.size_bytes, 256 << 20);
}

TEST(what_does_not_fit_is_refused)
{
    backend.kv.index.key_dim = SELECTION_DIM_MAX + 1;
    assert_int_equal(gpu_selection_create(&backend, &backend.kv, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    backend.kv.index.key_dim--;
    fails_at_bytes = gpu_index_bytes(&backend.kv) + 1;
    assert_int_equal(gpu_selection_create(&backend, &backend.kv, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
}

TEST(a_row_selects_where_it_sees_more_positions_than_it_may_attend_to)
{
    backend.current.longest.n_positions = SELECTED;
    assert_false(gpu_selects(&backend));
    backend.current.longest.n_positions = SELECTED + 1;
    assert_true(gpu_selects(&backend));
}

TEST(a_page_of_the_indexer_is_copied_in_every_layer_that_has_one)
{
    static const struct page_copy copies[] = {{.from = 3, .to = 7}};
    gpu_copy_index_pages(&backend, &(struct step){.n_copies = 1, .copies = copies}); // there are no pages
    assert_int_equal(copied_bytes[0], 0);
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    gpu_copy_index_pages(&backend, &(struct step){.n_copies = 1, .copies = copies});
    assert_int_equal(copied_bytes[0], 2);
    assert_int_equal(copied_bytes[1], PAGE * INDEX_DIM * sizeof(float));
    assert_int_equal(copied_bytes[2], PAGES * copied_bytes[1]);
}

// Scores have the step's padded length, at most the length of the longest sequence.
TEST(rows_are_scored_and_attend_in_runs)
{
    static float items[4];
    struct matrix queries = {.device = {items, 100}, .n_cols = INDEX_HEADS * INDEX_DIM},
                  weights = {.device = {items, 8}, .n_cols = INDEX_HEADS};
    backend.kv.n_positions_most = 3000;
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    backend.current.padded = (struct upload_counts){.n_rows = 500, .n_sequences = 7};
    backend.current.longest.n_positions_padded = 4096;
    backend.sparse.scores.size_bytes = 200 * 3008 * sizeof(float);
    gpu_select_positions(&backend.base, 1, &queries, &weights);
    assert_int_equal(launched.n_selections, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(launched.first[i], 200 * i);
        assert_int_equal(launched.n[i], i < 2 ? 200 : 100);
    }
    assert_int_equal(launched.selection.n_scores, 3008);
    assert_int_equal(launched.selection.layer, 1);
    assert_int_equal(launched.selection.rows.n_sequences, 7);

    struct attention_launch attention = {.pages = {.n_layers = 3,
                                                   .n_pages = PAGES,
                                                   .n_kv_heads = 1,
                                                   .key_dim = KEY_DIM,
                                                   .value_dim = VALUE_DIM,
                                                   .page_positions = PAGE,
                                                   .type = KV_F16},
                                         .layer = 2,
                                         .extent = {.n_sequences = 7, .n_rows = 500, .n_rows_most = 400},
                                         .n_heads = HEADS,
                                         .shared.n_tiles = 3,
                                         .assigned.n_runs = 4,
                                         .partials.size_bytes = 99};
    backend.sparse.copies.size_bytes = 300 * 3 * (2 * 1024 + 2 * 512) + 1;
    gpu_attend_selected(&backend, attention);
    assert_int_equal(launched.n_rests, 1);
    assert_int_equal(launched.n_gathers, 2);
    assert_int_equal(launched.n_attentions, 3);
    assert_int_equal(launched.first[1], 300);
    assert_int_equal(launched.n[1], 200);
    assert_int_equal(launched.gather.layer, 2);
    assert_int_equal(launched.gather.n_pages_each, 3);
    // Rows that see all positions: their sequences may now count as small, without a place in the scratch.
    const struct attention_launch *rest = &launched.attention[0], *last = &launched.attention[1];
    assert_int_equal(rest->layer, 2);
    assert_ptr_equal(rest->sequences, backend.sparse.places.memory);
    assert_int_equal(rest->shared.n_tiles + rest->assigned.n_runs, 0);
    assert_int_equal(rest->extent.n_part_rows, 500);
    assert_int_equal(rest->partials.size_bytes, 0);
    assert_int_equal(last->layer, 0);
    assert_int_equal(last->pages.n_pages, 300 * 3);
    assert_int_equal(last->extent.n_sequences, 200);
    assert_int_equal(last->extent.n_rows_most, 1);
    assert_int_equal(last->extent.n_positions_most, SELECTED);
    assert_int_equal(last->partials.size_bytes, 99);
    assert_ptr_equal(last->sequences, launched.gather.sequences);
    assert_ptr_equal(last->tables, launched.gather.tables);
}

TEST(keys_are_stored_unless_the_step_failed_or_is_replayed)
{
    struct matrix key = {.n_cols = INDEX_DIM}, queries = {0}, weights = {0};
    assert_ok(gpu_selection_create(&backend, &backend.kv, &error), &error);
    gpu_index_store(&backend.base, 1, &key);
    assert_int_equal(launched.n_stores, 1);
    enqueues = false;
    gpu_index_store(&backend.base, 1, &key);
    gpu_select_positions(&backend.base, 1, &queries, &weights);
    assert_int_equal(launched.n_stores, 1);
    assert_int_equal(launched.n_selections, 0);
}

TEST_FIXTURE(begin, end);
