// LoRA adapters: y = W x + up (down x), on the weights as they are stored. Both halves are float32; a row's sums have the
// same order in every batch, as all products.
#include "engine/forward_parts.h"

#include "engine/model/adapter.h"

#include <stdlib.h>

static enum status create_weight(struct forward *forward, const struct tensor *of, const uint64_t dims[2],
                                 const float *items, enum weight_role role, struct weight **weight,
                                 struct error *error)
{
    struct tensor tensor = {.name = of->name,
                            .type = TENSOR_F32,
                            .n_dims = 2,
                            .dims = {dims[0], dims[1], 1, 1},
                            .data = items,
                            .size_bytes = dims[0] * dims[1] * sizeof *items};
    enum status status =
        forward->backend->device.weight_create(forward->backend, &tensor, role, weight, error);
    return status == STATUS_OK
               ? status
               : error_prefix(error, "adapter of tensor %.*s", (int)of->name.size, of->name.data);
}

// `of`: the adapted matrix.
static enum status create_adapter(struct forward *forward, int32_t layer, enum layer_slot slot,
                                  const struct tensor *of, struct adapter_weights *adapter,
                                  struct error *error)
{
    const int32_t rank = model_adapter_rank(forward->model, layer, slot);
    if (rank == 0)
        return STATUS_OK;
    float *down = calloc((size_t)rank, of->dims[0] * sizeof *down),
          *up = calloc((size_t)rank, of->dims[1] * sizeof *up);
    enum status status = STATUS_OK;
    if (!down || !up)
        status =
            error_memory(error, STATUS_REFUSE, "adapter of tensor %.*s", (int)of->name.size, of->name.data);
    if (status == STATUS_OK) {
        adapter->rank = rank;
        model_adapter_read(forward->model, layer, slot, down, up);
        status = create_weight(forward, of, (uint64_t[]){of->dims[0], (uint64_t)rank}, down, WEIGHT_PRODUCT,
                               &adapter->down, error);
    }
    if (status == STATUS_OK)
        status = create_weight(forward, of, (uint64_t[]){of->dims[1], (uint64_t)rank}, up, WEIGHT_VECTOR,
                               &adapter->up, error);
    free(down);
    free(up);
    return status;
}

enum status adapters_load(struct forward *forward, struct error *error)
{
    const struct model *model = forward->model;
    if (model_n_adapters(model) == 0)
        return STATUS_OK;
    enum status status = STATUS_OK;
    for (int32_t layer = 0; layer < model->shape.n_layers && status == STATUS_OK; layer++) {
        struct adapter_weights *adapters = calloc(SLOT_COUNT, sizeof *adapters);
        if (!adapters)
            return error_memory(error, STATUS_REFUSE, "a layer's adapters");
        forward->layers[layer].adapters = adapters;
        for (int slot = 0; slot < SLOT_COUNT && status == STATUS_OK; slot++)
            status = create_adapter(forward, layer, slot, &model->layers[layer].tensors[slot],
                                    &adapters[slot], error);
    }
    if (status == STATUS_OK && !forward->limits.hidden_only)
        status = create_adapter(forward, LAYER_OUTPUT, SLOT_COUNT, &model->output, &forward->output_adapter,
                                error);
    return status;
}

static void destroy_adapter(struct forward *forward, struct adapter_weights *adapter)
{
    if (adapter->down)
        forward->backend->device.weight_destroy(forward->backend, adapter->down);
    if (adapter->up)
        forward->backend->device.weight_destroy(forward->backend, adapter->up);
}

void adapters_unload(struct forward *forward)
{
    for (int32_t layer = 0; forward->layers && layer < forward->model->shape.n_layers; layer++) {
        struct adapter_weights *adapters = forward->layers[layer].adapters;
        for (int slot = 0; slot < SLOT_COUNT && adapters; slot++)
            destroy_adapter(forward, &adapters[slot]);
        free(adapters);
    }
    destroy_adapter(forward, &forward->output_adapter);
}

void pass_multiply(const struct pass *pass, const struct product *products, int n, const struct matrix *x)
{
    const struct backend_operations *operations = pass->operations;
    struct product downs[PRODUCTS_MAX];
    struct low_rank_sum sums[PRODUCTS_MAX];
    int n_adapted = 0;
    operations->products(pass->backend, products, n, x, pass->n_rows);
    for (int i = 0; i < n; i++) {
        const struct adapter_weights *adapter = products[i].adapter;
        if (!adapter)
            continue;
        struct matrix *low = pass->forward->matrices.low[n_adapted];
        operations->set_columns(pass->backend, low, adapter->rank);
        downs[n_adapted] = (struct product){.y = low, .weight = adapter->down};
        sums[n_adapted++] = (struct low_rank_sum){products[i].y, adapter->up, low};
    }
    if (n_adapted == 0)
        return;
    operations->products(pass->backend, downs, n_adapted, x, pass->n_rows);
    operations->add_low_rank(pass->backend, sums, n_adapted, pass->n_rows);
}
