// Recurrent layers of a hybrid. A layer's states are where the layer is: a slot has its first layers on the host,
// the others on the device.
#include "engine/hybrid_parts.h"

enum status hybrid_states_create(struct backend *base, const struct state_shape *shape, struct error *error)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    enum status status = STATUS_OK;
    for (int id = 0; id < N_BACKENDS && status == STATUS_OK; id++) {
        struct state_shape own = *shape;
        own.n_layers = share_count(&hybrid->states, id);
        if (own.n_layers > 0)
            status = hybrid->backends[id]->device.states_create(hybrid->backends[id], &own, error);
    }
    return status;
}

void hybrid_state_copy(struct backend *base, int32_t to, int32_t from)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    for (int id = 0; id < N_BACKENDS; id++)
        if (share_count(&hybrid->states, id) > 0)
            hybrid->backends[id]->device.state_copy(hybrid->backends[id], to, from);
}

uint64_t hybrid_state_bytes(struct backend *base, const struct state_shape *shape)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    uint64_t bytes = 0;
    for (int id = 0; id < N_BACKENDS; id++) {
        struct state_shape own = *shape;
        own.n_layers = share_count(&hybrid->states, id);
        bytes += hybrid->backends[id]->device.state_bytes(hybrid->backends[id], &own);
    }
    return bytes;
}

void hybrid_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                     const struct convolution_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = share_backend_id(&hybrid->states, parameters->layer);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, in))
        return;
    struct convolution_parameters own = *parameters;
    own.layer = share_index(&hybrid->states, parameters->layer);
    own.kernel = hybrid_weight(parameters->kernel, id);
    own.bias = hybrid_weight(parameters->bias, id);
    backend->operations.convolve(backend, out->at[id], in->at[id], &own);
    hybrid_note_write(out, id, hybrid->step.n_tokens);
}

void hybrid_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                       struct matrix *beta, const struct delta_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = share_backend_id(&hybrid->states, parameters->layer);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, qkv) || !hybrid_transfer_one(hybrid, id, alpha) ||
        !hybrid_transfer_one(hybrid, id, beta))
        return;
    struct delta_parameters own = *parameters;
    own.layer = share_index(&hybrid->states, parameters->layer);
    own.decay = hybrid_weight(parameters->decay, id);
    own.step_bias = hybrid_weight(parameters->step_bias, id);
    backend->operations.delta_rule(backend, out->at[id], qkv->at[id], alpha->at[id], beta->at[id], &own);
    hybrid_note_write(out, id, hybrid->step.n_tokens);
}

static struct scan_parameters scan_part(const struct hybrid_backend *hybrid,
                                        const struct scan_parameters *parameters, int id)
{
    struct scan_parameters own = *parameters;
    own.layer = share_index(&hybrid->states, parameters->layer);
    own.decay = hybrid_weight(parameters->decay, id);
    own.step_bias = hybrid_weight(parameters->step_bias, id);
    own.direct = hybrid_weight(parameters->direct, id);
    return own;
}

void hybrid_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
                 const struct scan_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = share_backend_id(&hybrid->states, parameters->layer);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x) || !hybrid_transfer_one(hybrid, id, step))
        return;
    struct scan_parameters own = scan_part(hybrid, parameters, id);
    backend->operations.scan(backend, out->at[id], x->at[id], step->at[id], &own);
    hybrid_note_write(out, id, hybrid->step.n_tokens);
}

void hybrid_selective_scan(struct backend *base, struct matrix *out, const struct matrix *x,
                           struct matrix *step, const struct matrix *b, const struct matrix *c,
                           const struct scan_parameters *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = share_backend_id(&hybrid->states, parameters->layer);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x) || !hybrid_transfer_one(hybrid, id, step) ||
        !hybrid_transfer_one(hybrid, id, b) || !hybrid_transfer_one(hybrid, id, c))
        return;
    struct scan_parameters own = scan_part(hybrid, parameters, id);
    backend->operations.selective_scan(backend, out->at[id], x->at[id], step->at[id], b->at[id], c->at[id],
                                       &own);
    hybrid_note_write(out, id, hybrid->step.n_tokens);
}

void hybrid_multiply_by(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, y))
        return;
    backend->operations.multiply_by(backend, x->at[id], y->at[id], n_rows);
    hybrid_note_write(x, id, n_rows);
}
