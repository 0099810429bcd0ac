#include "engine/hybrid_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

// ---- shares ----

int32_t placement_host_pages(const struct placement *placement, const struct model *model)
{
    int32_t n = 0, n_layers = placement->host_attention ? model->shape.n_layers : placement->n_host_layers;
    for (int32_t i = 0; i < n_layers; i++)
        n = model->layers[i].attends ? model->layers[i].store + 1 : n;
    return n;
}

int32_t placement_host_states(const struct placement *placement, const struct model *model)
{
    int32_t n = 0;
    for (int32_t i = 0; i < placement->n_host_layers; i++)
        n += model->layers[i].recurrent;
    return n;
}

static int layer_backend_id(const struct hybrid_backend *hybrid, int32_t layer)
{
    int32_t n_host = hybrid->placement.n_host_layers;
    return n_host > 0 && layer < n_host ? HOST : DEVICE;
}

static int experts_backend_id(const struct hybrid_backend *hybrid, int32_t layer)
{
    return layer < hybrid->placement.n_host_experts ? HOST : layer_backend_id(hybrid, layer);
}

// ---- weights ----

static void enter_layer(struct backend *base, int32_t index, bool experts)
{
    hybrid_of(base)->layer = index;
    hybrid_of(base)->experts = experts;
}

static void weight_destroy(struct backend *base, struct weight *weight)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    for (int id = 0; weight && id < N_BACKENDS; id++)
        if (weight->at[id])
            hybrid->backends[id]->device.weight_destroy(hybrid->backends[id], weight->at[id]);
    free(weight);
}

// True if backend `id` gets the weight. With attention on the host, vectors are created on both backends,
// because attention sinks are vectors.
static bool belongs_to(const struct hybrid_backend *hybrid, const struct weight *weight, int id,
                       enum weight_role role)
{
    return id == weight->backend_id ||
           (role == WEIGHT_VECTOR && id == HOST && hybrid->placement.host_attention && hybrid->layer >= 0);
}

static enum status weight_create(struct backend *base, const struct tensor *tensor, enum weight_role role,
                                 struct weight **out, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    *out = NULL;
    struct weight *weight = calloc(1, sizeof *weight);
    if (!weight)
        return error_memory(error, STATUS_REFUSE, "a weight");
    weight->backend_id =
        hybrid->experts ? experts_backend_id(hybrid, hybrid->layer) : layer_backend_id(hybrid, hybrid->layer);
    for (int id = 0; id < N_BACKENDS; id++) {
        struct backend *backend = hybrid->backends[id];
        if (!belongs_to(hybrid, weight, id, role))
            continue;
        enum status status = backend->device.weight_create(backend, tensor, role, &weight->at[id], error);
        if (status != STATUS_OK) {
            weight_destroy(base, weight);
            return status;
        }
    }
    *out = weight;
    return STATUS_OK;
}

// ---- matrices and pages ----

static void matrix_destroy(struct backend *base, struct matrix *matrix)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    for (int id = 0; matrix && id < N_BACKENDS; id++)
        if (matrix->at[id])
            hybrid->backends[id]->device.matrix_destroy(hybrid->backends[id], matrix->at[id]);
    free(matrix);
}

// Creates the matrix on both backends. The host commits its memory on first use.
static enum status matrix_create(struct backend *base, int32_t n_rows_max, int32_t n_cols,
                                 struct matrix **out, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    *out = NULL;
    struct matrix *matrix = calloc(1, sizeof *matrix);
    if (!matrix)
        return error_memory(error, STATUS_REFUSE, "a matrix");
    matrix->n_rows_max = n_rows_max;
    matrix->n_cols = n_cols;
    for (int id = 0; id < N_BACKENDS; id++) {
        struct backend *backend = hybrid->backends[id];
        enum status status =
            backend->device.matrix_create(backend, n_rows_max, n_cols, &matrix->at[id], error);
        if (status != STATUS_OK) {
            matrix_destroy(base, matrix);
            return status;
        }
    }
    size_t n = TRANSFERS_MAX * (size_t)n_rows_max * (size_t)n_cols;
    hybrid->transfers.n_wanted = n > hybrid->transfers.n_wanted ? n : hybrid->transfers.n_wanted;
    *out = matrix;
    return STATUS_OK;
}

static enum status kv_create(struct backend *base, const struct kv_shape *shape, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    assert(shape->n_layers == hybrid->pages.n);
    enum status status = STATUS_OK;
    for (int id = 0; id < N_BACKENDS && status == STATUS_OK; id++) {
        struct kv_shape own = *shape;
        own.n_layers = share_count(&hybrid->pages, id);
        own.layers = shape->layers && id == DEVICE ? shape->layers + hybrid->pages.n_host : shape->layers;
        if (own.n_layers > 0)
            status = hybrid->backends[id]->device.kv_create(hybrid->backends[id], &own, error);
    }
    return status;
}

static enum status kv_read(struct backend *base, int32_t index, const int32_t *pages, int32_t n_pages,
                           float *keys, float *values, struct error *error)
{
    const struct hybrid_backend *hybrid = hybrid_of(base);
    struct backend *backend = hybrid->backends[share_backend_id(&hybrid->pages, index)];
    return backend->device.kv_read(backend, share_index(&hybrid->pages, index), pages, n_pages, keys, values,
                                   error);
}

static uint64_t available_bytes(struct backend *base)
{
    struct backend *device = hybrid_of(base)->backends[DEVICE];
    return device->device.available_bytes(device);
}

static enum status make_ready(struct backend *base, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    enum status status = hybrid_staging_reserve(hybrid, error);
    for (int id = 0; id < N_BACKENDS && status == STATUS_OK; id++)
        status = hybrid->backends[id]->device.ready(hybrid->backends[id], error);
    return status;
}

// ---- a step ----

static void trace_steps(struct backend *base, struct step_times *times)
{
    struct backend *device = hybrid_of(base)->backends[DEVICE];
    device->device.trace(device, times);
}

// The device is idle while the host computes, so the device's events also measure the host's time.
static void start_phase(struct backend *base, enum step_phase next)
{
    struct backend *device = hybrid_of(base)->backends[DEVICE];
    device->operations.phase(device, next);
}

static void begin_step(struct backend *base, const struct step *step)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    hybrid->failed = false;
    hybrid->transfers.n_used = 0;
    hybrid->step = *step;
    hybrid->step.stops = true;
    hybrid->n_attended = step->n_tokens;
    for (int id = 0; id < N_BACKENDS; id++)
        hybrid->backends[id]->operations.begin(hybrid->backends[id], &hybrid->step);
}

static void embed_tokens(struct backend *base, struct matrix *out, const struct weight *table, float scale,
                         const struct weight *positions_table, const struct weight *types_table)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    struct backend *backend = hybrid->backends[table->backend_id];
    if (hybrid->failed)
        return;
    backend->operations.embed(backend, out->at[table->backend_id], hybrid_weight(table, table->backend_id),
                              scale, hybrid_weight(positions_table, table->backend_id),
                              hybrid_weight(types_table, table->backend_id));
    hybrid_note_write(out, table->backend_id, hybrid->step.n_tokens);
}

static void norm_rows(struct backend *base, struct matrix *out, const struct matrix *in, int32_t n_rows,
                      const struct norm_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = parameters->weight ? parameters->weight->backend_id : matrix_backend_id(in);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, in))
        return;
    struct norm_parameters own = *parameters;
    own.weight = hybrid_weight(parameters->weight, id);
    own.bias = hybrid_weight(parameters->bias, id);
    own.consumed = false; // the other backend may read `out`
    backend->operations.norm(backend, out->at[id], in->at[id], n_rows, &own);
    hybrid_note_write(out, id, n_rows);
}

// Returns the backend of GEMMs that share x. All of them are on the same backend.
static int unwrap_products(struct product *own, const struct product *products, int n)
{
    int id = products[0].weight->backend_id;
    assert(n <= PRODUCTS_MAX);
    for (int i = 0; i < n; i++) {
        assert(products[i].weight->backend_id == id);
        own[i] = (struct product){products[i].y->at[id], hybrid_weight(products[i].weight, id),
                                  hybrid_weight(products[i].bias, id)};
    }
    return id;
}

static void multiply_products(struct backend *base, const struct product *products, int n,
                              const struct matrix *x, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    struct product own[PRODUCTS_MAX];
    int id = unwrap_products(own, products, n);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x))
        return;
    backend->operations.products(backend, own, n, x->at[id], n_rows);
    for (int i = 0; i < n; i++)
        hybrid_note_write(products[i].y, id, n_rows);
}

static void rotate_heads(struct backend *base, struct matrix *x, int32_t n_rows, int32_t n_heads,
                         int32_t head_dim, int32_t n_rope_dims, enum rope_style style, int table)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.rope(backend, x->at[id], n_rows, n_heads, head_dim, n_rope_dims, style, table);
    hybrid_note_write(x, id, n_rows);
}

static void kv_store(struct backend *base, int32_t index, const struct matrix *k, const struct matrix *v)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = share_backend_id(&hybrid->pages, index);
    struct backend *backend = hybrid->backends[id];
    if (hybrid_transfer(hybrid, id, (const struct matrix *const[]){k, v}, 2))
        backend->operations.kv_store(backend, share_index(&hybrid->pages, index), k->at[id], v->at[id]);
}

static void attend_pages(struct backend *base, struct matrix *out, const struct matrix *q,
                         const struct attention_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = share_backend_id(&hybrid->pages, parameters->layer);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, q))
        return;
    struct attention_parameters own = *parameters;
    own.layer = share_index(&hybrid->pages, parameters->layer);
    own.sinks = hybrid_weight(parameters->sinks, id);
    backend->operations.attend(backend, out->at[id], q->at[id], &own);
    hybrid_note_write(out, id, hybrid->n_attended);
}

static void activate_rows(struct backend *base, struct matrix *out, const struct matrix *gate,
                          const struct matrix *up, int32_t n_rows, enum activation_kind kind)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(gate);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed || (up && !hybrid_transfer_one(hybrid, id, up)))
        return;
    backend->operations.activate(backend, out->at[id], gate->at[id], up ? up->at[id] : NULL, n_rows, kind);
    hybrid_note_write(out, id, n_rows);
}

// Runs on the device if x is valid on it: the residual stream of a device layer, to which experts on the host add.
// Otherwise on the backend of y, because y was computed last and x is read there next.
static void add_rows(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows,
                     float scale)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = x->valid[DEVICE] ? DEVICE : matrix_backend_id(y);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x) || !hybrid_transfer_one(hybrid, id, y))
        return;
    backend->operations.add(backend, x->at[id], y->at[id], n_rows, scale);
    hybrid_note_write(x, id, n_rows);
}

static void scale_rows(struct backend *base, struct matrix *x, int32_t n_rows, float scale, float cap)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.scale(backend, x->at[id], n_rows, scale, cap);
    hybrid_note_write(x, id, n_rows);
}

static void gather_rows(struct backend *base, struct matrix *out, const struct matrix *in)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(in);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.gather(backend, out->at[id], in->at[id]);
    hybrid_note_write(out, id, hybrid->step.n_outputs);
}

// ---- mixture of experts: all experts of a layer are on one backend ----

static void route_rows(struct backend *base, const struct matrix *logits, int32_t n_rows,
                       const struct route_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = hybrid->route_backend_id = experts_backend_id(hybrid, parameters->layer);
    struct backend *backend = hybrid->backends[id];
    const struct matrix *const wanted[] = {logits, parameters->input}; // together: one wait for the device
    if (!hybrid_transfer(hybrid, id, wanted, parameters->input ? 2 : 1))
        return;
    struct route_parameters own = *parameters;
    own.input = parameters->input ? parameters->input->at[id] : NULL;
    own.pick_bias = hybrid_weight(parameters->pick_bias, id);
    hybrid->n_pairs = n_rows * parameters->n_used;
    backend->operations.route(backend, logits->at[id], n_rows, &own);
}

static void expert_products(struct backend *base, const struct product *products, int n,
                            const struct matrix *x, int32_t n_rows, bool x_per_pair)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    struct product own[PRODUCTS_MAX];
    int id = unwrap_products(own, products, n);
    struct backend *backend = hybrid->backends[id];
    assert(hybrid->failed || id == hybrid->route_backend_id);
    if (!hybrid_transfer_one(hybrid, id, x))
        return;
    backend->operations.expert_products(backend, own, n, x->at[id], n_rows, x_per_pair);
    for (int i = 0; i < n; i++)
        hybrid_note_write(products[i].y, id, hybrid->n_pairs);
}

static void expert_sum(struct backend *base, struct matrix *out, const struct matrix *y, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = hybrid->route_backend_id;
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.expert_sum(backend, out->at[id], y->at[id], n_rows);
    hybrid_note_write(out, id, n_rows);
}

static void gate_rows(struct backend *base, struct matrix *x, const struct matrix *gate, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, gate))
        return;
    backend->operations.gate_rows(backend, x->at[id], gate->at[id], n_rows);
    hybrid_note_write(x, id, n_rows);
}

// ---- latent attention: a matrix written by columns is written on one backend ----

static void head_products(struct backend *base, struct matrix *y, struct head_columns to,
                          const struct weight *weight, const struct matrix *x, struct head_columns from,
                          int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = weight->backend_id;
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x))
        return;
    backend->operations.head_products(backend, y->at[id], to, hybrid_weight(weight, id), x->at[id], from,
                                      n_rows);
    hybrid_note_write(y, id, n_rows);
}

static void copy_columns(struct backend *base, struct matrix *out, struct head_columns to,
                         const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                         int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(in);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.copy_columns(backend, out->at[id], to, in->at[id], from, n_heads, n, n_rows);
    hybrid_note_write(out, id, n_rows);
}

// ---- results ----

static void sample_outputs(struct backend *base, struct matrix *logits)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = hybrid->sample_backend_id = matrix_backend_id(logits);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.sample(backend, logits->at[id]);
    hybrid_note_write(logits, id, hybrid->step.n_outputs);
}

static void write_rows(struct backend *base, struct matrix *matrix, int32_t n_rows, const float *rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    struct backend *host = hybrid->backends[HOST];
    host->operations.write(host, matrix->at[HOST], n_rows, rows);
    hybrid_note_write(matrix, HOST, n_rows);
}

static void read_rows(struct backend *base, const struct matrix *matrix, int32_t n_rows, float *rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(matrix);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid->failed)
        backend->operations.read(backend, matrix->at[id], n_rows, rows);
}

static enum status wait_here(struct backend *base, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    hybrid_wait(hybrid);
    if (!hybrid->failed)
        return STATUS_OK;
    *error = hybrid->error;
    return error->status;
}

static enum status end_step(struct backend *base, struct sample_result *results, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    enum status status = hybrid->failed ? hybrid->error.status : STATUS_OK;
    for (int id = 0; id < N_BACKENDS; id++) {
        struct error own = {0};
        enum status ended =
            hybrid->backends[id]->operations.end(hybrid->backends[id],
                                                 id == hybrid->sample_backend_id ? results : NULL, &own);
        if (status == STATUS_OK && ended != STATUS_OK)
            hybrid->error = own;
        status = status == STATUS_OK ? ended : status;
    }
    if (status != STATUS_OK)
        *error = hybrid->error;
    return status;
}

// ---- the backend table ----

static void destroy_backend(struct backend *base)
{
    if (!base)
        return;
    struct hybrid_backend *hybrid = hybrid_of(base);
    hybrid_staging_finish(hybrid);
    for (int id = 0; id < N_BACKENDS; id++)
        hybrid->backends[id]->device.destroy(hybrid->backends[id]);
    free(hybrid);
}

static const struct backend_device device_hybrid = {.destroy = destroy_backend,
                                                    .layer = enter_layer,
                                                    .weight_create = weight_create,
                                                    .weight_destroy = weight_destroy,
                                                    .matrix_create = matrix_create,
                                                    .matrix_destroy = matrix_destroy,
                                                    .kv_create = kv_create,
                                                    .kv_read = kv_read,
                                                    .states_create = hybrid_states_create,
                                                    .state_copy = hybrid_state_copy,
                                                    .state_bytes = hybrid_state_bytes,
                                                    .ready = make_ready,
                                                    .available_bytes = available_bytes,
                                                    .trace = trace_steps};

static const struct backend_operations operations_hybrid = {.begin = begin_step,
                                                            .phase = start_phase,
                                                            .embed = embed_tokens,
                                                            .norm = norm_rows,
                                                            .products = multiply_products,
                                                            .rope = rotate_heads,
                                                            .kv_store = kv_store,
                                                            .attend = attend_pages,
                                                            .activate = activate_rows,
                                                            .add = add_rows,
                                                            .scale = scale_rows,
                                                            .gather = gather_rows,
                                                            .route = route_rows,
                                                            .expert_products = expert_products,
                                                            .expert_sum = expert_sum,
                                                            .gate_rows = gate_rows,
                                                            .head_products = head_products,
                                                            .copy_columns = copy_columns,
                                                            .convolve = hybrid_convolve,
                                                            .delta_rule = hybrid_delta_rule,
                                                            .scan = hybrid_scan,
                                                            .selective_scan = hybrid_selective_scan,
                                                            .multiply_by = hybrid_multiply_by,
                                                            .set_columns = hybrid_set_columns,
                                                            .keep_outputs = hybrid_keep_outputs,
                                                            .mix = hybrid_mix,
                                                            .match_rms = hybrid_match_rms,
                                                            .sparsify = hybrid_sparsify,
                                                            .multiply = hybrid_multiply,
                                                            .gate_softplus = hybrid_gate_softplus,
                                                            .limit = hybrid_limit,
                                                            .xielu = hybrid_xielu,
                                                            .sample = sample_outputs,
                                                            .write = write_rows,
                                                            .read = read_rows,
                                                            .wait = wait_here,
                                                            .end = end_step};

// Removes the operations that one of the backends does not implement.
static void drop_operations(struct hybrid_backend *hybrid, const struct backend *device,
                            const struct backend *host)
{
    struct backend_operations *operations = &hybrid->base.operations;
    if (!device->operations.head_products || !host->operations.head_products)
        operations->head_products = NULL;
    if (!device->operations.set_columns || !host->operations.set_columns)
        operations->set_columns = NULL;
    if (!device->operations.xielu || !host->operations.xielu)
        operations->xielu = NULL;
    operations->weighs_inputs = device->operations.weighs_inputs && host->operations.weighs_inputs;
    if (!device->device.kv_read || !host->device.kv_read)
        hybrid->base.device.kv_read = NULL;
    if (!device->device.states_create || !host->device.states_create)
        hybrid->base.device.states_create = NULL;
}

enum status hybrid_backend_create(struct backend **out, struct backend *device, struct backend *host,
                                  const struct model *model, const struct placement *placement,
                                  struct error *error)
{
    *out = NULL;
    assert(placement->n_host_layers <= model->shape.n_layers);
    struct hybrid_backend *hybrid = calloc(1, sizeof *hybrid);
    if (!hybrid)
        return error_memory(error, STATUS_REFUSE, "a hybrid backend");
    snprintf(hybrid->name, sizeof hybrid->name, "%s+%s", device->device.name, host->device.name);
    backend_init(&hybrid->base, &device_hybrid, &operations_hybrid);
    hybrid->base.device.name = hybrid->name;
    drop_operations(hybrid, device, host);
    hybrid->backends[DEVICE] = device;
    hybrid->backends[HOST] = host;
    hybrid->placement = *placement;
    hybrid->pages =
        (struct hybrid_share){placement_host_pages(placement, model), model->shape.attention.n_layers};
    hybrid->states =
        (struct hybrid_share){placement_host_states(placement, model), model->shape.recurrent.n_layers};
    *out = &hybrid->base;
    return STATUS_OK;
}
