#include "gpu/state.h"

#include <assert.h>

struct phases *gpu_phases(struct gpu_backend *backend)
{
    struct step_slot *slot = backend->submitted.slot;
    struct phases *eager = slot->part == &slot->forward ? &slot->phases : &slot->outcome_phases;
    return slot->part->way == STEP_EAGER ? eager : &slot->part->entry->phases;
}

void gpu_launch_rows(struct gpu_backend *backend, struct pending_rows *rows)
{
    switch (rows->kind) {
    case PENDING_NORM:
        launch_norm(backend->stream, &rows->norm);
        break;
    case PENDING_ATTENTION:
        launch_attention(backend->stream, &rows->attention);
        if (rows->ends_phase && backend->current.times)
            phases_mark(gpu_phases(backend), backend->device, rows->phase);
        break;
    case PENDING_GATED:
        gpu_launch_products(backend, &rows->gated, 1);
        break;
    }
}

// At most one kind of operation is pending: each operation flushes the pending ones or fuses with them.
static void flush_pending(struct gpu_backend *backend)
{
    struct pending_add *pending = &backend->current.pending;
    if (pending->x)
        launch_add(backend->stream, pending->x->device, pending->y->device, pending->n_rows,
                   pending->x->n_cols, pending->scale);
    pending->x = NULL;
    if (backend->current.pending_rows.out)
        gpu_launch_rows(backend, &backend->current.pending_rows);
    backend->current.pending_rows.out = NULL;
    for (int i = 0; i < backend->current.ropes.n; i++) {
        const struct pending_rope *rope = &backend->current.ropes.ropes[i];
        launch_rope(backend->stream, &(struct rope_launch){.n_rows = rope->n_rows,
                                                           .n_parts = 1,
                                                           .head_dim = rope->head_dim,
                                                           .n_dims = rope->rotation.n_dims,
                                                           .halves = rope->rotation.halves,
                                                           .parts = {{rope->x->device, rope->n_heads,
                                                                      rope->rotation.cos_sin}}});
    }
    backend->current.ropes.n = 0;
}

bool gpu_enqueues(struct gpu_backend *backend)
{
    if (backend->fault.failed || backend->submitted.slot->part->way == STEP_REPLAYS)
        return false;
    flush_pending(backend);
    return true;
}

// Pads a number of rows, or a number of (row, expert) pairs, which is a multiple of the step's rows.
int32_t gpu_rows(const struct gpu_backend *backend, int32_t n_rows)
{
    if (backend->submitted.slot->part->way == STEP_EAGER)
        return n_rows;
    assert(n_rows % backend->current.step->n_tokens == 0);
    return n_rows / backend->current.step->n_tokens * backend->current.padded.n_rows;
}

void gpu_embed(struct backend *base, struct matrix *out, const struct weight *table, float scale,
               const struct weight *positions_table, const struct weight *types_table)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(table->role == WEIGHT_TABLE && table->tensor.dims[0] == (uint64_t)out->n_cols);
    assert(!positions_table || positions_table->tensor.dims[0] == (uint64_t)out->n_cols);
    assert(!types_table || types_table->tensor.dims[0] == (uint64_t)out->n_cols);
    const struct upload_layout *layout = &backend->current.layout;
    const struct step *step = backend->current.step;
    struct embed_launch embed = {.out = out->device,
                                 .n_rows = gpu_rows(backend, step->n_tokens),
                                 .n_cols = out->n_cols,
                                 .table = table->table,
                                 .tokens = upload_address(backend, layout->tokens),
                                 .positions = upload_address(backend, layout->positions),
                                 .types = step->types ? upload_address(backend, layout->types) : NULL,
                                 .scale = scale};
    if (positions_table)
        embed.positions_table = positions_table->table;
    if (types_table)
        embed.types_table = types_table->table;
    launch_embed(backend->stream, &embed);
}

void gpu_norm(struct backend *base, struct matrix *out, const struct matrix *in, int32_t n_rows,
              const struct norm_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct pending_add pending = backend->current.pending;
    bool taken = pending.x == in && parameters->n_groups == 1 && pending.n_rows == gpu_rows(backend, n_rows);
    if (taken)
        backend->current.pending.x = NULL;
    if (!gpu_enqueues(backend))
        return;
    assert(in->n_cols == out->n_cols && in->n_cols % parameters->n_groups == 0);
    const struct weight *weight = parameters->weight;
    assert(!weight || weight->n_items == in->n_cols / (parameters->own_weights ? 1 : parameters->n_groups));
    struct norm_launch norm = {.out = out->device,
                               .in = in->device,
                               .n_rows = gpu_rows(backend, n_rows),
                               .n_groups = parameters->n_groups,
                               .n = in->n_cols / parameters->n_groups,
                               .rms = parameters->kind == NORM_RMS,
                               .own_weights = parameters->own_weights,
                               .weight = weight ? weight->items : backend->memory.ones.memory,
                               .bias = parameters->bias && parameters->kind != NORM_RMS
                                           ? parameters->bias->items
                                           : NULL,
                               .epsilon = parameters->epsilon};
    if (taken) {
        norm.addend = pending.y->device;
        norm.scale = pending.scale;
    }
    backend->current.pending_rows = (struct pending_rows){.out = out,
                                                          .kind = PENDING_NORM,
                                                          .n_rows = norm.n_rows,
                                                          .consumed = parameters->consumed,
                                                          .norm = norm};
}

void gpu_rope(struct backend *base, struct matrix *x, int32_t n_rows, int32_t n_heads, int32_t head_dim,
              int32_t n_rope_dims, enum rope_style style, int table)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (style == ROPE_NONE)
        return;
    struct pending_ropes others = backend->current.ropes;
    if (others.n < PENDING_ROPES_MAX && (others.n == 0 || others.ropes[0].x != x))
        backend->current.ropes.n = 0; // keeps the earlier rotation pending
    else
        others.n = 0;
    if (!gpu_enqueues(backend))
        return;
    assert(n_rope_dims <= head_dim && (int64_t)n_heads * head_dim <= x->n_cols &&
           backend->current.step->rope[table]);
    assert(n_rope_dims == backend->current.step->n_rope_dims[table]);
    const struct upload_layout *layout = &backend->current.layout;
    size_t angles = backend->current.keeps_outputs ? layout->kept.rope[table] : layout->rope[table];
    others.ropes[others.n++] =
        (struct pending_rope){x,
                              gpu_rows(backend, n_rows),
                              n_heads,
                              head_dim,
                              {upload_address(backend, angles), n_rope_dims, style == ROPE_HALVES}};
    backend->current.ropes = others;
}

void gpu_activate(struct backend *base, struct matrix *out, const struct matrix *gate,
                  const struct matrix *up, int32_t n_rows, enum activation_kind kind)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(out->n_cols == gate->n_cols && (!up || up->n_cols == gate->n_cols));
    struct device_matrix none = {0};
    launch_activate(backend->stream, out->device, gate->device, up ? up->device : none,
                    gpu_rows(backend, n_rows), gate->n_cols, kind);
}

void gpu_add(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows, float scale)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(x->n_cols == y->n_cols && n_rows <= x->n_rows_max && n_rows <= y->n_rows_max);
    backend->current.pending = (struct pending_add){x, y, gpu_rows(backend, n_rows), scale};
}

void gpu_scale(struct backend *base, struct matrix *x, int32_t n_rows, float scale, float cap)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (gpu_enqueues(backend))
        launch_scale(backend->stream, x->device, gpu_rows(backend, n_rows), x->n_cols, scale, cap);
}

void gpu_gather(struct backend *base, struct matrix *out, const struct matrix *in)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(out->n_cols == in->n_cols && backend->current.step->n_outputs <= out->n_rows_max);
    launch_gather(backend->stream, out->device, in->device,
                  upload_address(backend, backend->current.layout.output_rows),
                  backend->current.padded.n_outputs, in->n_cols);
}

void gpu_copy_columns(struct backend *base, struct matrix *out, struct head_columns to,
                      const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                      int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(from.first + (int64_t)(n_heads - 1) * from.step + n <= in->n_cols);
    assert(to.first + (int64_t)(n_heads - 1) * to.step + n <= out->n_cols);
    struct device_matrix to_first = {out->device.items + to.first, out->device.stride};
    struct device_matrix from_first = {in->device.items + from.first, in->device.stride};
    launch_copy_columns(backend->stream, to_first, to.step, from_first, from.step, n_heads, n,
                        gpu_rows(backend, n_rows));
}

void gpu_gate_rows(struct backend *base, struct matrix *x, const struct matrix *gate, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(x->n_cols % gate->n_cols == 0);
    if (gpu_enqueues(backend))
        launch_gate_rows(backend->stream, x->device, gate->device, gpu_rows(backend, n_rows), x->n_cols,
                         gate->n_cols);
}

void gpu_route(struct backend *base, const struct matrix *logits, int32_t n_rows,
               const struct route_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    int32_t n_used = parameters->n_used, n_groups = parameters->n_groups;
    assert(n_used > 0 && n_used <= MODEL_EXPERTS_USED_MAX && n_used <= logits->n_cols);
    assert(logits->n_cols <= backend->capacity.n_experts_max);
    assert(n_groups <= 1 || (n_groups <= ROUTE_GROUPS_MAX && logits->n_cols % n_groups == 0 &&
                             n_used <= logits->n_cols / n_groups * parameters->n_groups_used));
    backend->current.route =
        (struct route_launch){.logits = logits->device,
                              .n_rows = gpu_rows(backend, n_rows),
                              .n_used = n_used,
                              .n_experts = logits->n_cols,
                              .kind = parameters->kind,
                              .normalized = parameters->normalized,
                              .scale = parameters->scale,
                              .pick_bias = parameters->pick_bias ? parameters->pick_bias->items : NULL,
                              .n_groups = n_groups,
                              .n_groups_used = parameters->n_groups_used,
                              .weighs_inputs = parameters->weighs_inputs,
                              .experts = backend->memory.pair_experts.memory,
                              .order = backend->memory.pair_order.memory,
                              .first = backend->memory.expert_first.memory,
                              .weights = backend->memory.pair_weights.memory};
    assert((int64_t)backend->current.route.n_rows * n_used <= backend->capacity.n_rows_max);
    launch_route(backend->stream, &backend->current.route);
}

void gpu_expert_sum(struct backend *base, struct matrix *out, const struct matrix *y, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(gpu_rows(backend, n_rows) == backend->current.route.n_rows && out->n_cols == y->n_cols);
    const struct route_launch *route = &backend->current.route;
    launch_expert_sum(backend->stream, out->device, y->device, route->weighs_inputs ? NULL : route->weights,
                      route->n_rows, route->n_used, out->n_cols);
}

void gpu_write(struct backend *base, struct matrix *matrix, int32_t n_rows, const float *rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= matrix->n_rows_max && backend->submitted.slot->part->way == STEP_EAGER);
    device_upload_rows(backend->device, matrix->device.items, rows, (size_t)n_rows,
                       (size_t)matrix->n_cols * sizeof(float), (size_t)matrix->device.stride * sizeof(float));
}

void gpu_read(struct backend *base, const struct matrix *matrix, int32_t n_rows, float *rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= matrix->n_rows_max && backend->submitted.slot->part->way == STEP_EAGER);
    device_download_rows(backend->device, rows, matrix->device.items, (size_t)n_rows,
                         (size_t)matrix->n_cols * sizeof(float),
                         (size_t)matrix->device.stride * sizeof(float));
}
