// What the CUDA backend decides about attention before its kernels run (gpu/attention.c): the scratch, the
// segments of shared prefixes that fit it, the runs, which rotations the launch that stores keys takes along,
// and the arguments of both launches. The launches and the searches are this program's.
#include "gpu/state.h"
#include "tests/support/cases.h"

enum {
    HEADS = 8,
    KV_HEADS = 2,
    KEY_DIM = 32,
    VALUE_DIM = 60, // a partial result of 256 bytes
    LAYERS = 3,
    PAGES = 10,
    PAGE = 64,
    SHARED_BYTES = 5000,
    MULTIPROCESSORS = 7,
    PART_BYTES = 256,
    BLOCK_BYTES = 1024 + 4 * 512, // of 16 positions of a head, in binary16
};

static struct gpu_backend backend;
static struct device_facts facts;
static float rows_of_k[4], rows_of_v[4], rows_of_q[4], rows_of_out[4];
static struct matrix k = {.device = {rows_of_k, 65}, .n_cols = KV_HEADS * KEY_DIM},
                     v = {.device = {rows_of_v, 121}, .n_cols = KV_HEADS * VALUE_DIM},
                     q = {.device = {rows_of_q, 257}, .n_cols = HEADS * KEY_DIM},
                     out = {.device = {rows_of_out, 481}, .n_cols = HEADS * VALUE_DIM};

// ---- the backend's other files ----

static bool enqueues;

bool gpu_enqueues(struct gpu_backend *of)
{
    assert_ptr_equal(of, &backend);
    return enqueues;
}

enum status gpu_scratch_reserve(struct gpu_backend *of, struct device_scratch *scratch, uint64_t size_bytes,
                                const char *what, struct error *error)
{
    scratch->size_bytes = size_bytes;
    return STATUS_OK;
}

const struct device_facts *device_facts(const struct device *device)
{
    return &facts;
}

static struct {
    const unsigned char *to, *from;
    size_t n_rows, row_bytes, stride_bytes;
} copied[2];
static int n_copied;

void device_copy_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                      size_t stride_bytes)
{
    assert_ptr_equal(device, &facts);
    assert_in_range(n_copied, 0, 1);
    copied[n_copied].to = to;
    copied[n_copied].from = from;
    copied[n_copied].n_rows = n_rows;
    copied[n_copied].row_bytes = row_bytes;
    copied[n_copied++].stride_bytes = stride_bytes;
}

// ---- searches ----

static void check_pages(const struct attention_pages *pages)
{
    assert_int_equal(pages->n_layers, LAYERS);
    assert_int_equal(pages->n_pages, PAGES);
    assert_int_equal(pages->n_kv_heads, KV_HEADS);
    assert_int_equal(pages->key_dim, KEY_DIM);
    assert_int_equal(pages->value_dim, VALUE_DIM);
    assert_int_equal(pages->page_positions, PAGE);
    assert_int_equal(pages->type, KV_F16);
}

int32_t attention_shared_queries(const struct attention_pages *pages, uint64_t shared_bytes_max)
{
    check_pages(pages);
    assert_int_equal(shared_bytes_max, SHARED_BYTES);
    return 48;
}

int32_t attention_small_queries(const struct attention_pages *pages, int32_t n_heads,
                                uint64_t shared_bytes_max)
{
    check_pages(pages);
    assert_int_equal(n_heads, HEADS);
    assert_int_equal(shared_bytes_max, SHARED_BYTES);
    return 16;
}

static struct {
    int32_t n_heads, value_dim, n_rows;
    int64_t n_positions;
    int n;
} scratch;

uint64_t attention_scratch_bytes(int32_t n_heads, int32_t value_dim, int32_t n_rows, int64_t n_positions_most)
{
    scratch.n_heads = n_heads;
    scratch.value_dim = value_dim;
    scratch.n_rows = n_rows;
    scratch.n_positions = n_positions_most;
    scratch.n++;
    return 1234;
}

static struct shared_rules rules_found;
static const struct step *step_found;
static int64_t reads_saved;

void shared_prefix_find(struct shared_prefix *shared, const struct step *step,
                        const struct shared_rules *rules)
{
    assert_ptr_equal(shared, &backend.current.shared);
    rules_found = *rules;
    step_found = step;
    shared->n_reads_saved = reads_saved;
}

static void check_device(const struct attention_device *device)
{
    assert_int_equal(device->n_multiprocessors, MULTIPROCESSORS);
    assert_int_equal(device->shared_bytes_max, SHARED_BYTES);
}

static int32_t n_runs_wanted;

int32_t attention_assign_runs(const struct attention_pages *pages, int32_t n_heads,
                              const struct attention_device *device)
{
    check_pages(pages);
    check_device(device);
    assert_int_equal(n_heads, HEADS);
    return n_runs_wanted;
}

int32_t attention_assign_arrivals(const struct attention_pages *pages, int32_t n_heads,
                                  const struct attention_device *device, int32_t n_sequences)
{
    check_pages(pages);
    check_device(device);
    assert_int_equal(n_heads, HEADS);
    return 100 + n_sequences;
}

// ---- launches ----

static struct attention_store stored;
static struct attention_launch attended;
static int n_stored, n_attended;

void launch_attention_store(void *stream, const struct attention_store *store)
{
    assert_ptr_equal(stream, &backend);
    stored = *store;
    n_stored++;
}

void launch_attention(void *stream, const struct attention_launch *attention)
{
    assert_ptr_equal(stream, &backend);
    attended = *attention;
    n_attended++;
}

static bool selects;
static int n_selecting, n_index_copies;

bool gpu_selects(const struct gpu_backend *of)
{
    return selects;
}

void gpu_attend_selected(struct gpu_backend *of, struct attention_launch launch)
{
    attended = launch;
    n_selecting++;
}

uint64_t gpu_index_bytes(const struct kv_shape *kv)
{
    return (uint64_t)kv->n_pages * (uint64_t)kv->index.key_dim;
}

void gpu_copy_index_pages(struct gpu_backend *of, const struct step *step)
{
    n_index_copies++;
}

enum status gpu_selection_create(struct gpu_backend *of, const struct kv_shape *kv, struct error *error)
{
    return STATUS_OK;
}

static int begin(void **state)
{
    static unsigned char pages[16], upload[256], partials[16];
    enqueues = true;
    n_stored = n_attended = n_copied = scratch.n = n_selecting = n_index_copies = 0;
    selects = false;
    n_runs_wanted = 14;
    reads_saved = 0;
    step_found = NULL;
    facts = (struct device_facts){.shared_bytes_max = SHARED_BYTES, .n_multiprocessors = MULTIPROCESSORS};
    memset(&backend, 0, sizeof backend);
    backend.stream = &backend;
    backend.device = (struct device *)&facts;
    backend.kv = (struct kv_shape){LAYERS, KV_HEADS, KEY_DIM, VALUE_DIM, PAGE, PAGES, KV_F16, HEADS, 0};
    backend.pages = (struct device_scratch){pages, sizeof pages};
    backend.memory.upload.memory = upload;
    backend.memory.attention = (struct device_scratch){partials, 0};
    backend.capacity.n_rows_least = 5;
    backend.current.padded = (struct upload_counts){.n_rows = 4, .n_sequences = 3, .n_outputs = 2};
    backend.current.layout = (struct upload_layout){.positions = 16,
                                                    .row_sequences = 32,
                                                    .sequences = 48,
                                                    .shared = {.tiles = 64, .members = 80},
                                                    .runs = 96,
                                                    .arrivals = 112};
    backend.current.longest.n_rows = 2;
    backend.current.longest.n_positions_padded = 512;
    backend.current.n_part_rows = 3;
    return 0;
}

// ---- scratch ----

TEST(the_scratch_is_for_the_positions_of_all_pages_or_of_the_longest_sequence)
{
    static const struct {
        int32_t n_positions_most;
        int64_t expected;
    } cases[] = {{0, 640}, {1, 1}, {639, 639}, {640, 640}, {641, 640}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        backend.kv.n_positions_most = cases[i].n_positions_most;
        assert_int_equal(gpu_attention_scratch_bytes(&backend), 1234);
        assert_int_equal(scratch.n_positions, cases[i].expected);
        assert_int_equal(scratch.n_heads, HEADS);
        assert_int_equal(scratch.value_dim, VALUE_DIM);
        assert_int_equal(scratch.n_rows, 5);
    }
    // More positions than 32 bits count.
    backend.kv.n_positions_most = 0;
    backend.kv.n_pages = 1 << 30;
    assert_int_equal(gpu_attention_scratch_bytes(&backend), 1234);
    assert_int_equal(scratch.n_positions, INT64_C(64) << 30);
    scratch.n = 0;
    backend.kv.n_heads = 0; // not known: neither shared prefixes nor split-KV
    assert_int_equal(gpu_attention_scratch_bytes(&backend), 0);
    assert_int_equal(scratch.n, 0);
}

// ---- copies of pages ----

TEST(a_page_is_copied_in_every_layer)
{
    static unsigned char pages[LAYERS * PAGES * 7];
    static const struct page_copy copies[] = {{.from = 0, .to = 9}, {.from = 4, .to = 3}};
    struct step step = {.copies = copies, .n_copies = 2};
    backend.pages = (struct device_scratch){pages, sizeof pages};
    gpu_copy_pages(&backend, &step);
    assert_int_equal(n_copied, 2);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(copied[i].from, pages + (ptrdiff_t)copies[i].from * 7);
        assert_ptr_equal(copied[i].to, pages + (ptrdiff_t)copies[i].to * 7);
        assert_int_equal(copied[i].n_rows, LAYERS);
        assert_int_equal(copied[i].row_bytes, 7);
        assert_int_equal(copied[i].stride_bytes, PAGES * 7);
    }
    assert_int_equal(n_index_copies, 1);
    backend.pages.memory = NULL; // none yet
    gpu_copy_pages(&backend, &step);
    assert_int_equal(n_copied, 2);
}

// A layer that reads another's keys and values has no pages.
TEST(a_page_is_copied_in_each_layer_with_pages_of_its_own)
{
    enum { FIRST = 2 * PAGE / 16 * (2 * 1024 + 2 * 512), LAST = PAGE / 16 * (1024 + 512) };
    static const struct layer_heads layers[3] = {{2, 64, 32, 8}, {0, 64, 32, 8}, {1, 32, 16, 8}};
    static const struct page_copy copies[] = {{.from = 4, .to = 3}};
    struct step step = {.copies = copies, .n_copies = 1};
    unsigned char *pages = malloc((size_t)PAGES * (FIRST + LAST));
    backend.pages = (struct device_scratch){pages, (size_t)PAGES * (FIRST + LAST)};
    backend.kv.n_layers = 3;
    backend.kv.layers = layers;
    assert_int_equal(gpu_page_bytes(&backend.base, &backend.kv), FIRST + LAST);
    gpu_copy_pages(&backend, &step);
    assert_int_equal(n_copied, 2);
    for (int i = 0; i < 2; i++) {
        size_t page_bytes = i ? LAST : FIRST;
        const unsigned char *layer = pages + (i ? PAGES * (size_t)FIRST : 0);
        assert_ptr_equal(copied[i].from, layer + 4 * page_bytes);
        assert_ptr_equal(copied[i].to, layer + 3 * page_bytes);
        assert_int_equal(copied[i].n_rows, 1);
        assert_int_equal(copied[i].row_bytes, page_bytes);
    }
    backend.pages.memory = NULL;
    free(pages);
}

// ---- shared prefixes ----

// A decode token, a chunk that fits the strip of one (4 rows of 4 heads a key), one row more; and one that is
// not the step's.
static const struct step_sequence sequences[4] = {
    {.n_tokens = 1}, {.n_tokens = 4}, {.n_tokens = 5}, {.n_tokens = 1}};
static const struct step step = {.n_tokens = 10, .n_sequences = 3, .sequences = sequences};

TEST(shared_segments_are_as_many_as_the_step_has_or_the_scratch_holds)
{
    enum { ROW_BYTES = HEADS * PART_BYTES };
    static const struct {
        bool decoding;
        int32_t n_positions;
        size_t scratch_bytes;
        int32_t expected;
    } cases[] = {
        {true, 1024, 6 * 4 * ROW_BYTES, 4},     // all of them
        {true, 1025, 6 * 5 * ROW_BYTES, 5},     // one that has begun
        {true, 1025, 6 * 5 * ROW_BYTES - 1, 4}, // of 6 rows, the scratch lacks a byte
        {true, 1025, 6 * ROW_BYTES - 1, 0},     // none fits
        {false, 2048, 5 * 3 * ROW_BYTES, 3},    // rows of the two small sequences alone
        {false, 2048, 5 * 3 * ROW_BYTES - 1, 2}, {false, 256, 5 * 3 * ROW_BYTES, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        backend.current.decoding = cases[i].decoding;
        backend.current.kind.n_rows = 6;
        backend.current.kind.n_positions = cases[i].n_positions;
        backend.memory.attention.size_bytes = cases[i].scratch_bytes;
        gpu_find_shared(&backend, &step);
        assert_ptr_equal(step_found, &step);
        assert_int_equal(rules_found.n_segments_most, cases[i].expected);
        assert_int_equal(backend.current.n_shared_segments, cases[i].expected);
        assert_int_equal(rules_found.page_positions, PAGE);
        assert_int_equal(rules_found.n_heads, HEADS);
        assert_int_equal(rules_found.n_kv_heads, KV_HEADS);
        assert_int_equal(rules_found.tile_queries, 48);
        assert_int_equal(rules_found.small_queries, 16);
    }
}

TEST(without_small_rows_no_segment_is_shared)
{
    const struct step chunks = {.n_tokens = 5, .n_sequences = 1, .sequences = &sequences[2]};
    backend.current.kind.n_positions = 2048;
    backend.memory.attention.size_bytes = 1 << 20;
    gpu_find_shared(&backend, &chunks);
    assert_int_equal(rules_found.n_segments_most, 0);
}

TEST(prefixes_are_looked_for_where_there_are_pages_and_heads)
{
    void *memory = backend.pages.memory;
    backend.pages.memory = NULL;
    gpu_find_shared(&backend, &step);
    assert_null(step_found);
    backend.pages.memory = memory;
    backend.kv.n_heads = 0;
    gpu_find_shared(&backend, &step);
    assert_null(step_found);
    backend.kv.n_heads = HEADS;
    gpu_find_shared(&backend, &step);
    assert_ptr_equal(step_found, &step);
}

TEST(bytes_that_are_not_read_again_are_counted)
{
    const int64_t segment_bytes = INT64_C(16) * BLOCK_BYTES; // of 256 positions of a head
    reads_saved = 5;
    gpu_find_shared(&backend, &step);
    assert_int_equal(backend.figures.shared_bytes_saved, 5 * KV_HEADS * LAYERS * segment_bytes);
    reads_saved = 2;
    gpu_find_shared(&backend, &step);
    assert_int_equal(backend.figures.shared_bytes_saved, 7 * KV_HEADS * LAYERS * segment_bytes);
}

// ---- runs ----

TEST(sequences_are_cut_where_the_scratch_holds_all_parts)
{
    const size_t parts_bytes = (size_t)3 * HEADS * PART_BYTES * 2; // 3 rows, 512 positions
    for (int fits = 0; fits < 2; fits++) {
        backend.memory.attention.size_bytes = parts_bytes - !fits;
        gpu_size_runs(&backend);
        assert_int_equal(backend.current.padded.n_runs, 14);
        assert_int_equal(backend.current.padded.n_arrivals, 103);
        assert_int_equal(backend.current.assignment.n_heads, HEADS);
        assert_int_equal(backend.current.assignment.n_kv_heads, KV_HEADS);
        assert_int_equal(backend.current.assignment.n_runs, 14);
        assert_int_equal(backend.current.assignment.may_cut, fits);
    }
}

TEST(there_are_no_runs_without_pages_or_heads)
{
    void *memory = backend.pages.memory;
    backend.pages.memory = NULL;
    gpu_size_runs(&backend);
    assert_int_equal(backend.current.padded.n_runs, 0);
    backend.pages.memory = memory;
    backend.kv.n_heads = 0;
    gpu_size_runs(&backend);
    assert_int_equal(backend.current.padded.n_runs, 0);
    assert_int_equal(backend.current.padded.n_arrivals, 0);
}

// ---- storing ----

static const float angles[4], other_angles[4];

static struct pending_rope rope_of(struct matrix *x, int32_t n_heads, int32_t n_rows)
{
    return (struct pending_rope){
        .x = x, .n_rows = n_rows, .n_heads = n_heads, .head_dim = KEY_DIM, .rotation = {angles, 16, true}};
}

static void wait_for_ropes(struct pending_rope first, struct pending_rope second)
{
    backend.current.ropes = (struct pending_ropes){{first, second}, 2};
}

TEST(keys_are_stored_by_the_step_s_rows_and_block_tables)
{
    const unsigned char *upload = backend.memory.upload.memory;
    gpu_kv_store(&backend.base, 2, &k, &v);
    assert_int_equal(n_stored, 1);
    check_pages(&stored.pages);
    assert_ptr_equal(stored.pages.memory, backend.pages.memory);
    assert_int_equal(stored.layer, 2);
    assert_int_equal(stored.n_rows, 4);
    assert_ptr_equal(stored.k, rows_of_k);
    assert_ptr_equal(stored.v, rows_of_v);
    assert_int_equal(stored.k_stride, 65);
    assert_int_equal(stored.v_stride, 121);
    assert_ptr_equal(stored.sequences, upload + 48);
    assert_ptr_equal(stored.row_sequences, upload + 32);
    assert_ptr_equal(stored.tables, upload);
    assert_null(stored.rotation.cos_sin);
    assert_null(stored.queries.items);
}

TEST(the_launch_rotates_keys_and_queries_that_wait)
{
    struct pending_rope of_q = rope_of(&q, HEADS, 4);
    of_q.rotation = (struct attention_rotation){other_angles, 8, false};
    wait_for_ropes(of_q, rope_of(&k, KV_HEADS, 4));
    gpu_kv_store(&backend.base, 0, &k, &v);
    assert_int_equal(backend.current.ropes.n, 0);
    assert_ptr_equal(stored.rotation.cos_sin, angles);
    assert_int_equal(stored.rotation.n_dims, 16);
    assert_true(stored.rotation.halves);
    assert_ptr_equal(stored.queries.items, rows_of_q);
    assert_int_equal(stored.queries.stride, 257);
    assert_int_equal(stored.queries.n_heads, HEADS);
    assert_int_equal(stored.queries.head_dim, KEY_DIM);
    assert_ptr_equal(stored.queries.rotation.cos_sin, other_angles);
    assert_int_equal(stored.queries.rotation.n_dims, 8);
}

static void check_left(const struct pending_rope *expected)
{
    gpu_kv_store(&backend.base, 0, &k, &v);
    assert_int_equal(backend.current.ropes.n, 1);
    const struct pending_rope *left = &backend.current.ropes.ropes[0];
    assert_ptr_equal(left->x, expected->x);
    assert_int_equal(left->n_rows, expected->n_rows);
    assert_int_equal(left->n_heads, expected->n_heads);
    assert_int_equal(left->head_dim, expected->head_dim);
}

TEST(other_rotations_wait_on)
{
    struct pending_rope keys = rope_of(&k, KV_HEADS, 4), queries = rope_of(&q, HEADS, 4), left;
    left = rope_of(&q, HEADS, 3); // of other rows
    wait_for_ropes(left, keys);
    check_left(&left);
    assert_null(stored.queries.items);
    assert_ptr_equal(stored.rotation.cos_sin, angles);
    left = rope_of(&k, KV_HEADS, 3);
    wait_for_ropes(queries, left);
    check_left(&left);
    assert_ptr_equal(stored.queries.items, rows_of_q);
    assert_null(stored.rotation.cos_sin);
    left = rope_of(&k, 1, 4); // of some of the keys' heads
    wait_for_ropes(queries, left);
    check_left(&left);
    assert_null(stored.rotation.cos_sin);
    left = rope_of(&k, KV_HEADS, 4);
    left.head_dim = KEY_DIM / 2;
    wait_for_ropes(queries, left);
    check_left(&left);
    assert_null(stored.rotation.cos_sin);
    left = rope_of(&v, HEADS, 4); // of a second matrix
    wait_for_ropes(queries, left);
    check_left(&left);
    assert_ptr_equal(stored.queries.items, rows_of_q);
}

// ---- attention ----

// Attention waits for the operation that follows; here none does.
static void flush(void)
{
    if (backend.current.pending_rows.out)
        launch_attention(backend.stream, &backend.current.pending_rows.attention);
    backend.current.pending_rows.out = NULL;
}

static void attend(int32_t n_heads)
{
    struct attention_parameters parameters = {
        .layer = 1, .n_heads = n_heads, .scale = 0.5f, .softcap = 30, .window = 77, .alibi_bias_max = 8};
    gpu_attend(&backend.base, &out, &q, &parameters);
    flush();
}

TEST(attention_is_launched_with_the_step_s_sequences)
{
    const unsigned char *upload = backend.memory.upload.memory;
    backend.memory.attention.size_bytes = 999;
    attend(HEADS);
    assert_int_equal(n_attended, 1);
    check_pages(&attended.pages);
    check_device(&attended.device);
    assert_ptr_equal(attended.pages.memory, backend.pages.memory);
    assert_int_equal(attended.layer, 1);
    assert_ptr_equal(attended.sequences, upload + 48);
    assert_ptr_equal(attended.tables, upload);
    assert_ptr_equal(attended.shared.positions, upload + 16);
    assert_int_equal(attended.extent.n_sequences, 3);
    assert_int_equal(attended.extent.n_rows, 4);
    assert_int_equal(attended.extent.n_rows_most, 2);
    assert_int_equal(attended.extent.n_part_rows, 3);
    assert_int_equal(attended.extent.n_positions_most, 512);
    assert_ptr_equal(attended.q, rows_of_q);
    assert_ptr_equal(attended.out, rows_of_out);
    assert_int_equal(attended.strides.q, 257);
    assert_int_equal(attended.strides.out, 481);
    assert_int_equal(attended.n_heads, HEADS);
    assert_true(attended.scoring.scale == 0.5f && attended.scoring.softcap == 30.0f &&
                attended.scoring.alibi_bias_max == 8.0f);
    assert_int_equal(attended.scoring.window, 77);
    assert_null(attended.scoring.sinks);
    assert_ptr_equal(attended.partials.memory, backend.memory.attention.memory);
    assert_int_equal(attended.partials.size_bytes, 999);
}

TEST(sinks_are_one_item_a_head)
{
    static float items[HEADS];
    const struct weight sinks = {.items = items, .n_items = HEADS};
    struct attention_parameters parameters = {.n_heads = HEADS, .sinks = &sinks};
    gpu_attend(&backend.base, &out, &q, &parameters);
    flush();
    assert_ptr_equal(attended.scoring.sinks, items);
}

TEST(segments_are_shared_where_there_are_tiles)
{
    const unsigned char *upload = backend.memory.upload.memory;
    backend.current.n_shared_segments = 6;
    attend(HEADS);
    assert_int_equal(attended.shared.n_tiles, 0);
    assert_int_equal(attended.shared.n_segments, 0);
    backend.current.padded.n_shared_tiles = 4;
    attend(HEADS);
    assert_int_equal(attended.shared.n_tiles, 4);
    assert_int_equal(attended.shared.n_segments, 6);
    assert_ptr_equal(attended.shared.tiles, upload + 64);
    assert_ptr_equal(attended.shared.members, upload + 80);
}

TEST(runs_are_of_layers_with_the_assigned_heads)
{
    const unsigned char *upload = backend.memory.upload.memory;
    attend(HEADS); // no runs
    assert_null(attended.assigned.runs);
    assert_null(attended.assigned.arrivals);
    backend.current.padded.n_runs = 14;
    attend(HEADS);
    assert_int_equal(attended.assigned.n_runs, 14);
    assert_ptr_equal(attended.assigned.runs, upload + 96);
    assert_ptr_equal(attended.assigned.arrivals, upload + 112);
    q.n_cols = HEADS / 2 * KEY_DIM;
    out.n_cols = HEADS / 2 * VALUE_DIM;
    attend(HEADS / 2);
    q.n_cols = HEADS * KEY_DIM;
    out.n_cols = HEADS * VALUE_DIM;
    assert_int_equal(attended.n_heads, HEADS / 2);
    assert_int_equal(attended.assigned.n_runs, 0);
    assert_null(attended.assigned.runs);
}

TEST(sparse_attention_is_launched_at_once_where_a_row_selects)
{
    struct attention_parameters parameters = {.layer = 1, .n_heads = HEADS, .selects = true};
    for (int i = 0; i < 3; i++) {
        selects = i > 0;
        parameters.selects = i < 2;
        gpu_attend(&backend.base, &out, &q, &parameters);
        assert_int_equal(n_selecting, i > 0);
        assert_true(i == 1 ? !backend.current.pending_rows.out : backend.current.pending_rows.out == &out);
        flush();
        assert_int_equal(attended.layer, 1);
    }
}

TEST(a_page_includes_the_indexer_s)
{
    uint64_t bytes = gpu_page_bytes(&backend.base, &backend.kv);
    backend.kv.index.key_dim = 24;
    assert_int_equal(gpu_page_bytes(&backend.base, &backend.kv), bytes + 24);
}

TEST(a_step_that_failed_or_is_replayed_attends_to_nothing)
{
    enqueues = false;
    wait_for_ropes(rope_of(&q, HEADS, 4), rope_of(&k, KV_HEADS, 4));
    gpu_kv_store(&backend.base, 0, &k, &v);
    attend(HEADS);
    assert_int_equal(n_stored, 0);
    assert_int_equal(n_attended, 0);
    assert_int_equal(backend.current.ropes.n, 0); // the graph has them
}

TEST_FIXTURE(begin, NULL);
