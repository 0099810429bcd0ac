#include "tests/kernel/product_bench.h"

#include "engine/cpu/product/memory.h"
#include "engine/cpu/product/packed.h"
#include "engine/cpu/product/peak.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <string.h>

enum { N_INPUTS = 2048, REPETITIONS = 5, ROWS_MAX = 512 };
// Few rows wait for memory, as they do in a model: twice a large L3. Many rows take a usual matrix, so that
// one run is short enough not to be interrupted.
enum { WEIGHT_BYTES = 64 << 20, SMALL_WEIGHT_BYTES = 4 << 20, FEW_ROWS = 16 };

// Seconds of the fastest of some runs of one product, x's preparation included.
static double product_s(const struct product_level *level, struct pool *pool, const struct packed *packed,
                        struct prepared *prepared, const float *x, float *y, int32_t n_rows, int repetitions)
{
    double best = 1e9;
    struct packed_shape shape = packed_shape(packed);
    for (int i = 0; i < repetitions; i++) {
        double begin_s = clock_s();
        prepared_set(prepared, &level->kernels, pool, x, shape.n_inputs, n_rows, shape.n_inputs,
                     packed_form(packed));
        struct product_task task = {packed, NULL, y, shape.n_outputs};
        product_run(&level->kernels, pool, &task, 1, prepared);
        double s = clock_s() - begin_s;
        best = s < best ? s : best;
    }
    return best;
}

static struct packed *pack_of_bytes(enum tensor_type type, uint64_t bytes, struct memory_stack *memory,
                                    struct pool *pool)
{
    uint64_t state = 1;
    struct tensor one = product_tensor(type, 1, N_INPUTS, FILL_RANDOM, &state);
    int32_t n_outputs = (int32_t)(bytes / one.size_bytes / 32 * 32);
    free((void *)one.data);
    struct tensor tensor = product_tensor(type, n_outputs, N_INPUTS, FILL_RANDOM, &state);
    struct packed *packed = NULL;
    struct error error;
    double begin_s = clock_s();
    if (packed_create(&packed, &tensor, memory, pool, &error) != STATUS_OK)
        fprintf(stderr, "%s\n", error.text);
    else if (bytes == WEIGHT_BYTES)
        printf("%s: packed at %.2f GB/s\n", tensor_traits(type)->name,
               1e-9 * (double)tensor.size_bytes / (clock_s() - begin_s));
    free((void *)tensor.data);
    return packed;
}

// GMAC/s of plain C, on a small weight: it takes long.
static double plain_speed(const struct product_level *plain, enum tensor_type type, struct pool *pool,
                          struct prepared *prepared, const float *x, float *y)
{
    struct memory_stack memory = {0};
    struct packed *packed = pack_of_bytes(type, 1 << 20, &memory, pool);
    double macs = 1e-9 * (double)packed_shape(packed).n_outputs * N_INPUTS * 16;
    double speed = macs / product_s(plain, pool, packed, prepared, x, y, 16, 2);
    packed_destroy(packed);
    memory_stack_finish(&memory);
    return speed;
}

static void bench_type(const struct product_level *levels, enum tensor_type type, struct pool *pool,
                       const struct product_peak peaks[PRODUCT_LEVELS])
{
    static const int32_t row_counts[] = {1, 2, 4, 8, 16, 32, 128, ROWS_MAX};
    struct memory_stack memory = {0};
    struct packed *large = pack_of_bytes(type, WEIGHT_BYTES, &memory, pool),
                  *small = pack_of_bytes(type, SMALL_WEIGHT_BYTES, &memory, pool);
    struct prepared prepared;
    struct error error;
    uint64_t state = 2;
    float *x = malloc(ROWS_MAX * N_INPUTS * sizeof *x);
    for (int i = 0; i < ROWS_MAX * N_INPUTS; i++)
        x[i] = random_float(&state);
    float *y = malloc(ROWS_MAX * (size_t)packed_shape(large).n_outputs * sizeof *y);
    if (prepared_create(&prepared, ROWS_MAX, N_INPUTS, 1, 1, &error) != STATUS_OK || !x || !y)
        abort();
    double plain = plain_speed(&levels[0], type, pool, &prepared, x, y);
    for (int l = 1; l < PRODUCT_LEVELS; l++) {
        if (!levels[l].present || !levels[l].kernels.product[type])
            continue;
        double peak = packed_form(large) == PRODUCT_QUANTS    ? peaks[l].int8
                      : packed_form(large) == PRODUCT_BFLOATS ? peaks[l].bfloat
                                                              : peaks[l].single;
        for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
            const struct packed *packed = row_counts[i] <= FEW_ROWS ? large : small;
            double s = product_s(&levels[l], pool, packed, &prepared, x, y, row_counts[i], REPETITIONS);
            double speed = 1e-9 * (double)packed_shape(packed).n_outputs * N_INPUTS * row_counts[i] / s;
            double bytes = 1e-9 * (double)packed_bytes(packed) / s;
            printf("%-7s %-19s %4d rows  %7.1f GMAC/s %3.0f %%  %6.1f GB/s %3.0f %%  %6.0f x plain\n",
                   tensor_traits(type)->name, levels[l].name, row_counts[i], speed, 100 * speed / peak, bytes,
                   100 * bytes / peaks[l].memory, speed / plain);
        }
    }
    fflush(stdout);
    prepared_finish(&prepared);
    packed_destroy(large);
    packed_destroy(small);
    memory_stack_finish(&memory);
    free(x);
    free(y);
}

int product_bench(const struct product_level levels[PRODUCT_LEVELS], const char *type_name, int n_threads)
{
    struct pool *pool;
    struct error error;
    if (pool_create(&pool, n_threads, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct product_peak peaks[PRODUCT_LEVELS] = {0};
    for (int l = 1; l < PRODUCT_LEVELS; l++) {
        if (!levels[l].present)
            continue;
        peaks[l] = product_peak_measure(pool, levels[l].instructions);
        printf("%s, %d threads: int8 %.0f GMAC/s, bf16 %.0f, f32 %.0f, memory read %.1f GB/s\n",
               levels[l].name, pool_n_threads(pool), peaks[l].int8, peaks[l].bfloat, peaks[l].single,
               peaks[l].memory);
    }
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++)
        if (!type_name || strcmp(type_name, tensor_traits(*type)->name) == 0)
            bench_type(levels, *type, pool, peaks);
    pool_destroy(pool);
    return 0;
}
