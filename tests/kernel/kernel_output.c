// Gathered output rows: the logits of allowed tokens have the bits of the whole product, for every type of
// weights, whatever is computed beside them in the step.
#include "engine/cpu/state.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

enum { N_ROWS = 23, N_INPUTS = 256, N_VOCAB = 5003, N_WORDS = (N_VOCAB + 31) / 32 };

// A step of one token a sequence, each with an output.
struct made_output_step {
    int32_t tokens[N_ROWS], positions[N_ROWS], rows[N_ROWS];
    struct step_sequence sequences[N_ROWS];
    struct sample_request samples[N_ROWS];
    struct sampling sampling;
    uint32_t masks[N_ROWS][N_WORDS];
    struct step step;
};

// Rows without a mask, with a few tokens, the most that are gathered, one more, the vocabulary's ends, none.
static void fill_mask(uint32_t *mask, int kind, uint64_t *state)
{
    static const int32_t counts[] = {1, 5, OUTPUT_GATHERED_MAX, OUTPUT_GATHERED_MAX + 1, 0};
    memset(mask, 0, N_WORDS * sizeof *mask);
    for (int32_t n = 0; kind < 5 && n < counts[kind];) {
        int32_t token = (int32_t)random_below(state, N_VOCAB);
        n += !token_mask_has(mask, token);
        mask[token / 32] |= 1u << token % 32;
    }
    if (kind == 5) {
        mask[0] |= 1;
        mask[(N_VOCAB - 1) / 32] |= 1u << (N_VOCAB - 1) % 32;
    }
}

static void make_step(struct made_output_step *made, int32_t n_rows, int mixture, uint64_t *state)
{
    for (int32_t i = 0; i < n_rows; i++) {
        int kind = mixture == 0   ? 6
                   : mixture == 1 ? (int)random_below(state, 7)
                                  : (int)random_below(state, 3);
        fill_mask(made->masks[i], kind, state);
        made->rows[i] = i;
        made->sequences[i] = (struct step_sequence){.first_row = i, .n_tokens = 1};
        made->samples[i] = (struct sample_request){.sampling = &made->sampling,
                                                   .allowed = kind == 6 ? NULL : made->masks[i],
                                                   .n_allowed_words = kind == 6 ? 0 : N_WORDS};
    }
    made->step = (struct step){.n_tokens = n_rows,
                               .tokens = made->tokens,
                               .positions = made->positions,
                               .n_sequences = n_rows,
                               .sequences = made->sequences,
                               .n_outputs = n_rows,
                               .output_rows = made->rows,
                               .samples = made->samples};
}

struct output_bench {
    struct pool *pool;
    struct backend *backend;
    struct weight *weight, *bias;
    struct matrix *x, *x_copy, *whole, *gathered;
};

static struct output_bench machine_make(enum cpu_level level, const struct tensor *tensor,
                                        const struct tensor *bias)
{
    struct output_bench m;
    struct error error;
    assert_ok(pool_create(&m.pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&m.backend, m.pool, level, &error), &error);
    const struct backend_device *device = &m.backend->device;
    assert_ok(device->weight_create(m.backend, tensor, WEIGHT_PRODUCT, &m.weight, &error), &error);
    assert_ok(device->weight_create(m.backend, bias, WEIGHT_VECTOR, &m.bias, &error), &error);
    assert_ok(device->matrix_create(m.backend, N_ROWS, N_INPUTS, &m.x, &error), &error);
    assert_ok(device->matrix_create(m.backend, N_ROWS, N_INPUTS, &m.x_copy, &error), &error);
    assert_ok(device->matrix_create(m.backend, N_ROWS, N_VOCAB, &m.whole, &error), &error);
    assert_ok(device->matrix_create(m.backend, N_ROWS, N_VOCAB, &m.gathered, &error), &error);
    return m;
}

static void machine_finish(struct output_bench *m)
{
    const struct backend_device *device = &m->backend->device;
    struct matrix *matrices[] = {m->x, m->x_copy, m->whole, m->gathered};
    for (int i = 0; i < 4; i++)
        device->matrix_destroy(m->backend, matrices[i]);
    device->weight_destroy(m->backend, m->weight);
    device->weight_destroy(m->backend, m->bias);
    device->destroy(m->backend);
    pool_destroy(m->pool);
}

static void compare_logits(const struct output_bench *m, const struct made_output_step *made)
{
    const struct cpu_backend *backend = cpu_backend_of(m->backend);
    for (int32_t output = 0; output < made->step.n_outputs; output++) {
        const struct sample_request *sample = &made->samples[output];
        const float *gathered = matrix_row(m->gathered, backend->buffers.output_places[output]);
        const float *whole = matrix_row(m->whole, output);
        for (int32_t token = 0; token < N_VOCAB; token++)
            if (!sample->allowed || token_mask_has(sample->allowed, token))
                assert_memory_equal(&gathered[token], &whole[token], sizeof *whole);
    }
}

static int64_t count_stale(const struct output_bench *m, int32_t n_rows)
{
    int64_t n = 0;
    for (int32_t row = 0; row < n_rows; row++)
        for (int32_t token = 0; token < N_VOCAB; token++)
            n += matrix_row(m->gathered, row)[token] == 12345.0f;
    return n;
}

static void check_steps(enum cpu_level level, enum tensor_type type, uint64_t *state)
{
    static struct made_output_step made;
    struct tensor tensor = product_tensor(type, N_VOCAB, N_INPUTS, FILL_RANDOM, state);
    struct tensor bias = product_tensor(TENSOR_F32, 1, N_VOCAB, FILL_RANDOM, state);
    bias.n_dims = 1;
    struct output_bench m = machine_make(level, &tensor, &bias);
    struct error error;
    for (int trial = 0; trial < 6; trial++) {
        int32_t n_rows = trial < 3 ? trial + 1 : 1 + (int32_t)random_below(state, N_ROWS);
        make_step(&made, n_rows, trial % 3, state);
        for (int32_t row = 0; row < n_rows; row++) {
            for (int32_t i = 0; i < N_INPUTS; i++)
                matrix_row(m.x, row)[i] = matrix_row(m.x_copy, row)[i] = random_float(state);
            for (int32_t token = 0; token < N_VOCAB; token++)
                matrix_row(m.gathered, row)[token] = 12345.0f;
        }
        struct product whole = {m.whole, m.weight, trial % 2 ? m.bias : NULL};
        struct product gathered = {m.gathered, m.weight, whole.bias};
        m.backend->operations.begin(m.backend, &made.step);
        m.backend->operations.products(m.backend, &whole, 1, m.x_copy, n_rows);
        m.backend->operations.output_product(m.backend, &gathered, m.x);
        compare_logits(&m, &made);
        if (trial % 3 == 0)
            assert_int_equal(count_stale(&m, n_rows), 0);
        else if (trial % 3 == 2) // no output is whole: at most a panel a token, of each row of a group
            assert_true(count_stale(&m, n_rows) > 0);
        assert_ok(m.backend->operations.end(m.backend, NULL, &error), &error);
    }
    machine_finish(&m);
    free((void *)(uintptr_t)tensor.data);
    free((void *)(uintptr_t)bias.data);
}

TEST(logits_of_allowed_tokens_have_the_bits_of_the_whole_product)
{
    uint64_t random = 7;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        for (int i = 0; product_types[i] != TENSOR_TYPE_COUNT; i++)
            check_steps((enum cpu_level)level, product_types[i], &random);
}
