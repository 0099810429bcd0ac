// Products of the CPU backend: gathered output rows, where the logits of allowed tokens have the bits of the
// whole product, for every type of
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

// --- Weights with an order of columns ---

enum { ORDERED_OUTPUTS = 37, ORDERED_EXPERTS = 3, ORDERED_USED = 2 };

static void draw_order(int32_t order[N_INPUTS], uint64_t *state)
{
    for (int32_t i = 0; i < N_INPUTS; i++)
        order[i] = i;
    for (int32_t i = N_INPUTS - 1; i > 0; i--) {
        int32_t other = (int32_t)random_below(state, (unsigned)i + 1), column = order[i];
        order[i] = order[other];
        order[other] = column;
    }
}

// One matrix of weights three times: in two orders, and in none; or as experts.
struct ordered_bench {
    struct pool *pool;
    struct backend *backend;
    struct weight *weights[3];
    struct matrix *x, *y[3], *logits;
    int32_t orders[ORDERED_EXPERTS][N_INPUTS];
    const struct tensor *tensor;
};

// x of row `row` in an order, multiplied by matrix `matrix` without one.
static void sorted_product(const struct ordered_bench *m, int32_t row, int32_t matrix, const int32_t *order,
                           float y[ORDERED_OUTPUTS])
{
    struct tensor plain = *m->tensor;
    struct error error;
    struct weight *weight;
    struct matrix *x, *out;
    plain.order = NULL;
    plain.n_dims = 2;
    plain.dims[2] = 1;
    plain.size_bytes = tensor_row_bytes(&plain) * plain.dims[1];
    plain.data = (const char *)plain.data + (uint64_t)matrix * plain.size_bytes;
    const struct backend_device *device = &m->backend->device;
    assert_ok(device->weight_create(m->backend, &plain, WEIGHT_PRODUCT, &weight, &error), &error);
    assert_ok(device->matrix_create(m->backend, 1, N_INPUTS, &x, &error), &error);
    assert_ok(device->matrix_create(m->backend, 1, ORDERED_OUTPUTS, &out, &error), &error);
    for (int32_t i = 0; i < N_INPUTS; i++)
        x->items[i] = matrix_row(m->x, row)[order ? order[i] : i];
    struct product product = {out, weight, NULL};
    m->backend->operations.products(m->backend, &product, 1, x, 1);
    memcpy(y, out->items, ORDERED_OUTPUTS * sizeof *y);
    device->matrix_destroy(m->backend, x);
    device->matrix_destroy(m->backend, out);
    device->weight_destroy(m->backend, weight);
}

static void ordered_make(struct ordered_bench *m, const struct tensor *tensor, uint64_t *state)
{
    struct error error;
    m->tensor = tensor;
    assert_ok(pool_create(&m->pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&m->backend, m->pool, CPU_LEVEL_COUNT - 1, &error), &error);
    for (int i = 0; i < ORDERED_EXPERTS; i++)
        draw_order(m->orders[i], state);
    const struct backend_device *device = &m->backend->device;
    for (int i = 0; i < 3; i++) {
        struct tensor ordered = *tensor;
        ordered.order = tensor->dims[2] > 1 ? m->orders[0] : i < 2 ? m->orders[i] : NULL;
        assert_ok(device->weight_create(m->backend, &ordered, WEIGHT_PRODUCT, &m->weights[i], &error),
                  &error);
        assert_ok(device->matrix_create(m->backend, N_ROWS * ORDERED_USED, ORDERED_OUTPUTS, &m->y[i], &error),
                  &error);
    }
    assert_ok(device->matrix_create(m->backend, N_ROWS, N_INPUTS, &m->x, &error), &error);
    assert_ok(device->matrix_create(m->backend, N_ROWS, ORDERED_EXPERTS, &m->logits, &error), &error);
    for (int32_t row = 0; row < N_ROWS; row++) {
        for (int32_t i = 0; i < N_INPUTS; i++)
            matrix_row(m->x, row)[i] = random_float(state);
        for (int32_t i = 0; i < ORDERED_EXPERTS; i++)
            matrix_row(m->logits, row)[i] = random_float(state);
    }
}

static void ordered_finish(struct ordered_bench *m)
{
    const struct backend_device *device = &m->backend->device;
    for (int i = 0; i < 3; i++) {
        device->weight_destroy(m->backend, m->weights[i]);
        device->matrix_destroy(m->backend, m->y[i]);
    }
    device->matrix_destroy(m->backend, m->x);
    device->matrix_destroy(m->backend, m->logits);
    device->destroy(m->backend);
    pool_destroy(m->pool);
}

TEST(product_in_an_order_of_columns_has_the_bits_of_the_sorted_inputs)
{
    static struct made_output_step made;
    uint64_t random = 11;
    struct tensor tensor = product_tensor(TENSOR_U4_64, ORDERED_OUTPUTS, N_INPUTS, FILL_RANDOM, &random);
    struct ordered_bench m;
    struct error error;
    float expected[ORDERED_OUTPUTS];
    ordered_make(&m, &tensor, &random);
    make_step(&made, N_ROWS, 0, &random);
    m.backend->operations.begin(m.backend, &made.step);
    struct product products[] = {{m.y[0], m.weights[0], NULL},
                                 {m.y[1], m.weights[1], NULL},
                                 {m.y[2], m.weights[2], NULL}};
    m.backend->operations.products(m.backend, products, 3, m.x, N_ROWS);
    for (int32_t row = 0; row < N_ROWS; row++)
        for (int i = 0; i < 3; i++) {
            sorted_product(&m, row, 0, i < 2 ? m.orders[i] : NULL, expected);
            assert_memory_equal(matrix_row(m.y[i], row), expected, sizeof expected);
        }
    m.backend->operations.output_product(m.backend, &products[1], m.x);
    sorted_product(&m, 0, 0, m.orders[1], expected);
    assert_memory_equal(matrix_row(m.y[1], 0), expected, sizeof expected);
    assert_ok(m.backend->operations.end(m.backend, NULL, &error), &error);
    ordered_finish(&m);
    free((void *)(uintptr_t)tensor.data);
}

TEST(each_expert_has_its_own_order_of_columns)
{
    static struct made_output_step made;
    uint64_t random = 12;
    struct tensor tensor =
        product_tensor(TENSOR_U4_32, ORDERED_EXPERTS * ORDERED_OUTPUTS, N_INPUTS, FILL_RANDOM, &random);
    tensor.n_dims = 3;
    tensor.dims[1] = ORDERED_OUTPUTS;
    tensor.dims[2] = ORDERED_EXPERTS;
    struct ordered_bench m;
    struct error error;
    float expected[ORDERED_OUTPUTS];
    ordered_make(&m, &tensor, &random);
    make_step(&made, N_ROWS, 0, &random);
    m.backend->operations.begin(m.backend, &made.step);
    struct route_parameters route = {.kind = ROUTE_SOFTMAX, .n_used = ORDERED_USED, .scale = 1.0f};
    m.backend->operations.route(m.backend, m.logits, N_ROWS, &route);
    struct product products[] = {{m.y[0], m.weights[0], NULL}, {m.y[1], m.weights[1], NULL}};
    m.backend->operations.expert_products(m.backend, products, 2, m.x, N_ROWS, false);
    for (int32_t pair = 0; pair < N_ROWS * ORDERED_USED; pair++) {
        int32_t expert = cpu_backend_of(m.backend)->routing.experts[pair];
        sorted_product(&m, pair / ORDERED_USED, expert, m.orders[expert], expected);
        for (int i = 0; i < 2; i++)
            assert_memory_equal(matrix_row(m.y[i], pair), expected, sizeof expected);
    }
    assert_ok(m.backend->operations.end(m.backend, NULL, &error), &error);
    ordered_finish(&m);
    free((void *)(uintptr_t)tensor.data);
}
