#include "engine/cpu/product/peak.h"

#include "schemas/base/clock.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { RUNS = 20 };

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

// Tile products of the greatest depth, of zeros. A task's multiply-adds equal LOOPS * CHAINS operations with
// AMX_MACS.
enum { AMX_MACS = 256, TILE_LOOPS = LOOPS * CHAINS / (4 * 16 * 16 * 64 / AMX_MACS) };

static void spin_int8_amx(void *context, int index, int thread)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
    for (int n = 0; n < TILE_LOOPS; n++)
        __asm__ volatile("tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
                         "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
    __asm__ volatile("tilerelease" : : : "memory");
}

#define BFLOAT_SUMS(sum, a, b) (__m512i) BFLOAT_ADD((__m512)(sum), a, b)
SPIN(spin_bfloat_avx512, "avx512f,avx512bf16", __m512i, _mm512_setzero_si512(), bfloat_ones(), BFLOAT_SUMS)
#endif

struct weight_reading {
    const uint8_t *bytes;
    size_t n_bytes; // bytes of one task
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
    for (int i = 0; i < RUNS; i++) {
        double begin_s = clock_s();
        pool_run(pool, n_tasks, task, context);
        double s = clock_s() - begin_s;
        best = s < best ? s : best;
    }
    return best;
}

#ifdef __x86_64__
typedef void spin_task(void *context, int index, int thread);

// By enum peak_instructions: the tasks, and the multiply-adds of one operation. NULL bfloat: as `single`.
static const struct {
    spin_task *int8, *bfloat, *single;
    int int8_macs, bfloat_macs, single_macs;
} peaks[] = {
    [PEAK_AVX2] = {spin_int8_avx2, NULL, spin_single_avx2, 32, 0, 8},
    [PEAK_AVXVNNI] = {spin_int8_avxvnni, NULL, spin_single_avx2, 32, 0, 8},
    [PEAK_AVXVNNI_AS_AVX512] = {spin_int8_as_avx512, NULL, spin_single_avx2, 32, 0, 8},
    [PEAK_AVX512] = {spin_int8_avx512, NULL, spin_single_avx512, 64, 0, 16},
    [PEAK_AVX512_BF16] = {spin_int8_avx512, spin_bfloat_avx512, spin_single_avx512, 64, 32, 16},
    [PEAK_AMX] = {spin_int8_amx, NULL, spin_single_avx512, AMX_MACS, 0, 16},
};

static void measure_products(struct pool *pool, enum peak_instructions instructions,
                             struct product_peak *peak)
{
    if (instructions == PEAK_NONE)
        return;
    const int n_tasks = 4 * pool_n_threads(pool);
    const double n = 1e-9 * LOOPS * (double)CHAINS * n_tasks;
    peak->int8 = n * peaks[instructions].int8_macs / best_s(pool, n_tasks, peaks[instructions].int8, NULL);
    peak->single =
        n * peaks[instructions].single_macs / best_s(pool, n_tasks, peaks[instructions].single, NULL);
    peak->bfloat = peak->single;
    if (peaks[instructions].bfloat)
        peak->bfloat =
            n * peaks[instructions].bfloat_macs / best_s(pool, n_tasks, peaks[instructions].bfloat, NULL);
}
#else
static void measure_products(struct pool *pool, enum peak_instructions instructions,
                             struct product_peak *peak)
{
    (void)pool, (void)instructions, (void)peak;
}
#endif

struct product_peak product_peak_measure(struct pool *pool, enum peak_instructions instructions)
{
    enum { TASKS = 64, HUGE_PAGE = 2 << 20 };
    struct product_peak peak = {0};
    struct weight_reading reading = {.n_bytes = 4 << 20};
    measure_products(pool, instructions, &peak);
    uint8_t *bytes = aligned_alloc(HUGE_PAGE, TASKS * reading.n_bytes); // in huge pages, as weights
    if (!bytes)
        return peak;
    madvise(bytes, TASKS * reading.n_bytes, MADV_HUGEPAGE);
    memset(bytes, 1, TASKS * reading.n_bytes);
    reading.bytes = bytes;
    peak.memory = 1e-9 * TASKS * (double)reading.n_bytes / best_s(pool, TASKS, read_memory, &reading);
    free(bytes);
    return peak;
}
