// Families with GELU from half precision to half precision, as GGUF's engines compute it, over random shapes:
// that GELU is all their distance from double precision. Two engines that compute it agree only to about
// 0.001: a last bit of float32's rounding may move GELU's argument over the border between two half-precision
// numbers. Over the shared cases: a reference engine is as far from double precision, and without the
// rounding ours would be a thousand times nearer to double precision but beyond the cases' bound to the
// reference.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "engine/model/family.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"
#include "tests/support/reference_forward.h"
#include "tests/support/shared_data.h"

#include <inttypes.h>
#include <math.h>

enum { N_IDS = 24, N_IDS_MAX = 48, N_VOCAB = 320, N_LOGITS_MAX = N_IDS_MAX * N_VOCAB, N_SHAPES = 3 };

static const double reference_bound =
    0.001; // tolerance_abs of these families' cases in ../shared/oracle/cases.json

static const char *const families[] = {"gemma", "gpt2", "starcoder2", "falcon", "bloom", "gptneox", "phi2"};
enum { N_FAMILIES = sizeof families / sizeof *families };

struct gelu_run {
    int32_t ids[N_IDS_MAX];
    int32_t n_ids;
    double exact[N_LOGITS_MAX],
        exact_half[N_LOGITS_MAX]; // in double precision, the second with the rounded GELU
    float half[N_LOGITS_MAX], unrounded[N_LOGITS_MAX]; // ours
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

static void evaluate(struct model *model, const struct gelu_run *run, float *logits)
{
    struct error error = {0};
    struct pool *pool;
    struct backend *backend;
    assert_ok(pool_create(&pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    assert_ok(logits_of_text(model, backend, KV_F32, run->ids, run->n_ids, logits, &error), &error);
    backend->device.destroy(backend);
    pool_destroy(pool);
}

static void run_model(const char *path, struct gelu_run *run)
{
    struct error error = {0};
    struct model *model;
    reference_logits(path, run->ids, run->n_ids, run->exact);
    reference_logits_half_gelu(path, run->ids, run->n_ids, run->exact_half);
    assert_ok(model_open(&model, path, &error), &error);
    assert_int_equal(model->shape.n_vocab, N_VOCAB);
    evaluate(model, run, run->half);
    const struct family *family_of_file = model->family;
    assert_int_equal(family_of_file->activation, ACTIVATION_GELU_HALF);
    struct family unrounded = *family_of_file;
    unrounded.activation = ACTIVATION_GELU_TANH;
    model->family = &unrounded;
    evaluate(model, run, run->unrounded);
    model->family = family_of_file;
    model_close(model);
}

static void run_shape(const char *family, uint64_t seed, struct gelu_run *run)
{
    const struct model_recipe recipe = random_shape(family, seed);
    char directory[64], path[96];
    run->n_ids = N_IDS;
    for (int i = 0; i < N_IDS; i++)
        run->ids[i] = (int32_t)(((uint64_t)i * 97 + seed) % N_VOCAB);
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &recipe);
    run_model(path, run);
    remove_directory(directory);
}

static double nmse_of(const struct gelu_run *run, const float *logits, const double *expected)
{
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < run->n_ids * N_VOCAB; i++) {
        error += ((double)logits[i] - expected[i]) * ((double)logits[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return error / norm;
}

// That of the rounded GELU alone.
static double nmse_of_rounding(const struct gelu_run *run)
{
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < run->n_ids * N_VOCAB; i++) {
        error += (run->exact_half[i] - run->exact[i]) * (run->exact_half[i] - run->exact[i]);
        norm += run->exact[i] * run->exact[i];
    }
    return error / norm;
}

static void the_distance_from_double_precision_is_the_rounded_gelus(void **state)
{
    static struct gelu_run run;
    const char *family = *state;
    for (uint64_t seed = 1; seed <= N_SHAPES; seed++) {
        run_shape(family, seed, &run);
        double rounding = nmse_of_rounding(&run), half = nmse_of(&run, run.half, run.exact);
        double unrounded = nmse_of(&run, run.unrounded, run.exact);
        print_message("%s, seed %d: nmse %.3g, of the rounding alone %.3g, unrounded %.3g\n", family,
                      (int)seed, half, rounding, unrounded);
        assert_true(half < 1.25 * rounding && half > 0.8 * rounding);
        assert_true(unrounded < rounding / 1000.0);
        assert_true(nmse_of(&run, run.half, run.exact_half) < rounding / 2.0);
    }
}

static FILE *open_case(const char *family, const char *suffix)
{
    char relative[64], path[512];
    snprintf(relative, sizeof relative, "oracle/%s-f32%s", family, suffix);
    if (!shared_path(path, sizeof path, relative))
        return NULL;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    return file;
}

// Returns false where the shared data is absent. `logits` are the reference engine's.
static bool read_case(const char *family, struct gelu_run *run, float *logits)
{
    FILE *tokens = open_case(family, ".tokens"), *expected = open_case(family, ".logits.f32");
    bool found = tokens && expected;
    for (run->n_ids = 0; found && run->n_ids < N_IDS_MAX; run->n_ids++)
        if (fscanf(tokens, "%" SCNd32, &run->ids[run->n_ids]) != 1)
            break;
    if (found)
        assert_int_equal(fread(logits, sizeof *logits, N_LOGITS_MAX, expected), run->n_ids * N_VOCAB);
    if (tokens)
        fclose(tokens);
    if (expected)
        fclose(expected);
    return found;
}

static void the_reference_is_as_far_from_double_precision(void **state)
{
    static struct gelu_run run;
    static float reference[N_LOGITS_MAX];
    const char *family = *state;
    char relative[64], path[512];
    if (!read_case(family, &run, reference))
        skip();
    snprintf(relative, sizeof relative, "oracle/%s-f32.gguf", family);
    assert_true(shared_path(path, sizeof path, relative));
    run_model(path, &run);
    double theirs = nmse_of(&run, reference, run.exact), half = nmse_of(&run, run.half, run.exact);
    double unrounded = nmse_of(&run, run.unrounded, run.exact), moved = 0.0;
    for (int i = 0; i < run.n_ids * N_VOCAB; i++)
        moved = fmax(moved, fabs((double)run.unrounded[i] - (double)reference[i]));
    print_message("%s: nmse %.3g, of the reference %.3g, unrounded %.3g and %.2g from the reference\n",
                  family, half, theirs, unrounded, moved);
    assert_true(half < 1.01 * theirs);
    assert_true(unrounded < theirs / 1000.0);
    assert_true(moved > reference_bound);
}

int main(void)
{
    static struct CMUnitTest tests[2 * N_FAMILIES];
    for (int i = 0; i < N_FAMILIES; i++) {
        void *family = (void *)(uintptr_t)families[i];
        tests[i] = (struct CMUnitTest){families[i], the_distance_from_double_precision_is_the_rounded_gelus,
                                       NULL, NULL, family};
        tests[N_FAMILIES + i] =
            (struct CMUnitTest){families[i], the_reference_is_as_far_from_double_precision, NULL, NULL,
                                family};
    }
    return _cmocka_run_group_tests("golden_gelu", tests, 2 * N_FAMILIES, NULL, NULL);
}
