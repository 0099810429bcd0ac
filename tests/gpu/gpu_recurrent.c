// The kernels of recurrent layers at the widths of published models, where a model of tests/gpu/gpu_forward.c
// is too small to show it: against double precision, and the same bytes whether a sequence's rows come in one
// step or in two, alone or among others.
#include "gpu/device.h"
#include "gpu/kernels/kernels_recurrent.h"
#include "tests/gpu/device_memory.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

static struct device *device;

static float *random_items(size_t n, float scale, uint64_t *seed)
{
    float *items = malloc(n * sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i] = scale * random_float(seed);
    return items;
}

enum rule { DELTA, CHANNELS, SCAN, SELECTIVE, N_RULES };

struct dims {
    enum rule rule;
    int32_t n_heads, n_key_heads, key_dim, value_dim, n_taps;
};

// Rows and states of one sequence, on the host. Slot 0 has its state before its rows.
struct subject {
    struct dims dims;
    int32_t n_rows, position, n_channels, n_alphas, inner;
    size_t rows_items, slot_items;
    float *input, *step, *beta, *b, *c;                // of each row
    float *kernel, *bias, *decay, *step_bias, *direct; // weights
    float *state;                                      // [slot_items]
    double *out, *state_out;                           // expected
};

static struct subject make_subject(const struct dims *d, int32_t n_rows, int32_t position, uint64_t seed)
{
    struct subject s = {.dims = *d, .n_rows = n_rows, .position = position};
    s.inner = d->n_heads * d->value_dim;
    s.n_channels = d->rule == SELECTIVE ? s.inner : s.inner + 2 * d->n_key_heads * d->key_dim;
    s.n_alphas = d->rule == CHANNELS ? d->n_heads * d->key_dim : d->rule == SELECTIVE ? s.inner : d->n_heads;
    s.rows_items = ((size_t)(d->n_taps - 1) * (size_t)s.n_channels + 31) / 32 * 32;
    s.slot_items = s.rows_items + (size_t)s.inner * (size_t)d->key_dim;
    size_t n = (size_t)n_rows,
           n_decays = d->rule == SELECTIVE ? (size_t)s.inner * (size_t)d->key_dim : (size_t)d->n_heads;
    s.input = random_items(n * (size_t)s.n_channels, 1.0f, &seed);
    s.step = random_items(n * (size_t)s.n_alphas, 2.0f, &seed);
    s.beta = random_items(n * (size_t)d->n_heads, 2.0f, &seed);
    s.b = random_items(n * (size_t)d->key_dim, 1.0f, &seed);
    s.c = random_items(n * (size_t)d->key_dim, 1.0f, &seed);
    s.kernel = random_items((size_t)d->n_taps * (size_t)s.n_channels, 1.0f, &seed);
    s.bias = random_items((size_t)s.n_channels, 1.0f, &seed);
    s.decay = random_items(n_decays, 1.0f, &seed);
    for (size_t i = 0; i < n_decays; i++)
        s.decay[i] = -fabsf(s.decay[i]);
    s.step_bias = random_items((size_t)s.n_alphas, 1.0f, &seed);
    s.direct = random_items((size_t)s.inner, 1.0f, &seed);
    s.state = random_items(s.slot_items, 1.0f, &seed);
    s.out = calloc(n * (size_t)s.inner, sizeof *s.out);
    s.state_out = calloc(s.slot_items, sizeof *s.state_out);
    return s;
}

static void finish_subject(struct subject *s)
{
    float *all[] = {s->input, s->step,  s->beta,      s->b,      s->c,    s->kernel,
                    s->bias,  s->decay, s->step_bias, s->direct, s->state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(s->out);
    free(s->state_out);
}

// ---- expected, in double precision ----

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double input_at(const struct subject *s, int32_t row, int32_t channel)
{
    if (row >= 0)
        return (double)s->input[(size_t)row * (size_t)s->n_channels + (size_t)channel];
    size_t at = (size_t)(s->dims.n_taps - 1 + row) * (size_t)s->n_channels + (size_t)channel;
    return s->position ? (double)s->state[at] : 0.0;
}

static void expect_convolution(struct subject *s, double *convolved)
{
    for (int32_t row = 0; row < s->n_rows; row++)
        for (int32_t channel = 0; channel < s->n_channels; channel++) {
            double sum = (double)s->bias[channel];
            for (int32_t tap = 0; tap < s->dims.n_taps; tap++)
                sum += (double)s->kernel[tap * s->n_channels + channel] *
                       input_at(s, row - s->dims.n_taps + 1 + tap, channel);
            convolved[row * s->n_channels + channel] = sum / (1 + exp(-sum));
        }
    for (int32_t tap = 0; tap < s->dims.n_taps - 1; tap++)
        for (int32_t channel = 0; channel < s->n_channels; channel++)
            s->state_out[tap * s->n_channels + channel] =
                input_at(s, s->n_rows - s->dims.n_taps + 1 + tap, channel);
}

static void normalize(double *x, int32_t n, double scale)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int32_t i = 0; i < n; i++)
        x[i] *= scale / sqrt(sum + 1e-6);
}

// One row of one column of a head's matrix.
static double expect_column(const struct subject *s, int32_t row, int32_t head, double *column, size_t stride,
                            const double *query, const double *key, double value, int32_t at)
{
    const struct dims *d = &s->dims;
    double known = 0, sum = 0, weight = 0;
    for (int32_t k = 0; k < d->key_dim; k++) {
        int32_t alpha = d->rule == CHANNELS ? head * d->key_dim + k : d->rule == SELECTIVE ? at : head;
        double time = softplus((double)s->step[row * s->n_alphas + alpha] + (double)s->step_bias[alpha]);
        double rate = (double)s->decay[d->rule == SELECTIVE ? k * s->inner + at : head];
        column[(size_t)k * stride] *= exp(rate * time);
        known += column[(size_t)k * stride] * key[k];
        weight = time;
    }
    bool delta = d->rule == DELTA || d->rule == CHANNELS;
    double added =
        delta ? 2 / (1 + exp(-(double)s->beta[row * d->n_heads + head])) * (value - known) : weight * value;
    for (int32_t k = 0; k < d->key_dim; k++) {
        column[(size_t)k * stride] += key[k] * added;
        sum += column[(size_t)k * stride] * query[k];
    }
    return sum + (delta ? 0 : (double)s->direct[d->rule == SELECTIVE ? at : head] * value);
}

static void expect_row(struct subject *s, double *convolved, int32_t row)
{
    const struct dims *d = &s->dims;
    bool delta = d->rule == DELTA || d->rule == CHANNELS;
    int32_t n_keys = d->n_key_heads * d->key_dim;
    double *x = convolved + row * s->n_channels, query[256], key[256];
    for (int32_t i = 0; delta && i < 2 * d->n_key_heads; i++)
        normalize(x + i * d->key_dim, d->key_dim, i < d->n_key_heads ? 1 / sqrt(d->key_dim) : 1);
    for (int32_t head = 0; head < d->n_heads; head++) {
        int32_t key_head = head / (d->n_heads / d->n_key_heads), first = key_head * d->key_dim;
        for (int32_t k = 0; k < d->key_dim; k++) {
            query[k] = d->rule == SELECTIVE ? (double)s->c[row * d->key_dim + k]
                                            : x[delta ? first + k : s->inner + n_keys + first + k];
            key[k] = d->rule == SELECTIVE ? (double)s->b[row * d->key_dim + k]
                                          : x[delta ? n_keys + first + k : s->inner + first + k];
        }
        for (int32_t v = 0; v < d->value_dim; v++) {
            int32_t at = head * d->value_dim + v;
            double *matrix = s->state_out + s->rows_items;
            bool selective = d->rule == SELECTIVE;
            s->out[row * s->inner + at] = expect_column(
                s, row, head, selective ? matrix + at : matrix + (size_t)at * (size_t)d->key_dim,
                selective ? (size_t)s->inner : 1, query, key, x[(delta ? 2 * n_keys : 0) + at], at);
        }
    }
}

static void expect(struct subject *s)
{
    double *convolved = calloc((size_t)s->n_rows * (size_t)s->n_channels, sizeof *convolved);
    for (size_t i = 0; i < s->slot_items; i++) // the rows' padding is left as it is
        s->state_out[i] = s->position || i < s->rows_items ? (double)s->state[i] : 0.0;
    expect_convolution(s, convolved);
    for (int32_t row = 0; row < s->n_rows; row++)
        expect_row(s, convolved, row);
    free(convolved);
}

// ---- on the device ----

enum { SLOTS = 3, OTHER_ROWS = 2 };

enum { N_ALLOCATED_MAX = 16 };

// A step's memory on the device.
struct computation {
    const struct subject *s;
    int32_t first, n, n_rows;
    struct device_matrix input, step, beta, b, c, convolved, result;
    float *kernel, *bias, *decay, *step_bias, *direct; // weights
    struct recurrent_states states;
    void *allocated[N_ALLOCATED_MAX];
    int n_allocated;
};

static void *keep(struct computation *c, void *memory)
{
    assert_true(c->n_allocated < N_ALLOCATED_MAX);
    return c->allocated[c->n_allocated++] = memory;
}

// The other sequence's rows, which are the subject's first ones, then the subject's rows of the step.
static struct device_matrix place_rows(struct computation *c, const float *all, int32_t n_cols)
{
    size_t width = (size_t)n_cols, n = (size_t)c->n_rows * width;
    float *items = malloc(n * sizeof *items);
    memcpy(items, all, OTHER_ROWS * width * sizeof *items);
    memcpy(items + OTHER_ROWS * width, all + (size_t)c->first * width, (size_t)c->n * width * sizeof *items);
    struct device_matrix matrix = {keep(c, to_device(device, items, n * sizeof *items)), n_cols};
    free(items);
    return matrix;
}

static struct device_matrix reserve_rows(struct computation *c, int32_t n_cols)
{
    return (struct device_matrix){
        keep(c, device_allocate(device, (size_t)c->n_rows * (size_t)n_cols * sizeof(float))), n_cols};
}

static float *place_weight(struct computation *c, const float *items, size_t n)
{
    return keep(c, to_device(device, items, n * sizeof *items));
}

static void place(struct computation *c, int32_t from, int32_t to, const float *states)
{
    const struct subject *s = c->s;
    const struct dims *d = &s->dims;
    const struct attention_sequence sequences[] = {{.n_rows = OTHER_ROWS, .state_in = 2, .state_out = 2},
                                                   {.first_row = OTHER_ROWS,
                                                    .n_rows = c->n,
                                                    .position = s->position + c->first,
                                                    .state_in = from,
                                                    .state_out = to},
                                                   {0}};
    size_t n_decays = d->rule == SELECTIVE ? (size_t)s->inner * (size_t)d->key_dim : (size_t)d->n_heads;
    c->input = place_rows(c, s->input, s->n_channels);
    c->step = place_rows(c, s->step, s->n_alphas);
    c->beta = place_rows(c, s->beta, d->n_heads);
    c->b = place_rows(c, s->b, d->key_dim);
    c->c = place_rows(c, s->c, d->key_dim);
    c->convolved = reserve_rows(c, s->n_channels);
    c->result = reserve_rows(c, s->inner);
    c->kernel = place_weight(c, s->kernel, (size_t)d->n_taps * (size_t)s->n_channels);
    c->bias = place_weight(c, s->bias, (size_t)s->n_channels);
    c->decay = place_weight(c, s->decay, n_decays);
    c->step_bias = place_weight(c, s->step_bias, (size_t)s->n_alphas);
    c->direct = place_weight(c, s->direct, (size_t)s->inner);
    c->states = (struct recurrent_states){
        .layer = keep(c, to_device(device, states, SLOTS * s->slot_items * sizeof(float))),
        .slot_items = (int64_t)s->slot_items,
        .matrices = (int64_t)s->rows_items,
        .sequences = keep(c, to_device(device, sequences, sizeof sequences)),
        .n_sequences = 3,
        .n_rows_most = c->n > OTHER_ROWS ? c->n : OTHER_ROWS};
}

static void launch_convolution_of(const struct computation *c)
{
    struct convolution_launch launch = {.states = c->states,
                                        .out = c->convolved,
                                        .in = c->input,
                                        .n_channels = c->s->n_channels,
                                        .n_taps = c->s->dims.n_taps,
                                        .kernel = c->kernel,
                                        .bias = c->bias,
                                        .activated = true};
    launch_convolution(device_stream(device), &launch);
}

static void launch_scan_of(const struct computation *c)
{
    const struct dims *d = &c->s->dims;
    struct scan_launch launch = {.states = c->states,
                                 .out = c->result,
                                 .x = c->convolved,
                                 .step = c->step,
                                 .b = c->b,
                                 .c = c->c,
                                 .n_heads = d->n_heads,
                                 .n_groups = d->n_key_heads,
                                 .key_dim = d->key_dim,
                                 .value_dim = d->value_dim,
                                 .decay = c->decay,
                                 .step_bias = c->step_bias,
                                 .direct = c->direct,
                                 .step_max = INFINITY};
    if (d->rule == SCAN)
        launch_scan(device_stream(device), &launch);
    else
        launch_selective_scan(device_stream(device), &launch);
}

static void launch_delta_of(const struct computation *c)
{
    const struct dims *d = &c->s->dims;
    struct delta_launch launch = {.states = c->states,
                                  .out = c->result,
                                  .qkv = c->convolved,
                                  .alpha = c->step,
                                  .beta = c->beta,
                                  .n_rows = c->n_rows,
                                  .n_heads = d->n_heads,
                                  .n_key_heads = d->n_key_heads,
                                  .key_dim = d->key_dim,
                                  .value_dim = d->value_dim,
                                  .doubles_beta = true,
                                  .by_channel = d->rule == CHANNELS,
                                  .decay = c->decay,
                                  .step_bias = c->step_bias};
    launch_delta_rule(device_stream(device), &launch);
}

// Computes rows [first, end) of the subject in a step that begins with another sequence's rows (of the same values)
// and ends with padding. The state goes from slot `from` to slot `to` of `states`.
static void compute(const struct subject *s, int32_t first, int32_t end, int32_t from, int32_t to,
                    float *states, float *out)
{
    struct computation c = {.s = s, .first = first, .n = end - first, .n_rows = OTHER_ROWS + end - first};
    bool scans = s->dims.rule == SCAN || s->dims.rule == SELECTIVE;
    place(&c, from, to, states);
    launch_convolution_of(&c);
    if (scans)
        launch_scan_of(&c);
    else
        launch_delta_of(&c);
    from_device(device, states, c.states.layer, SLOTS * s->slot_items * sizeof(float));
    from_device(device, out + (size_t)first * (size_t)s->inner, c.result.items + OTHER_ROWS * s->inner,
                (size_t)c.n * (size_t)s->inner * sizeof(float));
    for (int i = 0; i < c.n_allocated; i++)
        device_free(device, c.allocated[i]);
}

static double squared_error_of(const float *got, const double *expected, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return error / size;
}

static void check(const struct dims *dims, int32_t n_rows, int32_t position)
{
    struct subject s = make_subject(dims, n_rows, position, 17 + (uint64_t)n_rows);
    size_t n = (size_t)n_rows * (size_t)s.inner, slot_bytes = s.slot_items * sizeof(float);
    float *out = malloc(n * sizeof *out), *parts = malloc(n * sizeof *parts);
    float *states = malloc(SLOTS * slot_bytes), *other = malloc(SLOTS * slot_bytes);
    for (int i = 0; i < SLOTS; i++)
        memcpy(states + (size_t)i * s.slot_items, s.state, slot_bytes);
    memcpy(other, states, SLOTS * slot_bytes);
    expect(&s);
    compute(&s, 0, n_rows, 0, 1, states, out);
    double error = squared_error_of(out, s.out, n),
           state_error = squared_error_of(states + s.slot_items, s.state_out, s.slot_items);
    print_message("rule %d, %d rows from %d: squared errors %.1e, %.1e of the state\n", (int)dims->rule,
                  n_rows, position, error, state_error);
    assert_true(error < 1e-11 && state_error < 1e-11);
    assert_memory_equal(states, s.state, slot_bytes); // read only
    if (n_rows > 1) {
        int32_t cut = n_rows > 2 ? n_rows - 2 : 1;
        compute(&s, 0, cut, 0, 0, other, parts);
        compute(&s, cut, n_rows, 0, 1, other, parts);
        assert_memory_equal(parts, out, n * sizeof *out);
        assert_memory_equal(other + s.slot_items, states + s.slot_items, slot_bytes);
    }
    free(out);
    free(parts);
    free(states);
    free(other);
    finish_subject(&s);
}

// The last row count of a chunk of the convolution, the first of the next one, and fewer rows than taps.
static const int32_t row_counts[] = {1, 2, RECURRENT_CHUNK_ROWS, RECURRENT_CHUNK_ROWS + 1,
                                     2 * RECURRENT_CHUNK_ROWS + 5};

static void check_rows(const struct dims *dims)
{
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        check(dims, row_counts[i], 0);
        check(dims, row_counts[i], 70);
    }
}

TEST(the_delta_rule_of_qwen3_5_and_of_other_widths_is_near_double_precision)
{
    check_rows(&(struct dims){DELTA, 2, 1, 128, 128, 4});
    check(&(struct dims){DELTA, 4, 2, 64, 20, 2}, 9, 3);
    check(&(struct dims){DELTA, 1, 1, RECURRENT_KEYS_MAX, 5, 4}, 9, 3);
    check(&(struct dims){DELTA, 2, 2, 65, 3, 4}, 9, 3);
}

TEST(the_delta_rule_with_a_decay_per_channel_is_near_double_precision)
{
    check_rows(&(struct dims){CHANNELS, 2, 2, 128, 128, 4});
    check(&(struct dims){CHANNELS, 3, 3, 33, 17, 4}, 9, 3);
}

TEST(the_scan_of_mamba_2_is_near_double_precision)
{
    check_rows(&(struct dims){SCAN, 2, 1, 128, 64, 4});
    check(&(struct dims){SCAN, 4, 2, 256, 9, 4}, 9, 3);
}

TEST(the_selective_scan_is_near_double_precision)
{
    check_rows(&(struct dims){SELECTIVE, 1, 1, 16, 300, 4});
    check(&(struct dims){SELECTIVE, 1, 1, RECURRENT_KEYS_SELECTIVE_MAX, 40, 16}, 9, 3);
    check(&(struct dims){SELECTIVE, 1, 1, 5, 40, 2}, 9, 3);
}

int main(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    if (!opened)
        return 77; // skipped
    assert_ok(device_load_kernels(device, &error), &error);
    int n_failed = cases_run();
    device_close(device);
    return n_failed;
}
