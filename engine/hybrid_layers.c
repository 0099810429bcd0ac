// Operations of a hybrid for models whose layers differ, share keys and values, or have inputs or activations of
// their own. An operation with a weight runs where the weight is, any other where the layer's own input is.
#include "engine/hybrid_parts.h"

void hybrid_set_columns(struct backend *base, struct matrix *matrix, int32_t n_cols)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    for (int id = 0; id < N_BACKENDS; id++)
        hybrid->backends[id]->operations.set_columns(hybrid->backends[id], matrix->at[id], n_cols);
    matrix->n_cols = n_cols;
}

void hybrid_keep_outputs(struct backend *base)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    for (int id = 0; id < N_BACKENDS; id++)
        hybrid->backends[id]->operations.keep_outputs(hybrid->backends[id]);
    hybrid->n_attended = hybrid->step.n_outputs;
}

// With coefficients these are the layer's own, else x is.
void hybrid_mix(struct backend *base, struct matrix *out, int32_t first, const struct matrix *coefficients,
                float bias, const struct matrix *x, int32_t width, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(coefficients ? coefficients : x);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x) || !hybrid_transfer_one(hybrid, id, out))
        return;
    backend->operations.mix(backend, out->at[id], first, coefficients ? coefficients->at[id] : NULL, bias,
                            x->at[id], width, n_rows);
    hybrid_note_write(out, id, n_rows);
}

void hybrid_match_rms(struct backend *base, struct matrix *x, int32_t width, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.match_rms(backend, x->at[id], width, n_rows);
    hybrid_note_write(x, id, n_rows);
}

void hybrid_sparsify(struct backend *base, struct matrix *x, int32_t n_rows, float factor)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.sparsify(backend, x->at[id], n_rows, factor);
    hybrid_note_write(x, id, n_rows);
}

void hybrid_multiply(struct backend *base, struct matrix *x, const struct weight *weight, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = weight->backend_id;
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, x))
        return;
    backend->operations.multiply(backend, x->at[id], hybrid_weight(weight, id), n_rows);
    hybrid_note_write(x, id, n_rows);
}

void hybrid_gate_softplus(struct backend *base, struct matrix *x, struct matrix *gate, int32_t n_rows)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (!hybrid_transfer_one(hybrid, id, gate))
        return;
    backend->operations.gate_softplus(backend, x->at[id], gate->at[id], n_rows);
    hybrid_note_write(x, id, n_rows);
}

void hybrid_limit(struct backend *base, struct matrix *x, int32_t n_rows, float least, float most)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.limit(backend, x->at[id], n_rows, least, most);
    hybrid_note_write(x, id, n_rows);
}

void hybrid_xielu(struct backend *base, struct matrix *x, int32_t n_rows, const struct xielu *parameters)
{
    struct hybrid_backend *hybrid = hybrid_of(base);
    int id = matrix_backend_id(x);
    struct backend *backend = hybrid->backends[id];
    if (hybrid->failed)
        return;
    backend->operations.xielu(backend, x->at[id], n_rows, parameters);
    hybrid_note_write(x, id, n_rows);
}
