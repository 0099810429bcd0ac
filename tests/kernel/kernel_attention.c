// Attention: every level against plain C by equality of bytes, plain C against double arithmetic, and the
// promises of engine/cpu/attention.h. With --bench: speed of each level in the shapes that matter.
#include "engine/cpu/attention.h"
#include "engine/cpu/kernels.h"
#include "schemas/base/pool.h"
#include "tests/kernel/kernel_bench.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

struct attention_setting {
    const char *name;
    int32_t n_heads, n_kv_heads, key_dim, value_dim;
    enum kv_type type;
    int32_t page_positions, window;
    float softcap, alibi;
    bool sinks;
    float query_size; // largest absolute value of a query's items
    float outlier;    // what multiplies one item of each key and value; 0: none
};

static const struct attention_setting settings[] = {
    {"eight heads a key, f16", 16, 2, 64, 64, KV_F16, 32, 0, 0, 0, false, 3},
    {"eight heads a key, f32", 16, 2, 64, 64, KV_F32, 32, 0, 0, 0, false, 3},
    {"one head a key", 4, 4, 64, 64, KV_F16, 16, 0, 0, 0, false, 3},
    {"two heads a key, 128 dimensions", 4, 2, 128, 128, KV_F16, 256, 0, 0, 0, false, 2},
    {"three heads a key, f32", 9, 3, 32, 32, KV_F32, 64, 0, 0, 0, false, 3},
    {"seven heads a key", 14, 2, 64, 64, KV_F16, 16, 0, 0, 0, false, 3},
    {"seventy heads one key", 70, 1, 16, 16, KV_F16, 128, 0, 0, 0, false, 3},
    {"odd dimensions", 4, 2, 13, 21, KV_F16, 16, 0, 0, 0, false, 3},
    {"odd dimensions, f32", 5, 1, 7, 33, KV_F32, 16, 0, 0, 0, false, 3},
    {"keys wider than values", 6, 2, 96, 48, KV_F16, 32, 0, 0, 0, false, 2},
    {"window", 8, 2, 64, 64, KV_F16, 32, 100, 0, 0, false, 3},
    {"window of one", 8, 2, 32, 32, KV_F16, 32, 1, 0, 0, false, 3},
    {"window longer than a segment", 2, 2, 32, 32, KV_F16, 32, 300, 0, 0, false, 3},
    {"soft cap", 8, 4, 64, 64, KV_F16, 32, 0, 20, 0, false, 10},
    {"linear biases", 12, 12, 32, 32, KV_F16, 32, 0, 0, 8, false, 3},
    {"sinks and window", 8, 2, 64, 64, KV_F16, 32, 128, 0, 0, true, 3},
    {"weights that underflow", 8, 2, 64, 64, KV_F16, 32, 0, 0, 0, false, 300},
    {"an item above all others", 8, 2, 64, 64, KV_F16, 32, 0, 0, 0, false, 0.5f, 20},
    {"eight heads a key, q8_0", 16, 2, 64, 64, KV_Q8_0, 32, 0, 0, 0, false, 3},
    {"seven heads a key, q8_0", 14, 2, 128, 128, KV_Q8_0, 16, 0, 0, 0, false, 2},
    {"odd dimensions, q8_0", 4, 2, 13, 21, KV_Q8_0, 16, 0, 0, 0, false, 3},
    {"window, soft cap, sinks, q8_0", 8, 2, 64, 48, KV_Q8_0, 64, 100, 20, 0, true, 10},
    {"an item above all others, q8_0", 4, 4, 64, 64, KV_Q8_0, 32, 0, 0, 0, false, 0.5f, 20},
};

enum { N_SETTINGS = sizeof settings / sizeof *settings, N_SEQUENCES = 4, N_PAGES_SPARE = 3 };

// Positions of each sequence, and how many of the last are computed.
static const int32_t lengths[N_SEQUENCES] = {600, 257, 17, 1}, wanted[N_SEQUENCES] = {26, 18, 17, 1};

static uint64_t seed = 1;

static float *random_floats(size_t n, float size)
{
    float *items = malloc((n + 1) * sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < n; i++)
        items[i] = size * random_float(&seed);
    return items;
}

// The inputs of one setting: the same for every way of computing them.
struct attention_problem {
    struct attention_setting setting;
    float *keys[N_SEQUENCES], *values[N_SEQUENCES]; // [length, n_kv_heads, dim]
    float *queries[N_SEQUENCES];                    // [length, n_heads, key_dim]
    float *sinks;
};

static struct attention_problem problem_make(const struct attention_setting *setting)
{
    struct attention_problem problem = {.setting = *setting};
    seed = 77;
    for (int s = 0; s < N_SEQUENCES; s++) {
        size_t n = (size_t)lengths[s];
        problem.keys[s] = random_floats(n * (size_t)(setting->n_kv_heads * setting->key_dim), 1);
        problem.values[s] = random_floats(n * (size_t)(setting->n_kv_heads * setting->value_dim), 1);
        problem.queries[s] =
            random_floats(n * (size_t)(setting->n_heads * setting->key_dim), setting->query_size);
        for (size_t i = 0; setting->outlier != 0.0f && i < n * (size_t)setting->n_kv_heads; i++) {
            problem.keys[s][i * (size_t)setting->key_dim + 5] *= setting->outlier;
            problem.values[s][i * (size_t)setting->value_dim + 9] *= setting->outlier;
        }
    }
    problem.sinks = random_floats((size_t)setting->n_heads, 3);
    return problem;
}

static void problem_free(struct attention_problem *problem)
{
    for (int s = 0; s < N_SEQUENCES; s++) {
        free(problem->keys[s]);
        free(problem->values[s]);
        free(problem->queries[s]);
    }
    free(problem->sinks);
}

// How a problem is computed: none of it may show in the result.
struct attention_way {
    enum cpu_level level;
    int n_threads;
    int32_t page_positions; // 0: the setting's
    int32_t cut;            // rows of a sequence in one call
    bool together;          // all sequences in one call
};

struct bench_pages {
    struct pages pages;
    int32_t *tables[N_SEQUENCES];
};

// Pages in a scattered order; every position of every page was used before, by something that was not a
// number.
static void pages_fill(struct bench_pages *filled, const struct attention_problem *problem,
                       const struct cpu_kernels *kernels, int32_t page_positions)
{
    const struct attention_setting *setting = &problem->setting;
    int32_t n_pages = N_PAGES_SPARE;
    for (int s = 0; s < N_SEQUENCES; s++)
        n_pages += (lengths[s] + page_positions - 1) / page_positions;
    struct kv_shape shape = {
        2, setting->n_kv_heads, setting->key_dim, setting->value_dim, page_positions, n_pages, setting->type};
    struct error error;
    assert_ok(pages_create(&filled->pages, &shape, &error), &error);
    int32_t n_floats = setting->n_kv_heads * (setting->key_dim + setting->value_dim);
    float *nan = malloc((size_t)n_floats * sizeof *nan);
    for (int32_t i = 0; i < n_floats; i++)
        nan[i] = NAN;
    for (int32_t page = 0; page < n_pages; page++)
        for (int32_t i = 0; i < page_positions; i++)
            pages_store(&filled->pages, &kernels->rows, 1, page, i, nan, nan);
    free(nan);
    int32_t next = 0;
    for (int s = 0; s < N_SEQUENCES; s++) {
        int32_t n = (lengths[s] + page_positions - 1) / page_positions;
        filled->tables[s] = malloc((size_t)n * sizeof(int32_t));
        for (int32_t i = 0; i < n; i++)
            filled->tables[s][i] = n_pages - 1 - next++; // back to front
        for (int32_t i = 0; i < lengths[s]; i++)
            pages_store(&filled->pages, &kernels->rows, 1, filled->tables[s][i / page_positions],
                        i % page_positions,
                        problem->keys[s] + (size_t)i * (size_t)(setting->n_kv_heads * setting->key_dim),
                        problem->values[s] + (size_t)i * (size_t)(setting->n_kv_heads * setting->value_dim));
    }
}

static size_t out_floats(const struct attention_setting *setting)
{
    size_t n = 0;
    for (int s = 0; s < N_SEQUENCES; s++)
        n += (size_t)(wanted[s] * setting->n_heads * setting->value_dim);
    return n;
}

// Rows of all sequences, in order, each sequence's last `wanted`.
static float *problem_compute(const struct attention_problem *problem, struct attention_way way)
{
    const struct attention_setting *setting = &problem->setting;
    struct cpu_kernels kernels;
    cpu_kernels_init(&kernels, way.level);
    struct pool *pool;
    struct attention *attention;
    struct error error;
    struct bench_pages filled;
    assert_ok(pool_create(&pool, way.n_threads, &error), &error);
    pages_fill(&filled, problem, &kernels, way.page_positions ? way.page_positions : setting->page_positions);
    assert_ok(attention_create(&attention, &filled.pages, pool, &kernels.attention, &error), &error);
    assert_ok(attention_reserve(attention, 110, &error), &error);
    struct attention_parameters parameters = {.layer = 1,
                                              .n_heads = setting->n_heads,
                                              .scale = 1.0f / sqrtf((float)setting->key_dim),
                                              .softcap = setting->softcap,
                                              .window = setting->window,
                                              .alibi_bias_max = setting->alibi};
    int64_t q_stride = setting->n_heads * setting->key_dim,
            out_stride = setting->n_heads * setting->value_dim;
    float *out = calloc(out_floats(setting), sizeof *out), *q = calloc(110 * (size_t)q_stride, sizeof *q);
    float *part = calloc(110 * (size_t)out_stride, sizeof *part);
    int32_t done[N_SEQUENCES] = {0};
    for (bool more = true; more;) {
        struct step_sequence sequences[N_SEQUENCES];
        int which[N_SEQUENCES], n = 0;
        int32_t n_rows = 0;
        for (int s = 0; s < N_SEQUENCES && (n == 0 || way.together); s++) {
            int32_t rows = wanted[s] - done[s] < way.cut ? wanted[s] - done[s] : way.cut;
            if (rows == 0)
                continue;
            int32_t position = lengths[s] - wanted[s] + done[s];
            sequences[n] = (struct step_sequence){n_rows, rows, position, filled.tables[s]};
            which[n++] = s;
            memcpy(q + n_rows * q_stride, problem->queries[s] + position * q_stride,
                   (size_t)(rows * q_stride) * sizeof *q);
            n_rows += rows;
        }
        more = n > 0;
        if (!more)
            break;
        attention_begin(attention, (struct attention_sequences){sequences, n});
        attention_run(attention, &parameters, (struct attention_rows){q, q_stride},
                      (struct attention_rows){part, out_stride},
                      &(struct attention_vectors){.sinks = setting->sinks ? problem->sinks : NULL});
        for (int i = 0; i < n; i++) {
            int64_t row = done[which[i]];
            for (int s = 0; s < which[i]; s++)
                row += wanted[s];
            memcpy(out + row * out_stride, part + sequences[i].first_row * out_stride,
                   (size_t)(sequences[i].n_tokens * out_stride) * sizeof *out);
            done[which[i]] += sequences[i].n_tokens;
        }
    }
    for (int s = 0; s < N_SEQUENCES; s++)
        free(filled.tables[s]);
    free(q);
    free(part);
    attention_destroy(attention);
    pages_finish(&filled.pages);
    pool_destroy(pool);
    return out;
}

// How a reference rounds keys and values before it computes in double arithmetic.
enum rounding { AS_STORED, TO_BINARY16, NOT_AT_ALL };

static void round_row(float *out, const float *x, int32_t n, enum rounding rounding, enum kv_type type,
                      bool is_key)
{
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    memcpy(out, x, (size_t)n * sizeof *out);
    if (rounding == TO_BINARY16) {
        uint16_t halves[128];
        plain.rows.convert_f16(halves, x, n);
        plain.rows.widen_f16(out, halves, n);
    } else if (rounding == AS_STORED && type != KV_F32) {
        int16_t integers[128];
        float largest = type == KV_Q8_0 ? I8_LARGEST : is_key ? I16_LARGEST : I16_VALUE_MAX;
        float scale = plain.rows.quantize_i16(integers, x, n, largest, is_key ? I16_NORM : INFINITY);
        for (int32_t i = 0; i < n; i++)
            out[i] = (float)integers[i] * scale;
    }
}

static void reference_row(const struct attention_problem *problem, enum rounding rounding, int s,
                          int32_t position, int32_t head, double *out)
{
    const struct attention_setting *setting = &problem->setting;
    int32_t kv_head = head / (setting->n_heads / setting->n_kv_heads);
    const float *q = problem->queries[s] + (position * setting->n_heads + head) * setting->key_dim;
    int32_t begin = setting->window > 0 && position >= setting->window ? position - setting->window + 1 : 0;
    double *scores = malloc((size_t)(position + 1) * sizeof *scores);
    double largest = setting->sinks ? (double)problem->sinks[head] : -INFINITY;
    float row[128];
    for (int32_t j = begin; j <= position; j++) {
        round_row(row, problem->keys[s] + (j * setting->n_kv_heads + kv_head) * setting->key_dim,
                  setting->key_dim, rounding, setting->type, true);
        double score = 0;
        for (int32_t d = 0; d < setting->key_dim; d++)
            score += (double)q[d] * (double)row[d];
        score *= (double)(1.0f / sqrtf((float)setting->key_dim));
        if (setting->softcap > 0)
            score = (double)setting->softcap * tanh(score / (double)setting->softcap);
        if (setting->alibi > 0)
            score += (double)attention_slope(head, setting->n_heads, setting->alibi) * (j - position);
        scores[j] = score;
        largest = score > largest ? score : largest;
    }
    double sum = setting->sinks ? exp((double)problem->sinks[head] - largest) : 0;
    for (int32_t d = 0; d < setting->value_dim; d++)
        out[d] = 0;
    for (int32_t j = begin; j <= position; j++) {
        round_row(row, problem->values[s] + (j * setting->n_kv_heads + kv_head) * setting->value_dim,
                  setting->value_dim, rounding, setting->type, false);
        double weight = exp(scores[j] - largest);
        sum += weight;
        for (int32_t d = 0; d < setting->value_dim; d++)
            out[d] += weight * (double)row[d];
    }
    for (int32_t d = 0; d < setting->value_dim; d++)
        out[d] /= sum;
    free(scores);
}

// Only NaN's bits may differ.
static void assert_same_bytes(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s: item %zu: %a and %a", what, i, (double)a[i], (double)b[i]);
}

// Between `out`, as problem_compute left it, or where it is NULL arithmetic on binary16 items, and a
// reference.
struct distance {
    double worst, squares, norm; // the largest error, squares of errors and of the reference
};

static struct distance distance_of(const struct attention_problem *problem, const float *out,
                                   enum rounding rounding)
{
    const struct attention_setting *setting = &problem->setting;
    struct distance distance = {0};
    int64_t at = 0;
    for (int s = 0; s < N_SEQUENCES; s++)
        for (int32_t r = 0; r < wanted[s]; r++)
            for (int32_t head = 0; head < setting->n_heads; head++, at += setting->value_dim) {
                if (r % 5 != 0 && r != wanted[s] - 1)
                    continue;
                double exact[128], halves[128];
                int32_t position = lengths[s] - wanted[s] + r;
                reference_row(problem, rounding, s, position, head, exact);
                if (!out)
                    reference_row(problem, TO_BINARY16, s, position, head, halves);
                for (int32_t d = 0; d < setting->value_dim; d++) {
                    double error = fabs(exact[d] - (out ? (double)out[at + d] : halves[d]));
                    distance.worst = fmax(distance.worst, error);
                    distance.squares += error * error;
                    distance.norm += exact[d] * exact[d];
                }
            }
    return distance;
}

TEST(plain_c_is_near_double_arithmetic)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        struct attention_problem problem = problem_make(&settings[i]);
        float *out = problem_compute(&problem, (struct attention_way){CPU_PLAIN, 1, 0, 100, true});
        double worst = distance_of(&problem, out, AS_STORED).worst;
        // Values are at most 1. A score's error shifts its weight: in float32 about 2^-24 of the largest
        // score a dimension. With integers a query's are off by up to 1 / 92,600 of its norm each and
        // weights by up to 1 / 46,300 of the root of their group's squares.
        double size = (double)settings[i].query_size * fmax(1, (double)settings[i].outlier);
        double bound = settings[i].type != KV_F32 ? 1e-4 + 5e-5 * size : 1e-6 + 3e-7 * size;
        if (!(worst <= bound))
            fail_msg("%s: off by %g of %g", settings[i].name, worst, bound);
        free(out);
        problem_free(&problem);
    }
}

// Error of 16-bit pages, including the rounding of queries and weights.
TEST(integers_are_nearer_to_exact_arithmetic_than_binary16_items)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        if (settings[i].type != KV_F16)
            continue;
        struct attention_problem problem = problem_make(&settings[i]);
        float *out = problem_compute(&problem, (struct attention_way){CPU_AVX512, 2, 0, 100, true});
        double integers = sqrt(distance_of(&problem, out, NOT_AT_ALL).squares);
        double halves = sqrt(distance_of(&problem, NULL, NOT_AT_ALL).squares);
        // One item far above its neighbors takes their digits, but binary16 is off by as much in that one.
        double bound = settings[i].outlier != 0.0f ? 1.5 : 0.5;
        print_message("%s: %.2f of binary16's distance\n", settings[i].name, integers / halves);
        if (!(integers <= bound * halves))
            fail_msg("%s: off by %g, binary16 by %g", settings[i].name, integers, halves);
        free(out);
        problem_free(&problem);
    }
}

// A byte is off by at most 1 / 254 of its head's largest item: of even ones by 2e-3 of their root mean
// square.
TEST(bytes_are_near_exact_arithmetic)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        if (settings[i].type != KV_Q8_0 || settings[i].outlier != 0.0f)
            continue;
        struct attention_problem problem = problem_make(&settings[i]);
        float *out = problem_compute(&problem, (struct attention_way){CPU_AVX512, 2, 0, 100, true});
        struct distance bytes = distance_of(&problem, out, NOT_AT_ALL);
        double nmse = bytes.squares / bytes.norm;
        print_message("%s: nmse %.2g\n", settings[i].name, nmse);
        if (!(nmse <= 1e-3))
            fail_msg("%s: nmse %g", settings[i].name, nmse);
        free(out);
        problem_free(&problem);
    }
}

TEST(every_level_gives_the_bytes_of_plain_c)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        struct attention_problem problem = problem_make(&settings[i]);
        float *plain = problem_compute(&problem, (struct attention_way){CPU_PLAIN, 1, 0, 100, true});
        for (int level = CPU_PLAIN + 1; level < CPU_LEVEL_COUNT; level++) {
            float *out =
                problem_compute(&problem, (struct attention_way){(enum cpu_level)level, 1, 0, 100, true});
            assert_same_bytes(plain, out, out_floats(&settings[i]), settings[i].name);
            free(out);
        }
        free(plain);
        problem_free(&problem);
    }
}

TEST(threads_cuts_pages_and_company_leave_the_bytes_alone)
{
    static const struct attention_way ways[] = {
        {CPU_AVX512, 2, 0, 100, true}, {CPU_AVX512, 1, 0, 1, false},   {CPU_AVX512, 2, 0, 1, true},
        {CPU_AVX512, 3, 0, 7, true},   {CPU_AVX512, 8, 0, 1, false},   {CPU_AVX512, 8, 0, 100, false},
        {CPU_AVX512, 1, 16, 13, true}, {CPU_AVX512, 4, 256, 31, true}, {CPU_AVX2, 5, 128, 9, false},
        {CPU_PLAIN, 2, 64, 17, true},
    };
    for (int i = 0; i < N_SETTINGS; i++) {
        struct attention_problem problem = problem_make(&settings[i]);
        float *whole = problem_compute(&problem, (struct attention_way){CPU_AVX512, 1, 0, 100, true});
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            float *out = problem_compute(&problem, ways[w]);
            assert_same_bytes(whole, out, out_floats(&settings[i]), settings[i].name);
            free(out);
        }
        free(whole);
        problem_free(&problem);
    }
}

TEST(worst_case_inputs_give_the_same_bytes)
{
    static const float awkward[] = {INFINITY, -INFINITY, 1e38f, -1e38f,   1e-40f,
                                    -1e-45f,  0.0f,      -0.0f, 65504.0f, NAN};
    for (int round = 0; round < 10; round++) {
        struct attention_setting setting = settings[round % 4];
        setting.softcap = round % 3 == 2 ? 5.0f : 0.0f;
        struct attention_problem problem = problem_make(&setting);
        for (int s = 0; s < N_SEQUENCES; s++)
            for (int i = 0; i < 40; i++) {
                size_t at = random_bits(&seed) % (size_t)(lengths[s] * setting.n_kv_heads * setting.key_dim);
                float item = awkward[(i + round) % (int)(sizeof awkward / sizeof *awkward)];
                if (round < 5 && !isfinite(item))
                    item = 3e38f;
                float *target = round % 2 ? problem.keys[s] : problem.values[s];
                target[at] = item;
            }
        float *plain = problem_compute(&problem, (struct attention_way){CPU_PLAIN, 1, 0, 100, true});
        for (int level = CPU_PLAIN + 1; level < CPU_LEVEL_COUNT; level++) {
            float *out =
                problem_compute(&problem, (struct attention_way){(enum cpu_level)level, 2, 0, 5, true});
            assert_same_bytes(plain, out, out_floats(&setting), "awkward");
            free(out);
        }
        free(plain);
        problem_free(&problem);
    }
}

// --- Shared pages ---

// Sequences of one step: their lengths, and with whom they share how many leading positions.
static const struct sharer {
    int32_t length, n_rows, n_shared;
    int with; // an earlier one, or -1
} sharers[] = {
    {1100, 1, 0, -1},  {1045, 1, 1024, 0}, {300, 2, 0, -1},   {1500, 9, 1024, 0}, {700, 1, 512, 0},
    {299, 1, 256, 2},  {1030, 1, 1024, 0}, {555, 30, 512, 0}, {1200, 1, 0, -1},   {1040, 1, 1024, 0},
    {512, 200, 0, -1}, {513, 1, 512, 10},  {600, 2, 512, 10}, {257, 1, 256, 10},
};

enum { N_SHARERS = sizeof sharers / sizeof *sharers, LONGEST = 1500 };

// Seed of the values at a position; equal for all sequences where the position is shared.
static uint64_t position_seed(int s, int32_t position)
{
    while (position < sharers[s].n_shared)
        s = sharers[s].with;
    return (uint64_t)s * 100000 + (uint64_t)position + 1;
}

// All rows in one call; with shared block tables, or with every sequence's own copy of the pages.
static float *sharers_compute(const struct attention_setting *setting, enum cpu_level level, int n_threads,
                              bool shared, size_t *n_floats)
{
    struct cpu_kernels kernels;
    cpu_kernels_init(&kernels, level);
    struct pool *pool;
    struct attention *attention;
    struct pages pages;
    struct error error;
    int32_t size = setting->page_positions, table_pages = LONGEST / size + 1, n_pages = 0, n_rows = 0;
    struct kv_shape shape = {1,    setting->n_kv_heads,     setting->key_dim, setting->value_dim,
                             size, N_SHARERS * table_pages, setting->type};
    assert_ok(pool_create(&pool, n_threads, &error), &error);
    assert_ok(pages_create(&pages, &shape, &error), &error);
    int32_t *tables = malloc((size_t)(N_SHARERS * table_pages) * sizeof *tables);
    struct step_sequence sequences[N_SHARERS];
    for (int s = 0; s < N_SHARERS; s++) {
        const struct sharer *sharer = &sharers[s];
        int32_t *table = tables + s * table_pages, n_common = shared ? sharer->n_shared / size : 0;
        for (int32_t i = 0; i < table_pages; i++)
            table[i] = i < n_common ? tables[sharer->with * table_pages + i] : n_pages++;
        for (int32_t position = n_common * size; position < sharer->length; position++) {
            seed = position_seed(s, position);
            float *keys = random_floats((size_t)(setting->n_kv_heads * setting->key_dim), 1);
            float *values = random_floats((size_t)(setting->n_kv_heads * setting->value_dim), 1);
            pages_store(&pages, &kernels.rows, 0, table[position / size], position % size, keys, values);
            free(keys);
            free(values);
        }
        sequences[s] =
            (struct step_sequence){n_rows, sharer->n_rows, sharer->length - sharer->n_rows, table, false};
        n_rows += sharer->n_rows;
    }
    assert_ok(attention_create(&attention, &pages, pool, &kernels.attention, &error), &error);
    assert_ok(attention_reserve(attention, n_rows, &error), &error);
    int64_t q_stride = setting->n_heads * setting->key_dim,
            out_stride = setting->n_heads * setting->value_dim;
    seed = 5;
    float *q = random_floats((size_t)(n_rows * q_stride), setting->query_size);
    float *sinks = random_floats((size_t)setting->n_heads, 3);
    *n_floats = (size_t)(n_rows * out_stride);
    float *out = calloc(*n_floats, sizeof *out);
    struct attention_parameters parameters = {.n_heads = setting->n_heads,
                                              .scale = 1.0f / sqrtf((float)setting->key_dim),
                                              .softcap = setting->softcap,
                                              .window = setting->window,
                                              .alibi_bias_max = setting->alibi};
    attention_begin(attention, (struct attention_sequences){sequences, N_SHARERS});
    attention_run(attention, &parameters, (struct attention_rows){q, q_stride},
                  (struct attention_rows){out, out_stride},
                  &(struct attention_vectors){.sinks = setting->sinks ? sinks : NULL});
    attention_destroy(attention);
    pages_finish(&pages);
    pool_destroy(pool);
    free(tables);
    free(q);
    free(sinks);
    return out;
}

TEST(shared_pages_give_the_bytes_of_own_copies)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        size_t n;
        float *own = sharers_compute(&settings[i], CPU_AVX512, 2, false, &n);
        static const int n_threads[] = {1, 3, 16};
        for (int way = 0; way < 3; way++) {
            float *shared =
                sharers_compute(&settings[i], way == 1 ? CPU_AVX2 : CPU_AVX512, n_threads[way], true, &n);
            assert_same_bytes(own, shared, n, settings[i].name);
            free(shared);
        }
        free(own);
    }
}

TEST(linear_biases_follow_the_paper)
{
    for (int32_t head = 0; head < 8; head++) // 8 heads: 1/2, 1/4, ..., 1/256
        assert_true(attention_slope(head, 8, 8.0f) == ldexpf(1.0f, -(head + 1)));
    // 12 heads: the first 8 as above, then those of 16 heads at every second place
    for (int32_t head = 8; head < 12; head++)
        assert_true(attention_slope(head, 12, 8.0f) == attention_slope(2 * (head - 8), 16, 8.0f));
}

// --- Benchmark ---

struct bench_shape {
    const char *name;
    int32_t n_heads, n_kv_heads, dim, n_sequences, n_rows, context, n_shared;
    enum kv_type type;
};

enum { PAGE = 32 };

// Block tables [n_sequences, context / PAGE], pages interleaved as batches leave them, the shared ones first.
static int32_t *bench_tables(const struct bench_shape *shape, int32_t n_sequences)
{
    int32_t n_each = shape->context / PAGE, n_pages = n_sequences * n_each;
    int32_t *tables = malloc((size_t)n_pages * sizeof *tables);
    assert_non_null(tables);
    for (int32_t i = 0; i < n_pages; i++)
        tables[(i % n_sequences) * n_each + i / n_sequences] = i;
    for (int32_t i = 0; i < n_pages; i++)
        if (i % n_each < shape->n_shared / PAGE)
            tables[i] = i % n_each;
    return tables;
}

static void bench_shape(const struct bench_shape *shape, enum cpu_level level, int n_threads,
                        double *seconds_plain)
{
    struct cpu_kernels kernels;
    cpu_kernels_init(&kernels, level);
    if (kernels.level != level)
        return;
    struct pool *pool;
    struct pages pages;
    struct attention *attention;
    struct error error;
    int32_t n_sequences = level == CPU_PLAIN ? 1 : shape->n_sequences;
    int32_t n_layers = level == CPU_PLAIN ? 1 : 4, n_pages = n_sequences * (shape->context / PAGE);
    struct kv_shape kv = {n_layers, shape->n_kv_heads, shape->dim, shape->dim, PAGE, n_pages, shape->type};
    if (pool_create(&pool, n_threads, &error) || pages_create(&pages, &kv, &error) ||
        attention_create(&attention, &pages, pool, &kernels.attention, &error) ||
        attention_reserve(attention, n_sequences * shape->n_rows, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    int32_t n_floats = shape->n_kv_heads * shape->dim;
    float *row = random_floats((size_t)n_floats, 1);
    for (int32_t layer = 0; layer < n_layers; layer++)
        for (int32_t page = 0; page < n_pages; page++)
            for (int32_t i = 0; i < PAGE; i++)
                pages_store(&pages, &kernels.rows, layer, page, i, row, row);
    int32_t *tables = bench_tables(shape, n_sequences);
    struct step_sequence *sequences = malloc((size_t)n_sequences * sizeof *sequences);
    for (int32_t s = 0; s < n_sequences; s++)
        sequences[s] =
            (struct step_sequence){s * shape->n_rows, shape->n_rows, shape->context - shape->n_rows,
                                   tables + s * (shape->context / PAGE)};
    int64_t stride = shape->n_heads * shape->dim;
    float *q = random_floats((size_t)(n_sequences * shape->n_rows * stride), 1);
    float *out = random_floats((size_t)(n_sequences * shape->n_rows * stride), 1);
    struct attention_parameters parameters = {.n_heads = shape->n_heads, .scale = 0.125f};
    double best = 1e9;
    for (int repeat = 0; repeat < (level == CPU_PLAIN ? 1 : 10); repeat++) {
        double start = bench_seconds(n_threads);
        attention_begin(attention, (struct attention_sequences){sequences, n_sequences});
        for (int32_t layer = 0; layer < n_layers; layer++) {
            parameters.layer = layer;
            attention_run(attention, &parameters, (struct attention_rows){q, stride},
                          (struct attention_rows){out, stride}, &(struct attention_vectors){0});
        }
        double seconds = (bench_seconds(n_threads) - start) / n_layers / n_sequences;
        best = seconds < best ? seconds : best;
    }
    double positions = 0; // seen by the rows of one sequence
    for (int32_t r = 0; r < shape->n_rows; r++)
        positions += shape->context - r;
    if (level == CPU_PLAIN)
        *seconds_plain = best * n_threads;
    printf("%-34s %-6s %d threads %9.1f us a sequence %7.1f GMAC/s %6.1f GB/s %6.1f x plain\n", shape->name,
           kernels.name, n_threads, best * 1e6, positions * shape->n_heads * shape->dim * 2 / best * 1e-9,
           (double)shape->context * n_floats * (shape->type == KV_Q8_0 ? 2 : 4) / best * 1e-9,
           *seconds_plain / best / n_threads);
    free(row);
    free(tables);
    free(sequences);
    free(q);
    free(out);
    attention_destroy(attention);
    pages_finish(&pages);
    pool_destroy(pool);
}

// Only shapes whose name holds `filter`.
static int run_bench(const char *filter)
{
    static const struct bench_shape shapes[] = {
        {"decode 16 x 2048, 32/4 heads of 64", 32, 4, 64, 16, 1, 2048, 0, KV_F16},
        {"decode 16 x 2048, 32/4 heads of 64, q8_0", 32, 4, 64, 16, 1, 2048, 0, KV_Q8_0},
        {"decode 16 x 128, 32/4 heads of 64", 32, 4, 64, 16, 1, 128, 0, KV_F16},
        {"decode 1 x 2048, 32/4 heads of 64", 32, 4, 64, 1, 1, 2048, 0, KV_F16},
        {"decode 16 x 2048, 32/8 heads of 128", 32, 8, 128, 16, 1, 2048, 0, KV_F16},
        {"decode 16 x 2048, 32/8 heads of 128, q8_0", 32, 8, 128, 16, 1, 2048, 0, KV_Q8_0},
        {"decode 16 x 512, 12/12 heads of 64", 12, 12, 64, 16, 1, 512, 0, KV_F16},
        {"decode 16 x 512, 12/12 heads of 64, q8_0", 12, 12, 64, 16, 1, 512, 0, KV_Q8_0},
        {"decode 64 x 576, 512 shared", 32, 4, 64, 64, 1, 576, 512, KV_F16},
        {"prefill 512 of 512, 32/4 heads of 64", 32, 4, 64, 1, 512, 512, 0, KV_F16},
        {"prefill 512 of 512, 32/4 heads of 64, q8_0", 32, 4, 64, 1, 512, 512, 0, KV_Q8_0},
        {"prefill 128 of 2048, 32/4 heads", 32, 4, 64, 1, 128, 2048, 0, KV_F16},
        {"prefill 512 of 512, 12/12 heads", 12, 12, 64, 1, 512, 512, 0, KV_F16},
        {"prefill 256 of 512, 14/2 heads", 14, 2, 64, 1, 256, 512, 0, KV_F16},
    };
    int n_threads_most = bench_n_threads();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double seconds_plain = 0;
        if (!strstr(shapes[i].name, filter))
            continue;
        bench_shape(&shapes[i], CPU_PLAIN, 1, &seconds_plain);
        for (int level = CPU_AVX2; level < CPU_LEVEL_COUNT; level++)
            for (int n_threads = 1; n_threads <= n_threads_most; n_threads *= 2)
                bench_shape(&shapes[i], (enum cpu_level)level, n_threads, &seconds_plain);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return run_bench(argc > 2 ? argv[2] : "");
    return cases_run();
}
