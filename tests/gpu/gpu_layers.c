// The row-wise kernels of gpu/kernels/kernels_layers.h against double precision, on the device (or emulated), for widths
// within and beyond a block's threads. A row has the same bytes alone and among others, and nothing beside it changes.
#include "gpu/device.h"
#include "gpu/emulation/emulate.h"
#include "gpu/kernels/kernels_layers.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum { N_ROWS = 5, PADDING = 3 };

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

// Rows on both sides; a row is followed by PADDING floats.
struct rows {
    int32_t n_cols;
    float *host;
    struct device_matrix device;
};

static struct rows rows_make(int32_t n_cols, uint64_t *seed)
{
    struct rows rows = {.n_cols = n_cols, .device.stride = n_cols + PADDING};
    size_t n = (size_t)(N_ROWS * rows.device.stride);
    rows.host = malloc(n * sizeof *rows.host);
    rows.device.items = device_allocate(device, n * sizeof *rows.host);
    assert_non_null(rows.device.items);
    for (size_t i = 0; i < n; i++)
        rows.host[i] = random_float(seed);
    copy_items(rows.device.items, rows.host, n, true);
    return rows;
}

static void rows_free(struct rows *rows)
{
    free(rows->host);
    device_free(device, rows->device.items);
}

static float item_of(const struct rows *rows, int32_t row, int32_t col)
{
    return rows->host[row * rows->device.stride + col];
}

static struct device_matrix matrix_at(const struct rows *rows, int32_t row)
{
    return (struct device_matrix){rows->device.items + row * rows->device.stride, rows->device.stride};
}

// The device's rows; the caller frees them.
static float *rows_read(const struct rows *rows)
{
    size_t n = (size_t)(N_ROWS * rows->device.stride);
    float *items = malloc(n * sizeof *items);
    copy_items(rows->device.items, items, n, false);
    return items;
}

// Launches a kernel on rows [first, first + n) of x.
typedef void launch_rows(const struct rows *x, const struct rows *other, int32_t first, int32_t n);
typedef double exact_item(const struct rows *x, const struct rows *other, int32_t row, int32_t col);

// Computes all rows at once and each alone, with threads in either order, and compares with exact items. `bound` is
// relative to 1 and to the item.
static void check_rows(struct rows *x, const struct rows *other, launch_rows *launch, exact_item *exact,
                       double bound)
{
    size_t n = (size_t)(N_ROWS * x->device.stride);
    launch(x, other, 0, N_ROWS);
    float *together = rows_read(x), *alone;
    copy_items(x->device.items, x->host, n, true);
    emulate_reverse(true);
    for (int32_t row = 0; row < N_ROWS; row++)
        launch(x, other, row, 1);
    wait_for_device();
    emulate_reverse(false);
    alone = rows_read(x);
    assert_memory_equal(alone, together, n * sizeof *alone);
    for (int32_t row = 0; row < N_ROWS; row++)
        for (int32_t col = 0; col < x->device.stride; col++) {
            float got = together[row * x->device.stride + col], before = item_of(x, row, col);
            if (col >= x->n_cols) {
                assert_memory_equal(&got, &before, sizeof got);
                continue;
            }
            double wanted = exact(x, other, row, col);
            if (!(fabs((double)got - wanted) <= bound * (1 + fabs(wanted))))
                fail_msg("row %d of %d columns, column %d: expected %.9g, got %.9g", row, x->n_cols, col,
                         wanted, (double)got);
        }
    copy_items(x->device.items, x->host, n, true);
    free(together);
    free(alone);
}

static const int32_t widths[] = {1, 2, 31, 32, 33, 255, 256, 257, 1000};
enum { N_WIDTHS = sizeof widths / sizeof *widths };

// --- Groups ---

enum { GROUPS = 4, INPUTS = 3, MIXED_FROM = 1 };
static const float mix_bias = 0.75f;
static struct rows coefficients;
static bool has_coefficients;

static void launch_mixed(const struct rows *x, const struct rows *other, int32_t first, int32_t n)
{
    struct mix_launch mix = {.out = matrix_at(x, first),
                             .x = matrix_at(other, first),
                             .n_rows = n,
                             .width = x->n_cols / GROUPS,
                             .first = MIXED_FROM,
                             .n_out = GROUPS,
                             .n_in = INPUTS,
                             .bias = mix_bias};
    if (has_coefficients)
        mix.coefficients = matrix_at(&coefficients, first);
    launch_mix(device_stream(device), &mix);
}

static double exact_mixed(const struct rows *x, const struct rows *other, int32_t row, int32_t col)
{
    int32_t width = x->n_cols / GROUPS, group = col / width;
    double sum = (double)item_of(x, row, col);
    for (int32_t j = 0; j < INPUTS && group >= MIXED_FROM; j++)
        sum += ((has_coefficients ? (double)item_of(&coefficients, row, group * INPUTS + j) : 0) +
                (double)mix_bias) *
               (double)item_of(other, row, j * width + col % width);
    return sum;
}

TEST(groups_are_mixed_with_coefficients_and_without)
{
    uint64_t seed = random_seed(41);
    coefficients = rows_make(GROUPS * INPUTS, &seed);
    for (int i = 0; i < N_WIDTHS; i++) {
        struct rows out = rows_make(GROUPS * widths[i], &seed), x = rows_make(INPUTS * widths[i], &seed);
        for (int with = 0; with < 2; with++) {
            has_coefficients = with;
            check_rows(&out, &x, launch_mixed, exact_mixed, 4e-7);
        }
        rows_free(&out);
        rows_free(&x);
    }
    rows_free(&coefficients);
}

static double square_of(const struct rows *x, int32_t row, int32_t first, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)item_of(x, row, first + i) * (double)item_of(x, row, first + i);
    return sum / n;
}

static void launch_matched(const struct rows *x, const struct rows *other, int32_t first, int32_t n)
{
    (void)other;
    launch_match_rms(device_stream(device), matrix_at(x, first), n, GROUPS, x->n_cols / GROUPS);
}

static double exact_matched(const struct rows *x, const struct rows *other, int32_t row, int32_t col)
{
    (void)other;
    int32_t width = x->n_cols / GROUPS, group = col / width;
    double own = square_of(x, row, group * width, width), least = (double)1e-5f;
    double scale = sqrt(square_of(x, row, 0, width)) / sqrt(own > least ? own : least);
    return (double)item_of(x, row, col) * (group ? scale : 1);
}

// The second group of each row is so small that the least mean square counts.
TEST(groups_get_the_root_mean_square_of_the_first)
{
    uint64_t seed = random_seed(42);
    for (int i = 0; i < N_WIDTHS; i++) {
        struct rows x = rows_make(GROUPS * widths[i], &seed);
        for (int32_t row = 0; row < N_ROWS; row++)
            for (int32_t col = widths[i]; col < 2 * widths[i]; col++)
                x.host[row * x.device.stride + col] *= 1e-3f;
        copy_items(x.device.items, x.host, (size_t)(N_ROWS * x.device.stride), true);
        check_rows(&x, NULL, launch_matched, exact_matched, 2e-6);
        rows_free(&x);
    }
}

// --- Whole rows and items ---

static const float sparsity = 0.4f;

static void launch_sparse(const struct rows *x, const struct rows *other, int32_t first, int32_t n)
{
    (void)other;
    launch_sparsify(device_stream(device), matrix_at(x, first), n, x->n_cols, sparsity);
}

static double exact_sparse(const struct rows *x, const struct rows *other, int32_t row, int32_t col)
{
    (void)other;
    double mean = 0, squares = 0;
    for (int32_t i = 0; i < x->n_cols; i++)
        mean += (double)item_of(x, row, i) / x->n_cols;
    for (int32_t i = 0; i < x->n_cols; i++)
        squares += ((double)item_of(x, row, i) - mean) * ((double)item_of(x, row, i) - mean) / x->n_cols;
    double y = (double)item_of(x, row, col) - mean - (double)sparsity * sqrt(squares);
    return y < 0 ? 0 : y;
}

TEST(rows_keep_what_exceeds_the_mean_by_some_of_the_deviation)
{
    uint64_t seed = random_seed(43);
    for (int i = 0; i < N_WIDTHS; i++) {
        struct rows x = rows_make(widths[i], &seed);
        check_rows(&x, NULL, launch_sparse, exact_sparse, 1e-6);
        rows_free(&x);
    }
}

static void launch_gated(const struct rows *x, const struct rows *other, int32_t first, int32_t n)
{
    launch_gate_softplus(device_stream(device), matrix_at(x, first), matrix_at(other, first), n, x->n_cols,
                         other->n_cols);
}

static double exact_gated(const struct rows *x, const struct rows *other, int32_t row, int32_t col)
{
    return (double)item_of(x, row, col) *
           log1p(exp((double)item_of(other, row, col / (x->n_cols / other->n_cols))));
}

TEST(gates_by_softplus_multiply_items_or_equal_parts)
{
    uint64_t seed = random_seed(44);
    for (int i = 0; i < N_WIDTHS; i++)
        for (int each = 1; each <= 7; each += 6) {
            struct rows x = rows_make(widths[i] * each, &seed), gate = rows_make(widths[i], &seed);
            check_rows(&x, &gate, launch_gated, exact_gated, 4e-7);
            rows_free(&x);
            rows_free(&gate);
        }
}

static void launch_limited(const struct rows *x, const struct rows *other, int32_t first, int32_t n)
{
    (void)other;
    launch_limit(device_stream(device), matrix_at(x, first), n, x->n_cols, -0.25f, 0.5f);
}

static double exact_limited(const struct rows *x, const struct rows *other, int32_t row, int32_t col)
{
    (void)other;
    return fmin(fmax((double)item_of(x, row, col), -0.25), 0.5);
}

TEST(limits_bound_items_from_both_sides_and_keep_a_nan)
{
    uint64_t seed = random_seed(45);
    for (int i = 0; i < N_WIDTHS; i++) {
        struct rows x = rows_make(widths[i], &seed);
        check_rows(&x, NULL, launch_limited, exact_limited, 0);
        float bounds[3] = {-INFINITY, INFINITY, NAN};
        for (int j = 0; j < 3; j++) {
            float item = bounds[j];
            copy_items(x.device.items, &item, 1, true);
            launch_limit(device_stream(device), x.device, 1, 1, -0.25f, INFINITY);
            copy_items(x.device.items, &item, 1, false);
            assert_true(j == 0 ? item == -0.25f : j == 1 ? item == INFINITY : isnan(item));
        }
        rows_free(&x);
    }
}

static const struct xielu bend = {.positive = 0.8f, .negative = 1.3f, .beta = 0.5f, .epsilon = -1e-6f};

static void launch_bent(const struct rows *x, const struct rows *other, int32_t first, int32_t n)
{
    (void)other;
    launch_xielu(device_stream(device), matrix_at(x, first), n, x->n_cols, &bend);
}

static double exact_bent(const struct rows *x, const struct rows *other, int32_t row, int32_t col)
{
    (void)other;
    double item = (double)item_of(x, row, col), most = fmin(item, (double)bend.epsilon);
    double line = (double)bend.beta * item;
    return item > 0 ? (double)bend.positive * item * item + line
                    : (double)bend.negative * (expm1(most) - item) + line;
}

TEST(xielu_bends_below_zero_and_squares_above)
{
    uint64_t seed = random_seed(46);
    for (int i = 0; i < N_WIDTHS; i++) {
        struct rows x = rows_make(widths[i], &seed);
        for (int32_t j = 0; j < N_ROWS * x.device.stride; j++)
            x.host[j] *= j % 3 == 0 ? 1e-3f : j % 3 == 1 ? 1.0f : 20.0f;
        copy_items(x.device.items, x.host, (size_t)(N_ROWS * x.device.stride), true);
        check_rows(&x, NULL, launch_bent, exact_bent, 1e-6);
        rows_free(&x);
    }
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
