#include "tests/kernel/product_bench.h"

#include "engine/cpu/product/memory.h"
#include "engine/cpu/product/packed.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { N_INPUTS = 2048, REPETITIONS = 5, ROWS_MAX = 512 };
// Few rows wait for memory, as they do in a model: twice a large L3. Many rows take a usual matrix, so that
// one run is short enough not to be interrupted.
enum { WEIGHT_BYTES = 64 << 20, SMALL_WEIGHT_BYTES = 4 << 20, FEW_ROWS = 16 };

// Peak rates of the machine, all threads together; 0: not measured.
struct limits {
    double int8, bfloat, single; // GMAC/s
    double memory;               // GB/s read
};

#ifdef __x86_64__
enum { LOOPS = 200000, CHAINS = 12 };

// A task that only multiplies, in registers: 12 chains, enough to hide any latency. The empty statement makes
// the compiler believe that the operands change, so that nothing is folded or moved out.
#define SPIN(name, features, type, start, operand, operation)                                                \
    __attribute__((target(features))) static void name(void *context, int index, int thread)                 \
    {                                                                                                        \
        type a = operand, b = operand;                                                                       \
        type s0 = start, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;                                        \
        type s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;                                         \
        __asm__ volatile("" : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5));                   \
        __asm__ volatile("" : "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9), "+v"(s10), "+v"(s11));                 \
        for (int n = 0; n < LOOPS; n++) {                                                                    \
            __asm__ volatile("" : "+v"(a), "+v"(b));                                                         \
            s0 = operation(s0, a, b), s1 = operation(s1, a, b), s2 = operation(s2, a, b);                    \
            s3 = operation(s3, a, b), s4 = operation(s4, a, b), s5 = operation(s5, a, b);                    \
            s6 = operation(s6, a, b), s7 = operation(s7, a, b), s8 = operation(s8, a, b);                    \
            s9 = operation(s9, a, b), s10 = operation(s10, a, b), s11 = operation(s11, a, b);                \
        }                                                                                                    \
        __asm__ volatile("" : : "v"(s0), "v"(s1), "v"(s2), "v"(s3), "v"(s4), "v"(s5));                       \
        __asm__ volatile("" : : "v"(s6), "v"(s7), "v"(s8), "v"(s9), "v"(s10), "v"(s11));                     \
    }

#define BFLOAT_ADD(sum, a, b)      _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define SINGLE_ADD(sum, a, b)      _mm512_fmadd_ps(a, b, sum)
#define SINGLE_ADD_AVX2(sum, a, b) _mm256_fmadd_ps(a, b, sum)
// AVX2 has no int8 dot product; its limit is the pair of multiplications that replaces one.
#define INT8_ADD_AVX2(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, sum), b))

SPIN(spin_int8_avx512, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(), _mm512_set1_epi8(3),
     _mm512_dpbusd_epi32)
// The tests compute AVX-VNNI in the encoding of AVX-512 where the processor has no other.
SPIN(spin_int8_avxvnni, "avxvnni", __m256i, _mm256_setzero_si256(), _mm256_set1_epi8(3),
     _mm256_dpbusd_avx_epi32)
SPIN(spin_int8_as_avx512, "avx512vl,avx512vnni", __m256i, _mm256_setzero_si256(), _mm256_set1_epi8(3),
     _mm256_dpbusd_epi32)
SPIN(spin_single_avx512, "avx512f", __m512, _mm512_setzero_ps(), _mm512_set1_ps(1.0f), SINGLE_ADD)
SPIN(spin_int8_avx2, "avx2", __m256i, _mm256_setzero_si256(), _mm256_set1_epi8(1), INT8_ADD_AVX2)
SPIN(spin_single_avx2, "avx2,fma", __m256, _mm256_setzero_ps(), _mm256_set1_ps(1.0f), SINGLE_ADD_AVX2)

__attribute__((target("avx512f"))) static __m512i bfloat_ones(void)
{
    return _mm512_set1_epi16(0x3F80);
}

#define BFLOAT_SUMS(sum, a, b) (__m512i) BFLOAT_ADD((__m512)(sum), a, b)
SPIN(spin_bfloat_avx512, "avx512f,avx512bf16", __m512i, _mm512_setzero_si512(), bfloat_ones(), BFLOAT_SUMS)
#endif

struct weight_reading {
    const uint8_t *bytes;
    size_t n_bytes; // of one task
    uint64_t sums[64];
};

// One word of each line: the whole line is loaded.
static void read_memory(void *context, int index, int thread)
{
    struct weight_reading *reading = context;
    const uint8_t *bytes = reading->bytes + (size_t)index * reading->n_bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < reading->n_bytes; i += 64) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        __builtin_prefetch(bytes + i + 4096);
        sum += word;
    }
    reading->sums[index % 64] += sum;
}

static double best_s(struct pool *pool, int n_tasks, void (*task)(void *, int, int), void *context)
{
    double best = 1e9;
    for (int i = 0; i < 2 * REPETITIONS; i++) {
        double begin_s = clock_s();
        pool_run(pool, n_tasks, task, context);
        double s = clock_s() - begin_s;
        best = s < best ? s : best;
    }
    return best;
}

static struct limits measure_limits(struct pool *pool, const struct product_level *level)
{
    struct limits limits = {0};
#ifdef __x86_64__
    int n_tasks = 4 * pool_n_threads(pool);
    double macs = 1e-9 * LOOPS * (double)CHAINS * n_tasks;
    if (strncmp(level->name, "avx512", 6) == 0) {
        limits.int8 = macs * 64 / best_s(pool, n_tasks, spin_int8_avx512, NULL);
        limits.single = macs * 16 / best_s(pool, n_tasks, spin_single_avx512, NULL);
        limits.bfloat = limits.single;
        if (!level->kernels.bfloats_apart)
            limits.bfloat = macs * 32 / best_s(pool, n_tasks, spin_bfloat_avx512, NULL);
    } else {
        const bool has_dot_products = strcmp(level->name, "avxvnni") == 0;
        limits.int8 = macs * 32 /
                      best_s(pool, n_tasks,
                             !has_dot_products         ? spin_int8_avx2
                             : processor_has_avxvnni() ? spin_int8_avxvnni
                                                       : spin_int8_as_avx512,
                             NULL);
        limits.single = macs * 8 / best_s(pool, n_tasks, spin_single_avx2, NULL);
        limits.bfloat = limits.single;
    }
#endif
    enum { TASKS = 64 };
    struct weight_reading reading = {.n_bytes = 4 << 20};
    uint8_t *bytes = aligned_alloc(2 << 20, TASKS * reading.n_bytes); // in huge pages, as weights
    madvise(bytes, TASKS * reading.n_bytes, MADV_HUGEPAGE);
    memset(bytes, 1, TASKS * reading.n_bytes);
    reading.bytes = bytes;
    limits.memory = 1e-9 * TASKS * (double)reading.n_bytes / best_s(pool, TASKS, read_memory, &reading);
    free(bytes);
    return limits;
}

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
                       const struct limits limits[PRODUCT_LEVELS])
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
        double peak = packed_form(large) == PRODUCT_QUANTS    ? limits[l].int8
                      : packed_form(large) == PRODUCT_BFLOATS ? limits[l].bfloat
                                                              : limits[l].single;
        for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
            const struct packed *packed = row_counts[i] <= FEW_ROWS ? large : small;
            double s = product_s(&levels[l], pool, packed, &prepared, x, y, row_counts[i], REPETITIONS);
            double speed = 1e-9 * (double)packed_shape(packed).n_outputs * N_INPUTS * row_counts[i] / s;
            double bytes = 1e-9 * (double)packed_bytes(packed) / s;
            printf("%-7s %-19s %4d rows  %7.1f GMAC/s %3.0f %%  %6.1f GB/s %3.0f %%  %6.0f x plain\n",
                   tensor_traits(type)->name, levels[l].name, row_counts[i], speed, 100 * speed / peak, bytes,
                   100 * bytes / limits[l].memory, speed / plain);
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
    struct limits limits[PRODUCT_LEVELS] = {0};
    for (int l = 1; l < PRODUCT_LEVELS; l++) {
        if (!levels[l].present)
            continue;
        limits[l] = measure_limits(pool, &levels[l]);
        printf("%s, %d threads: int8 %.0f GMAC/s, bf16 %.0f, f32 %.0f, memory read %.1f GB/s\n",
               levels[l].name, pool_n_threads(pool), limits[l].int8, limits[l].bfloat, limits[l].single,
               limits[l].memory);
    }
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++)
        if (!type_name || strcmp(type_name, tensor_traits(*type)->name) == 0)
            bench_type(levels, *type, pool, limits);
    pool_destroy(pool);
    return 0;
}
