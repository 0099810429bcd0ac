// Times of the kernels on a device beside what bounds them: products of each weight type x five shapes of a
// Llama-3-8B x nine row counts, gate and up in one launch, queries, keys and values of two types, attention by
// batch x context, norms that write an operand. One CSV line each, written when it is known:
//
//   gpu_bench [--bandwidth GB/s] [--mma TFLOP/s] [--wgmma TFLOP/s] [--tiny] [--once] [TYPE...]
//   what,type,inputs,outputs,rows,us,GB/s,TFLOP/s,bound_us,bound_percent,hash,tile
//
// Launches are those of the program: in a graph, tiles of two blocks where it has them. `hash` is of y after one
// launch with the first copy of the weights: y of the first row is the same bytes at any number of rows, so `hash`
// of it alone must be the same in all lines of a type and shape; else "differs" follows and the exit status is 1.
// Lines with "pair" multiply queries and keys in the first type of TYPE+q6_k, and values in the second, as in a layer of
// Q4_K_M or Q5_K_M: in one launch if a kernel has both types for that number of rows, else in two.
// For attention, inputs are positions and rows are sequences. bound_us is the larger of bytes / bandwidth and
// operations / rate, that of wgmma where it multiplies; the defaults are an H200's: the rates as measured
// (gpu/README.md), the bandwidth assumed. Weights rotate over copies that exceed the second-level cache.
// --once: for a profiler, one launch of a few sizes each, without graphs and times. --tiny: sizes for a dry run over the
// emulated device, whose times mean nothing. With types, products of
// these alone.
#include "gpu/attention_assign.h"
#include "gpu/device.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_rows.h"
#include "gpu/kernels/tiles.h"
#include "schemas/base/hash.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROTATE_BYTES = 160 << 20,
    COPIES_MAX = 64,
    REPEAT = 20,
    N_HEADS = 32,
    N_KV_HEADS = 8,
    DIM = 128,
    PAGE = 64
};

static struct device *device;
static bool tiny, once;
static double bandwidth_bytes = 4300e9, mma_flop = 543e12, wgmma_flop = 885e12;
static bool wanted[TENSOR_TYPE_COUNT]; // types of weights
static int n_different;                // results of one row at different numbers of rows

static void wait_for_device(void)
{
    struct error error;
    if (device_wait(device, &error) != STATUS_OK) {
        printf("# %s\n", error.text);
        exit(1);
    }
}

// Bytes below 0x40, so that no binary16 or bfloat16 among them is special. NULL: out of memory.
static void *filled(size_t size)
{
    enum { CHUNK = 1 << 20 };
    unsigned char *memory = device_allocate(device, size), *pinned = device_pin(device, CHUNK);
    uint64_t random_state = 1;
    for (size_t i = 0; pinned && i < CHUNK; i++)
        pinned[i] = (unsigned char)(random_bits(&random_state) >> 26);
    for (size_t at = 0; memory && pinned && at < size; at += CHUNK)
        device_upload(device, memory + at, pinned, size - at < CHUNK ? size - at : CHUNK);
    wait_for_device();
    device_unpin(device, pinned);
    return memory;
}

// Between -1 and 1. NULL: out of memory.
static float *filled_floats(size_t n)
{
    enum { CHUNK = 1 << 18 };
    float *memory = device_allocate(device, n * sizeof *memory),
          *pinned = device_pin(device, CHUNK * sizeof *memory);
    uint64_t random_state = 2;
    for (size_t i = 0; pinned && i < CHUNK; i++)
        pinned[i] = (float)(random_bits(&random_state) >> 8) * 0x1p-23f - 1.0f;
    for (size_t at = 0; memory && pinned && at < n; at += CHUNK)
        device_upload(device, memory + at, pinned, (n - at < CHUNK ? n - at : CHUNK) * sizeof *memory);
    wait_for_device();
    device_unpin(device, pinned);
    return memory;
}

// Without the end of the line.
static void print_times(const char *what, const char *type, int32_t n_inputs, int32_t n_outputs,
                        int32_t n_rows, double us, double bytes, double operations, double rate)
{
    double bound_us = bytes / bandwidth_bytes * 1e6, compute_us = operations / rate * 1e6;
    bound_us = compute_us > bound_us ? compute_us : bound_us;
    printf("%s,%s,%d,%d,%d,%.2f,%.1f,%.2f,%.2f,%.1f", what, type, n_inputs, n_outputs, n_rows, us,
           us > 0 ? bytes / us / 1e3 : 0, us > 0 ? operations / us / 1e6 : 0, bound_us,
           us > 0 ? 100 * bound_us / us : 0);
}

static void print_line(const char *what, const char *type, int32_t n_inputs, int32_t n_outputs,
                       int32_t n_rows, double us, double bytes, double operations, double rate)
{
    print_times(what, type, n_inputs, n_outputs, n_rows, us, bytes, operations, rate);
    printf(",,\n");
    fflush(stdout);
}

// One launch's mean time, in a graph of several: a launch without one takes as long as a short kernel.
// `launch_once` gets the number of the launch.
static double time_of(void (*launch_once)(void *context, int i), void *context)
{
    if (once) {
        launch_once(context, 0);
        wait_for_device();
        return 0.0;
    }
    int n = tiny ? 2 : REPEAT;
    struct device_event *begin = device_event_create(device), *end = device_event_create(device);
    if (!begin || !end) {
        printf("# no memory for events\n");
        exit(1);
    }
    device_graph_begin(device);
    for (int i = 0; i < n; i++)
        launch_once(context, i);
    struct device_graph *graph = device_graph_end(device);
    if (!graph) { // its launches have been enqueued: timed, they would be the host's
        printf("# no graph could be made\n");
        exit(1);
    }
    for (int i = 0; i < 2; i++) { // the first one warms up
        device_event_record(device, begin);
        device_graph_launch(device, graph);
        device_event_record(device, end);
    }
    wait_for_device();
    double us = device_event_between_us(begin, end) / n;
    device_graph_destroy(device, graph);
    device_event_destroy(device, begin);
    device_event_destroy(device, end);
    return us;
}

// --- Products ---

// The launches that multiply one x: one, or two that differ in types and parts.
struct products {
    struct product_launch calls[2];
    int n_calls;
    const unsigned char *weights;
    uint64_t copy_bytes; // from one copy to the next
    int n_copies;
};

static void launch_once_product(void *context, int i)
{
    struct products *products = context;
    const unsigned char *tiles =
        products->weights + (uint64_t)(i % products->n_copies) * products->copy_bytes;
    for (int c = 0; c < products->n_calls; c++) {
        struct product_launch *call = &products->calls[c];
        for (int32_t part = 0; part < call->n_parts; part++) {
            call->parts[part].tiles = tiles;
            tiles += tiles_bytes(call->type, call->parts[part].n_outputs, call->x.n_inputs);
        }
    }
    launch_products(device_stream(device), products->calls, products->n_calls);
}

static const char *const type_names[] = {
    [TENSOR_F32] = "f32",   [TENSOR_F16] = "f16",   [TENSOR_BF16] = "bf16",
    [TENSOR_Q8_0] = "q8_0", [TENSOR_Q4_0] = "q4_0", [TENSOR_NVFP4] = "nvfp4",
    [TENSOR_Q4_K] = "q4_k", [TENSOR_Q5_K] = "q5_k", [TENSOR_Q6_K] = "q6_k"};

// Hashes of y: of all rows, and of the first row.
struct product_hashes {
    uint64_t all, first_row;
};

// Adds y [n_rows, n_outputs] of a part.
static void hash_part(const struct product_part *part, int32_t n_rows, struct product_hashes *hashes)
{
    size_t row_bytes = (size_t)part->n_outputs * sizeof(float), size = (size_t)n_rows * row_bytes;
    void *items = malloc(size);
    if (!items) {
        printf("# no memory for results\n");
        exit(1);
    }
    device_download_rows(device, items, part->y, 1, size, size);
    wait_for_device();
    hashes->all = hash_bytes(items, size, hashes->all);
    hashes->first_row = hash_bytes(items, row_bytes, hashes->first_row);
    free(items);
}

// Only the first part of gated products has a y.
static int32_t stored_parts(const struct product_launch *call)
{
    return call->gated ? 1 : call->n_parts;
}

static struct product_hashes hash_product(struct products *products)
{
    struct product_hashes hashes = {0, 0};
    launch_once_product(products, 0);
    for (int c = 0; c < products->n_calls; c++)
        for (int32_t part = 0; part < stored_parts(&products->calls[c]); part++)
            hash_part(&products->calls[c].parts[part], products->calls[c].x.n_rows, &hashes);
    return hashes;
}

// Where tiles of two blocks leave sums, as the backend has it. False: out of memory.
static bool create_partials(struct product_partials *partials, int32_t n_inputs)
{
    int32_t n_multiprocessors = device_facts(device)->n_multiprocessors;
    size_t arrivals_bytes = (size_t)product_partial_tiles(n_multiprocessors) * sizeof *partials->arrivals;
    partials->size_bytes = product_partial_bytes(n_multiprocessors, n_inputs);
    partials->sums = device_allocate(device, partials->size_bytes);
    partials->arrivals = device_allocate(device, arrivals_bytes);
    if (partials->arrivals)
        device_zero(device, partials->arrivals, arrivals_bytes);
    return partials->sums && partials->arrivals;
}

static const char *const tile_names[WGMMA_TILE_COUNT] = {"",       "64x32",  "256x32",  "64x64",  "256x64",
                                                         "256x96", "64x128", "128x128", "192x128"};

static void bench_tiling(struct products *products, uint64_t *first_row)
{
    const struct product_launch *call = &products->calls[0];
    int32_t n_inputs = call->x.n_inputs, n_rows = call->x.n_rows, n_stored = 0, n_outputs = 0;
    char types[16];
    for (int c = 0; c < products->n_calls; c++)
        for (int32_t part = 0; part < products->calls[c].n_parts; part++) {
            n_outputs += products->calls[c].parts[part].n_outputs;
            if (part < stored_parts(&products->calls[c]))
                n_stored += products->calls[c].parts[part].n_outputs;
        }
    double bytes = (double)products->copy_bytes + (double)n_rows * (2.0 * n_inputs + 4.0 * n_stored);
    bool is_pair = products->n_calls == 2;
    snprintf(types, sizeof types, is_pair ? "%s+%s" : "%s", type_names[call->type],
             type_names[products->calls[1].type]);
    print_times(is_pair       ? "pair"
                : call->gated ? "gated"
                              : "product",
                types, n_inputs, n_outputs, n_rows, time_of(launch_once_product, products), bytes,
                2.0 * n_inputs * n_outputs * n_rows, call->x.swizzled ? wgmma_flop : mma_flop);
    struct product_hashes hashes = hash_product(products);
    bool same = *first_row == 0 || hashes.first_row == *first_row;
    *first_row = hashes.first_row;
    n_different += !same;
    printf(",%016" PRIx64 "%s,%s%s\n", hashes.all, same ? "" : " differs", tile_names[call->tiling.tile],
           call->tiling.divided ? " divided" : "");
    fflush(stdout);
}

// A line for each compiled tiling, or one where there is no choice.
static void bench_rows(struct products *products, uint64_t *first_row)
{
    struct product_tiling tilings[PRODUCT_TILINGS_MAX];
    int32_t n = products->n_calls == 1 ? product_tilings(&products->calls[0], tilings) : 0;
    if (n == 0)
        bench_tiling(products, first_row);
    for (int32_t i = 0; i < n; i++) {
        products->calls[0].tiling = tilings[i];
        bench_tiling(products, first_row);
    }
}

// Products of one x: a matrix; gate and up, with half of the outputs each; or queries, keys and values, of 4, 1 and 1 sixths of
// the outputs, the values in Q6_K.
enum product_kind { PRODUCT_PLAIN, PRODUCT_GATED, PRODUCT_PAIR };

// The parts follow one another in y, except gate and up, which share one part of y.
static void add_part(struct product_launch *call, int32_t n_outputs, float **y)
{
    call->parts[call->n_parts++] = (struct product_part){NULL, NULL, *y, n_outputs, n_outputs};
    if (!call->gated)
        *y += (int64_t)call->x.n_rows * n_outputs;
}

static void make_calls(struct products *products, enum product_kind kind, const struct product_launch *common,
                       int32_t n_outputs, float *y)
{
    struct product_launch *calls = products->calls;
    calls[0] = calls[1] = *common;
    calls[0].gated = kind == PRODUCT_GATED;
    calls[1].type = TENSOR_Q6_K;
    products->n_calls = kind == PRODUCT_PAIR ? 2 : 1;
    if (kind == PRODUCT_PLAIN) {
        add_part(&calls[0], n_outputs, &y);
        return;
    }
    int32_t n_last = kind == PRODUCT_PAIR ? n_outputs / 6 : n_outputs / 2;
    add_part(&calls[0], kind == PRODUCT_PAIR ? n_outputs - 2 * n_last : n_last, &y);
    add_part(&calls[0], n_last, &y);
    if (kind == PRODUCT_PAIR)
        add_part(&calls[1], n_last, &y);
}

static uint64_t weights_bytes(enum tensor_type type, int32_t n_inputs, int32_t n_outputs,
                              enum product_kind kind)
{
    int32_t n_last = kind == PRODUCT_PAIR ? n_outputs / 6 : 0;
    return tiles_bytes(type, n_outputs - n_last, n_inputs) + tiles_bytes(TENSOR_Q6_K, n_last, n_inputs);
}

static void bench_product(enum tensor_type type, int32_t n_inputs, int32_t n_outputs, enum product_kind kind,
                          const int32_t *n_rows)
{
    struct products products = {.copy_bytes = weights_bytes(type, n_inputs, n_outputs, kind)};
    struct product_partials partials = {0};
    bool complete = create_partials(&partials, n_inputs);
    uint64_t first_row = 0;
    uint64_t n_copies = tiny ? 1 : ROTATE_BYTES / products.copy_bytes + 1;
    products.n_copies = n_copies < COPIES_MAX ? (int)n_copies : COPIES_MAX;
    void *weights = filled((size_t)products.n_copies * products.copy_bytes);
    products.weights = weights;
    for (; *n_rows; n_rows++) {
        struct activation_operand x = {type == TENSOR_BF16 ? OPERAND_BFLOAT : OPERAND_HALF,
                                       *n_rows,
                                       n_inputs,
                                       device_allocate(device, activation_operand_bytes(*n_rows, n_inputs)),
                                       device_allocate(device, (size_t)*n_rows * sizeof(float)),
                                       product_is_wgmma(device_facts(device)->has_wgmma,
                                                        device_facts(device)->shared_bytes_max, *n_rows, 0)};
        float *floats = filled_floats((size_t)*n_rows * (size_t)n_inputs),
              *y = device_allocate(device, (size_t)*n_rows * (size_t)n_outputs * sizeof(float));
        const struct product_launch common = {.type = type,
                                              .activation = ACTIVATION_SILU,
                                              .x = x,
                                              .floats.items = floats,
                                              .floats.stride = n_inputs,
                                              .floats.rows_divisor = 1,
                                              .device.shared_bytes_max =
                                                  device_facts(device)->shared_bytes_max,
                                              .device.n_multiprocessors =
                                                  device_facts(device)->n_multiprocessors,
                                              .device.partials = partials};
        make_calls(&products, kind, &common, n_outputs, y);
        if (complete && weights && x.items && x.scales && y && floats) {
            launch_activation_operand(device_stream(device),
                                      &(struct activation_operand_launch){x, floats, n_inputs, NULL, 1});
            bench_rows(&products, &first_row);
        }
        void *const memory[] = {x.items, x.scales, floats, y};
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            device_free(device, memory[i]);
    }
    device_free(device, weights);
    device_free(device, partials.sums);
    device_free(device, partials.arrivals);
}

static void bench_products(void)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q6_K, TENSOR_Q8_0, TENSOR_BF16,
                                             TENSOR_F16,  TENSOR_Q4_0, TENSOR_Q5_K, TENSOR_F32};
    // QKV, o, gate and up, down, output
    static const int32_t shapes[][2] = {{4096, 6144},
                                        {4096, 4096},
                                        {4096, 28672},
                                        {14336, 4096},
                                        {4096, 128256}},
                         rows[] = {1, 8, 16, 32, 64, 96, 128, 256, 8192, 0}, few_rows[] = {1, 64, 8192, 0},
                         tiny_rows[] = {1, 3, 8, 9, 16, 17, 24, 33, 40, 0};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; wanted[types[t]] && s < sizeof shapes / sizeof *shapes; s++) {
            if (once && s < 2)
                continue;
            if (tiny)
                bench_product(types[t], shapes[s][0] / 32 / 128 * 128, shapes[s][1] / 2048 / 16 * 16 + 16,
                              PRODUCT_PLAIN, once ? tiny_rows + 7 : tiny_rows);
            else
                bench_product(types[t], shapes[s][0], shapes[s][1], PRODUCT_PLAIN, once ? few_rows : rows);
            if (shapes[s][1] == 28672 && types[t] != TENSOR_F32)
                bench_product(types[t], tiny ? 128 : shapes[s][0], tiny ? 32 : shapes[s][1], PRODUCT_GATED,
                              tiny ? tiny_rows + 7 : few_rows);
        }
    static const enum tensor_type paired[] = {TENSOR_Q4_K, TENSOR_Q5_K};
    for (size_t t = 0; t < sizeof paired / sizeof *paired; t++)
        if (wanted[paired[t]])
            bench_product(paired[t], tiny ? 256 : shapes[0][0], tiny ? 96 : shapes[0][1], PRODUCT_PAIR,
                          tiny   ? tiny_rows
                          : once ? few_rows
                                 : rows);
}

// --- Attention ---

static void launch_once_attention(void *context, int i)
{
    launch_attention(device_stream(device), context);
}

static void *uploaded(const void *items, size_t size)
{
    void *memory = device_allocate(device, size), *pinned = device_pin(device, size);
    if (memory && pinned) {
        memcpy(pinned, items, size);
        device_upload(device, memory, pinned, size);
    }
    wait_for_device();
    device_unpin(device, pinned);
    return memory;
}

// A step of sequences with pages of their own, which lie one after the other; their lengths.
struct attentions {
    const char *name; // of the lines printed
    enum kv_type type;
    int32_t n_sequences, n_most, n_mean; // positions
    int32_t (*length)(const struct attentions *attentions, int32_t i);
};

static int32_t even_length(const struct attentions *attentions, int32_t i)
{
    return attentions->n_most;
}

// One long sequence among short ones.
static int32_t uneven_length(const struct attentions *attentions, int32_t i)
{
    return i == attentions->n_sequences / 2 ? attentions->n_most : attentions->n_mean;
}

// Host arrays of a step, and its device memory.
struct attention_inputs {
    struct attention_sequence *sequences;
    int32_t *tables, *arrivals, *row_sequences;
    struct attention_run *runs;
    int32_t n_pages, n_runs, n_arrivals;
    int64_t n_positions;
};

static void fill_inputs(const struct attentions *attentions, struct attention_inputs *inputs)
{
    int32_t n = attentions->n_sequences;
    inputs->sequences = calloc((size_t)n, sizeof *inputs->sequences);
    inputs->row_sequences = calloc((size_t)n, sizeof *inputs->row_sequences);
    for (int32_t i = 0; i < n; i++) {
        int32_t length = attentions->length(attentions, i);
        inputs->sequences[i] = (struct attention_sequence){i, 1, length - 1, inputs->n_pages, i, 0, 0};
        inputs->row_sequences[i] = i;
        inputs->n_pages += (length + PAGE - 1) / PAGE;
        inputs->n_positions += length;
    }
    inputs->tables = calloc((size_t)inputs->n_pages, sizeof *inputs->tables);
    for (int32_t i = 0; i < inputs->n_pages; i++)
        inputs->tables[i] = i;
}

static void assign_inputs(const struct attention_launch *call, bool may_cut, struct attention_inputs *inputs)
{
    inputs->n_runs = attention_assign_runs(&call->pages, N_HEADS, &call->device);
    inputs->n_arrivals =
        attention_assign_arrivals(&call->pages, N_HEADS, &call->device, call->extent.n_sequences);
    inputs->runs = calloc((size_t)inputs->n_runs + 1, sizeof *inputs->runs);
    inputs->arrivals = calloc((size_t)inputs->n_arrivals, sizeof *inputs->arrivals);
    struct attention_assign_rules rules = {N_HEADS, N_KV_HEADS, inputs->n_runs, may_cut};
    attention_assign(inputs->sequences, call->extent.n_sequences, &rules, inputs->runs);
}

static void free_inputs(struct attention_inputs *inputs)
{
    free(inputs->sequences);
    free(inputs->row_sequences);
    free(inputs->tables);
    free(inputs->runs);
    free(inputs->arrivals);
}

static void launch_once_store(void *context, int i)
{
    launch_attention_store(device_stream(device), context);
}

// Rotation and store of a step's rows.
static void bench_store(const char *type, const struct attention_launch *call, const int32_t *row_sequences,
                        int32_t n_rows)
{
    size_t key_bytes = (size_t)n_rows * N_KV_HEADS * DIM * sizeof(float),
           angle_bytes = (size_t)n_rows * DIM * sizeof(float);
    float *k = filled(key_bytes), *v = filled(key_bytes), *angles = filled(angle_bytes);
    struct attention_rotation rotation = {angles, DIM, true};
    struct attention_store store = {.pages = call->pages,
                                    .sequences = call->sequences,
                                    .row_sequences = row_sequences,
                                    .tables = call->tables,
                                    .n_rows = n_rows,
                                    .k = k,
                                    .v = v,
                                    .k_stride = N_KV_HEADS * DIM,
                                    .v_stride = N_KV_HEADS * DIM,
                                    .rotation = rotation,
                                    .queries = {(float *)call->q, call->strides.q, N_HEADS, DIM, rotation}};
    if (k && v && angles)
        print_line("store", type, DIM, N_HEADS * DIM, n_rows, time_of(launch_once_store, &store),
                   3.0 * (double)key_bytes + 2.0 * n_rows * N_HEADS * DIM * sizeof(float), 0, mma_flop);
    device_free(device, k);
    device_free(device, v);
    device_free(device, angles);
}

static void bench_attention(const struct attentions *attentions)
{
    struct attention_inputs inputs = {0};
    int32_t n = attentions->n_sequences;
    fill_inputs(attentions, &inputs);
    size_t row_bytes = (size_t)N_HEADS * DIM * sizeof(float);
    struct attention_launch call = {.pages = {NULL, 1, inputs.n_pages, N_KV_HEADS, DIM, DIM, PAGE,
                                              attentions->type},
                                    .extent = {n, n, 1, n, attentions->n_most},
                                    .strides.q = N_HEADS * DIM,
                                    .strides.out = N_HEADS * DIM,
                                    .n_heads = N_HEADS,
                                    .scoring.scale = 0x1.6a09e6p-4f,
                                    .device.n_multiprocessors = device_facts(device)->n_multiprocessors,
                                    .device.shared_bytes_max = device_facts(device)->shared_bytes_max};
    uint64_t bytes = attention_pages_bytes(&call.pages);
    call.partials.size_bytes = attention_scratch_bytes(N_HEADS, DIM, n, attentions->n_most);
    if (bytes + call.partials.size_bytes + (64 << 20) > device_memory_free(device)) {
        free_inputs(&inputs);
        return;
    }
    assign_inputs(&call, attention_parts_fit(&call.pages, N_HEADS, &call.extent, call.partials.size_bytes),
                  &inputs);
    int32_t *row_sequences = uploaded(inputs.row_sequences, (size_t)n * sizeof *row_sequences);
    call.assigned.n_runs = inputs.n_runs;
    void *memory[] = {
        call.pages.memory = filled(bytes),
        (void *)(call.sequences = uploaded(inputs.sequences, (size_t)n * sizeof *inputs.sequences)),
        (void *)(call.tables = uploaded(inputs.tables, (size_t)inputs.n_pages * sizeof *inputs.tables)),
        (void *)(call.q = filled((size_t)n * row_bytes)),
        call.out = device_allocate(device, (size_t)n * row_bytes),
        call.partials.memory = device_allocate(device, call.partials.size_bytes + 16),
        row_sequences,
        (void *)(call.assigned.runs =
                     uploaded(inputs.runs, ((size_t)inputs.n_runs + 1) * sizeof *inputs.runs)),
        call.assigned.arrivals =
            uploaded(inputs.arrivals, (size_t)inputs.n_arrivals * sizeof *inputs.arrivals)};
    bool complete = true;
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        complete = complete && memory[i];
    const char *type = attentions->type == KV_Q8_0 ? "q8_0" : "f16";
    if (complete)
        print_line(attentions->name, type, attentions->n_most, N_HEADS * DIM, n,
                   time_of(launch_once_attention, &call), (double)bytes + 2.0 * (double)row_bytes * n,
                   4.0 * N_HEADS * DIM * (double)inputs.n_positions, mma_flop);
    if (complete && attentions->n_most == 512)
        bench_store(type, &call, row_sequences, n);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        device_free(device, memory[i]);
    free_inputs(&inputs);
}

static void bench_attentions(void)
{
    if (once) {
        bench_attention(&(struct attentions){"attention", KV_F16, tiny ? 3 : 64, tiny ? 32 : 512,
                                             tiny ? 32 : 512, even_length});
        return;
    }
    static const int32_t batches[] = {1, 16, 64, 256}, contexts[] = {512, 2048, 8192, 32768};
    for (int t = 0; t < 2; t++) {
        enum kv_type type = t ? KV_Q8_0 : KV_F16;
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++)
                if (!tiny)
                    bench_attention(&(struct attentions){"attention", type, batches[b], contexts[c],
                                                         contexts[c], even_length});
                else if (b + c < 2)
                    bench_attention(&(struct attentions){"attention", type, batches[b] / 8 + 1,
                                                         contexts[c] / 16, contexts[c] / 16, even_length});
        if (tiny)
            bench_attention(&(struct attentions){"attention_uneven", type, 3, 600, 100, uneven_length});
        else
            bench_attention(&(struct attentions){"attention_uneven", type, 64, 32768, 512, uneven_length});
    }
}

// --- Norms ---

static void launch_once_norm(void *context, int i)
{
    launch_norm(device_stream(device), context);
}

// As in a layer: the residual sum before it and the operand after it in one launch.
static void bench_norm(int32_t n_rows, int32_t n)
{
    size_t size = (size_t)n_rows * (size_t)n * sizeof(float);
    float *in = filled_floats((size_t)n_rows * (size_t)n),
          *addend = filled_floats((size_t)n_rows * (size_t)n), *weight = filled_floats((size_t)n),
          *out = device_allocate(device, size);
    struct activation_operand operand = {
        .form = OPERAND_HALF,
        .n_rows = n_rows,
        .n_inputs = n,
        .items = device_allocate(device, activation_operand_bytes(n_rows, n)),
        .scales = device_allocate(device, (size_t)n_rows * sizeof(float)),
        .swizzled = product_is_wgmma(device_facts(device)->has_wgmma, device_facts(device)->shared_bytes_max,
                                     n_rows, 0)};
    struct norm_launch norm = {.out = {out, n},
                               .in = {in, n},
                               .n_rows = n_rows,
                               .n_groups = 1,
                               .n = n,
                               .rms = true,
                               .weight = weight,
                               .epsilon = 1e-5f,
                               .addend = {addend, n},
                               .scale = 1.0f,
                               .operand = operand,
                               .operand_only = true};
    if (in && addend && weight && out && operand.items && operand.scales)
        print_line("norm", "f32", n, n, n_rows, time_of(launch_once_norm, &norm),
                   (double)n_rows * n * (3 * sizeof(float) + 2), 0.0, mma_flop);
    void *const memory[] = {in, addend, weight, out, operand.items, operand.scales};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        device_free(device, memory[i]);
}

static void bench_norms(void)
{
    static const int32_t rows[] = {1, 64, 256, 8192};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_norm(tiny ? rows[i] / 64 + 1 : rows[i], tiny ? 256 : 4096);
}

static bool want_type(const char *name)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (type_names[i] && strcmp(type_names[i], name) == 0)
            return wanted[i] = true;
    return false;
}

int main(int argc, char **argv)
{
    struct error error;
    bool all = true;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--tiny") == 0)
            tiny = true;
        else if (strcmp(argv[i], "--once") == 0)
            once = true;
        else if (strcmp(argv[i], "--bandwidth") == 0 && i + 1 < argc)
            bandwidth_bytes = strtod(argv[++i], NULL) * 1e9;
        else if (strcmp(argv[i], "--mma") == 0 && i + 1 < argc)
            mma_flop = strtod(argv[++i], NULL) * 1e12;
        else if (strcmp(argv[i], "--wgmma") == 0 && i + 1 < argc)
            wgmma_flop = strtod(argv[++i], NULL) * 1e12;
        else if (want_type(argv[i]))
            all = false;
        else
            return printf(
                       "gpu_bench [--bandwidth GB/s] [--mma TFLOP/s] [--wgmma TFLOP/s] [--tiny] [--once] [TYPE...]\n"),
                   2;
    for (size_t i = 0; all && i < sizeof type_names / sizeof *type_names; i++)
        wanted[i] = type_names[i] != NULL;
    if (!(bandwidth_bytes > 0) || !(mma_flop > 0) || !(wgmma_flop > 0))
        return printf("gpu_bench: a bound is no positive number\n"), 2;
    if (device_open(&device, &(struct device_options){0}, &error) != STATUS_OK)
        return printf("skipped: %s\n", error.text), 77;
    if (device_load_kernels(device, &error) != STATUS_OK)
        return printf("%s\n", error.text), 1;
    printf("# %s, %d multiprocessors%s\n", device_facts(device)->name,
           device_facts(device)->n_multiprocessors, tiny ? "; tiny sizes, times mean nothing" : "");
    printf("what,type,inputs,outputs,rows,us,GB/s,TFLOP/s,bound_us,bound_percent,hash,tile\n");
    bench_products();
    bench_norms();
    bench_attentions();
    device_close(device);
    return n_different > 0;
}
