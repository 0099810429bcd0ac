// The row kernels: every level against plain C by equality of bytes, plain C against double arithmetic. With
// --bench: GB/s of each kernel and its ratio to plain C.
#include "engine/cpu/kernels.h"
#include "engine/file/dequantize.h"
#include "tests/kernel/kernel_bench.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum { ITEMS_MAX = 4500, MARGIN = 32, N_HEADS = 3, HEAD_DIM = 112 };

static uint64_t seed;

// Inputs and outputs of a kernel.
struct rows {
    float x[ITEMS_MAX + MARGIN], y[ITEMS_MAX + MARGIN], weight[ITEMS_MAX + MARGIN], bias[ITEMS_MAX + MARGIN];
    float out[ITEMS_MAX + MARGIN];
    uint16_t halves[ITEMS_MAX + MARGIN];
};

// One call of a kernel on n items at x + offset; what it wrote is compared.
struct row_call {
    const char *name;
    void (*run)(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset);
    bool rotates; // n is the rotated dimensions of HEAD_DIM
};

static void run_norm_rms(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->norm_rms(rows->out + offset, rows->x + offset, rows->weight + offset, n, 1e-5f);
}

static void run_norm_rms_in_place(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->norm_rms(rows->x + offset, rows->x + offset, rows->weight, n, 1e-5f);
}

static void run_norm_rms_without_weight(const struct row_kernels *kernels, struct rows *rows, int32_t n,
                                        int offset)
{
    kernels->norm_rms(rows->out + offset, rows->x + offset, NULL, n, 1e-5f);
}

static void run_match_rms(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->match_rms(rows->y + offset, rows->x + offset, n);
}

static void run_sparsify(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->sparsify(rows->x + offset, n, 0.4f);
}

static void run_multiply(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->multiply(rows->x + offset, rows->y + offset, n);
}

static void run_norm_layer(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->norm_layer(rows->out + offset, rows->x + offset, rows->weight + offset, rows->bias + offset, n,
                        1e-5f);
}

static void run_norm_layer_without_bias(const struct row_kernels *kernels, struct rows *rows, int32_t n,
                                        int offset)
{
    kernels->norm_layer(rows->out + offset, rows->x + offset, rows->weight + offset, NULL, n, 1e-5f);
}

#define RUN_ACTIVATE(name, kind)                                                                             \
    static void name(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)            \
    {                                                                                                        \
        kernels->activate[kind](rows->out + offset, rows->x + offset, rows->y + offset, n);                  \
        kernels->activate[kind](rows->x + offset, rows->x + offset, NULL, n);                                \
    }
RUN_ACTIVATE(run_silu, ACTIVATION_SILU)
RUN_ACTIVATE(run_gelu, ACTIVATION_GELU)
RUN_ACTIVATE(run_gelu_tanh, ACTIVATION_GELU_TANH)
RUN_ACTIVATE(run_relu_squared, ACTIVATION_RELU_SQUARED)
RUN_ACTIVATE(run_swiglu_clamped, ACTIVATION_SWIGLU_CLAMPED)
RUN_ACTIVATE(run_activate_sigmoid, ACTIVATION_SIGMOID)
RUN_ACTIVATE(run_relu, ACTIVATION_RELU)
RUN_ACTIVATE(run_tanh, ACTIVATION_TANH)

static const struct xielu bend = {0.8f, 0.9f, 0.5f, -1e-3f};

static void run_xielu(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->xielu(rows->x + offset, n, &bend);
}

static void run_add_scaled(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->add_scaled(rows->x + offset, rows->y + offset, 0.7f, n);
}

// Rows of x and of `down` that overlap, each an item further.
static void run_multiply_low_rank(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    const float *x[LOW_RANK_ROWS];
    float *low[LOW_RANK_ROWS];
    for (int r = 0; r < LOW_RANK_ROWS; r++) {
        x[r] = rows->y + offset + r;
        low[r] = rows->out + offset + (ptrdiff_t)r * 16;
    }
    kernels->multiply_low_rank(low, x, rows->weight + offset, 1, n);
}

// Rows of `up` that overlap: rank 5, each an item further.
static void run_add_low_rank(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->add_low_rank(rows->x + offset, rows->y + offset, 1, rows->weight, 5, n > 4 ? n - 4 : n);
}

static void run_add_low_rank_of_one(const struct row_kernels *kernels, struct rows *rows, int32_t n,
                                    int offset)
{
    kernels->add_low_rank(rows->x + offset, rows->y + offset, n, rows->weight, 1, n);
}

static void run_scale(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->scale_cap(rows->x + offset, n, 1.3f, 0.0f);
}

static void run_scale_cap(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->scale_cap(rows->x + offset, n, 1.3f, 30.0f);
}

static void run_scale_sigmoid(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->scale_sigmoid(rows->y + offset, n, rows->x[offset]);
}

static void run_softmax(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->softmax(rows->x + offset, n);
}

static void run_sigmoid(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->sigmoid(rows->x + offset, n);
}

static void run_rope_adjacent(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->rope_adjacent(rows->x + offset, N_HEADS, HEAD_DIM, rows->bias + offset, n);
}

static void run_rope_halves(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->rope_halves(rows->x + offset, N_HEADS, HEAD_DIM, rows->bias + offset, n);
}

static void run_f16(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->convert_f16(rows->halves + offset, rows->x + offset, n);
    kernels->widen_f16(rows->out + offset, rows->halves + offset, n);
}

static void run_i16(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    int16_t items[ITEMS_MAX];
    rows->out[offset] = kernels->quantize_i16(items, rows->x + offset, n, 16383.0f, INFINITY);
    rows->y[offset] =
        kernels->quantize_i16((int16_t *)rows->halves + offset, rows->x + offset, n, 32767.0f, 46300.0f);
    for (int32_t i = 1; i < n; i++)
        rows->out[offset + i] = items[i];
}

static void run_normalize_length(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->normalize_length(rows->x + offset, n, 1e-6f, 0.25f);
}

// Four taps, the second of a row of zeros.
static void run_convolve(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    const float *taps[] = {rows->x + offset, NULL, rows->y + offset, rows->bias + offset};
    struct convolved_row row = {.out = rows->out + offset,
                                .rows = taps,
                                .kernel = rows->weight + offset,
                                .n_taps = 4,
                                .activated = true};
    kernels->convolve(&row, n / 4);
}

static void run_convolve_biased(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    const float *taps[] = {rows->x + offset, rows->y + offset, NULL};
    struct convolved_row row = {.out = rows->out + offset,
                                .rows = taps,
                                .kernel = rows->weight + offset,
                                .bias = rows->bias + offset,
                                .n_taps = 3};
    kernels->convolve(&row, n / 3);
}

// Few values a block, too; the state is in x.
static void run_delta_rule(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    struct delta_block block = {.state = rows->x + offset,
                                .key_dim = n / 16,
                                .n_values = 1 + n % 16,
                                .query = rows->y + offset,
                                .key = rows->weight + offset,
                                .value = rows->bias + offset,
                                .out = rows->out + offset,
                                .decay = 0.9f,
                                .beta = 0.7f};
    kernels->delta_rule(&block);
}

static void run_delta_rule_by_channel(const struct row_kernels *kernels, struct rows *rows, int32_t n,
                                      int offset)
{
    struct delta_block block = {.state = rows->x + offset,
                                .key_dim = n / 16,
                                .n_values = 1 + n % 16,
                                .query = rows->y + offset,
                                .key = rows->weight + offset,
                                .value = rows->bias + offset,
                                .out = rows->out + offset,
                                .decays = rows->y + offset + 1,
                                .beta = 0.7f};
    kernels->delta_rule(&block);
}

static void run_exp_scaled(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->exp_scaled(rows->x + offset, n, -1.3f);
}

static void run_scan(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    struct scan_block block = {.state = rows->x + offset,
                               .key_dim = n / 16,
                               .n_values = 1 + n % 16,
                               .query = rows->y + offset,
                               .key = rows->weight + offset,
                               .value = rows->bias + offset,
                               .out = rows->out + offset,
                               .decay = 0.9f,
                               .step = 0.7f,
                               .direct = -1.3f};
    kernels->scan(&block);
}

static void run_selective_scan(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    struct selective_block block = {.state = rows->x + offset,
                                    .key_dim = n / 16,
                                    .n_values = 1 + n % 16,
                                    .stride = 1,
                                    .query = rows->y + offset,
                                    .key = rows->weight + offset,
                                    .value = rows->bias + offset,
                                    .step = rows->weight + offset,
                                    .direct = rows->y + offset,
                                    .decay = rows->bias + offset,
                                    .out = rows->out + offset};
    kernels->selective_scan(&block);
}

static void run_softplus(const struct row_kernels *kernels, struct rows *rows, int32_t n, int offset)
{
    kernels->softplus(rows->x + offset, rows->bias + offset, n, 0.01f, 3.0f);
}

static const struct row_call calls[] = {
    {"norm_rms", run_norm_rms, false},
    {"norm_rms in place", run_norm_rms_in_place, false},
    {"norm_rms without weight", run_norm_rms_without_weight, false},
    {"match_rms", run_match_rms, false},
    {"sparsify", run_sparsify, false},
    {"multiply", run_multiply, false},
    {"norm_layer", run_norm_layer, false},
    {"norm_layer without bias", run_norm_layer_without_bias, false},
    {"silu", run_silu, false},
    {"gelu", run_gelu, false},
    {"gelu_tanh", run_gelu_tanh, false},
    {"relu_squared", run_relu_squared, false},
    {"swiglu_clamped", run_swiglu_clamped, false},
    {"sigmoid of a gate", run_activate_sigmoid, false},
    {"relu", run_relu, false},
    {"tanh", run_tanh, false},
    {"normalize_length", run_normalize_length, false},
    {"convolve", run_convolve, false},
    {"convolve with bias", run_convolve_biased, false},
    {"delta_rule", run_delta_rule, false},
    {"delta_rule by channel", run_delta_rule_by_channel, false},
    {"exp_scaled", run_exp_scaled, false},
    {"scan", run_scan, false},
    {"selective_scan", run_selective_scan, false},
    {"softplus", run_softplus, false},
    {"xielu", run_xielu, false},
    {"add_scaled", run_add_scaled, false},
    {"multiply_low_rank", run_multiply_low_rank, false},
    {"add_low_rank", run_add_low_rank, false},
    {"add_low_rank of rank 1", run_add_low_rank_of_one, false},
    {"scale", run_scale, false},
    {"scale_cap", run_scale_cap, false},
    {"scale_sigmoid", run_scale_sigmoid, false},
    {"softmax", run_softmax, false},
    {"sigmoid", run_sigmoid, false},
    {"rope_adjacent", run_rope_adjacent, true},
    {"rope_halves", run_rope_halves, true},
    {"convert and widen f16", run_f16, false},
    {"quantize_i16", run_i16, false},
};

enum { N_CALLS = sizeof calls / sizeof *calls };

static void rows_fill(struct rows *rows, uint64_t first_seed, float size)
{
    seed = first_seed;
    memset(rows, 0, sizeof *rows);
    for (int i = 0; i < ITEMS_MAX + MARGIN; i++) {
        rows->x[i] = size * random_float(&seed);
        rows->y[i] = 2 * random_float(&seed);
        rows->weight[i] = 2 * random_float(&seed);
        rows->bias[i] = random_float(&seed);
        rows->out[i] = 77.0f;
        rows->halves[i] = 0x7777;
    }
}

static void assert_same_floats(const float *a, const float *b, size_t n, const char *name, int32_t n_items)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s of %d: item %zu: %a and %a", name, n_items, i, (double)a[i], (double)b[i]);
}

// Everything is compared, so a write beyond the end shows too.
static void assert_same_rows(const struct rows *a, const struct rows *b, const char *name, int32_t n)
{
    const size_t size = ITEMS_MAX + MARGIN;
    assert_same_floats(a->x, b->x, size, name, n);
    assert_same_floats(a->y, b->y, size, name, n);
    assert_same_floats(a->out, b->out, size, name, n);
    for (size_t i = 0; i < size; i++)
        if (a->halves[i] != b->halves[i] &&
            !(isnan(half_to_float(a->halves[i])) && isnan(half_to_float(b->halves[i]))))
            fail_msg("%s of %d: half %zu: %x and %x", name, n, i, a->halves[i], b->halves[i]);
}

static struct rows plain_rows, fast_rows;

static void compare_call(const struct row_call *call, const struct row_kernels *fast,
                         const struct rows *input, int32_t n, int offset)
{
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    plain_rows = *input;
    fast_rows = *input;
    call->run(&plain.rows, &plain_rows, n, offset);
    call->run(fast, &fast_rows, n, offset);
    assert_same_rows(&plain_rows, &fast_rows, call->name, n);
}

TEST(every_level_gives_the_bytes_of_plain_c)
{
    static struct rows input;
    for (int level = CPU_PLAIN + 1; level < CPU_LEVEL_COUNT; level++) {
        struct cpu_kernels fast;
        cpu_kernels_init(&fast, (enum cpu_level)level);
        for (int c = 0; c < N_CALLS; c++) {
            rows_fill(&input, (uint64_t)c, 8);
            int32_t n_max = calls[c].rotates ? HEAD_DIM : 67;
            for (int32_t n = calls[c].rotates ? 2 : 1; n <= n_max; n += calls[c].rotates ? 2 : 1)
                compare_call(&calls[c], &fast.rows, &input, n, n % 17);
            for (int32_t n = 1000; n <= ITEMS_MAX - 16 && !calls[c].rotates; n += 1157)
                compare_call(&calls[c], &fast.rows, &input, n, n % 5);
        }
    }
}

TEST(worst_case_inputs_give_the_same_bytes)
{
    static const float awkward[] = {INFINITY, -INFINITY, NAN,      3e38f,    -3e38f,   1e-40f,
                                    -1e-45f,  0.0f,      -0.0f,    88.72f,   88.73f,   -87.33f,
                                    -87.34f,  -104.0f,   65504.0f, 65520.0f, 65519.9f, 6e-8f,
                                    2.98e-8f, 2.99e-8f,  0.625f,   -0.625f};
    const int n_awkward = sizeof awkward / sizeof *awkward;
    static struct rows input;
    for (int level = CPU_PLAIN + 1; level < CPU_LEVEL_COUNT; level++) {
        struct cpu_kernels fast;
        cpu_kernels_init(&fast, (enum cpu_level)level);
        for (int c = 0; c < N_CALLS; c++)
            for (int round = 0; round < 60; round++) {
                rows_fill(&input, (uint64_t)round, round % 2 ? 100 : 1e-20f);
                int32_t n = calls[c].rotates ? 64 : 61;
                // One kind at a time: an infinity would hide the others in a sum.
                for (int i = 0; i < n; i += 3) {
                    input.x[i] = awkward[(round < n_awkward ? round : i + round) % n_awkward];
                    input.y[i + 1] = awkward[(i + round) % n_awkward];
                }
                compare_call(&calls[c], &fast.rows, &input, n, 0);
            }
    }
}

// Every BITS_STRIDE-th bit pattern, and so each exponent many times. Under the address sanitizer fewer: no
// value has an address of its own.
#ifdef __SANITIZE_ADDRESS__
#define BITS_STRIDE 131101ull
#else
#define BITS_STRIDE 4099ull
#endif

TEST(every_float_goes_the_same_way_through_exp_and_half)
{
    static struct rows input;
    struct cpu_kernels fast[CPU_LEVEL_COUNT];
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        cpu_kernels_init(&fast[level], (enum cpu_level)level);
    rows_fill(&input, 0, 1);
    const int32_t n = 4096;
    for (uint64_t first = 0; first < 1ull << 32; first += BITS_STRIDE * (uint64_t)n) {
        for (int32_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)(first + BITS_STRIDE * (uint64_t)i);
            memcpy(&input.x[i], &bits, 4);
        }
        for (int level = CPU_PLAIN + 1; level < CPU_LEVEL_COUNT; level++)
            for (int c = 0; c < N_CALLS; c++)
                if (calls[c].run == run_silu || calls[c].run == run_gelu || calls[c].run == run_gelu_tanh ||
                    calls[c].run == run_xielu || calls[c].run == run_f16 || calls[c].run == run_i16 ||
                    calls[c].run == run_scale_cap)
                    compare_call(&calls[c], &fast[level].rows, &input, n, 0);
    }
}

TEST(every_half_survives_widening_and_narrowing)
{
    struct cpu_kernels kernels;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        cpu_kernels_init(&kernels, (enum cpu_level)level);
        for (uint32_t first = 0; first < 1u << 16; first += 256) {
            uint16_t halves[256], back[256];
            float floats[256];
            for (uint32_t i = 0; i < 256; i++)
                halves[i] = (uint16_t)(first + i);
            kernels.rows.widen_f16(floats, halves, 256);
            kernels.rows.convert_f16(back, floats, 256);
            for (int i = 0; i < 256; i++) {
                assert_true(isnan(floats[i]) ? isnan(half_to_float(back[i])) : back[i] == halves[i]);
                assert_true(isnan(floats[i]) || floats[i] == half_to_float(halves[i]));
            }
        }
    }
}

TEST(narrowing_takes_the_nearest_half_and_the_even_one_of_two)
{
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    seed = 5;
    for (uint16_t half = 0; half < 0x7BFF; half++) { // between each finite half and the next
        float low = half_to_float(half), high = half_to_float((uint16_t)(half + 1));
        float middle = (low + high) / 2,
              items[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        uint16_t got[3];
        plain.rows.convert_f16(got, items, 3);
        assert_int_equal(got[0], half);
        assert_int_equal(got[1], half % 2 ? half + 1 : half);
        assert_int_equal(got[2], half + 1);
    }
    float ends[4] = {65519.99f, 65520.0f, -65520.0f, -0.0f};
    uint16_t got[4];
    plain.rows.convert_f16(got, ends, 4);
    assert_int_equal(got[0], 0x7BFF);
    assert_int_equal(got[1], 0x7C00);
    assert_int_equal(got[2], 0xFC00);
    assert_int_equal(got[3], 0x8000);
}

TEST(integers_keep_to_their_limits_and_are_nearest)
{
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    seed = 9;
    for (int round = 0; round < 400; round++) {
        enum { DIMS = 150 };
        float x[DIMS], size = ldexpf(1.0f, round % 180 - 90);
        int32_t n = 1 + round % DIMS;
        for (int32_t i = 0; i < n; i++)
            x[i] = size * random_float(&seed) * (i % 7 == round % 7 && round % 3 == 0 ? 40.0f : 1.0f);
        for (int kind = 0; kind < 2; kind++) {
            int16_t items[DIMS];
            double largest = kind ? 32767 : 16383, norm = kind ? 46300 : (double)INFINITY, squares = 0,
                   most = 0;
            double scale = (double)plain.rows.quantize_i16(items, x, n, (float)largest, (float)norm);
            for (int32_t i = 0; i < n; i++) {
                assert_true(fabs(items[i] * scale - (double)x[i]) <= 0.5 * scale + 1e-6 * fabs((double)x[i]));
                squares += (double)items[i] * items[i];
                most = fmax(most, fabs((double)items[i]));
            }
            assert_true(most <= largest && sqrt(squares) <= norm + 0.5 * sqrt(n));
            assert_true(most >= largest - 1 ||
                        sqrt(squares) >= norm - 0.5 * sqrt(n) - 1); // one limit is reached
        }
    }
    float zeros[3] = {0.0f, -0.0f, 0.0f}, infinite[3] = {1.0f, -INFINITY, 2.0f}, nan[3] = {1.0f, 2.0f, NAN};
    int16_t items[3];
    assert_true(plain.rows.quantize_i16(items, zeros, 3, 16383.0f, INFINITY) > 0.0f);
    assert_true(items[0] == 0 && items[1] == 0 && items[2] == 0);
    assert_true(isnan(plain.rows.quantize_i16(items, infinite, 3, 16383.0f, INFINITY)));
    assert_true(isnan(plain.rows.quantize_i16(items, nan, 3, 32767.0f, 46300.0f)));
    assert_true(items[0] == 0 && items[1] == 0 && items[2] == 0);
}

static double ulps(double exact, float got)
{
    float rounded = (float)exact;
    double unit = (double)nextafterf(fabsf(rounded), INFINITY) - (double)fabsf(rounded);
    return fabs(exact - (double)got) / unit;
}

// exp by way of softmax: of (0, x) it is exp(x) / (1 + exp(x)), and 1 + exp(x) is 1 for x below -18.
TEST(exp_and_tanh_are_within_two_units)
{
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    double worst_exp = 0, worst_tanh = 0, worst_sigmoid = 0;
    for (int i = 0; i < 300000; i++) {
        float x = -18.0f - 69.0f * (float)i / 300000;
        float pair[2] = {0, x};
        plain.rows.softmax(pair, 2);
        worst_exp = fmax(worst_exp, ulps(exp((double)x), pair[1]));
        float t = 10.0f * (float)(i - 150000) / 150000, tanh_t = t, sigmoid = 1;
        plain.rows.scale_cap(&tanh_t, 1, 1.0f, 1.0f);
        worst_tanh = fmax(worst_tanh, ulps(tanh((double)t), tanh_t));
        plain.rows.scale_sigmoid(&sigmoid, 1, t);
        worst_sigmoid = fmax(worst_sigmoid, ulps(1 / (1 + exp(-(double)t)), sigmoid));
    }
    print_message("units in the last place: exp %.2f, tanh %.2f, sigmoid %.2f\n", worst_exp, worst_tanh,
                  worst_sigmoid);
    assert_true(worst_exp <= 1.0);
    assert_true(worst_tanh <= 2.0);
    assert_true(worst_sigmoid <= 3.0);
}

static double exact_activation(enum activation_kind kind, double x)
{
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_GELU:
        return x * 0.5 * erfc(-x * 0.70710678118654752);
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_RELU_SQUARED:
        return x > 0 ? x * x : 0;
    case ACTIVATION_SWIGLU_CLAMPED:
        return fmin(x, 7) / (1 + exp(-1.702 * fmin(x, 7)));
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case ACTIVATION_RELU:
        return fmax(x, 0);
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_XIELU:
        return (double)bend.beta * x +
               (x > 0 ? (double)bend.positive * x * x
                      : (double)bend.negative * (expm1(fmin(x, (double)bend.epsilon)) - x));
    }
    return 0;
}

TEST(activations_are_near_double_arithmetic)
{
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    for (int kind = 0; kind <= ACTIVATION_COUNT; kind++) {
        for (int i = -60000; i <= 60000; i++) {
            float x = (float)i / 4000, y;
            y = x;
            if (kind == ACTIVATION_XIELU)
                plain.rows.xielu(&y, 1, &bend);
            else
                plain.rows.activate[kind](&y, &x, NULL, 1);
            double exact = exact_activation((enum activation_kind)kind, (double)x);
            // Relative to the result where it matters, to x in the far tail.
            if (fabs((double)y - exact) > 6e-7 * (fabs(exact) + 0.1 * fabs((double)x) + 1e-30))
                fail_msg("activation %d of %g: %g, exactly %g", kind, (double)x, (double)y, exact);
        }
    }
}

TEST(a_clamped_gate_takes_its_factor_from_minus_6_to_8)
{
    static const float gates[] = {-100, -7, -1, 0, 0.5f, 6.9f, 7, 7.1f, 1e30f};
    static const float ups[] = {-1e30f, -7.1f, -7, -6.9f, -1, 0, 3, 7, 7.1f, 1e30f};
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        for (size_t j = 0; j < sizeof ups / sizeof *ups; j++) {
            float y;
            double up = fmax(-7, fmin(7, (double)ups[j]));
            double exact = exact_activation(ACTIVATION_SWIGLU_CLAMPED, (double)gates[i]) * (up + 1);
            plain.rows.activate[ACTIVATION_SWIGLU_CLAMPED](&y, &gates[i], &ups[j], 1);
            assert_true(fabs((double)y - exact) <= 2e-6 * fabs(exact) + 1e-30);
        }
}

TEST(norms_softmax_and_rotations_are_near_double_arithmetic)
{
    static struct rows rows;
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    for (int32_t n = 1; n <= 4000; n = n * 2 + 3) {
        rows_fill(&rows, (uint64_t)n, 3);
        double mean = 0, squares = 0, variance = 0, largest = -1e9, sum = 0;
        for (int32_t i = 0; i < n; i++) {
            mean += (double)rows.x[i] / n;
            squares += (double)rows.x[i] * (double)rows.x[i] / n;
            largest = fmax(largest, (double)rows.x[i]);
        }
        for (int32_t i = 0; i < n; i++) {
            variance += ((double)rows.x[i] - mean) * ((double)rows.x[i] - mean) / n;
            sum += exp((double)rows.x[i] - largest);
        }
        plain.rows.norm_rms(rows.out, rows.x, rows.weight, n, 1e-5f);
        for (int32_t i = 0; i < n; i++)
            assert_true(fabs((double)rows.x[i] / sqrt(squares + 1e-5) * (double)rows.weight[i] -
                             (double)rows.out[i]) < 2e-6);
        plain.rows.norm_layer(rows.out, rows.x, rows.weight, rows.bias, n, 1e-5f);
        for (int32_t i = 0; i < n; i++)
            assert_true(fabs(((double)rows.x[i] - mean) / sqrt(variance + 1e-5) * (double)rows.weight[i] +
                             (double)rows.bias[i] - (double)rows.out[i]) < 3e-6);
        memcpy(rows.out, rows.x, sizeof rows.x);
        plain.rows.softmax(rows.out, n);
        for (int32_t i = 0; i < n; i++)
            assert_true(fabs(exp((double)rows.x[i] - largest) / sum - (double)rows.out[i]) < 5e-7);
    }
    for (int halves = 0; halves < 2; halves++) { // 10 dimensions of 12, three heads
        rows_fill(&rows, 9, 3);
        memcpy(rows.out, rows.x, sizeof rows.x);
        (halves ? plain.rows.rope_halves : plain.rows.rope_adjacent)(rows.out, 3, 12, rows.bias, 10);
        for (int head = 0; head < 3; head++) {
            for (int i = 0; i < 5; i++) {
                int first = 12 * head + (halves ? i : 2 * i), second = halves ? first + 5 : first + 1;
                double a = (double)rows.x[first], b = (double)rows.x[second];
                double cosine = (double)rows.bias[2 * i], sine = (double)rows.bias[2 * i + 1];
                assert_true(fabs(a * cosine - b * sine - (double)rows.out[first]) < 1e-6);
                assert_true(fabs(a * sine + b * cosine - (double)rows.out[second]) < 1e-6);
            }
            assert_true(rows.out[12 * head + 10] == rows.x[12 * head + 10]);
            assert_true(rows.out[12 * head + 11] == rows.x[12 * head + 11]);
        }
    }
}

TEST(matched_and_sparse_rows_are_near_double_arithmetic)
{
    static struct rows rows;
    struct cpu_kernels plain;
    cpu_kernels_init(&plain, CPU_PLAIN);
    for (int32_t n = 1; n <= 4000; n = n * 2 + 3) {
        double mean = 0, squares = 0, own = 0, variance = 0;
        rows_fill(&rows, (uint64_t)n, 3);
        for (int32_t i = 0; i < n; i++) {
            mean += (double)rows.x[i] / n;
            squares += (double)rows.x[i] * (double)rows.x[i] / n;
            own += (double)rows.y[i] * (double)rows.y[i] / n;
        }
        for (int32_t i = 0; i < n; i++)
            variance += ((double)rows.x[i] - mean) * ((double)rows.x[i] - mean) / n;
        memcpy(rows.out, rows.y, sizeof rows.y);
        plain.rows.match_rms(rows.out, rows.x, n);
        for (int32_t i = 0; i < n; i++)
            assert_true(fabs((double)rows.y[i] * sqrt(squares / own) - (double)rows.out[i]) < 2e-5);
        memcpy(rows.out, rows.x, sizeof rows.x);
        plain.rows.sparsify(rows.out, n, 0.4f);
        for (int32_t i = 0; i < n; i++)
            assert_true(fabs(fmax(0.0, (double)rows.x[i] - mean - 0.4 * sqrt(variance)) -
                             (double)rows.out[i]) < 3e-6);
    }
    float small[3] = {1e-4f, -1e-4f, 0}, wanted[3] = {1, 1, 1}; // a mean square below 1e-5 counts as 1e-5
    plain.rows.match_rms(small, wanted, 3);
    assert_true(fabs((double)small[0] - 1e-4 / sqrt(1e-5)) < 1e-7);
}

// --- Benchmark ---

static int run_bench(void)
{
    static struct rows rows;
    printf("%-24s %12s %12s %12s\n", "2048 items (rope: 64 of 112 x 3)", "plain", "avx2", "avx512");
    for (int c = 0; c < N_CALLS; c++) {
        double plain_seconds = 0;
        printf("%-32s", calls[c].name);
        for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
            struct cpu_kernels kernels;
            cpu_kernels_init(&kernels, (enum cpu_level)level);
            if (kernels.level != (enum cpu_level)level)
                continue;
            double best = 1e9;
            for (int repeat = 0; repeat < 20; repeat++) {
                rows_fill(&rows, 3, 4);
                enum { CALLS = 20 };
                double start = bench_seconds(1);
                for (int i = 0; i < CALLS; i++)
                    calls[c].run(&kernels.rows, &rows, calls[c].rotates ? 64 : 2048, 0);
                double seconds = (bench_seconds(1) - start) / CALLS;
                best = seconds < best ? seconds : best;
            }
            if (level == CPU_PLAIN)
                plain_seconds = best;
            double items = calls[c].rotates ? 64 * N_HEADS : 2048;
            printf("  %6.2f Gi/s %5.1fx", items / best * 1e-9, plain_seconds / best);
        }
        printf("\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return run_bench();
    return cases_run();
}
