// Questions about a device that no document answers, one line each, written when it is known:
//
//   gpu_probe [--no-overlap] [--no-carveout] [QUESTION...]   all, or those named: run each in a process of its own, with its own deadline
//   probe,question,answer,unit or prediction
//
// capture     a kernel that was not loaded before is launched within a capture: graph, or none (its work then
//             ran as launches); the emulation predicts none
// zero        does a zero product raise the exponent to which a tensor core aligns: the emulation predicts no
// order       does a tensor core's sum depend on the order of its 16 products: no
// columns     does a column of a tensor core's product depend on its neighbors: no
// wgmma       has wgmma other sums than mma, over random items of all exponents, zeros of both signs and
//             subnormals among them: no
// graph       microseconds of a node in a graph of 500 kernels one after the other
// launch      the same, launched one by one
// memory      bandwidth of reading and writing 1 GiB
// cache       rate of the second-level cache: a block a multiprocessor copies the same 0.5, 8 or 16 MiB to shared memory,
//             by bulk copies in one kernel
// products    rates of mma and wgmma over random items: with zeros a device takes less power and clocks higher
// carveout    microseconds of a node in a graph of 500 kernels of which every other one has 128 KiB of shared memory
// upload      microseconds that a step's upload adds to a graph of 50 kernels: in the stream, and ahead in the second one
//
// --no-overlap: the kernels of graph, launch and carveout begin when the previous kernel has ended. --no-carveout: each kernel has the
// carveout that the driver chooses.
//
// Emulated, times mean nothing and sizes are small, and an answer that contradicts the prediction is a
// failure; on a device it is news.
#include "gpu/device.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/kernels_rates.h"
#include "gpu/kernels/kernels_rows.h"
#include "gpu/kernels/tiles.h"
#include "tests/support/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_INPUTS = 128, N_OUTPUTS = 16, ROWS_MAX = 8, N_NODES = 500, WGMMA_ROWS = 64 };

static struct device *device;
static int n_contradicted; // predictions

static void require_that(bool happened, const char *what)
{
    struct error error;
    if (happened && device_wait(device, &error) == STATUS_OK)
        return;
    printf("# %s: %s\n", what, happened ? error.text : "out of memory");
    exit(1);
}

static void print_answer(const char *question, double number, const char *unit)
{
    printf("probe,%s,%.4g,%s\n", question, number, unit);
    fflush(stdout);
}

static void answer_text(const char *question, const char *text, const char *predicted)
{
    printf("probe,%s,%s,predicted %s\n", question, text, predicted);
    fflush(stdout);
    n_contradicted += strcmp(text, predicted) != 0;
}

static void *upload(const void *items, size_t size)
{
    void *memory = device_allocate(device, size), *pinned = device_pin(device, size);
    require_that(memory && pinned, "upload");
    memcpy(pinned, items, size);
    device_upload(device, memory, pinned, size);
    require_that(true, "upload");
    device_unpin(device, pinned);
    return memory;
}

// --- Tensor cores ---

static uint16_t half_of(int power) // 2^power, normal
{
    return (uint16_t)((power + 15) << 10);
}

// y of n_rows of x times 16 equal outputs with the weights of one row, powers of 2 (bits 0: none).
static void multiply(const uint16_t weights[N_INPUTS], const float *x, int32_t n_rows, float *first_outputs)
{
    uint16_t matrix[N_OUTPUTS * N_INPUTS];
    for (int i = 0; i < N_OUTPUTS; i++)
        memcpy(matrix + i * N_INPUTS, weights, N_INPUTS * sizeof *weights);
    struct tensor tensor = {
        .type = TENSOR_F16, .n_dims = 2, .dims = {N_INPUTS, N_OUTPUTS, 1, 1}, .data = matrix};
    size_t size = tiles_bytes(TENSOR_F16, N_OUTPUTS, N_INPUTS);
    void *tiles = malloc(size);
    require_that(tiles != NULL, "tiles");
    tiles_pack(tiles, TENSOR_F16, &tensor, 0, 0, tiles_panels(N_OUTPUTS));
    void *device_tiles = upload(tiles, size);
    float *device_x = upload(x, (size_t)n_rows * N_INPUTS * sizeof *x),
          *y = device_allocate(device, ROWS_MAX * N_OUTPUTS * sizeof *y),
          *pinned = device_pin(device, ROWS_MAX * N_OUTPUTS * sizeof *y);
    struct activation_operand operand = {OPERAND_HALF,
                                         n_rows,
                                         N_INPUTS,
                                         device_allocate(device, activation_operand_bytes(n_rows, N_INPUTS)),
                                         device_allocate(device, ROWS_MAX * sizeof(float)),
                                         false};
    require_that(y && pinned && operand.items && operand.scales, "product");
    launch_activation_operand(device_stream(device),
                              &(struct activation_operand_launch){operand, device_x, N_INPUTS, NULL, 1});
    struct product_launch product = {.type = TENSOR_F16,
                                     .n_parts = 1,
                                     .parts = {{device_tiles, NULL, y, N_OUTPUTS, N_OUTPUTS}},
                                     .x = operand,
                                     .floats.rows_divisor = 1,
                                     .device.shared_bytes_max = device_facts(device)->shared_bytes_max};
    launch_product(device_stream(device), &product);
    device_download(device, pinned, y, (size_t)n_rows * N_OUTPUTS * sizeof *y);
    require_that(true, "product");
    for (int32_t i = 0; i < n_rows; i++)
        first_outputs[i] = pinned[i * N_OUTPUTS];
    device_unpin(device, pinned);
    void *const memory[] = {device_tiles, device_x, y, operand.items, operand.scales};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        device_free(device, memory[i]);
    free(tiles);
}

// Weights 0 meet x = 1 in every second input, weights 2^-14 meet 2^-28: aligned to the zeros' exponents,
// those of the least normal item and of 1, they are lost.
static void probe_zero(void)
{
    uint16_t weights[N_INPUTS];
    float x[N_INPUTS], sum;
    for (int i = 0; i < N_INPUTS; i++) {
        weights[i] = i % 2 ? half_of(-14) : 0;
        x[i] = i % 2 ? 0x1p-28f : 1.0f;
    }
    multiply(weights, x, 1, &sum);
    answer_text("zero", sum == 64 * 0x1p-42f ? "no" : "yes", "no");
}

// One large product and fifteen small ones, which are lost or kept alike wherever the large one is.
static void probe_order(void)
{
    float first = 0;
    bool same = true;
    for (int large = 0; large < N_INPUTS; large++) {
        uint16_t weights[N_INPUTS];
        float x[N_INPUTS], sum;
        for (int i = 0; i < N_INPUTS; i++) {
            weights[i] = half_of(i == large ? 11 : -14);
            x[i] = i / 4 % 8 == large / 4 % 8 ? 1.0f : 0.0f; // a fragment's inputs (gpu/kernels/tiles.h)
        }
        multiply(weights, x, 1, &sum);
        first = large ? first : sum;
        same = same && sum == first;
    }
    answer_text("order", same ? "no" : "yes", "no");
}

static void probe_columns(void)
{
    uint16_t weights[N_INPUTS];
    float x[ROWS_MAX * N_INPUTS], among[ROWS_MAX], alone;
    bool same = true;
    for (int i = 0; i < N_INPUTS; i++)
        weights[i] = half_of(i % 29 - 14);
    for (int i = 0; i < ROWS_MAX * N_INPUTS; i++)
        x[i] = (float)(i * 2654435761u >> 16) * (i / N_INPUTS % 2 ? 0x1p-40f : 1.0f);
    multiply(weights, x, ROWS_MAX, among);
    for (int32_t row = 0; row < ROWS_MAX; row++) {
        multiply(weights, x + row * N_INPUTS, 1, &alone);
        same = same && alone == among[row];
    }
    answer_text("columns", same ? "no" : "yes", "no");
}

// Random bits with a finite exponent; a quarter are zeros or subnormal.
static uint16_t random_half(uint64_t *seed)
{
    uint32_t bits = random_bits(seed);
    uint32_t exponent = bits >> 16 & 3 ? 1 + (bits >> 18) % 30 : 0,
             fraction = bits >> 24 & 7 ? bits & 1023 : 0;
    return (uint16_t)((bits >> 31) << 15 | exponent << 10 | fraction);
}

// The rows of `operand` times the weights; by wgmma if it is swizzled, else by mma. Pinned.
static float *multiply_rows(const void *tiles, int32_t n_outputs, const float *x,
                            struct activation_operand operand)
{
    size_t size = (size_t)operand.n_rows * (size_t)n_outputs * sizeof(float);
    float *y = device_allocate(device, size), *pinned = device_pin(device, size);
    require_that(y && pinned, "wgmma");
    launch_activation_operand(device_stream(device),
                              &(struct activation_operand_launch){operand, x, operand.n_inputs, NULL, 1});
    struct product_launch product = {.type = TENSOR_F16,
                                     .n_parts = 1,
                                     .parts = {{tiles, NULL, y, n_outputs, n_outputs}},
                                     .x = operand,
                                     .floats.rows_divisor = 1,
                                     .device.shared_bytes_max = device_facts(device)->shared_bytes_max};
    launch_product(device_stream(device), &product);
    device_download(device, pinned, y, size);
    require_that(true, "wgmma");
    device_free(device, y);
    return pinned;
}

static void probe_wgmma(void)
{
    const struct device_facts *facts = device_facts(device);
    if (!product_is_wgmma(facts->has_wgmma, facts->shared_bytes_max, WGMMA_ROWS, 0)) {
        printf("# no wgmma here\n");
        return;
    }
    int32_t n_inputs = facts->emulated ? 128 : 4096, n_outputs = facts->emulated ? 32 : 1024;
    size_t n_weights = (size_t)n_inputs * (size_t)n_outputs, n_x = (size_t)n_inputs * WGMMA_ROWS;
    uint64_t seed = 1;
    uint16_t *matrix = malloc(n_weights * sizeof *matrix);
    float *x = malloc(n_x * sizeof *x);
    void *packed = malloc(tiles_bytes(TENSOR_F16, n_outputs, n_inputs));
    require_that(matrix && x && packed, "wgmma");
    for (size_t i = 0; i < n_weights; i++)
        matrix[i] = random_half(&seed);
    for (size_t i = 0; i < n_x; i++) // down to what is subnormal beside the row's largest
        x[i] = ldexpf((float)(random_bits(&seed) % 4096) - 2048.0f, (int)(random_bits(&seed) % 36));
    struct tensor tensor = {.type = TENSOR_F16,
                            .n_dims = 2,
                            .dims = {(uint64_t)n_inputs, (uint64_t)n_outputs, 1, 1},
                            .data = matrix};
    tiles_pack(packed, TENSOR_F16, &tensor, 0, 0, tiles_panels(n_outputs));
    void *tiles = upload(packed, tiles_bytes(TENSOR_F16, n_outputs, n_inputs));
    float *device_x = upload(x, n_x * sizeof *x);
    struct activation_operand operand = {OPERAND_HALF,
                                         WGMMA_ROWS,
                                         n_inputs,
                                         device_allocate(device,
                                                         activation_operand_bytes(WGMMA_ROWS, n_inputs)),
                                         device_allocate(device, WGMMA_ROWS * sizeof(float)),
                                         false};
    require_that(operand.items && operand.scales, "wgmma");
    float *by_mma = multiply_rows(tiles, n_outputs, device_x, operand);
    operand.swizzled = true;
    float *by_wgmma = multiply_rows(tiles, n_outputs, device_x, operand);
    int32_t n_same = 0, n_sums = WGMMA_ROWS * n_outputs, n_numbers = 0;
    for (int32_t i = 0; i < n_sums; i++) {
        n_same += memcmp(by_mma + i, by_wgmma + i, sizeof *by_mma) == 0;
        n_numbers += isfinite(by_mma[i]) && by_mma[i] != 0.0f;
    }
    printf("# %d of %d sums of %d products are the same\n", n_same, n_sums, n_inputs);
    require_that(n_numbers > n_sums / 10 * 9, "most sums are numbers");
    answer_text("wgmma", n_same == n_sums ? "no" : "yes", "no");
    device_unpin(device, by_mma);
    device_unpin(device, by_wgmma);
    void *const memory[] = {tiles, device_x, operand.items, operand.scales};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        device_free(device, memory[i]);
    free(matrix);
    free(x);
    free(packed);
}

// --- Launches and memory ---

static double time_of_scale(float *items, int32_t n_rows, int32_t n_cols, int n, bool as_graph)
{
    struct device_event *begin = device_event_create(device), *end = device_event_create(device);
    struct device_graph *graph = NULL;
    require_that(begin && end, "events");
    for (int round = 0; round < 2; round++) { // the first one warms up
        if (as_graph && !graph) {
            device_graph_begin(device);
            for (int i = 0; i < n; i++)
                launch_scale(device_stream(device), (struct device_matrix){items, n_cols}, n_rows, n_cols,
                             1.0f, 0.0f);
            graph = device_graph_end(device);
            require_that(true, "capture");
        }
        device_event_record(device, begin);
        if (graph)
            device_graph_launch(device, graph);
        for (int i = 0; !graph && i < n; i++)
            launch_scale(device_stream(device), (struct device_matrix){items, n_cols}, n_rows, n_cols, 1.0f,
                         0.0f);
        device_event_record(device, end);
        require_that(true, "timing");
    }
    double us = device_event_between_us(begin, end) / n;
    device_graph_destroy(device, graph);
    device_event_destroy(device, begin);
    device_event_destroy(device, end);
    return us;
}

static void probe_times(const char *question, int32_t n_rows, int n, bool as_graph, bool bandwidth)
{
    enum { N_COLS = 4096 };
    size_t size = (size_t)n_rows * N_COLS * sizeof(float);
    float *items = device_allocate(device, size);
    require_that(items != NULL, question);
    device_zero(device, items, size);
    double us = time_of_scale(items, n_rows, N_COLS, n, as_graph);
    device_free(device, items);
    print_answer(question, bandwidth ? us > 0 ? 2.0 * (double)size / us / 1e3 : 0 : us,
                 bandwidth ? "GB/s" : "us");
}

static void probe_graph(void)
{
    probe_times("graph", 1, N_NODES, true, false);
}

static void probe_launch(void)
{
    probe_times("launch", 1, N_NODES, false, false);
}

static void probe_memory(void)
{
    probe_times("memory", device_facts(device)->emulated ? 4 : 65536, 4, false, true);
}

// The time of the work that `launch_work` enqueues. The first time warms up.
static double time_of(void (*launch_work)(const void *context), const void *context)
{
    struct device_event *begin = device_event_create(device), *end = device_event_create(device);
    require_that(begin && end, "events");
    for (int round = 0; round < 2; round++) {
        device_event_record(device, begin);
        launch_work(context);
        device_event_record(device, end);
        require_that(true, "timing");
    }
    double us = device_event_between_us(begin, end);
    device_event_destroy(device, begin);
    device_event_destroy(device, end);
    return us;
}

struct rate_work {
    const void *items;
    void *sums;
    int32_t n_pieces, n_rounds, n_blocks;
    bool by_wgmma;
};

static void launch_copies(const void *context)
{
    const struct rate_work *work = context;
    launch_rate_copy(device_stream(device), work->items, work->n_pieces, work->n_rounds, work->sums,
                     work->n_blocks);
}

static void launch_products_again(const void *context)
{
    const struct rate_work *work = context;
    launch_rate_products(device_stream(device), work->items, work->by_wgmma, work->n_rounds, work->sums,
                         work->n_blocks);
}

// Emulated, each sum is also compared with what the host adds.
static void check_copies(const struct rate_work *work, const uint32_t *items)
{
    size_t n = (size_t)work->n_blocks * RATE_COPY_SUMS;
    uint32_t *sums = device_pin(device, n * sizeof *sums);
    require_that(sums != NULL, "cache");
    device_download(device, sums, work->sums, n * sizeof *sums);
    require_that(true, "cache");
    for (uint32_t lane = 0; lane < RATE_COPY_SUMS; lane++) {
        uint32_t sum = 0;
        for (int32_t piece = 0; piece < work->n_pieces; piece++)
            sum += items[(size_t)piece * (RATE_PIECE_BYTES / 4) + lane];
        for (int32_t block = 0; block < work->n_blocks; block++)
            require_that(sums[(uint32_t)block * RATE_COPY_SUMS + lane] == sum * (uint32_t)work->n_rounds,
                         "a block copies every piece as often as it has rounds");
    }
    device_unpin(device, sums);
}

static void probe_cache(void)
{
    static const double sizes_mib[] = {0.5, 8, 16};
    const struct device_facts *facts = device_facts(device);
    if (facts->capability_major < 9)
        return;
    for (size_t i = 0; i < sizeof sizes_mib / sizeof *sizes_mib; i++) {
        size_t size = (size_t)(sizes_mib[i] * (facts->emulated ? 1 << 16 : 1 << 20));
        struct rate_work work = {.n_pieces = (int32_t)(size / RATE_PIECE_BYTES),
                                 .n_blocks = facts->n_multiprocessors};
        work.n_rounds = facts->emulated ? 2 : (int32_t)(sizes_mib[2] * 4 / sizes_mib[i]); // 64 MiB a block
        uint64_t seed = 3;
        uint32_t *items = malloc(size);
        require_that(items != NULL, "cache");
        for (size_t k = 0; k < size / sizeof *items; k++)
            items[k] = random_bits(&seed);
        void *copied = upload(items, size),
             *sums = device_allocate(device, (size_t)work.n_blocks * RATE_COPY_SUMS * sizeof *items);
        require_that(sums != NULL, "cache");
        work.items = copied;
        work.sums = sums;
        double us = time_of(launch_copies, &work);
        check_copies(&work, items);
        char name[32];
        snprintf(name, sizeof name, "cache %.1f MiB", sizes_mib[i]);
        print_answer(name, us > 0 ? (double)size * work.n_rounds * work.n_blocks / us / 1e3 : 0, "GB/s");
        device_free(device, copied);
        device_free(device, sums);
        free(items);
    }
}

static void probe_products(void)
{
    const struct device_facts *facts = device_facts(device);
    uint32_t items[RATE_ITEM_WORDS];
    uint64_t seed = 4;
    for (size_t i = 0; i < RATE_ITEM_WORDS; i++) // between -2 and 2, in each half
        items[i] = random_bits(&seed) & 0xBFFFBFFFu;
    struct rate_work work = {.items = upload(items, sizeof items), .n_rounds = facts->emulated ? 2 : 100000};
    for (int kind = 0; kind < (facts->has_wgmma ? 2 : 1); kind++) {
        work.by_wgmma = kind == 1;
        work.n_blocks = facts->n_multiprocessors * (work.by_wgmma ? 1 : 4);
        size_t n_sums = (size_t)work.n_blocks * RATE_PRODUCT_THREADS;
        work.sums = device_allocate(device, n_sums * sizeof(float));
        require_that(work.sums != NULL, "products");
        double us = time_of(launch_products_again, &work);
        double n_products =
            (double)work.n_rounds * work.n_blocks * (work.by_wgmma ? RATE_WGMMA_PRODUCTS : RATE_MMA_PRODUCTS);
        print_answer(work.by_wgmma ? "wgmma of random items" : "mma of random items",
                     us > 0 ? 2 * n_products / us / 1e6 : 0, "TFLOP/s");
        device_free(device, work.sums);
    }
    device_free(device, (void *)work.items);
}

// Must be the process's first launch.
static void probe_capture(void)
{
    float *items = device_allocate(device, 4096 * sizeof *items);
    require_that(items != NULL, "capture");
    device_zero(device, items, 4096 * sizeof *items);
    device_graph_begin(device);
    launch_scale(device_stream(device), (struct device_matrix){items, 4096}, 1, 4096, 1.0f, 0.0f);
    struct device_graph *graph = device_graph_end(device);
    require_that(true, "capture");
    answer_text("capture", graph ? "graph" : "none", "none");
    device_graph_destroy(device, graph);
    device_free(device, items);
}

// --- Steps ---

static struct device_graph *capture_work(void (*launch_work)(const void *context), const void *context)
{
    device_graph_begin(device);
    launch_work(context);
    struct device_graph *graph = device_graph_end(device);
    require_that(graph != NULL, "capture");
    return graph;
}

struct upload_work {
    struct rate_work copies; // of one piece
    struct device_matrix rows;
    struct device_graph *graph;
    unsigned char *host, *slot, *input;
    enum { UPLOAD_NONE, UPLOAD_IN_STREAM, UPLOAD_AHEAD } upload;
};

enum { STEP_COLS = 4096, STEP_NODES = 50, STEPS_TIMED = 100, STEP_UPLOAD_BYTES = 64 << 10 };

static void launch_alternately(const void *context)
{
    const struct upload_work *work = context;
    for (int i = 0; i < N_NODES; i += 2) {
        launch_copies(&work->copies);
        launch_scale(device_stream(device), work->rows, 1, STEP_COLS, 1.0f, 0.0f);
    }
}

static void launch_kernels(const void *context)
{
    const struct upload_work *work = context;
    for (int i = 0; i < STEP_NODES; i++)
        launch_scale(device_stream(device), work->rows, 1, STEP_COLS, 1.0f, 0.0f);
}

static void launch_step_graph(const void *context)
{
    device_graph_launch(device, ((const struct upload_work *)context)->graph);
}

static void launch_steps(const void *context)
{
    const struct upload_work *work = context;
    for (int step = 0; step < (device_facts(device)->emulated ? 2 : STEPS_TIMED); step++) {
        size_t slot = (size_t)(step % 2) * STEP_UPLOAD_BYTES;
        if (work->upload == UPLOAD_IN_STREAM)
            device_upload(device, work->input, work->host, STEP_UPLOAD_BYTES);
        if (work->upload == UPLOAD_AHEAD) {
            device_upload_ahead(device, work->slot + slot, work->host, STEP_UPLOAD_BYTES);
            device_join_uploads(device);
            device_copy(device, work->input, work->slot + slot, STEP_UPLOAD_BYTES);
        }
        device_graph_launch(device, work->graph);
    }
}

static void upload_work_init(struct upload_work *work)
{
    *work = (struct upload_work){.copies = {.items = device_allocate(device, RATE_PIECE_BYTES),
                                            .n_pieces = 1,
                                            .n_rounds = 1,
                                            .n_blocks = device_facts(device)->n_multiprocessors},
                                 .rows = {device_allocate(device, STEP_COLS * sizeof(float)), STEP_COLS},
                                 .host = device_pin(device, STEP_UPLOAD_BYTES),
                                 .slot = device_allocate(device, 2 * STEP_UPLOAD_BYTES),
                                 .input = device_allocate(device, STEP_UPLOAD_BYTES)};
    work->copies.sums =
        device_allocate(device, (size_t)work->copies.n_blocks * RATE_COPY_SUMS * sizeof(uint32_t));
    require_that(work->copies.items && work->copies.sums && work->rows.items && work->host && work->slot &&
                     work->input,
                 "memory");
    memset(work->host, 0, STEP_UPLOAD_BYTES);
    device_zero(device, work->rows.items, STEP_COLS * sizeof(float));
    device_zero(device, (void *)work->copies.items, RATE_PIECE_BYTES);
    require_that(true, "memory");
}

static void upload_work_finish(struct upload_work *work)
{
    void *const memory[] = {(void *)work->copies.items, work->copies.sums, work->rows.items, work->slot,
                            work->input};
    device_graph_destroy(device, work->graph);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        device_free(device, memory[i]);
    device_unpin(device, work->host);
}

static void probe_carveout(void)
{
    struct upload_work work;
    if (device_facts(device)->capability_major < 9)
        return;
    upload_work_init(&work);
    work.graph = capture_work(launch_alternately, &work);
    print_answer("carveout", time_of(launch_step_graph, &work) / N_NODES, "us");
    upload_work_finish(&work);
}

static void probe_upload(void)
{
    static const char *const names[] = {"upload none", "upload in the stream", "upload ahead"};
    struct upload_work work;
    upload_work_init(&work);
    work.graph = capture_work(launch_kernels, &work);
    double alone_us = 0.0;
    for (work.upload = UPLOAD_NONE; work.upload <= UPLOAD_AHEAD; work.upload++) {
        double us = time_of(launch_steps, &work) / STEPS_TIMED;
        alone_us = work.upload == UPLOAD_NONE ? us : alone_us;
        print_answer(names[work.upload], work.upload == UPLOAD_NONE ? us : us - alone_us, "us");
    }
    upload_work_finish(&work);
}

static const struct {
    const char *name;
    void (*ask)(void);
} questions[] = {{"capture", probe_capture},   {"zero", probe_zero},         {"order", probe_order},
                 {"columns", probe_columns},   {"wgmma", probe_wgmma},       {"graph", probe_graph},
                 {"launch", probe_launch},     {"memory", probe_memory},     {"cache", probe_cache},
                 {"products", probe_products}, {"carveout", probe_carveout}, {"upload", probe_upload}};

static bool is_asked(const char *name, int argc, char **argv)
{
    bool asked = argc == 1;
    for (int i = 1; i < argc; i++)
        asked = asked || strcmp(argv[i], name) == 0;
    return asked;
}

int main(int argc, char **argv)
{
    struct error error;
    struct device_options options = {0};
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
        if (strcmp(argv[1], "--no-overlap") == 0)
            options.no_overlap = true;
        else if (strcmp(argv[1], "--no-carveout") == 0)
            options.no_carveout = true;
        else
            return printf("# unknown option %s\n", argv[1]), 2;
    }
    if (device_open(&device, &options, &error) != STATUS_OK)
        return printf("skipped: %s\n", error.text), 77;
    printf("# on %s\n", device_facts(device)->name);
    int n_asked = 0;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        if (!is_asked(questions[i].name, argc, argv))
            continue;
        if (i > 0 && device_load_kernels(device, &error) != STATUS_OK)
            return printf("# %s\n", error.text), 1;
        questions[i].ask();
        n_asked++;
    }
    bool failed = n_asked == 0 || (n_contradicted && device_facts(device)->emulated);
    device_close(device);
    return failed;
}
