// How products are divided among blocks on the device (or emulated) changes no bytes: tiles of each size, blocks
// with several panels, blocks that share a tile.
#include "gpu/emulation/emulate.h"
#include "gpu/kernels/tiles.h"
#include "tests/gpu/product_problem.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

// Compute capability 8.6, 8.9 and 12.0 have less than the large rectangles want.
TEST(blocks_of_little_shared_memory_give_the_same_bytes)
{
    enum { N_ROWS = 66 };
    static const int32_t counts[] = {8, 9, 17, 65}, experts[] = {3, 0, 65, 17, 33, 1};
    struct device *plenty = device;
    struct error error;
    size_t n_types = 0;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        if (tile_format(*type).n_groups == 0)
            continue; // packed as one of the others, or F32
        uint64_t seed = 13, same_seed = seed;
        struct tensor tensor = product_tensor(*type, 40, odd_inputs(*type), FILL_RANDOM, &seed);
        struct product_problem problem = problem_make(tensor, N_ROWS, 1, &seed);
        float *all = problem_compute(&problem, 0, N_ROWS, NULL, (struct product_launch){0});
        problem_free(&problem);
        assert_ok(device_open(&device,
                              &(struct device_options){.shared_bytes_max = PRODUCT_SHARED_BYTES_LEAST},
                              &error),
                  &error);
        tensor = product_tensor(*type, 40, odd_inputs(*type), FILL_RANDOM, &same_seed);
        problem = problem_make(tensor, N_ROWS, 1, &same_seed);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            if (!shapes_are_wide() && i % 2 != n_types % 2)
                continue;
            float *y = problem_compute(&problem, 0, counts[i], NULL, (struct product_launch){0});
            assert_same_rows(&problem, y, all, counts[i], 0);
            free(y);
        }
        problem_free(&problem);
        if (shapes_are_wide() || n_types % 3 == 0)
            assert_experts_alone(experts, 6, *type, 24);
        n_types++;
        device_close(device);
        device = plenty;
        free(all);
    }
}

// Few blocks for many panels: partial sums of several panels, or of some rounds of one, are added together.
TEST(many_panels_of_a_block_give_the_bytes_of_many_blocks)
{
    static const struct {
        enum tensor_type type;
        int32_t n_inputs; // in one round of split-K chunks, in 2 or in 5
    } cases[] = {{TENSOR_Q4_K, 1280},         {TENSOR_Q4_K, 9 * 512 + 256}, {TENSOR_Q8_0, 1280},
                 {TENSOR_BF16, 9 * 512 + 64}, {TENSOR_Q4_K, 34 * 512},      {TENSOR_Q8_0, 17 * 512}};
    uint64_t seed = 16;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t n_outputs = cases[i].n_inputs < 2048 ? 16 * 21 + 3 : 16 * 5 + 3;
        struct product_problem problem =
            problem_make(product_tensor(cases[i].type, 2 * n_outputs, cases[i].n_inputs, FILL_RANDOM, &seed),
                         9, 2, &seed);
        for (int32_t n = 1; n <= 9; n += 8)
            for (int gated = 0; gated < 2; gated++) {
                if (!shapes_are_wide() && (n / 9 + gated) % 2 != (int)i % 2) // each type both gated and not
                    continue;
                struct product_launch few = {.device.n_multiprocessors = 1},
                                      many = {.device.n_multiprocessors = 1000};
                float *y, *expected;
                if (gated) {
                    y = compute_gated(&problem, n, few, true);
                    expected = compute_gated(&problem, n, many, false);
                } else {
                    y = problem_compute(&problem, 0, n, NULL, few);
                    expected = problem_compute(&problem, 0, n, NULL, many);
                }
                assert_same_rows(&problem, y, expected, n, 0);
                free(y);
                free(expected);
            }
        problem_free(&problem);
    }
}

// Tiles of two blocks, or of fewer outputs, where many multiprocessors have no block.
TEST(multiprocessors_without_a_block_change_no_bytes)
{
    static const struct {
        enum tensor_type type;
        int32_t n_inputs; // in 5, 9 or 21 split-K chunks, of which the second block has 1 or 9
        int32_t counts[2];
    } cases[] = {{TENSOR_Q4_K, 4 * 512 + 256, {17, 64}},
                 {TENSOR_Q6_K, 8 * 512 + 256, {33, 130}},
                 {TENSOR_F16, 4 * 512 + 128, {70, 0}},
                 {TENSOR_BF16, 20 * 512 + 64, {17, 0}}};
    enum { N_ROWS = 130, N_MULTIPROCESSORS = 24, N_OUTPUTS_GATED = 75 };
    uint64_t seed = 17;
    int32_t *arrivals = device_allocate(device, N_MULTIPROCESSORS * sizeof *arrivals);
    device_zero(device, arrivals, N_MULTIPROCESSORS * sizeof *arrivals);
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        struct product_problem problem = problem_make(product_tensor(cases[t].type, 2 * N_OUTPUTS_GATED,
                                                                     cases[t].n_inputs, FILL_RANDOM, &seed),
                                                      N_ROWS, 2, &seed);
        uint64_t bytes = product_partial_bytes(N_MULTIPROCESSORS, cases[t].n_inputs);
        float *sums = device_allocate(device, bytes);
        assert_non_null(sums);
        struct product_launch divided = {
            .device = {.n_multiprocessors = N_MULTIPROCESSORS, .partials = {sums, arrivals, bytes}}};
        for (int i = 0; i < 2 && cases[t].counts[i] > 0; i++) {
            int32_t n = cases[t].counts[i];
            emulate_reverse((t + (size_t)i) % 2 == 1); // so that each block of a tile is the last one
            float *expected = problem_compute(&problem, 0, n, NULL, (struct product_launch){0}),
                  *y = problem_compute(&problem, 0, n, NULL, divided),
                  *expected_gated = compute_gated(&problem, n, (struct product_launch){0}, true),
                  *gated = compute_gated(&problem, n, divided, true);
            assert_same_rows(&problem, y, expected, n, 0);
            assert_same_rows(&problem, gated, expected_gated, n, 0);
            float *left = floats_of((const float *)arrivals, N_MULTIPROCESSORS);
            for (int j = 0; j < N_MULTIPROCESSORS; j++)
                assert_true(left[j] == 0.0f); // bits of integers: a small one is a number above 0
            void *all[] = {expected, y, expected_gated, gated, left};
            for (size_t j = 0; j < sizeof all / sizeof *all; j++)
                free(all[j]);
        }
        emulate_reverse(false);
        device_free(device, sums);
        problem_free(&problem);
    }
    device_free(device, arrivals);
}

// Each tile, undivided and, if there is memory for the sums, divided; together they are all there are. 16-bit types have
// no wide ones of 192 outputs.
TEST(every_tiling_gives_the_same_bytes)
{
    static const enum tensor_type types[] = {TENSOR_Q4_0, TENSOR_Q4_K, TENSOR_Q5_K,
                                             TENSOR_Q6_K, TENSOR_Q8_0, TENSOR_BF16};
    static const struct {
        int32_t n_rows, n_outputs, n_inputs; // more than four chunks can be divided
    } cases[] = {{17, 250, 2304}, {64, 250, 2304}, {70, 250, 1280}, {100, 250, 1280}, {130, 183, 1280}};
    enum { N_MULTIPROCESSORS = 40 };
    uint64_t seed = 20, bytes = product_partial_bytes(N_MULTIPROCESSORS, cases[0].n_inputs);
    int32_t *arrivals = device_allocate(device, N_MULTIPROCESSORS * sizeof *arrivals);
    float *sums = device_allocate(device, bytes);
    unsigned seen = 0, divided = 0;
    device_zero(device, arrivals, N_MULTIPROCESSORS * sizeof *arrivals);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = t % 2; i < sizeof cases / sizeof *cases; i += 2) {
            if (!shapes_are_wide() && i != (t < 5 ? t : 1)) // each size once
                continue;
            int32_t n = cases[i].n_rows, n_inputs = cases[i].n_inputs;
            struct product_problem problem =
                problem_make(product_tensor(types[t], 2 * cases[i].n_outputs, n_inputs, FILL_RANDOM, &seed),
                             n, 2, &seed);
            struct product_launch launch = {.device = {.n_multiprocessors = N_MULTIPROCESSORS}},
                                  listed = {.type = problem.type,
                                            .n_parts = 1,
                                            .parts = {{.n_outputs = cases[i].n_outputs}},
                                            .x = {.n_rows = n, .n_inputs = n_inputs, .swizzled = true},
                                            .device = {PRODUCT_SHARED_BYTES_WGMMA,
                                                       N_MULTIPROCESSORS,
                                                       {sums, arrivals, bytes}}};
            struct product_tiling tilings[PRODUCT_TILINGS_MAX];
            emulate_reverse((t + i) % 2 == 1);
            float *expected = problem_compute(&problem, 0, n, NULL, launch),
                  *expected_gated = compute_gated(&problem, n, launch, true);
            launch.device.partials = listed.device.partials;
            int32_t n_tilings = product_tilings(&listed, tilings);
            assert_in_range(n_tilings, 2, PRODUCT_TILINGS_MAX);
            for (int32_t j = 0; j < n_tilings; j++) {
                launch.tiling = tilings[j];
                seen |= 1u << tilings[j].tile;
                divided |= (unsigned)tilings[j].divided << tilings[j].tile;
                float *y = problem_compute(&problem, 0, n, NULL, launch),
                      *gated = compute_gated(&problem, n, launch, true);
                assert_same_rows(&problem, y, expected, n, 0);
                assert_same_rows(&problem, gated, expected_gated, n, 0);
                free(y);
                free(gated);
            }
            free(expected);
            free(expected_gated);
            problem_free(&problem);
        }
    emulate_reverse(false);
    device_free(device, arrivals);
    device_free(device, sums);
    assert_int_equal(seen, (1u << WGMMA_TILE_COUNT) - 2);
    assert_int_equal(divided, 1u << WGMMA_64X32 | 1u << WGMMA_64X64);
}
