#include "engine/model/rope.h"
#include "schemas/base/elementary.h"
#include "schemas/base/hash.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static struct rope_parameters usual_parameters(int32_t n_dims)
{
    return (struct rope_parameters){.n_dims = n_dims,
                                    .base = 10000.0,
                                    .factor = 1.0,
                                    .n_context_original = 4096,
                                    .beta_fast = 32.0,
                                    .beta_slow = 1.0,
                                    .magnitude = 1.0};
}

static struct rope make(const struct rope_parameters *parameters)
{
    struct rope rope;
    struct error error = {0};
    assert_ok(rope_create(&rope, parameters, &error), &error);
    return rope;
}

static void refuse_parameters(const struct rope_parameters *parameters, const char *words)
{
    struct rope rope;
    struct error error = {0};
    assert_int_equal(rope_create(&rope, parameters, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, words));
    assert_null(rope.frequencies);
}

TEST(elementary_functions_agree_with_long_double_ones)
{
    uint64_t random = random_seed(1);
    for (int i = 0; i < 200000; i++) {
        double x = random_double(&random) * 1400.0 - 700.0;
        double expected = (double)expl((long double)x);
        assert_true(fabs(elementary_exp(x) - expected) <= 4e-16 * expected);
        x = ldexp(0.5 + 0.5 * random_double(&random), (int)(random_double(&random) * 200.0) - 100);
        expected = (double)logl((long double)x);
        assert_true(fabs(elementary_log(x) - expected) <= 4e-16 * fabs(expected));
        x = (random_double(&random) * 2.0 - 1.0) * (i % 2 ? 0x1p26 : 8.0);
        double sine, cosine;
        elementary_sincos(x, &sine, &cosine);
        assert_true(fabs(sine - (double)sinl((long double)x)) <= 3e-16);
        assert_true(fabs(cosine - (double)cosl((long double)x)) <= 3e-16);
        float y = (float)(-87.0 * random_double(&random));
        assert_true(fabs((double)elementary_exp_negative(y) - exp((double)y)) <= 1.2e-7 * exp((double)y));
    }
}

TEST(elementary_functions_have_exact_ends)
{
    assert_true(elementary_exp(0.0) == 1.0);
    assert_true(elementary_exp(-709.0) == 0.0);
    assert_true(isinf(elementary_exp(710.0)));
    assert_true(elementary_log(1.0) == 0.0);
    assert_true(elementary_exp_negative(0.0f) == 1.0f);
    assert_true(elementary_exp_negative(-86.9f) > 0.0f);
    assert_true(elementary_exp_negative(-87.0f) == 0.0f);
    assert_true(elementary_exp_negative(-INFINITY) == 0.0f);
    double sine, cosine;
    elementary_sincos(0.0, &sine, &cosine);
    assert_true(sine == 0.0 && cosine == 1.0);
}

TEST(frequencies_fall_geometrically_from_one)
{
    struct rope_parameters parameters = usual_parameters(64);
    struct rope rope = make(&parameters);
    assert_true(rope.frequencies[0] == 1.0);
    for (int i = 0; i < 32; i++) {
        double expected = pow(10000.0, -2.0 * i / 64.0);
        assert_true(fabs(rope.frequencies[i] - expected) <= 1e-14 * expected);
    }
    rope_finish(&rope);
}

TEST(a_table_is_the_same_bytes_on_every_machine)
{
    struct rope_parameters parameters = usual_parameters(128);
    parameters.base = 500000.0;
    struct rope rope = make(&parameters);
    uint64_t hash = 0;
    float pairs[128];
    for (int32_t position = 0; position < 1 << 24; position += 65521) {
        rope_fill(&rope, position, pairs);
        hash = hash_bytes(pairs, sizeof pairs, hash);
    }
    assert_int_equal(hash, 0x62ce74e07620e6ceull);
    rope_finish(&rope);
}

TEST(the_last_position_is_as_exact_as_the_first)
{
    struct rope_parameters parameters = usual_parameters(64);
    struct rope rope = make(&parameters);
    float pairs[64];
    int32_t positions[] = {0, 1, 4095, (1 << 24) - 1};
    for (int p = 0; p < 4; p++) {
        rope_fill(&rope, positions[p], pairs);
        for (int i = 0; i < 32; i++) {
            long double angle = (long double)positions[p] * (long double)rope.frequencies[i];
            // The product is rounded to double: half a unit of 2^24 is 2^-30.
            assert_true(fabs((double)pairs[2 * i] - (double)cosl(angle)) <= 1e-7);
            assert_true(fabs((double)pairs[2 * i + 1] - (double)sinl(angle)) <= 1e-7);
        }
    }
    rope_finish(&rope);
}

TEST(linear_scaling_divides_every_frequency)
{
    struct rope_parameters parameters = usual_parameters(32);
    struct rope plain = make(&parameters);
    parameters.scaling = ROPE_SCALING_LINEAR;
    parameters.factor = 4.0;
    struct rope scaled = make(&parameters);
    for (int i = 0; i < 16; i++)
        assert_true(scaled.frequencies[i] == plain.frequencies[i] / 4.0);
    assert_true(scaled.magnitude == 1.0);
    rope_finish(&plain);
    rope_finish(&scaled);
}

TEST(yarn_keeps_fast_pairs_scales_slow_ones_and_blends_between)
{
    struct rope_parameters parameters = usual_parameters(128);
    struct rope plain = make(&parameters);
    parameters.scaling = ROPE_SCALING_YARN;
    parameters.factor = 4.0;
    struct rope yarn = make(&parameters);
    // Pairs turning 32 times or more over 4096 positions: up to 20.9; fewer than once: from 45.03 on.
    for (int i = 0; i < 64; i++) {
        double share = yarn.frequencies[i] / plain.frequencies[i];
        if (i <= 20)
            assert_true(fabs(share - 1.0) < 1e-15);
        else if (i >= 46)
            assert_true(fabs(share - 0.25) < 1e-15);
        else
            assert_true(fabs(share - (0.25 + 0.75 * (46.0 - i) / 26.0)) < 1e-12);
    }
    assert_true(fabs(yarn.magnitude - (1.0 + 0.1 * log(4.0))) < 1e-15);
    float pairs[128];
    rope_fill(&yarn, 0, pairs);
    assert_true(pairs[0] == (float)yarn.magnitude && pairs[1] == 0.0f);
    rope_finish(&plain);
    rope_finish(&yarn);
}

TEST(divisors_divide_pair_by_pair)
{
    double divisors[] = {1.0, 2.0, 8.0, 3.0};
    struct rope_parameters parameters = usual_parameters(8);
    struct rope plain = make(&parameters);
    parameters.divisors = divisors;
    struct rope divided = make(&parameters);
    for (int i = 0; i < 4; i++)
        assert_true(divided.frequencies[i] == plain.frequencies[i] / divisors[i]);
    rope_finish(&plain);
    rope_finish(&divided);
}

TEST(parameters_out_of_range_are_refused_by_name)
{
    struct rope_parameters parameters = usual_parameters(7);
    refuse_parameters(&parameters, "rope dimensions: expected an even number in 2..4096, got 7");
    parameters = usual_parameters(ROPE_DIMS_MAX + 2);
    refuse_parameters(&parameters, "got 4098");
    parameters = usual_parameters(0);
    refuse_parameters(&parameters, "got 0");
    parameters = usual_parameters(8);
    parameters.base = 1.0;
    refuse_parameters(&parameters, "rope base");
    parameters = usual_parameters(8);
    parameters.base = (double)NAN;
    refuse_parameters(&parameters, "rope base");
    parameters = usual_parameters(8);
    parameters.factor = 0.0;
    refuse_parameters(&parameters, "rope scaling factor");
    parameters = usual_parameters(8);
    parameters.magnitude = -1.0;
    refuse_parameters(&parameters, "rope magnitude");
    parameters = usual_parameters(8);
    parameters.scaling = ROPE_SCALING_YARN;
    parameters.beta_slow = 0.0;
    refuse_parameters(&parameters, "YaRN");
    double divisors[] = {0.25, 1.0, 1.0, 1.0};
    parameters = usual_parameters(8);
    parameters.divisors = divisors;
    struct rope rope = make(&parameters); // a frequency of just ROPE_FREQUENCY_MAX
    rope_finish(&rope);
    divisors[0] = 0.2499;
    refuse_parameters(&parameters, "rope frequency 0");
    parameters = usual_parameters(ROPE_DIMS_MAX);
    rope = make(&parameters);
    rope_finish(&rope);
}
