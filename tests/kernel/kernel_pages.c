// The key-value cache of a CPU: what is read back of it, and that its integers' sums hold at their worst.
#include "engine/cpu/attention.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pages.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum { PAGE = 32, DIMS_MAX = 256 };

static const enum cpu_level levels[] = {CPU_PLAIN, CPU_AVX2, CPU_AVX512};
static const enum kv_type integer_types[] = {KV_F16, KV_Q8_0};
static struct error error;

static void create_pages(struct pages *pages, int32_t n_dims, enum kv_type type)
{
    struct kv_shape shape = {1, 1, n_dims, n_dims, PAGE, 1, type};
    assert_ok(pages_create(pages, &shape, &error), &error);
}

// 12 bits of the fraction: binary16 keeps 10.
static float item_at(int32_t position, int32_t d)
{
    return 1.0f + (float)((position * 37 + d * 11) % 4096) / 4096.0f;
}

TEST(pages_of_floats_round_to_binary16_only_where_they_are_to)
{
    struct cpu_kernels kernels;
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        cpu_kernels_init(&kernels, levels[l]);
        for (int32_t n_dims = 1; n_dims <= 130; n_dims += 43) {
            for (int rounds = 0; rounds < 2; rounds++) {
                struct pages pages;
                float keys[DIMS_MAX], values[DIMS_MAX];
                create_pages(&pages, n_dims, rounds ? KV_F32_OF_F16 : KV_F32);
                for (int32_t p = 0; p < PAGE; p++) {
                    for (int32_t d = 0; d < n_dims; d++) {
                        keys[d] = item_at(p, d);
                        values[d] = -item_at(p, d + 1);
                    }
                    pages_store(&pages, &kernels.rows, 0, 0, p, keys, values);
                }
                for (int32_t p = 0; p < PAGE; p++) {
                    pages_load(&pages, 0, 0, p, keys, values);
                    for (int32_t d = 0; d < n_dims; d++) {
                        float key = item_at(p, d), value = item_at(p, d + 1); // to even, as IEEE 754 has it
                        assert_true(keys[d] == (rounds ? nearbyintf(key * 1024.0f) / 1024.0f : key));
                        assert_true(values[d] == -(rounds ? nearbyintf(value * 1024.0f) / 1024.0f : value));
                    }
                }
                pages_finish(&pages);
            }
        }
    }
}

// One query of ones over a page: keys are key_of(position) in every dimension, values value_of(position).
static void attend(enum cpu_level level, enum kv_type type, int32_t n_dims, float (*key_of)(int32_t),
                   float (*value_of)(int32_t), float *out)
{
    struct cpu_kernels kernels;
    struct pages pages;
    struct pool *pool;
    struct attention *attention;
    float keys[DIMS_MAX], values[DIMS_MAX], query[DIMS_MAX];
    int32_t page = 0;
    cpu_kernels_init(&kernels, level);
    create_pages(&pages, n_dims, type);
    for (int32_t p = 0; p < PAGE; p++) {
        for (int32_t d = 0; d < n_dims; d++) {
            keys[d] = key_of(p);
            values[d] = value_of(p);
            query[d] = 1.0f;
        }
        pages_store(&pages, &kernels.rows, 0, 0, p, keys, values);
    }
    assert_ok(pool_create(&pool, 1, &error), &error);
    assert_ok(attention_create(&attention, &pages, pool, &kernels.attention, &error), &error);
    assert_ok(attention_reserve(attention, 1, &error), &error);
    struct step_sequence sequence = {0, 1, PAGE - 1, &page};
    struct attention_parameters parameters = {.n_heads = 1, .scale = 1.0f};
    attention_begin(attention, (struct attention_sequences){&sequence, 1});
    attention_run(attention, &parameters, (struct attention_rows){query, n_dims},
                  (struct attention_rows){out, n_dims}, &(struct attention_vectors){0});
    attention_destroy(attention);
    pool_destroy(pool);
    pages_finish(&pages);
}

static float same_value(int32_t position)
{
    return 0.5f;
}

static float large_value(int32_t position)
{
    return position % 2 ? 30.0f : -30.0f;
}

static float by_sign(int32_t position)
{
    return position % 2 ? 7.0f : 1000.0f;
}

// Equal scores make equal weights of the largest integers their norm allows, equal values the largest
// integers of all.
TEST(sums_of_equal_values_under_equal_weights_do_not_overflow)
{
    for (size_t l = 0; l < 2 * sizeof levels / sizeof *levels; l++)
        for (int32_t n_dims = 1; n_dims <= DIMS_MAX; n_dims *= 2) {
            float out[DIMS_MAX];
            attend(levels[l / 2], integer_types[l % 2], n_dims, same_value, same_value, out);
            for (int32_t d = 0; d < n_dims; d++)
                assert_true(fabsf(out[d] - 0.5f) < 1e-3f);
        }
}

// Keys along the query: half of them have all the weight, the others none.
TEST(products_of_keys_along_the_query_do_not_overflow)
{
    for (size_t l = 0; l < 2 * sizeof levels / sizeof *levels; l++)
        for (int32_t n_dims = 1; n_dims <= DIMS_MAX; n_dims *= 2) {
            float out[DIMS_MAX];
            attend(levels[l / 2], integer_types[l % 2], n_dims, large_value, by_sign, out);
            for (int32_t d = 0; d < n_dims; d++)
                assert_true(fabsf(out[d] - 7.0f) < 1e-2f);
        }
}

static void fill_random(float *items, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        items[i] = random_float(seed);
}

TEST(pages_refuse_what_they_cannot_keep)
{
    struct pages pages;
    struct kv_shape shape = {1, 1, I16_DIMS_MAX, I16_DIMS_MAX, 16, 1, KV_F16};
    assert_ok(pages_create(&pages, &shape, &error), &error);
    pages_finish(&pages);
    for (int part = 0; part < 2; part++) {
        shape.key_dim = I16_DIMS_MAX + !part;
        shape.value_dim = I16_DIMS_MAX + part;
        shape.type = KV_F16;
        assert_int_equal(pages_create(&pages, &shape, &error), STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
        shape.type = KV_F32;
        assert_ok(pages_create(&pages, &shape, &error), &error);
        pages_finish(&pages);
    }
}

TEST(pages_give_back_what_they_keep)
{
    struct cpu_kernels kernels;
    cpu_kernels_init(&kernels, CPU_AVX512);
    static const enum kv_type types[] = {KV_F32, KV_F32_OF_F16, KV_F16, KV_Q8_0};
    static const double bounds[] = {0, 0x1p-11, 0x1p-14, 0.5 / 127 + 1e-6}; // of the largest item, 1
    for (int t = 0; t < 4; t++) {
        enum { DIMS = 45, VALUES = 19, SIZE = 32, HEADS = 2 };
        struct kv_shape shape = {1, HEADS, DIMS, VALUES, SIZE, 2, types[t]};
        struct pages pages;
        assert_ok(pages_create(&pages, &shape, &error), &error);
        uint64_t seed = 3;
        float keys[SIZE * HEADS * DIMS], values[SIZE * HEADS * VALUES];
        fill_random(keys, sizeof keys / sizeof *keys, &seed);
        fill_random(values, sizeof values / sizeof *values, &seed);
        for (int i = 0; i < SIZE; i++)
            pages_store(&pages, &kernels.rows, 0, 1, i, keys + i * HEADS * DIMS, values + i * HEADS * VALUES);
        for (int i = 0; i < SIZE; i++) {
            float key[HEADS * DIMS], value[HEADS * VALUES];
            pages_load(&pages, 0, 1, i, key, value);
            for (int d = 0; d < HEADS * DIMS; d++)
                assert_true(fabs((double)key[d] - (double)keys[i * HEADS * DIMS + d]) <= bounds[t]);
            for (int d = 0; d < HEADS * VALUES; d++)
                assert_true(fabs((double)value[d] - (double)values[i * HEADS * VALUES + d]) <= bounds[t]);
        }
        pages_finish(&pages);
    }
}
