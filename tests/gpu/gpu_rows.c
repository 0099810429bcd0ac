// The kernels that work row by row, where a model of tests/gpu/gpu_forward.c is too small to show it: norms
// and operands of every length, on the device (or emulated), against double precision.
#include "engine/file/dequantize.h"
#include "gpu/device.h"
#include "gpu/emulation/emulate.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/kernels_rows.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

static struct device *device;

static void wait_for_device(void)
{
    struct error error;
    assert_ok(device_wait(device, &error), &error);
}

static void copy_items(void *memory, float *items, size_t n, bool up)
{
    size_t size = n * sizeof *items;
    void *pinned = device_pin(device, size);
    assert_non_null(pinned);
    memcpy(pinned, items, size);
    if (up)
        device_upload(device, memory, pinned, size);
    else
        device_download(device, pinned, memory, size);
    wait_for_device();
    memcpy(items, pinned, size);
    device_unpin(device, pinned);
}

static float *random_floats(size_t n, uint64_t *seed, float **on_device)
{
    float *items = malloc(n * sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i] = random_float(seed);
    *on_device = device_allocate(device, n * sizeof *items);
    assert_non_null(*on_device);
    copy_items(*on_device, items, n, true);
    return items;
}

// One norm_launch and both sides' memory. Rows stand 3 floats further apart than they are long.
struct norm_problem {
    struct norm_launch launch;
    int64_t stride;
    float *x, *addend, *weight, *bias; // the host's
    float *out, *in;                   // as the device left them
};

enum { N_ROWS = 9, N_ARRAYS = 5 };

static void compute_norm(struct norm_problem *problem, bool in_place, uint64_t *seed)
{
    struct norm_launch *launch = &problem->launch;
    int32_t width = launch->n_groups * launch->n;
    size_t n = (size_t)(N_ROWS * (problem->stride = width + 3)),
           n_weights = (size_t)(launch->own_weights ? width : launch->n);
    float *arrays[N_ARRAYS];
    problem->x = random_floats(n, seed, &arrays[0]);
    problem->addend = random_floats(n, seed, &arrays[1]);
    problem->weight = random_floats(n_weights, seed, &arrays[2]);
    problem->bias = random_floats(n_weights, seed, &arrays[3]);
    problem->out = random_floats(n, seed, &arrays[4]);
    problem->in = malloc(n * sizeof(float));
    launch->in = (struct device_matrix){arrays[0], problem->stride};
    launch->out = in_place ? launch->in : (struct device_matrix){arrays[4], problem->stride};
    if (launch->scale != 0.0f)
        launch->addend = (struct device_matrix){arrays[1], problem->stride};
    launch->weight = arrays[2];
    launch->bias = launch->rms ? NULL : arrays[3];
    launch_norm(device_stream(device), launch);
    copy_items(launch->out.items, problem->out, n, false);
    copy_items(launch->in.items, problem->in, n, false);
    for (int i = 0; i < N_ARRAYS; i++)
        device_free(device, arrays[i]);
}

static void check_vector(const struct norm_problem *problem, int32_t row, int32_t group, bool in_place)
{
    const struct norm_launch *launch = &problem->launch;
    int64_t at = row * problem->stride + group * launch->n;
    double mean = 0, squares = 0;
    for (int32_t i = 0; i < launch->n; i++)
        mean += ((double)problem->x[at + i] + (double)launch->scale * (double)problem->addend[at + i]) /
                launch->n;
    mean = launch->rms ? 0 : mean;
    for (int32_t i = 0; i < launch->n; i++) {
        double x =
            (double)problem->x[at + i] + (double)launch->scale * (double)problem->addend[at + i] - mean;
        squares += x * x;
    }
    double scale = 1 / sqrt(squares / launch->n + (double)launch->epsilon);
    for (int32_t i = 0; i < launch->n; i++) {
        double x = (double)problem->x[at + i] + (double)launch->scale * (double)problem->addend[at + i];
        int32_t own = (launch->own_weights ? group * launch->n : 0) + i;
        double y = (x - mean) * scale * (double)problem->weight[own] +
                   (launch->rms ? 0 : (double)problem->bias[own]);
        assert_float_equal(problem->out[at + i], y, 2e-5);
        if (!in_place)
            assert_float_equal(problem->in[at + i], x, 2e-7);
    }
}

// A warp's vectors and a block's; all items in registers, and more.
TEST(norms_of_every_length_are_near_double_precision)
{
    static const int32_t lengths[] = {1, 2, 31, 32, 33, 500, 512, 513, 4095, 4096, 4097, 9000};
    uint64_t seed = random_seed(3);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind < 8; kind++) {
            bool in_place = kind & 4;
            struct norm_problem problem = {.launch = {.n_rows = N_ROWS,
                                                      .n_groups = lengths[i] > 600 || kind & 2 ? 1 : 3,
                                                      .n = lengths[i],
                                                      .rms = kind & 1,
                                                      .own_weights = kind == 0,
                                                      .epsilon = 1e-5f,
                                                      .scale = kind & 2 ? 0.75f : 0.0f}};
            emulate_reverse(kind == 3);
            compute_norm(&problem, in_place, &seed);
            emulate_reverse(false);
            for (int32_t row = 0; row < N_ROWS; row++) {
                for (int32_t group = 0; group < problem.launch.n_groups; group++)
                    check_vector(&problem, row, group, in_place);
                for (int64_t j = problem.stride - 3; j < problem.stride; j++) // nothing beside them
                    assert_true(problem.in[row * problem.stride + j] == problem.x[row * problem.stride + j]);
            }
            float *all[] = {problem.x, problem.addend, problem.weight, problem.bias, problem.out, problem.in};
            for (size_t j = 0; j < sizeof all / sizeof *all; j++)
                free(all[j]);
        }
}

// Where an input's item is stored in the operand: gpu/kernels/kernels.h.
static size_t item_place(int32_t input, int32_t row, int32_t n_rows)
{
    int32_t step = input / 128 * 4 + input % 32 / 8, lane = input % 128 / 32;
    return (((size_t)step * (size_t)n_rows + (size_t)row) * 4 + (size_t)lane) * 8 + (size_t)(input % 8);
}

static void check_operand(const float *x, int64_t stride, int32_t n, const uint16_t *items,
                          const float *scales)
{
    for (int32_t row = 0; row < N_ROWS; row++) {
        float largest = 0;
        for (int32_t i = 0; i < n; i++)
            largest = fmaxf(largest, fabsf(x[row * stride + i]));
        assert_true(largest / scales[row] >= 0x1p14f && largest / scales[row] < 0x1p15f);
        for (int32_t i = 0; i < (n + 127) / 128 * 128; i++) {
            float item = half_to_float(items[item_place(i, row, N_ROWS)]),
                  wanted = i < n ? x[row * stride + i] / scales[row] : 0;
            assert_true(fabsf(item - wanted) <= fmaxf(fabsf(wanted) * 0x1p-11f, 0x1p-25f));
        }
    }
}

// Rows that begin anywhere; all of a row in registers, and more.
TEST(operands_of_every_length_hold_their_rows)
{
    static const int32_t lengths[] = {1, 7, 8, 127, 128, 129, 2048, 2056, 16384, 16385, 20000};
    uint64_t seed = random_seed(4);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int32_t first = 0; first < 2; first++) {
            int32_t n = lengths[i];
            int64_t stride = (n + 8) / 4 * 4;
            size_t items_bytes = activation_operand_bytes(N_ROWS, n);
            float *device_x, *x = random_floats((size_t)(N_ROWS * stride), &seed, &device_x), scales[N_ROWS];
            struct activation_operand operand = {OPERAND_HALF, N_ROWS, n,
                                                 device_allocate(device, items_bytes),
                                                 device_allocate(device, sizeof scales)};
            struct activation_operand_launch launch = {operand, device_x + first, stride, NULL, 1};
            launch_activation_operand(device_stream(device), &launch);
            float *items = malloc(items_bytes);
            copy_items(operand.items, items, items_bytes / sizeof(float), false);
            copy_items(operand.scales, scales, N_ROWS, false);
            check_operand(x + first, stride, n, (const uint16_t *)(const void *)items, scales);
            device_free(device, device_x);
            device_free(device, operand.items);
            device_free(device, operand.scales);
            free(x);
            free(items);
        }
}

// Device memory filled with copies of `rows`, `stride` floats apart.
static float *strided_rows(const float *rows, int32_t n, int64_t stride)
{
    size_t size = (size_t)(N_ROWS * stride);
    float *host = calloc(size, sizeof *host), *memory = device_allocate(device, size * sizeof *host);
    assert_non_null(memory);
    for (int32_t row = 0; row < N_ROWS; row++)
        memcpy(host + row * stride, rows + (size_t)row * (size_t)n, (size_t)n * sizeof *host);
    copy_items(memory, host, size, true);
    free(host);
    return memory;
}

// The norm's result and residual sum of the same rows at any stride, packed.
static void norm_rows_at(struct norm_launch launch, const float *x, const float *addend, int64_t stride,
                         float *out, float *in)
{
    int32_t n = launch.n;
    size_t size = (size_t)(N_ROWS * stride);
    float *host = malloc(size * sizeof *host);
    launch.in = (struct device_matrix){strided_rows(x, n, stride), stride};
    launch.addend = (struct device_matrix){strided_rows(addend, n, stride), stride};
    launch.out = (struct device_matrix){strided_rows(x, n, stride), stride};
    launch_norm(device_stream(device), &launch);
    struct device_matrix sides[] = {launch.out, launch.in};
    float *packed[] = {out, in};
    for (int i = 0; i < 2; i++) {
        copy_items(sides[i].items, host, size, false);
        for (int32_t row = 0; row < N_ROWS; row++)
            memcpy(packed[i] + (size_t)row * (size_t)n, host + row * stride, (size_t)n * sizeof *host);
    }
    device_free(device, launch.in.items);
    device_free(device, launch.addend.items);
    device_free(device, launch.out.items);
    free(host);
}

static struct activation_operand create_operand(enum activation_operand_form form, int32_t n)
{
    return (struct activation_operand){form, N_ROWS, n,
                                       device_allocate(device, activation_operand_bytes(N_ROWS, n)),
                                       device_allocate(device, N_ROWS * sizeof(float))};
}

static void destroy_operand(const struct activation_operand *operand)
{
    device_free(device, operand->items);
    device_free(device, operand->scales);
}

static void assert_operands_equal(const struct activation_operand *a, const struct activation_operand *b)
{
    size_t n = activation_operand_bytes(N_ROWS, a->n_inputs) / sizeof(float);
    float *items[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))}, scales[2][N_ROWS];
    const struct activation_operand *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        copy_items(both[i]->items, items[i], n, false);
        copy_items(both[i]->scales, scales[i], N_ROWS, false);
    }
    assert_memory_equal(scales[0], scales[1], sizeof scales[0]);
    assert_memory_equal(items[0], items[1], n * sizeof(float));
    free(items[0]);
    free(items[1]);
}

// Aligned rows and rows that begin anywhere; the norm alone, with its operand, and the operand alone. One row
// has a NaN.
TEST(a_norm_has_the_same_bytes_at_any_alignment_and_with_its_operand)
{
    static const int32_t lengths[] = {256,  520,  896,  1024, 2048,  2056, 4096,
                                      4104, 5120, 8192, 8200, 14336, 16384};
    uint64_t seed = random_seed(5);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind < 4; kind++) {
            int32_t n = lengths[i];
            size_t size = (size_t)N_ROWS * (size_t)n, bytes = size * sizeof(float);
            float *memory[4], *x = random_floats(size, &seed, &memory[0]),
                              *addend = random_floats(size, &seed, &memory[1]),
                              *weight = random_floats((size_t)n, &seed, &memory[2]),
                              *bias = random_floats((size_t)n, &seed, &memory[3]), *results[6];
            for (int j = 0; j < 6; j++)
                results[j] = malloc(bytes);
            x[2 * n + 1] = kind == 1 ? NAN : x[2 * n + 1];
            struct norm_launch norm = {.n_rows = N_ROWS,
                                       .n_groups = 1,
                                       .n = n,
                                       .rms = kind & 1,
                                       .weight = memory[2],
                                       .bias = kind & 1 ? NULL : memory[3],
                                       .epsilon = 1e-6f,
                                       .scale = 0.5f};
            enum activation_operand_form form = kind & 2 ? OPERAND_BFLOAT : OPERAND_HALF;
            struct activation_operand fused = create_operand(form, n), plain = create_operand(form, n);
            norm_rows_at(norm, x, addend, n + 1, results[0], results[1]);
            emulate_reverse(kind == 3);
            norm_rows_at(norm, x, addend, n, results[2], results[3]);
            norm.operand = fused;
            norm_rows_at(norm, x, addend, n, results[4], results[5]);
            emulate_reverse(false);
            for (int j = 2; j < 6; j++)
                assert_memory_equal(results[j], results[j % 2], bytes);
            copy_items(memory[0], results[0], size, true);
            struct activation_operand_launch convert = {plain, memory[0], n, NULL, 1};
            launch_activation_operand(device_stream(device), &convert);
            assert_operands_equal(&fused, &plain);
            norm.operand_only = true; // leaves `out`
            norm_rows_at(norm, x, addend, n, results[4], results[5]);
            assert_memory_equal(results[5], results[1], bytes);
            if (n > 512)
                assert_memory_equal(results[4], x, bytes);
            assert_operands_equal(&fused, &plain);
            destroy_operand(&fused);
            destroy_operand(&plain);
            for (int j = 0; j < 4; j++)
                device_free(device, memory[j]);
            for (int j = 0; j < 6; j++)
                free(results[j]);
            free(x);
            free(addend);
            free(weight);
            free(bias);
        }
}

enum { ROPE_HEAD = 24, ROPE_HEADS = 5 };

// Two matrices of 5 and 3 heads in one launch, every head's first n_dims items.
static void check_rope(int32_t n_dims, bool halves, int32_t gap, uint64_t *seed)
{
    int64_t stride = ROPE_HEADS * ROPE_HEAD + gap;
    size_t n = (size_t)(N_ROWS * stride), n_angles = (size_t)(N_ROWS * n_dims);
    struct rope_launch launch = {N_ROWS, 2, ROPE_HEAD, n_dims, halves, {{{0}, 0, NULL}}};
    float *x[2], *angles[2], *memory[4];
    for (int i = 0; i < 2; i++) {
        x[i] = random_floats(n, seed, &memory[i]);
        angles[i] = random_floats(n_angles, seed, &memory[2 + i]);
        launch.parts[i] =
            (struct rope_part){{memory[i], stride}, i ? ROPE_HEADS - 2 : ROPE_HEADS, memory[2 + i]};
    }
    launch_rope(device_stream(device), &launch);
    for (int i = 0; i < 2; i++) {
        float *out = malloc(n * sizeof *out);
        copy_items(memory[i], out, n, false);
        for (int32_t row = 0; row < N_ROWS; row++)
            for (int32_t head = 0; head < launch.parts[i].n_heads; head++)
                for (int32_t pair = 0; pair < n_dims / 2; pair++) {
                    int64_t at = row * stride + head * ROPE_HEAD + (halves ? pair : 2 * pair),
                            other = at + (halves ? n_dims / 2 : 1);
                    float cosine = angles[i][row * n_dims + 2 * pair],
                          sine = angles[i][row * n_dims + 2 * pair + 1], a = x[i][at], b = x[i][other];
                    x[i][at] = a * cosine - b * sine;
                    x[i][other] = a * sine + b * cosine;
                }
        assert_memory_equal(out, x[i], n * sizeof *out); // also all that is not rotated
        free(out);
        free(x[i]);
        free(angles[i]);
    }
    for (int i = 0; i < 4; i++)
        device_free(device, memory[i]);
}

TEST(rope_has_the_bytes_of_its_definition)
{
    uint64_t seed = random_seed(6);
    for (int32_t n_dims = 4; n_dims <= ROPE_HEAD; n_dims += 4)
        for (int kind = 0; kind < 4; kind++) // at aligned rows, and not
            check_rope(n_dims, kind & 1, kind & 2 ? 3 : 4, &seed);
}

static double exact_activation(double x, double up, enum activation_kind kind)
{
    double inner = 1.5957691216 * x * (1 + 0.044715 * x * x);
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1 + exp(-x)) * up;
    case ACTIVATION_GELU:
        return x / 2 * erfc(-x / sqrt(2)) * up;
    case ACTIVATION_GELU_TANH:
        return x / (1 + exp(-inner)) * up;
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x)) * up;
    default: // ACTIVATION_SWIGLU_CLAMPED
        x = fmin(x, 7);
        return x / (1 + exp(-1.702 * x)) * (fmin(fmax(up, -7), 7) + 1);
    }
}

enum { N_ACTIVATED = 1 << 16 };

// Arguments from the smallest to beyond where exp overflows, of both signs.
static float *activation_arguments(float **memory)
{
    float *x = malloc(N_ACTIVATED * sizeof *x);
    for (int i = 0; i < N_ACTIVATED; i++)
        x[i] = (i % 2 ? -1.0f : 1.0f) * exp2f((float)i * (30.0f / N_ACTIVATED) - 22.0f);
    *memory = device_allocate(device, N_ACTIVATED * sizeof *x);
    assert_non_null(*memory);
    copy_items(*memory, x, N_ACTIVATED, true);
    return x;
}

TEST(activations_are_near_double_precision)
{
    static const enum activation_kind kinds[] = {ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_GELU_TANH,
                                                 ACTIVATION_SIGMOID, ACTIVATION_SWIGLU_CLAMPED};
    uint64_t seed = random_seed(7);
    float *memory[3], *x = activation_arguments(&memory[0]),
                      *up = random_floats(N_ACTIVATED, &seed, &memory[1]),
                      *y = malloc(N_ACTIVATED * sizeof *y);
    memory[2] = device_allocate(device, N_ACTIVATED * sizeof *y);
    struct device_matrix sides[3];
    for (int i = 0; i < 3; i++)
        sides[i] = (struct device_matrix){memory[i], N_ACTIVATED};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        launch_activate(device_stream(device), sides[2], sides[0], sides[1], 1, N_ACTIVATED, kinds[k]);
        copy_items(memory[2], y, N_ACTIVATED, false);
        for (int i = 0; i < N_ACTIVATED; i++) {
            double exact = exact_activation((double)x[i], (double)up[i], kinds[k]);
            // exp's argument is rounded to 2^-24 of up to 88: a relative error of the small results
            double bound = (x[i] > 0 ? 6e-7 : 3e-5) * fabs(exact) + 1e-35;
            if (!(fabs((double)y[i] - exact) <= bound))
                fail_msg("activation %d of %g: expected %g, got %g", (int)kinds[k], (double)x[i], exact,
                         (double)y[i]);
        }
    }
    launch_scale(device_stream(device), sides[0], 1, N_ACTIVATED, 0.125f, 3.0f);
    copy_items(memory[0], y, N_ACTIVATED, false);
    for (int i = 0; i < N_ACTIVATED; i++) {
        double exact = 3 * tanh((double)x[i] / 24);
        assert_true(fabs((double)y[i] - exact) <= 6e-7 * fabs(exact));
    }
    for (int i = 0; i < 3; i++)
        device_free(device, memory[i]);
    free(x);
    free(up);
    free(y);
}

// Few rows are routed by one launch, more by two.
TEST(experts_are_picked_and_sorted_alike_for_few_and_many_rows)
{
    enum { MOST = 20, N_EXPERTS = 300, N_USED = 5, N_PAIRS = MOST * N_USED };
    static const int32_t counts[] = {MOST, 9, 8, 3, 1};
    uint64_t seed = 6;
    float *logits, *x = random_floats((size_t)MOST * N_EXPERTS, &seed, &logits), all[2][N_PAIRS];
    int32_t *memory = device_allocate(device, (3 * N_PAIRS + N_EXPERTS + 1) * sizeof *memory);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int32_t n = counts[c], n_pairs = n * N_USED;
        struct route_launch route = {.logits = {logits, N_EXPERTS},
                                     .n_rows = n,
                                     .n_used = N_USED,
                                     .n_experts = N_EXPERTS,
                                     .normalized = true,
                                     .scale = 2.5f,
                                     .n_groups = 3,
                                     .n_groups_used = 2,
                                     .experts = memory,
                                     .order = memory + N_PAIRS,
                                     .first = memory + 3 * N_PAIRS,
                                     .weights = (float *)memory + 2 * N_PAIRS};
        launch_route(device_stream(device), &route);
        float experts[N_PAIRS], weights[N_PAIRS], ordered[N_PAIRS], begins[N_EXPERTS + 1]; // bits of integers
        copy_items(route.experts, experts, (size_t)n_pairs, false);
        copy_items(route.weights, weights, (size_t)n_pairs, false);
        copy_items(route.order, ordered, (size_t)n_pairs, false);
        copy_items(route.first, begins, N_EXPERTS + 1, false);
        if (c == 0) {
            memcpy(all[0], experts, sizeof experts);
            memcpy(all[1], weights, sizeof weights);
        }
        assert_memory_equal(experts, all[0], (size_t)n_pairs * sizeof *experts);
        assert_memory_equal(weights, all[1], (size_t)n_pairs * sizeof *weights);
        int32_t expert_of[N_PAIRS], order[N_PAIRS], first[N_EXPERTS + 1], at = 0;
        memcpy(expert_of, experts, sizeof expert_of);
        memcpy(order, ordered, sizeof order);
        memcpy(first, begins, sizeof first);
        for (int32_t expert = 0; expert < N_EXPERTS; expert++) {
            assert_int_equal(first[expert], at);
            for (int32_t pair = 0; pair < n_pairs; pair++)
                if (expert_of[pair] == expert)
                    assert_int_equal(order[at++], pair);
        }
        assert_int_equal(first[N_EXPERTS], n_pairs);
        assert_int_equal(at, n_pairs);
    }
    free(x);
    device_free(device, memory);
    device_free(device, logits);
}

int main(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    if (!opened)
        return 77; // skipped
    int n_failed = cases_run();
    device_close(device);
    return n_failed;
}
