// Every case of ../shared/oracle: our logits against a reference engine's or against exact arithmetic, within
// the case's bound, and the reference's greedy tokens where its margin is large. One test per case, with a
// line that reports the distance.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/shared_data.h"

#include <math.h>

enum { CASES_MAX = 256, IDS_MAX = 4096 };

// The reference rounds keys and values to binary16, which the 26 layers of this case amplify.
static const char *const deep_case = "gemma2-f32";
static const double deep_tolerance = 0.1;
static const double greedy_margin = 0.01; // below it the reference's own choice is chance

static char *read_whole(const char *name, size_t *size)
{
    char path[512], relative[256];
    snprintf(relative, sizeof relative, "oracle/%s", name);
    if (!shared_path(path, sizeof path, relative))
        return NULL;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    assert_true(end >= 0);
    rewind(file);
    char *data = malloc((size_t)end + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)end, file), (size_t)end);
    data[end] = '\0';
    fclose(file);
    *size = (size_t)end;
    return data;
}

static char *read_part(const char *name, const char *suffix, size_t *size)
{
    char file[256];
    snprintf(file, sizeof file, "%s%s", name, suffix);
    return read_whole(file, size);
}

static double value_number(const struct value *value)
{
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
}

struct oracle_case {
    char name[128];
    const struct value *facts;
    int32_t ids[IDS_MAX];
    int32_t n_prompt, n_ids; // the prompt, then the reference's greedy tokens but the last
    int32_t n_vocab;
};

static void read_ids(struct oracle_case *oracle)
{
    size_t size;
    char *text = read_part(oracle->name, ".tokens", &size), *at = text, *end;
    assert_non_null(text);
    for (long id; id = strtol(at, &end, 10), end != at; at = end) {
        assert_true(oracle->n_prompt < IDS_MAX);
        oracle->ids[oracle->n_prompt++] = (int32_t)id;
    }
    free(text);
    oracle->n_ids = oracle->n_prompt;
    const struct value *greedy = value_get(oracle->facts, "greedy");
    for (size_t i = 0; i + 1 < greedy->array.n_items; i++)
        oracle->ids[oracle->n_ids++] = (int32_t)greedy->array.items[i].integer;
}

static float *evaluate(struct oracle_case *oracle)
{
    struct error error = {0};
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    char path[512], relative[256];
    snprintf(relative, sizeof relative, "oracle/%s.gguf", oracle->name);
    assert_true(shared_path(path, sizeof path, relative));
    assert_ok(model_open(&model, path, &error), &error);
    oracle->n_vocab = model->shape.n_vocab;
    float *logits = calloc((size_t)oracle->n_ids * (size_t)oracle->n_vocab, sizeof *logits);
    assert_non_null(logits);
    assert_ok(pool_create(&pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    assert_ok(logits_of_text(model, backend, KV_F32, oracle->ids, oracle->n_ids, logits, &error), &error);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
    return logits;
}

static void compare_logits(const float *logits, const float *expected, size_t n, double *largest,
                           double *nmse)
{
    double error = 0.0, norm = 0.0;
    *largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double difference = (double)logits[i] - (double)expected[i];
        error += difference * difference;
        norm += (double)expected[i] * (double)expected[i];
        if (!(fabs(difference) <= *largest)) // a NaN stays
            *largest = fabs(difference);
    }
    *nmse = error / norm;
}

static void check_bound(const struct oracle_case *oracle, const float *logits)
{
    const struct value *absolute = value_get(oracle->facts, "tolerance_abs");
    const struct value *relative = value_get(oracle->facts, "tolerance_nmse_exact");
    const struct value *reference = value_get(oracle->facts, "reference_nmse");
    size_t n = (size_t)oracle->n_prompt * (size_t)oracle->n_vocab, size;
    double largest, nmse;
    assert_true(absolute || relative);
    if (absolute) {
        char *expected = read_part(oracle->name, ".logits.f32", &size);
        assert_int_equal(size, n * sizeof(float));
        compare_logits(logits, (const float *)(const void *)expected, n, &largest, &nmse);
        free(expected);
        double bound = strcmp(oracle->name, deep_case) == 0 ? deep_tolerance : value_number(absolute);
        print_message("%s: largest difference %.2g of %.2g\n", oracle->name, largest, bound);
        assert_true(largest <= bound);
    }
    if (relative) {
        char *expected = read_part(oracle->name, ".exact.f32", &size);
        assert_int_equal(size, n * sizeof(float));
        compare_logits(logits, (const float *)(const void *)expected, n, &largest, &nmse);
        free(expected);
        print_message("%s: nmse %.3g, %.2f of the reference's\n", oracle->name, nmse,
                      nmse / value_number(reference));
        assert_true(nmse <= value_number(relative));
    }
}

static int32_t find_largest(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void check_greedy(const struct oracle_case *oracle, const float *logits)
{
    const struct value *greedy = value_get(oracle->facts, "greedy"),
                       *margin = value_get(oracle->facts, "margin");
    if (!text_equals_string(value_get(oracle->facts, "type")->text, "f32"))
        return;
    for (size_t i = 0; i < greedy->array.n_items; i++) {
        size_t row = (size_t)oracle->n_prompt - 1 + i;
        int32_t best = find_largest(logits + row * (size_t)oracle->n_vocab, oracle->n_vocab);
        if (value_number(&margin->array.items[i]) > greedy_margin)
            assert_int_equal(best, greedy->array.items[i].integer);
    }
}

static void run_case(void **state)
{
    struct oracle_case *oracle = *state;
    if (!oracle) {
        print_message("skipped: ../shared/oracle is not here\n");
        skip();
    }
    read_ids(oracle);
    float *logits = evaluate(oracle);
    check_bound(oracle, logits);
    check_greedy(oracle, logits);
    free(logits);
}

int main(void)
{
    static struct oracle_case cases[CASES_MAX];
    static struct CMUnitTest tests[CASES_MAX];
    struct arena arena = {0};
    struct value root;
    struct error error;
    size_t size, n = 0;
    char *text = read_whole("cases.json", &size);
    if (!text) {
        tests[n++] = (struct CMUnitTest){"the oracle's cases", run_case, NULL, NULL, NULL};
    } else if (json_decode((struct text){text, size}, &arena, &root, &error) != STATUS_OK) {
        fprintf(stderr, "cases.json: %s\n", error.text);
        return 1;
    } else {
        for (; n < root.object.n_members && n < CASES_MAX; n++) {
            const struct value_member *member = &root.object.members[n];
            snprintf(cases[n].name, sizeof cases[n].name, "%.*s", (int)member->key.size, member->key.data);
            cases[n].facts = &member->value;
            tests[n] = (struct CMUnitTest){cases[n].name, run_case, NULL, NULL, &cases[n]};
        }
    }
    int failed = _cmocka_run_group_tests("golden_oracle", tests, n, NULL, NULL);
    arena_finish(&arena);
    free(text);
    return failed;
}
