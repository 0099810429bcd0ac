// LoRA adapters: y = W x + up (down x), on the weights as they are stored. Both halves are float32; a row's sums have the
// same order in every batch, as all products.
#include "engine/forward_parts.h"

#include "engine/model/adapter.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static enum status create_weight(struct forward *forward, const struct tensor *of, const uint64_t dims[2],
                                 const float *items, struct weight **weight, struct error *error)
{
    struct tensor tensor = {.name = of->name,
                            .type = TENSOR_F32,
                            .n_dims = 2,
                            .dims = {dims[0], dims[1], 1, 1},
                            .data = items,
                            .size_bytes = dims[0] * dims[1] * sizeof *items};
    enum status status =
        forward->backend->device.weight_create(forward->backend, &tensor, WEIGHT_VECTOR, weight, error);
    return status == STATUS_OK
               ? status
               : error_prefix(error, "adapter of tensor %.*s", (int)of->name.size, of->name.data);
}

static bool are_finite(const float *items, uint64_t n_items)
{
    uint64_t n_finite = 0;
    for (uint64_t i = 0; i < n_items; i++)
        n_finite += isfinite(items[i]) != 0;
    return n_finite == n_items;
}

// [n_inputs, width] of down [rank, n_inputs], padded with zeros. NULL: out of memory.
static float *transpose(const float *down, uint64_t rank, uint64_t width, uint64_t n_inputs)
{
    float *items = calloc(n_inputs, width * sizeof *items);
    for (uint64_t k = 0; k < rank && items; k++)
        for (uint64_t i = 0; i < n_inputs; i++)
            items[i * width + k] = down[k * n_inputs + i];
    return items;
}

// Creates both halves from the items of the model's adapters.
static enum status create_halves(struct forward *forward, const struct tensor *of, const float *down,
                                 const float *up, struct adapter_weights *adapter, struct error *error)
{
    const uint64_t rank = (uint64_t)adapter->rank, n_inputs = of->dims[0];
    const uint64_t width = (rank + ADAPTER_LANES - 1) / ADAPTER_LANES * ADAPTER_LANES;
    if (!are_finite(down, n_inputs * rank) || !are_finite(up, of->dims[1] * rank))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: its adapter has a NaN or an infinity in float32", (int)of->name.size,
                         of->name.data);
    float *columns = transpose(down, rank, width, n_inputs);
    enum status status =
        columns
            ? create_weight(forward, of, (uint64_t[]){width, n_inputs}, columns, &adapter->down, error)
            : error_memory(error, STATUS_REFUSE, "adapter of tensor %.*s", (int)of->name.size, of->name.data);
    free(columns);
    return status == STATUS_OK
               ? create_weight(forward, of, (uint64_t[]){of->dims[1], rank}, up, &adapter->up, error)
               : status;
}

static enum status create_adapter(struct forward *forward, int32_t set, int32_t layer, enum layer_slot slot,
                                  const struct tensor *of, struct adapter_weights *adapter,
                                  struct error *error)
{
    adapter->rank = model_adapter_rank(forward->model, set, layer, slot);
    if (adapter->rank == 0)
        return STATUS_OK;
    float *down = calloc((size_t)adapter->rank, of->dims[0] * sizeof *down),
          *up = calloc((size_t)adapter->rank, of->dims[1] * sizeof *up);
    enum status status = STATUS_OK;
    if (!down || !up) {
        status =
            error_memory(error, STATUS_REFUSE, "adapter of tensor %.*s", (int)of->name.size, of->name.data);
    } else {
        model_adapter_read(forward->model, set, layer, slot, down, up);
        status = create_halves(forward, of, down, up, adapter, error);
    }
    free(down);
    free(up);
    return status;
}

// Creates the adapters of a matrix in all sets; *adapters stays NULL if no set has one. `of`: the adapted matrix.
static enum status create_sets(struct forward *forward, int32_t layer, enum layer_slot slot,
                               const struct tensor *of, struct adapter_weights **adapters,
                               struct error *error)
{
    const int32_t n_sets = model_n_adapter_sets(forward->model);
    bool adapted = false;
    for (int32_t set = 0; set < n_sets && !adapted; set++)
        adapted = model_adapter_rank(forward->model, set, layer, slot) > 0;
    if (!adapted)
        return STATUS_OK;
    *adapters = calloc((size_t)n_sets, sizeof **adapters);
    if (!*adapters)
        return error_memory(error, STATUS_REFUSE, "a layer's adapters");
    enum status status = STATUS_OK;
    for (int32_t set = 0; set < n_sets && status == STATUS_OK; set++)
        status = create_adapter(forward, set, layer, slot, of, &(*adapters)[set], error);
    return status;
}

static enum status create_groups(struct forward *forward, struct error *error)
{
    const size_t n_sets = (size_t)model_n_adapter_sets(forward->model);
    const int32_t n_rows[] = {forward->limits.n_tokens_max, forward->limits.n_outputs_max};
    for (int i = 0; i < 2; i++) {
        struct adapted_rows *adapted = &forward->adapted[i];
        adapted->groups = calloc(n_sets, sizeof *adapted->groups);
        adapted->rows = calloc((size_t)n_rows[i], sizeof *adapted->rows);
        if (!adapted->groups || !adapted->rows)
            return error_memory(error, STATUS_REFUSE, "steps of %d rows", n_rows[i]);
    }
    return STATUS_OK;
}

enum status adapters_load(struct forward *forward, struct error *error)
{
    const struct model *model = forward->model;
    if (model_n_adapters(model) == 0)
        return STATUS_OK;
    enum status status = create_groups(forward, error);
    for (int32_t layer = 0; layer < model->shape.n_layers && status == STATUS_OK; layer++)
        for (int slot = 0; slot < SLOT_COUNT && status == STATUS_OK; slot++)
            if (model->layers[layer].tensors[slot].data)
                status = create_sets(forward, layer, slot, &model->layers[layer].tensors[slot],
                                     &forward->layers[layer].adapters[slot], error);
    if (status == STATUS_OK && !forward->limits.hidden_only)
        status =
            create_sets(forward, LAYER_OUTPUT, SLOT_COUNT, &model->output, &forward->output_adapters, error);
    return status;
}

static void destroy_sets(struct forward *forward, struct adapter_weights *adapters)
{
    for (int32_t set = 0; adapters && set < model_n_adapter_sets(forward->model); set++) {
        if (adapters[set].down)
            forward->backend->device.weight_destroy(forward->backend, adapters[set].down);
        if (adapters[set].up)
            forward->backend->device.weight_destroy(forward->backend, adapters[set].up);
    }
    free(adapters);
}

void adapters_unload(struct forward *forward)
{
    for (int32_t layer = 0; forward->layers && layer < forward->model->shape.n_layers; layer++)
        for (int slot = 0; slot < SLOT_COUNT; slot++)
            destroy_sets(forward, forward->layers[layer].adapters[slot]);
    destroy_sets(forward, forward->output_adapters);
    for (int i = 0; i < 2; i++) {
        free(forward->adapted[i].groups);
        free(forward->adapted[i].rows);
    }
}

// Only set 0 may be without adapters.
static bool has_adapters(const struct model *model, int32_t set)
{
    int i = 0;
    while (i < model_n_adapters(model) && !model_adapter_is_in(model, i, set))
        i++;
    return i < model_n_adapters(model);
}

// Adds the group of a set. Outputs are numbered by their place in `outputs`, the rows of a step with outputs; NULL:
// all rows.
static int32_t add_group(struct adapted_rows *adapted, const struct step *step, int32_t set, int32_t n_before,
                         const int32_t *outputs)
{
    int32_t n = n_before, output = 0;
    for (int32_t i = 0; i < step->n_sequences; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        const int32_t end = sequence->first_row + sequence->n_tokens;
        for (int32_t row = sequence->first_row; !outputs && sequence->adapter_set == set && row < end; row++)
            adapted->rows[n++] = row;
        for (; outputs && output < step->n_outputs && outputs[output] < end; output++)
            if (sequence->adapter_set == set)
                adapted->rows[n++] = output;
    }
    if (n > n_before)
        adapted->groups[adapted->n_groups++] =
            (struct adapter_rows){set, n - n_before, adapted->rows + n_before};
    return n;
}

void adapters_group_rows(struct forward *forward, const struct step *step)
{
    const int32_t n_sets = model_n_adapter_sets(forward->model);
    int32_t n_rows = 0, n_outputs = 0;
    for (int32_t i = 0; i < step->n_sequences; i++)
        assert(step->sequences[i].adapter_set >= 0 && step->sequences[i].adapter_set < n_sets);
    forward->adapted[0].n_groups = forward->adapted[1].n_groups = 0;
    if (!forward->adapted[0].groups)
        return;
    for (int32_t set = has_adapters(forward->model, 0) ? 0 : 1; set < n_sets; set++) {
        n_rows = add_group(&forward->adapted[0], step, set, n_rows, NULL);
        if (step->output_rows)
            n_outputs = add_group(&forward->adapted[1], step, set, n_outputs, step->output_rows);
    }
}

void pass_multiply(const struct pass *pass, const struct product *products, int n, const struct matrix *x)
{
    const struct backend_operations *operations = pass->operations;
    const struct adapted_rows *adapted = pass->adapted;
    struct low_rank_sum sums[PRODUCTS_MAX];
    int n_adapted = 0;
    operations->products(pass->backend, products, n, x, pass->n_rows);
    for (int i = 0; i < n && adapted->n_groups; i++)
        if (products[i].adapters) {
            sums[n_adapted] = (struct low_rank_sum){products[i].y, products[i].adapters,
                                                    pass->forward->matrices.low[n_adapted]};
            n_adapted++;
        }
    if (n_adapted)
        operations->add_low_rank(pass->backend, sums, n_adapted, x, adapted->groups, adapted->n_groups);
}
