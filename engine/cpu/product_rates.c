#include "engine/cpu/product_rates.h"

#include "engine/cpu/product/memory.h"
#include "engine/file/quantize.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"

#include <stdlib.h>
#include <string.h>

// A matrix that no second-level cache holds; few rows wait for memory, so their weight is larger than a
// third-level cache.
enum { N_INPUTS = 2048, N_OUTPUTS = 1536, FEW_ROWS = 8, FEW_ROWS_OUTPUTS = 16 * N_OUTPUTS };
enum { ROWS_MAX = 512, RUNS_MAX = 100 };

static const double CELL_S = 0.2; // time of one measurement

static const enum tensor_type types[] = {TENSOR_Q4_0, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K,
                                         TENSOR_Q8_0, TENSOR_BF16, TENSOR_F16,  TENSOR_F32};
static const int32_t row_counts[] = {1, 8, 32, ROWS_MAX};

enum { N_TYPES = sizeof types / sizeof *types, N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

struct product_bench {
    struct product_rates *rates;
    struct cpu_kernels kernels;
    struct pool *pool;
    int n_parts; // parts of an activation
    struct prepared prepared;
    float *x, *y; // [ROWS_MAX, N_INPUTS], [ROWS_MAX, N_OUTPUTS]: also [FEW_ROWS, FEW_ROWS_OUTPUTS]
};

static enum peak_instructions instructions_of(const struct cpu_kernels *kernels)
{
    if (strcmp(kernels->name, "cpu/avx2") == 0)
        return PEAK_AVX2;
    if (strcmp(kernels->name, "cpu/avxvnni") == 0)
        return PEAK_AVXVNNI;
    if (strcmp(kernels->name, "cpu/avx512") == 0)
        return kernels->products.bfloats_apart ? PEAK_AVX512 : PEAK_AVX512_BF16;
    if (strcmp(kernels->name, "cpu/amx") == 0)
        return PEAK_AMX;
    return PEAK_NONE;
}

static float item_at(int64_t i)
{
    return (float)(int64_t)(hash_bytes(&i, sizeof i, 1) % 2001) / 1000.0f - 1.0f;
}

// One panel's outputs are quantized and repeated: the time of a product does not depend on the values.
static enum status make_weight(const struct product_bench *bench, enum tensor_type type, int32_t n_outputs,
                               struct memory_stack *memory, struct packed **packed, struct error *error)
{
    struct tensor tensor = {
        .name = TEXT("bench"), .type = type, .n_dims = 2, .dims = {N_INPUTS, n_outputs, 1, 1}};
    const struct tensor_traits *traits = tensor_traits(type);
    const size_t row_bytes = N_INPUTS / (size_t)traits->block_items * (size_t)traits->block_bytes;
    float *items = malloc(PANEL_OUTPUTS * N_INPUTS * sizeof *items);
    uint8_t *bytes = malloc((size_t)n_outputs * row_bytes);
    enum status status = items && bytes ? STATUS_OK : error_memory(error, STATUS_REFUSE, "a weight");
    for (int64_t i = 0; i < PANEL_OUTPUTS * N_INPUTS && status == STATUS_OK; i++)
        items[i] = item_at(i);
    if (status == STATUS_OK)
        status = quantize_items(type, items, PANEL_OUTPUTS * N_INPUTS, bytes, error);
    for (int32_t o = PANEL_OUTPUTS; o < n_outputs && status == STATUS_OK; o += PANEL_OUTPUTS)
        memcpy(bytes + (size_t)o * row_bytes, bytes, PANEL_OUTPUTS * row_bytes);
    tensor.data = bytes;
    tensor.size_bytes = (uint64_t)n_outputs * row_bytes;
    if (status == STATUS_OK)
        status = packed_create(packed, &tensor, memory, bench->pool, error);
    free(items);
    free(bytes);
    return status;
}

// Seconds of the fastest run, the conversion of x included.
static double product_s(struct product_bench *bench, const struct packed *weight, int32_t n_rows)
{
    const struct packed_shape shape = packed_shape(weight);
    const struct product_task task = {weight, NULL, bench->y, shape.n_outputs};
    const double until_s = clock_s() + CELL_S;
    double best_s = 1e9;
    for (int run = 0; run < RUNS_MAX && (run < 2 || clock_s() < until_s); run++) {
        double begin_s = clock_s();
        prepared_set(&bench->prepared, &bench->kernels.products, bench->pool, bench->x, N_INPUTS, n_rows,
                     N_INPUTS, packed_form(weight));
        product_run(&bench->kernels.products, bench->pool, &task, 1, &bench->prepared);
        double s = clock_s() - begin_s;
        best_s = s < best_s ? s : best_s;
    }
    return best_s;
}

static void receive_rate(const struct product_bench *bench, const struct packed *weight, int32_t n_rows,
                         double s)
{
    const struct packed_shape shape = packed_shape(weight);
    const unsigned form = packed_form(weight);
    const double peak = form == PRODUCT_QUANTS    ? bench->rates->peak.int8
                        : form == PRODUCT_BFLOATS ? bench->rates->peak.bfloat
                                                  : bench->rates->peak.single;
    struct product_rate rate = {.type = shape.type,
                                .n_rows = n_rows,
                                .products = 1e-9 * (double)shape.n_outputs * shape.n_inputs * n_rows / s,
                                .memory = 1e-9 * (double)packed_bytes(weight) / s};
    rate.of_peak = peak > 0 ? rate.products / peak : 0;
    rate.of_memory = rate.memory / bench->rates->peak.memory;
    bench->rates->receive(bench->rates->context, &rate);
}

static enum status measure_type(struct product_bench *bench, enum tensor_type type, struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < N_ROW_COUNTS && status == STATUS_OK; i++) {
        const int32_t n_rows = row_counts[i];
        struct memory_stack memory = {0};
        struct packed *weight = NULL;
        status = make_weight(bench, type, n_rows <= FEW_ROWS ? FEW_ROWS_OUTPUTS : N_OUTPUTS, &memory, &weight,
                             error);
        if (status == STATUS_OK)
            receive_rate(bench, weight, n_rows, product_s(bench, weight, n_rows));
        packed_destroy(weight);
        memory_stack_finish(&memory);
    }
    return status;
}

enum status product_rates_measure(struct product_rates *rates, struct pool *pool, enum cpu_level level,
                                  int activation_bits, struct error *error)
{
    struct product_bench bench = {.rates = rates, .pool = pool, .n_parts = activation_bits / 8};
    cpu_kernels_init(&bench.kernels, level);
    rates->peak = product_peak_measure(pool, instructions_of(&bench.kernels));
    bench.x = malloc((size_t)ROWS_MAX * N_INPUTS * sizeof *bench.x);
    bench.y = malloc((size_t)ROWS_MAX * N_OUTPUTS * sizeof *bench.y);
    enum status status =
        bench.x && bench.y && rates->peak.memory > 0
            ? prepared_create(&bench.prepared, ROWS_MAX, N_INPUTS, bench.n_parts, pool_n_threads(pool), error)
            : error_memory(error, STATUS_REFUSE, "rates of products");
    for (int64_t i = 0; i < (int64_t)ROWS_MAX * N_INPUTS && status == STATUS_OK; i++)
        bench.x[i] = item_at(i + 1);
    if (status == STATUS_OK)
        rates->begin(rates->context, bench.kernels.name, &rates->peak);
    for (int i = 0; i < N_TYPES && status == STATUS_OK; i++)
        if (bench.kernels.products.product[types[i]])
            status = measure_type(&bench, types[i], error);
    prepared_finish(&bench.prepared);
    free(bench.x);
    free(bench.y);
    return status;
}
