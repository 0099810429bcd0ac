// The kernels that work row by row, where a model of tests/gpu/gpu_forward.c is too small to show it: norms
// and operands of every length, on the device (or emulated), against double precision.
#include "engine/file/dequantize.h"
#include "gpu/device.h"
#include "gpu/emulate.h"
#include "gpu/kernels.h"
#include "gpu/kernels_rows.h"
#include "tests/random.h"

// cmocka wants these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct device *device;

static void wait_for_device(void)
{
    struct error error;
    if (device_wait(device, &error) != STATUS_OK)
        fail_msg("%s", error.text);
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
static void norms_of_every_length_are_near_double_precision(void **state)
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

// Where an input's item is stored in the operand: gpu/kernels.h.
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
static void operands_of_every_length_hold_their_rows(void **state)
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

int main(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    if (!opened)
        return 77; // skipped
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_of_every_length_hold_their_rows),
        cmocka_unit_test(norms_of_every_length_are_near_double_precision),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(device);
    return n_failed;
}
