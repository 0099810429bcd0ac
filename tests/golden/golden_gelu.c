// Families with GELU from half precision to half precision, as GGUF's engines compute it, over random shapes:
// that GELU is all their distance from double precision. Two engines that compute it agree only to about
// 0.001: a last bit of float32's rounding may move GELU's argument over the border between two half-precision
// numbers.
#include "engine/cpu/backend.h"
#include "engine/evaluate.h"
#include "engine/model/family.h"
#include "tests/gguf_writer.h"
#include "tests/make_model.h"
#include "tests/reference_forward.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N_IDS = 24, N_VOCAB = 320, N_LOGITS = N_IDS * N_VOCAB, N_SHAPES = 3 };

static const char *const families[] = {"gemma", "gpt2", "starcoder2", "falcon", "bloom", "gptneox", "phi2"};
enum { N_FAMILIES = sizeof families / sizeof *families };

struct run {
    double exact[N_LOGITS], exact_half[N_LOGITS]; // in double precision, the second with the rounded GELU
    float half[N_LOGITS], unrounded[N_LOGITS];    // ours
};

static struct model_recipe random_shape(const char *family, uint64_t seed)
{
    const int32_t n_heads = 2 << seed % 2;
    return (struct model_recipe){.family = family,
                                 .seed = seed,
                                 .n_layers = 1 + (int32_t)(seed % 3),
                                 .n_heads = n_heads,
                                 .n_kv_heads = n_heads,
                                 .n_embd = n_heads * 16,
                                 .n_ff = 64 + 32 * (int32_t)(seed % 5)};
}

static void evaluate(struct model *model, const int32_t *ids, float *logits)
{
    struct error error = {0};
    struct pool *pool;
    struct backend *backend;
    assert_int_equal(pool_create(&pool, 2, &error), STATUS_OK);
    assert_int_equal(cpu_backend_create(&backend, pool, CPU_AVX512, &error), STATUS_OK);
    if (evaluate_tokens(model, backend, KV_F32, ids, N_IDS, logits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    backend->device.destroy(backend);
    pool_destroy(pool);
}

static void run_shape(const char *family, uint64_t seed, struct run *run)
{
    struct error error = {0};
    struct model *model;
    const struct model_recipe recipe = random_shape(family, seed);
    char directory[64], path[96];
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(((uint64_t)i * 97 + seed) % N_VOCAB);
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &recipe);
    reference_logits(path, ids, N_IDS, run->exact);
    reference_logits_half_gelu(path, ids, N_IDS, run->exact_half);
    if (model_open(&model, path, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    evaluate(model, ids, run->half);
    const struct family *family_of_file = model->family;
    assert_int_equal(family_of_file->activation, ACTIVATION_GELU_HALF);
    struct family unrounded = *family_of_file;
    unrounded.activation = ACTIVATION_GELU_TANH;
    model->family = &unrounded;
    evaluate(model, ids, run->unrounded);
    model->family = family_of_file;
    model_close(model);
    remove_directory(directory);
}

static double nmse_of(const float *logits, const double *expected)
{
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < N_LOGITS; i++) {
        error += ((double)logits[i] - expected[i]) * ((double)logits[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return error / norm;
}

// That of the rounded GELU alone.
static double nmse_of_rounding(const struct run *run)
{
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < N_LOGITS; i++) {
        error += (run->exact_half[i] - run->exact[i]) * (run->exact_half[i] - run->exact[i]);
        norm += run->exact[i] * run->exact[i];
    }
    return error / norm;
}

static void the_distance_from_double_precision_is_the_rounded_gelus(void **state)
{
    static struct run run;
    const char *family = *state;
    for (uint64_t seed = 1; seed <= N_SHAPES; seed++) {
        run_shape(family, seed, &run);
        double rounding = nmse_of_rounding(&run), half = nmse_of(run.half, run.exact);
        double unrounded = nmse_of(run.unrounded, run.exact);
        print_message("%s, seed %d: nmse %.3g, of the rounding alone %.3g, unrounded %.3g\n", family,
                      (int)seed, half, rounding, unrounded);
        assert_true(half < 1.25 * rounding && half > 0.8 * rounding);
        assert_true(unrounded < rounding / 1000.0);
        assert_true(nmse_of(run.half, run.exact_half) < rounding / 2.0);
    }
}

int main(void)
{
    static struct CMUnitTest tests[N_FAMILIES];
    for (int i = 0; i < N_FAMILIES; i++)
        tests[i] = (struct CMUnitTest){families[i], the_distance_from_double_precision_is_the_rounded_gelus,
                                       NULL, NULL, (void *)(uintptr_t)families[i]};
    return _cmocka_run_group_tests("golden_gelu", tests, N_FAMILIES, NULL, NULL);
}
