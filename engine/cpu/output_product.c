// The output product of a step whose samples have masks. An output with few allowed tokens is gathered: its
// row is multiplied only with the panels that hold the weights of these tokens. A kernel gives an output the
// same bytes for any number of rows and panels (product.h), so the computed logits have the bits of the whole
// product. The other logits are stale, and become -infinity when a token is drawn.
//
// Kernels process rows in groups of PREPARED_ROWS, so the rows are reordered: whole products first, then
// gathered ones. The logits are in the same order (backend->buffers.output_places).
#include "engine/cpu/product/packed.h"
#include "engine/cpu/state.h"

#include <assert.h>

struct gathered_product {
    struct cpu_backend *backend;
    struct product_task task;
    const uint32_t *const *masks; // [n_rows] in the new order; NULL: all logits are computed
    int32_t n_rows, first_group;
};

// Counts the allowed tokens. Stops counting above OUTPUT_GATHERED_MAX.
static int32_t count_allowed(const struct sample_request *sample)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sample->n_allowed_words && n <= OUTPUT_GATHERED_MAX; i++)
        n += __builtin_popcount(sample->allowed[i]);
    return n;
}

static void swap_rows(const struct matrix *x, int32_t a, int32_t b)
{
    float *left = matrix_row(x, a), *right = matrix_row(x, b);
    for (int32_t i = 0; i < x->n_cols; i++) {
        float item = left[i];
        left[i] = right[i];
        right[i] = item;
    }
}

// Reorders the rows of x: first the rows with whole products, then the gathered rows. Sets the places of the
// outputs, and the masks by place. Returns the number of whole products.
static int32_t part_rows(struct cpu_backend *backend, const struct matrix *x)
{
    const struct step *step = backend->step;
    int32_t n_whole = 0;
    for (int32_t output = 0; output < step->n_outputs; output++) {
        const struct sample_request *sample = &step->samples[output];
        backend->buffers.place_masks[output] =
            sample->allowed && count_allowed(sample) <= OUTPUT_GATHERED_MAX ? sample->allowed : NULL;
        backend->buffers.place_outputs[output] = output;
    }
    for (int32_t place = 0; place < step->n_outputs; place++) {
        if (backend->buffers.place_masks[place])
            continue;
        if (place > n_whole) {
            int32_t output = backend->buffers.place_outputs[place];
            swap_rows(x, n_whole, place);
            backend->buffers.place_outputs[place] = backend->buffers.place_outputs[n_whole];
            backend->buffers.place_outputs[n_whole] = output;
            backend->buffers.place_masks[place] = backend->buffers.place_masks[n_whole];
            backend->buffers.place_masks[n_whole] = NULL;
        }
        n_whole++;
    }
    for (int32_t place = 0; place < step->n_outputs; place++)
        backend->buffers.output_places[backend->buffers.place_outputs[place]] = place;
    return n_whole;
}

static void multiply_panels(const struct gathered_product *gathered, int32_t first, int32_t end, int32_t row,
                            int32_t row_end, int thread)
{
    product_piece(&gathered->backend->kernels.products, &gathered->task, first, end,
                  &gathered->backend->prepared, row, row_end, thread);
}

// Multiplies the rows of one group with the panels that contain a token allowed for any of the rows.
static void multiply_group(void *context, int index, int thread)
{
    const struct gathered_product *gathered = context;
    int32_t row = (gathered->first_group + index) * PREPARED_ROWS, first = -1;
    int32_t row_end = row + PREPARED_ROWS < gathered->n_rows ? row + PREPARED_ROWS : gathered->n_rows;
    int32_t n_panels = gathered->task.weight->n_panels;
    _Static_assert(PANEL_OUTPUTS == 16, "two panels a word");
    for (int32_t panel = 0; panel <= n_panels; panel++) {
        uint32_t allowed = 0;
        for (int32_t i = row; i < row_end && panel < n_panels; i++)
            if (gathered->masks[i])
                allowed |= gathered->masks[i][panel / 2] >> (panel % 2 * PANEL_OUTPUTS) & 0xFFFF;
        if (allowed && first < 0)
            first = panel;
        if (!allowed && first >= 0) {
            multiply_panels(gathered, first, panel, row, row_end, thread);
            first = -1;
        }
    }
}

void cpu_output_product(struct backend *base, const struct product *product, struct matrix *x)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct packed *weight = product->weight->packed[0];
    int32_t n_rows = backend->step->n_outputs;
    assert(product->weight->role == WEIGHT_PRODUCT && product->weight->n_packed == 1);
    assert(weight->shape.n_inputs == x->n_cols && weight->shape.n_outputs == product->y->n_cols);
    assert(n_rows <= x->n_rows_max && n_rows <= product->y->n_rows_max);
    struct gathered_product gathered = {.backend = backend,
                                        .task = {weight, product->bias ? product->bias->items : NULL,
                                                 product->y->items, product->y->stride},
                                        .masks = backend->buffers.place_masks,
                                        .n_rows = n_rows};
    int32_t n_whole = part_rows(backend, x);
    prepare_products(backend, weight, NULL, x->items, x->stride, n_rows, packed_form(weight));
    backend->prepared.n_rows = n_whole;
    product_run(&backend->kernels.products, backend->pool, &gathered.task, 1, &backend->prepared);
    backend->prepared.n_rows = n_rows;
    // If a group holds masked and unmasked rows, its unmasked rows are computed twice, with the same result.
    gathered.first_group = n_whole / PREPARED_ROWS;
    if (n_whole < n_rows)
        pool_run(backend->pool, (n_rows - 1) / PREPARED_ROWS + 1 - gathered.first_group, multiply_group,
                 &gathered);
}
