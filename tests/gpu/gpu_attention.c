// Attention on the device (or emulated) against double precision, and that neither other sequences, nor how a
// prompt is cut, nor how split-KV is used, nor which are computed for several sequences at once shows in a
// row's bytes.
#include "engine/backend.h"
#include "engine/file/dequantize.h"
#include "gpu/attention_assign.h"
#include "gpu/device.h"
#include "gpu/emulation/emulate.h"
#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_rows.h"
#include "gpu/shared_prefix.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/wide.h"

#include <math.h>

struct device_setting {
    const char *name;
    int32_t n_heads, n_kv_heads, key_dim, value_dim, page_positions, window;
    float softcap, alibi;
    bool sinks;
    enum kv_type type;
    int32_t chunk;
};

static const struct device_setting settings[] = {
    {"four heads a key, 64 dimensions", 8, 2, 64, 64, 16, 0, 0, 0, false},
    {"128 dimensions", 4, 2, 128, 128, 32, 0, 0, 0, false},
    {"256 dimensions, soft cap", 2, 1, 256, 256, 16, 0, 20, 0, false},
    {"one head a key, 80 dimensions", 3, 3, 80, 80, 16, 0, 0, 0, false},
    {"seventeen heads one key", 17, 1, 32, 32, 64, 0, 0, 0, false},
    {"keys wider than values, window", 6, 2, 96, 48, 16, 100, 0, 0, false},
    {"window of one", 2, 1, 32, 32, 16, 1, 0, 0, false},
    {"window longer than a segment, sinks", 4, 1, 32, 32, 16, 300, 0, 0, true},
    {"linear biases", 12, 12, 32, 32, 16, 0, 0, 8, false},
    {"odd dimensions, sinks", 5, 1, 13, 21, 16, 0, 0, 0, true},
    {"latents: 576 and 512 dimensions", 6, 1, 576, 512, 16, 0, 0, 0, false},
    {"bytes, 128 dimensions", 4, 1, 128, 128, 32, 0, 0, 0, false, KV_Q8_0},
    {"bytes, odd dimensions, window", 6, 2, 41, 21, 16, 300, 0, 0, true, KV_Q8_0},
    {"chunks shorter than a segment", 4, 1, 32, 32, 16, 0, 0, 0, false, .chunk = 100},
    {"chunks longer than a segment, sinks", 4, 2, 64, 64, 32, 0, 0, 0, true, .chunk = 300},
};

// Positions of each sequence, and how many of the last are computed: within one segment, over two, over
// three. The last four have the first two segments' pages in common with the first.
enum {
    N_SETTINGS = sizeof settings / sizeof *settings,
    N_SEQUENCES = 8,
    FIRST_SHARING = 4,
    N_SHARED = 2 * ATTENTION_SEGMENT,
    N_PAGES_SPARE = 3,
    LAYERS = 2,
    LAYER = 1,
    TABLE_MAX = 512,
};
static const int32_t lengths[N_SEQUENCES] = {514, 257, 33, 1, 514, 520, 600, 770};
static int32_t wanted[N_SEQUENCES] = {5, 2, 33, 1, 1, 2, 1, 1};
enum { PROMPT = 2, PROMPT_WANTED_SHORT = 18 }; // of a short run: more than a strip of queries all the same

static struct device *device;
static bool is_short; // emulated, without SHEAF_TEST_WIDE
static uint64_t seed;

static bool open_device(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK &&
                  device_load_kernels(device, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    return opened;
}

static float *random_floats(int64_t n, float size)
{
    float *items = malloc((size_t)n * sizeof *items);
    for (int64_t i = 0; i < n; i++)
        items[i] = size * random_float(&seed);
    return items;
}

static void wait_for_device(void)
{
    struct error error;
    assert_ok(device_wait(device, &error), &error);
}

static void *on_device(const void *items, size_t size)
{
    void *memory = device_allocate(device, size), *pinned = device_pin(device, size);
    assert_non_null(memory);
    assert_non_null(pinned);
    memcpy(pinned, items, size);
    device_upload(device, memory, pinned, size);
    wait_for_device();
    device_unpin(device, pinned);
    return memory;
}

// One setting's inputs and its pages on the device.
struct device_problem {
    struct device_setting setting;
    float *keys[N_SEQUENCES], *values[N_SEQUENCES], *queries[N_SEQUENCES], *sinks;
    struct attention_pages pages;
    int32_t host_tables[TABLE_MAX], *tables, first_pages[N_SEQUENCES];
    float *device_sinks;
};

static int32_t key_floats(const struct device_setting *setting)
{
    return setting->n_kv_heads * setting->key_dim;
}

static int32_t value_floats(const struct device_setting *setting)
{
    return setting->n_kv_heads * setting->value_dim;
}

// Pages in scattered order, which held other things before; every sequence's positions are stored in two runs
// or more.
static void pages_fill(struct device_problem *problem, int32_t most_at_once)
{
    const struct device_setting *setting = &problem->setting;
    int32_t n_pages = N_PAGES_SPARE, next = 0, *tables = problem->host_tables;
    for (int s = 0; s < N_SEQUENCES; s++)
        n_pages += (lengths[s] + setting->page_positions - 1) / setting->page_positions;
    assert_true(n_pages <= TABLE_MAX);
    problem->pages = (struct attention_pages){NULL,
                                              LAYERS,
                                              n_pages,
                                              setting->n_kv_heads,
                                              setting->key_dim,
                                              setting->value_dim,
                                              setting->page_positions,
                                              setting->type};
    // NaNs when emulated
    problem->pages.memory = device_allocate(device, attention_pages_bytes(&problem->pages));
    for (int s = 0; s < N_SEQUENCES; s++) {
        problem->first_pages[s] = next;
        for (int32_t i = 0; i * setting->page_positions < lengths[s]; i++, next++)
            tables[next] =
                s >= FIRST_SHARING && i * setting->page_positions < N_SHARED ? tables[i] : n_pages - 1 - next;
    }
    problem->tables = on_device(tables, TABLE_MAX * sizeof *tables);
    for (int s = 0; s < N_SEQUENCES; s++)
        for (int32_t begin = s < FIRST_SHARING ? 0 : N_SHARED, end; begin < lengths[s]; begin = end) {
            end = begin + (lengths[s] - begin) / 3 + 1;
            end = end - begin < most_at_once ? end : begin + most_at_once;
            struct attention_sequence sequence = {0, end - begin, begin, problem->first_pages[s]};
            int32_t *rows = calloc((size_t)(end - begin), sizeof *rows);
            struct attention_sequence *device_sequence = on_device(&sequence, sizeof sequence);
            int32_t *device_rows = on_device(rows, (size_t)(end - begin) * sizeof *rows);
            float *k = on_device(problem->keys[s] + (int64_t)begin * key_floats(setting),
                                 (size_t)((end - begin) * key_floats(setting)) * sizeof *k);
            float *v = on_device(problem->values[s] + (int64_t)begin * value_floats(setting),
                                 (size_t)((end - begin) * value_floats(setting)) * sizeof *v);
            struct attention_store store = {.pages = problem->pages,
                                            .layer = LAYER,
                                            .sequences = device_sequence,
                                            .row_sequences = device_rows,
                                            .tables = problem->tables,
                                            .n_rows = end - begin,
                                            .k = k,
                                            .v = v,
                                            .k_stride = key_floats(setting),
                                            .v_stride = value_floats(setting)};
            launch_attention_store(device_stream(device), &store);
            wait_for_device();
            device_free(device, device_sequence);
            device_free(device, device_rows);
            device_free(device, k);
            device_free(device, v);
            free(rows);
        }
}

static struct device_problem problem_make(const struct device_setting *setting, int32_t most_at_once)
{
    struct device_problem problem = {.setting = *setting};
    seed = 77;
    for (int s = 0; s < N_SEQUENCES; s++) {
        problem.keys[s] = random_floats((int64_t)lengths[s] * key_floats(setting), 1);
        problem.values[s] = random_floats((int64_t)lengths[s] * value_floats(setting), 1);
        problem.queries[s] = random_floats((int64_t)lengths[s] * setting->n_heads * setting->key_dim, 4);
    }
    for (int s = FIRST_SHARING; s < N_SEQUENCES; s++) {
        memcpy(problem.keys[s], problem.keys[0], (size_t)(N_SHARED * key_floats(setting)) * sizeof(float));
        memcpy(problem.values[s], problem.values[0],
               (size_t)(N_SHARED * value_floats(setting)) * sizeof(float));
    }
    problem.sinks = random_floats(setting->n_heads, 3);
    problem.device_sinks = on_device(problem.sinks, (size_t)setting->n_heads * sizeof(float));
    pages_fill(&problem, most_at_once);
    return problem;
}

static void problem_free(struct device_problem *problem)
{
    for (int s = 0; s < N_SEQUENCES; s++) {
        free(problem->keys[s]);
        free(problem->values[s]);
        free(problem->queries[s]);
    }
    free(problem->sinks);
    device_free(device, problem->device_sinks);
    device_free(device, problem->pages.memory);
    device_free(device, problem->tables);
}

// How a problem is computed: none of it may show in the result.
struct device_way {
    int32_t cut;           // rows of a sequence in one call
    bool together;         // all sequences in one call, with padding between them
    bool split_kv;         // segments may be split over blocks
    bool reverse;          // threads run from the last to the first
    bool shared;           // common segments are computed for all at once
    uint64_t shared_bytes; // shared memory a block may have; 0: plenty
    int32_t n_runs;        // runs of segments; 0: a block computes one sequence
    bool whole;            // without cuts
};

struct part { // of one call: which rows of which sequence
    int s;
    int32_t first, n;
};

static int n_tiles_seen; // shared ones, of all calls
static int n_cut_seen;   // sequences

// The prefix shared among the sequences of a call, which have every second place.
static void find_shared(const struct device_problem *problem, struct attention_sequence *sequences, int n,
                        uint64_t shared_bytes, struct shared_prefix *shared)
{
    const struct device_setting *setting = &problem->setting;
    struct step_sequence of_step[N_SEQUENCES];
    struct error error;
    struct step step = {.n_sequences = n, .sequences = of_step};
    for (int i = 0; i < n; i++) {
        const struct attention_sequence *sequence = &sequences[2 * i];
        of_step[i] = (struct step_sequence){.first_row = sequence->first_row,
                                            .n_tokens = sequence->n_rows,
                                            .position = sequence->position,
                                            .pages = problem->host_tables + sequence->first_page};
        step.n_tokens += sequence->n_rows;
    }
    struct shared_rules rules = {.page_positions = setting->page_positions,
                                 .n_heads = setting->n_heads,
                                 .n_kv_heads = setting->n_kv_heads,
                                 .tile_queries = attention_shared_queries(&problem->pages, shared_bytes),
                                 .small_queries =
                                     attention_small_queries(&problem->pages, setting->n_heads, shared_bytes),
                                 .n_segments_most = 8};
    assert_ok(shared_prefix_init(shared, N_SEQUENCES, 128, &error), &error);
    shared_prefix_find(shared, &step, &rules);
    for (int32_t i = 0; i < shared->n_tiles; i++)
        shared->tiles[i].first_page = sequences[2 * shared->tiles[i].first_page].first_page;
    for (int i = 0; i < n; i++) {
        sequences[2 * i].first_part = shared->first_parts[i];
        sequences[2 * i].n_shared = shared->n_shared[i];
    }
}

// Rows of one step as they come back, each to its sequence's place.
static void take_back(const struct part *parts, int n, const struct attention_sequence *sequences,
                      const float *rows, int64_t out_row, float *out)
{
    for (int i = 0; i < n; i++) {
        int64_t row = parts[i].first;
        for (int s = 0; s < parts[i].s; s++)
            row += wanted[s];
        memcpy(out + row * out_row, rows + sequences[2 * i].first_row * out_row,
               (size_t)(parts[i].n * out_row) * sizeof *out);
    }
}

// The rows of some parts, as a step has them.
struct device_rows {
    struct attention_sequence sequences[2 * N_SEQUENCES]; // every second one is padding
    int32_t n, n_most, n_positions_most, positions[128];
    float *q; // [n, n_heads * key_dim], freed by the caller
};

static void lay_out(const struct device_problem *problem, const struct part *parts, int n,
                    struct device_rows *rows)
{
    int64_t q_row = (int64_t)problem->setting.n_heads * problem->setting.key_dim;
    *rows = (struct device_rows){.q = malloc((size_t)(128 * q_row) * sizeof *rows->q)};
    for (int i = 0; i < n; i++) {
        int32_t position = lengths[parts[i].s] - wanted[parts[i].s] + parts[i].first,
                end = position + parts[i].n;
        rows->sequences[2 * i] =
            (struct attention_sequence){rows->n, parts[i].n, position, problem->first_pages[parts[i].s],
                                        rows->n, 0};
        for (int32_t j = 0; j < parts[i].n; j++)
            rows->positions[rows->n + j] = position + j;
        memcpy(rows->q + rows->n * q_row, problem->queries[parts[i].s] + position * q_row,
               (size_t)(parts[i].n * q_row) * sizeof *rows->q);
        rows->n += parts[i].n;
        rows->n_most = parts[i].n > rows->n_most ? parts[i].n : rows->n_most;
        rows->n_positions_most = end > rows->n_positions_most ? end : rows->n_positions_most;
    }
}

// Assigns the sequences of a call.
static void assign_runs(const struct device_problem *problem, struct attention_sequence *sequences, int n,
                        struct device_way way, struct attention_launch *call)
{
    struct attention_run runs[N_SEQUENCES * 4];
    int32_t arrivals[TABLE_MAX] = {0};
    struct attention_assign_rules rules = {problem->setting.n_heads, problem->setting.n_kv_heads, way.n_runs,
                                           !way.whole};
    assert_true(way.n_runs < N_SEQUENCES * 4);
    attention_assign(sequences, n, &rules, runs);
    for (int i = 0; i < n; i++) {
        n_cut_seen += sequences[i].n_runs > 1;
        assert_true(!way.whole || sequences[i].n_runs <= 1);
    }
    struct attention_device shape = {1, way.shared_bytes ? way.shared_bytes
                                                         : device_facts(device)->shared_bytes_max};
    int32_t n_arrivals = attention_assign_arrivals(&problem->pages, problem->setting.n_heads, &shape, n);
    assert_true(n_arrivals <= TABLE_MAX);
    call->assigned = (struct attention_assigned){on_device(runs, (size_t)(way.n_runs + 1) * sizeof *runs),
                                                 way.n_runs, on_device(arrivals, sizeof arrivals)};
}

static void *from_device(const void *memory, size_t size)
{
    void *items = malloc(size), *pinned = device_pin(device, size);
    device_download(device, pinned, memory, size);
    wait_for_device();
    memcpy(items, pinned, size);
    device_unpin(device, pinned);
    return items;
}

static struct activation_operand operand_make(enum activation_operand_form form, bool swizzled,
                                              int32_t n_rows, int32_t n_inputs)
{
    size_t bytes = activation_operand_bytes(n_rows, n_inputs), scale_bytes = (size_t)n_rows * sizeof(float);
    struct activation_operand operand = {
        form,    n_rows, n_inputs, device_allocate(device, bytes), device_allocate(device, scale_bytes),
        swizzled};
    assert_non_null(operand.items);
    assert_non_null(operand.scales);
    device_zero(device, operand.items, bytes);
    device_zero(device, operand.scales, scale_bytes);
    return operand;
}

// The operand of the results, in each of its layouts from call to call.
static struct next_operand next_make(int32_t n_rows, int32_t n_inputs)
{
    static int n_calls;
    int turn = n_calls++;
    struct next_operand next = {operand_make(turn % 4 == 3 ? OPERAND_BFLOAT : OPERAND_HALF, turn % 2 == 1,
                                             n_rows, n_inputs),
                                device_allocate(device, (size_t)n_rows * sizeof(int32_t))};
    device_zero(device, next.arrivals, (size_t)n_rows * sizeof(int32_t));
    return next;
}

// It has the bytes of a launch of its own, and its counters are 0 again.
static void assert_operand_written(const struct attention_launch *call)
{
    const struct activation_operand *got = &call->next.out;
    struct activation_operand own = operand_make(got->form, got->swizzled, got->n_rows, got->n_inputs);
    struct activation_operand_launch make = {
        .out = own, .x = call->out, .x_stride = call->strides.out, .rows_divisor = 1};
    launch_activation_operand(device_stream(device), &make);
    const void *const pairs[][2] = {{got->items, own.items}, {got->scales, own.scales}};
    const size_t sizes[] = {activation_operand_bytes(got->n_rows, got->n_inputs),
                            (size_t)got->n_rows * sizeof(float)};
    for (int i = 0; i < 2; i++) {
        void *written = from_device(pairs[i][0], sizes[i]), *expected = from_device(pairs[i][1], sizes[i]);
        assert_memory_equal(written, expected, sizes[i]);
        free(written);
        free(expected);
        device_free(device, (void *)pairs[i][0]);
        device_free(device, (void *)pairs[i][1]);
    }
    int32_t *arrivals = from_device(call->next.arrivals, (size_t)got->n_rows * sizeof *arrivals);
    for (int32_t i = 0; i < got->n_rows; i++)
        assert_int_equal(arrivals[i], 0);
    free(arrivals);
    device_free(device, call->next.arrivals);
}

static void compute_parts(const struct device_problem *problem, const struct part *parts, int n,
                          struct device_way way, float *out)
{
    const struct device_setting *setting = &problem->setting;
    struct device_rows rows;
    lay_out(problem, parts, n, &rows);
    int32_t n_rows = rows.n;
    int64_t q_row = (int64_t)setting->n_heads * setting->key_dim,
            out_row = (int64_t)setting->n_heads * setting->value_dim;
    int multiprocessors = way.split_kv ? 64 : 0;
    uint64_t shared_bytes = way.shared_bytes ? way.shared_bytes : device_facts(device)->shared_bytes_max;
    struct shared_prefix shared = {0};
    if (way.shared)
        find_shared(problem, rows.sequences, n, shared_bytes, &shared);
    struct attention_launch assigned = {0};
    if (way.n_runs)
        assign_runs(problem, rows.sequences, 2 * n, way, &assigned);
    struct attention_launch call = {
        .pages = problem->pages,
        .layer = LAYER,
        .sequences = on_device(rows.sequences, sizeof rows.sequences),
        .tables = problem->tables,
        .extent.n_sequences = 2 * n,
        .extent.n_rows = n_rows,
        .extent.n_rows_most = rows.n_most,
        .extent.n_part_rows = n_rows,
        .extent.n_positions_most = rows.n_positions_most,
        .q = on_device(rows.q, (size_t)(n_rows * q_row) * sizeof *rows.q),
        .out = device_allocate(device, (size_t)(n_rows * out_row) * sizeof(float)),
        .strides.q = q_row,
        .strides.out = out_row,
        .n_heads = setting->n_heads,
        .scoring.scale = 1.0f / sqrtf((float)setting->key_dim),
        .scoring.softcap = setting->softcap,
        .scoring.window = setting->window,
        .scoring.chunk = setting->chunk,
        .scoring.alibi_bias_max = setting->alibi,
        .scoring.sinks = setting->sinks ? problem->device_sinks : NULL,
        .shared.tiles =
            shared.n_tiles ? on_device(shared.tiles, (size_t)shared.n_tiles * sizeof *shared.tiles) : NULL,
        .shared.members = shared.n_tiles ? on_device(shared.members, (size_t)n_rows * sizeof(int32_t)) : NULL,
        .shared.positions = on_device(rows.positions, sizeof rows.positions),
        .shared.n_tiles = shared.n_tiles,
        .shared.n_segments = shared.n_segments,
        .assigned = assigned.assigned,
        .next = next_make(n_rows, (int32_t)out_row),
        .device.n_multiprocessors = multiprocessors,
        .device.shared_bytes_max = shared_bytes};
    n_tiles_seen += shared.n_tiles;
    if (way.split_kv || way.shared || way.n_runs)
        call.partials.size_bytes =
            attention_scratch_bytes(setting->n_heads, setting->value_dim, n_rows, rows.n_positions_most);
    call.partials.memory = device_allocate(device, call.partials.size_bytes + 16);
    emulate_reverse(way.reverse);
    launch_attention(device_stream(device), &call);
    float *pinned = device_pin(device, (size_t)(n_rows * out_row) * sizeof *pinned);
    device_download(device, pinned, call.out, (size_t)(n_rows * out_row) * sizeof *pinned);
    wait_for_device();
    emulate_reverse(false);
    assert_operand_written(&call);
    take_back(parts, n, rows.sequences, pinned, out_row, out);
    device_unpin(device, pinned);
    const void *const given[] = {
        call.sequences, call.shared.tiles,    call.shared.members, call.shared.positions, call.q,
        call.out,       call.partials.memory, call.assigned.runs,  call.assigned.arrivals};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        device_free(device, (void *)given[i]);
    shared_prefix_finish(&shared);
    free(rows.q);
}

static size_t out_floats(const struct device_setting *setting)
{
    size_t n = 0;
    for (int s = 0; s < N_SEQUENCES; s++)
        n += (size_t)(wanted[s] * setting->n_heads * setting->value_dim);
    return n;
}

// The wanted rows of all sequences, in order.
static float *problem_compute(const struct device_problem *problem, struct device_way way)
{
    float *out = calloc(out_floats(&problem->setting), sizeof *out);
    int32_t done[N_SEQUENCES] = {0};
    for (;;) {
        struct part parts[N_SEQUENCES];
        int n = 0;
        for (int s = 0; s < N_SEQUENCES && (n == 0 || way.together); s++) {
            int32_t left = wanted[s] - done[s], rows = left < way.cut ? left : way.cut;
            if (rows > 0)
                parts[n++] = (struct part){s, done[s], rows};
            done[s] += rows;
        }
        if (n == 0)
            return out;
        compute_parts(problem, parts, n, way, out);
    }
}

static double stored_half(double item)
{
    return (double)emulate_half_float(emulate_half(item));
}

// The value that the pages keep of item d of a head's row of n: a binary16.
static double stored_item(const struct device_setting *setting, const float *row, int32_t d, int32_t n)
{
    if (setting->type != KV_Q8_0)
        return stored_half((double)row[d]);
    float largest = 0;
    for (int32_t i = d / 32 * 32; i < d / 32 * 32 + 32 && i < n; i++)
        largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
    double scale = stored_half((double)(largest / 127.0f));
    return stored_half(fmax(-127, fmin(127, rint((double)row[d] / scale))) * scale);
}

// Keys or values as the pages hold them, [n_rows][dim]; the caller frees them.
static float *stored_items(const struct device_setting *setting, const float *items, int32_t n_rows,
                           int32_t dim)
{
    float *stored = malloc((size_t)(n_rows * dim) * sizeof *stored);
    for (int32_t i = 0; i < n_rows * dim; i++)
        stored[i] = (float)stored_item(setting, items + i / dim * dim, i % dim, dim);
    return stored;
}

// The problem with what its pages keep for keys and values, which stored_free() frees.
static struct device_problem stored_problem(const struct device_problem *problem)
{
    const struct device_setting *setting = &problem->setting;
    struct device_problem stored = *problem;
    for (int s = 0; s < N_SEQUENCES; s++) {
        int32_t n_rows = lengths[s] * setting->n_kv_heads;
        stored.keys[s] = stored_items(setting, problem->keys[s], n_rows, setting->key_dim);
        stored.values[s] = stored_items(setting, problem->values[s], n_rows, setting->value_dim);
    }
    return stored;
}

static void stored_free(struct device_problem *stored)
{
    for (int s = 0; s < N_SEQUENCES; s++) {
        free(stored->keys[s]);
        free(stored->values[s]);
    }
}

static double slope_of(int32_t head, int32_t n_heads, double bias_max) // the paper's, for any number of heads
{
    int32_t n = 1;
    while (2 * n <= n_heads)
        n *= 2;
    return head < n ? pow(2, -bias_max * (head + 1) / n) : pow(2, -bias_max * (2 * (head - n) + 1) / (2 * n));
}

static void reference_row(const struct device_problem *problem, int s, int32_t position, int32_t head,
                          double *out)
{
    const struct device_setting *setting = &problem->setting;
    int32_t kv_head = head / (setting->n_heads / setting->n_kv_heads);
    const float *q = problem->queries[s] + ((int64_t)position * setting->n_heads + head) * setting->key_dim;
    int32_t begin = setting->window > 0 && position >= setting->window ? position - setting->window + 1 : 0;
    if (setting->chunk > 0)
        begin = position / setting->chunk * setting->chunk;
    double scores[800], largest = setting->sinks ? (double)problem->sinks[head] : -INFINITY;
    for (int32_t j = begin; j <= position; j++) {
        const float *key = problem->keys[s] + (int64_t)j * key_floats(setting) + kv_head * setting->key_dim;
        double score = 0;
        for (int32_t d = 0; d < setting->key_dim; d++)
            score += (double)q[d] * (double)key[d];
        score /= sqrt((double)setting->key_dim);
        if (setting->softcap > 0)
            score = (double)setting->softcap * tanh(score / (double)setting->softcap);
        if (setting->alibi > 0)
            score += slope_of(head, setting->n_heads, (double)setting->alibi) * (j - position);
        scores[j] = score;
        largest = score > largest ? score : largest;
    }
    double sum = setting->sinks ? exp((double)problem->sinks[head] - largest) : 0;
    memset(out, 0, (size_t)setting->value_dim * sizeof *out);
    for (int32_t j = begin; j <= position; j++) {
        const float *value =
            problem->values[s] + (int64_t)j * value_floats(setting) + kv_head * setting->value_dim;
        double weight = exp(scores[j] - largest);
        sum += weight;
        for (int32_t d = 0; d < setting->value_dim; d++)
            out[d] += weight * (double)value[d];
    }
    for (int32_t d = 0; d < setting->value_dim; d++)
        out[d] /= sum;
}

// Normalized mean squared error of every fourth row.
static double error_of(const struct device_problem *problem, const float *row)
{
    const struct device_setting *setting = &problem->setting;
    double wrong = 0, size = 0;
    for (int s = 0; s < N_SEQUENCES; s++)
        for (int32_t r = 0; r < wanted[s]; r++)
            for (int32_t head = 0; head < setting->n_heads; head++, row += setting->value_dim) {
                if (r % 4 != 0 && r != wanted[s] - 1)
                    continue;
                double exact[ATTENTION_DIM_MAX];
                reference_row(problem, s, lengths[s] - wanted[s] + r, head, exact);
                for (int32_t d = 0; d < setting->value_dim; d++) {
                    wrong += ((double)row[d] - exact[d]) * ((double)row[d] - exact[d]);
                    size += exact[d] * exact[d];
                }
            }
    return wrong / size;
}

TEST(attention_is_near_double_precision)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        struct device_problem problem = problem_make(&settings[i], 1000);
        float *out = problem_compute(&problem, (struct device_way){.cut = 40, .together = true});
        struct device_problem stored = stored_problem(&problem);
        double error = error_of(&stored, out);
        // A weight is rounded once to 11 bits: at most 2^-24 / 3 of its square on the average, with room for
        // the scores' errors.
        if (!(error <= 1e-7))
            fail_msg("%s: normalized mean squared error %g", settings[i].name, error);
        // Bytes: a step of a scale is 1/127 of items that are even over twice its 127: (1/127)^2 / 12 over
        // 1/3 of their squares are 1.6e-5, of keys and of values; and all of it shows where one position has
        // most of the weight.
        error = error_of(&problem, out);
        if (!(error <= (settings[i].type == KV_Q8_0 ? 2e-4 : 1e-6)))
            fail_msg("%s: normalized mean squared error %g to what was stored", settings[i].name, error);
        free(out);
        stored_free(&stored);
        problem_free(&problem);
    }
}

TEST(cuts_batch_and_assignment_leave_the_bytes_alone)
{
    static const struct device_way ways[] = {
        {1, true, false, false, false, 0},
        {4, false, true, true, false, 0},
        {19, true, false, true, false, 99 << 10},
        {1, true, false, false, true, 0},
        {1, true, true, true, true, 99 << 10},
        {2, true, false, true, true, 0},
        {1, true, .n_runs = 5},
        {2, true, .n_runs = 31, .reverse = true},
        {1, true, .n_runs = 3, .whole = true},
        {2, true, .n_runs = 6, .shared = true},
    };
    // Emulated, a setting is computed in every second way or, in a short run, every fourth.
    size_t step = !device_facts(device)->emulated ? 1 : is_short ? 4 : 2;
    n_tiles_seen = n_cut_seen = 0;
    for (int i = 0; i < N_SETTINGS; i++) {
        // The stored bytes must not depend on how many rows were stored with them.
        struct device_problem problem = problem_make(&settings[i], is_short && i % 3 != 1 ? 1000 : 7);
        float *whole = problem_compute(&problem, (struct device_way){.cut = 40, .together = true});
        problem_free(&problem);
        problem = problem_make(&settings[i], 1000);
        if (!is_short)
            n_tiles_seen = n_cut_seen = 0;
        for (size_t w = (size_t)i % step; w < sizeof ways / sizeof *ways; w += step) {
            float *out = problem_compute(&problem, ways[w]);
            for (size_t j = 0; j < out_floats(&settings[i]); j++)
                if (memcmp(&out[j], &whole[j], sizeof *out) != 0)
                    fail_msg("%s, way %zu: item %zu is %a, expected %a", settings[i].name, w, j,
                             (double)out[j], (double)whole[j]);
            free(out);
        }
        assert_true(is_short || (n_tiles_seen >= 2 && n_cut_seen >= 7));
        free(whole);
        problem_free(&problem);
    }
    assert_true(n_tiles_seen >= 2 && n_cut_seen >= 7);
}

// A row that is not a number is its own misfortune; large queries meet weights that are 0.
TEST(one_bad_row_harms_no_other_and_large_scores_are_fine)
{
    struct device_problem problem = problem_make(&settings[0], 1000);
    int64_t row_floats = (int64_t)settings[0].n_heads * settings[0].key_dim;
    for (int64_t i = 0; i < lengths[2] * row_floats; i++)
        problem.queries[2][i] *= 100;
    float *clean = problem_compute(&problem, (struct device_way){.cut = 40, .together = true});
    problem.queries[2][(lengths[2] - wanted[2] + 17) * row_floats + 70] = NAN; // row 17, head 1
    float *out = problem_compute(&problem, (struct device_way){.cut = 40, .together = true});
    int64_t before = (wanted[0] + wanted[1]) * (int64_t)settings[0].n_heads * settings[0].value_dim;
    int64_t bad = before + (17 * settings[0].n_heads + 1) * settings[0].value_dim;
    for (int64_t i = 0; i < (int64_t)out_floats(&settings[0]); i++)
        if (i >= bad && i < bad + settings[0].value_dim)
            assert_true(isnan(out[i]));
        else
            assert_true(out[i] == clean[i] && fabsf(out[i]) <= 1);
    free(clean);
    free(out);
    problem_free(&problem);
}

// Rows of one sequence, rotated and stored.
struct rotated {
    struct attention_store store;
    size_t page_bytes, query_bytes;
    void *pages, *queries; // what became of them
};

// Stores k and v, after launches that rotate queries and keys, or while it does.
static void store_rotated(const struct device_setting *setting, int32_t n_dims, bool halves, bool at_once,
                          struct rotated *rotated)
{
    enum { N_ROWS = 21, POSITION = 11 };
    int32_t n_pages = (POSITION + N_ROWS - 1) / setting->page_positions + 1, tables[TABLE_MAX], rows[N_ROWS];
    struct attention_sequence sequence = {0, N_ROWS, POSITION, 0, 0, 0, 0};
    struct attention_pages pages = {NULL,
                                    1,
                                    n_pages,
                                    setting->n_kv_heads,
                                    setting->key_dim,
                                    setting->value_dim,
                                    setting->page_positions,
                                    setting->type};
    int64_t query_floats = (int64_t)setting->n_heads * setting->key_dim;
    seed = 5;
    for (int32_t i = 0; i < n_pages; i++)
        tables[i] = n_pages - 1 - i;
    for (int32_t i = 0; i < N_ROWS; i++)
        rows[i] = i == 3 ? -1 : 0; // one is not stored, but its queries are rotated
    float *k = random_floats((int64_t)N_ROWS * key_floats(setting), 1),
          *v = random_floats((int64_t)N_ROWS * value_floats(setting), 1),
          *q = random_floats(N_ROWS * query_floats, 1), *angles = random_floats((int64_t)N_ROWS * n_dims, 1);
    rotated->page_bytes = attention_pages_bytes(&pages);
    rotated->query_bytes = (size_t)(N_ROWS * query_floats) * sizeof *q;
    void *zeros = calloc(1, rotated->page_bytes);
    pages.memory = on_device(zeros, rotated->page_bytes);
    struct attention_rotation rotation = {on_device(angles, (size_t)(N_ROWS * n_dims) * sizeof *angles),
                                          n_dims, halves};
    float *device_k = on_device(k, (size_t)(N_ROWS * key_floats(setting)) * sizeof *k),
          *device_v = on_device(v, (size_t)(N_ROWS * value_floats(setting)) * sizeof *v),
          *device_q = on_device(q, rotated->query_bytes);
    struct attention_store store = {.pages = pages,
                                    .sequences = on_device(&sequence, sizeof sequence),
                                    .row_sequences = on_device(rows, sizeof rows),
                                    .tables = on_device(tables, sizeof tables),
                                    .n_rows = N_ROWS,
                                    .k = device_k,
                                    .v = device_v,
                                    .k_stride = key_floats(setting),
                                    .v_stride = value_floats(setting)};
    if (at_once) {
        store.rotation = rotation;
        store.queries =
            (struct attention_queries){device_q, query_floats, setting->n_heads, setting->key_dim, rotation};
    } else {
        struct rope_launch rope = {
            .n_rows = N_ROWS,
            .n_parts = 2,
            .head_dim = setting->key_dim,
            .n_dims = n_dims,
            .halves = halves,
            .parts = {{{device_q, query_floats}, setting->n_heads, rotation.cos_sin},
                      {{device_k, key_floats(setting)}, setting->n_kv_heads, rotation.cos_sin}}};
        launch_rope(device_stream(device), &rope);
    }
    launch_attention_store(device_stream(device), &store);
    rotated->pages = from_device(pages.memory, rotated->page_bytes);
    rotated->queries = from_device(device_q, rotated->query_bytes);
    const void *const given[] = {pages.memory,    rotation.cos_sin,    device_k,    device_v, device_q,
                                 store.sequences, store.row_sequences, store.tables};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        device_free(device, (void *)given[i]);
    free(k);
    free(v);
    free(q);
    free(angles);
    free(zeros);
}

TEST(rotating_while_storing_gives_the_bytes_of_three_launches)
{
    static const struct {
        int setting;
        int32_t n_dims;
        bool halves;
    } cases[] = {{1, 128, true}, {1, 128, false}, {0, 32, true},
                 {5, 40, false}, {11, 128, true}, {12, 20, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rotated apart, at_once;
        store_rotated(&settings[cases[i].setting], cases[i].n_dims, cases[i].halves, false, &apart);
        store_rotated(&settings[cases[i].setting], cases[i].n_dims, cases[i].halves, true, &at_once);
        assert_memory_equal(apart.pages, at_once.pages, apart.page_bytes);
        assert_memory_equal(apart.queries, at_once.queries, apart.query_bytes);
        free(apart.pages);
        free(apart.queries);
        free(at_once.pages);
        free(at_once.queries);
    }
}

int main(void)
{
    if (!open_device())
        return 77; // skipped
    is_short = device_facts(device)->emulated && !tests_are_wide();
    wanted[PROMPT] = is_short ? PROMPT_WANTED_SHORT : wanted[PROMPT];
    int n_failed = cases_run();
    device_close(device);
    return n_failed;
}
