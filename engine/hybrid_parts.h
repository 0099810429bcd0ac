// Private header of the hybrid: its objects, transfers between device and host, and the operations that only some
// models have.
#pragma once

#include "engine/hybrid.h"

#include <assert.h>
#include <stddef.h>

enum { DEVICE, HOST, N_BACKENDS };

// Handles of the hybrid, each with one object per backend.
struct matrix {
    struct matrix *at[N_BACKENDS];
    bool valid[N_BACKENDS]; // true if the backend's copy is current
    int32_t n_rows;         // rows of the last write
    int32_t n_rows_max, n_cols;
};

struct weight {
    struct weight *at[N_BACKENDS]; // NULL: not on this backend
    int backend_id;                // the backend that runs operations with it
};

// A transfer buffer; sizes are in floats. The device may still read memory that was allocated since it was
// last waited for.
struct hybrid_staging {
    float *floats;
    size_t n, n_used, n_wanted;
};

// Numbers of layers, for objects that each backend numbers itself: the first ones are the host's.
struct hybrid_share {
    int32_t n_host, n;
};

struct hybrid_backend {
    struct backend base;
    struct backend *backends[N_BACKENDS];
    struct placement placement;
    char name[160];
    int32_t layer; // layer of the weights that are created now
    bool experts;  // they are of its experts
    struct hybrid_share pages, states;
    struct hybrid_staging transfers;
    struct step step; // copy of the step for the device, with `stops` set
    int route_backend_id, sample_backend_id;
    int32_t n_pairs;    // pairs of the last expert routing
    int32_t n_attended; // rows of attention: the step's, or those with an output after keep_outputs
    bool failed;        // `error` is latched
    struct error error;
};

static inline struct hybrid_backend *hybrid_of(struct backend *backend)
{
    return (struct hybrid_backend *)(void *)backend;
}

// The backend of a layer with pages or states, by its number among these layers.
static inline int share_backend_id(const struct hybrid_share *share, int32_t index)
{
    return index < share->n_host ? HOST : DEVICE;
}

// The number that this backend gives to the layer.
static inline int32_t share_index(const struct hybrid_share *share, int32_t index)
{
    return index < share->n_host ? index : index - share->n_host;
}

static inline int32_t share_count(const struct hybrid_share *share, int id)
{
    return id == HOST ? share->n_host : share->n - share->n_host;
}

// The backend that has the current contents.
static inline int matrix_backend_id(const struct matrix *matrix)
{
    return matrix->valid[DEVICE] ? DEVICE : HOST;
}

// The weight on backend `id`, where it must be; NULL stays NULL.
static inline const struct weight *hybrid_weight(const struct weight *weight, int id)
{
    assert(!weight || weight->at[id]);
    return weight ? weight->at[id] : NULL;
}

// ---- hybrid_transfer.c ----

enum { TRANSFERS_MAX = 2 }; // matrices transferred together

// Backend `id` wrote the first n_rows rows: the other backend's copy is outdated.
void hybrid_note_write(struct matrix *matrix, int id, int32_t n_rows);
// Waits for the device's reads and writes; latches its error.
void hybrid_wait(struct hybrid_backend *hybrid);
// Transfers the inputs of an operation that have no current copy on backend `id`. False: the step has failed.
bool hybrid_transfer(struct hybrid_backend *hybrid, int id, const struct matrix *const *wanted, int n);
bool hybrid_transfer_one(struct hybrid_backend *hybrid, int id, const struct matrix *matrix);
enum status hybrid_staging_reserve(struct hybrid_backend *hybrid, struct error *error) WARN_UNUSED;
void hybrid_staging_finish(struct hybrid_backend *hybrid);

// ---- hybrid_recurrent.c: see engine/backend.h ----
enum status hybrid_states_create(struct backend *base, const struct state_shape *shape,
                                 struct error *error) WARN_UNUSED;
void hybrid_state_copy(struct backend *base, int32_t to, int32_t from);
uint64_t hybrid_state_bytes(struct backend *base, const struct state_shape *shape);
void hybrid_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                     const struct convolution_parameters *parameters);
void hybrid_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                       struct matrix *beta, const struct delta_parameters *parameters);
void hybrid_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
                 const struct scan_parameters *parameters);
void hybrid_selective_scan(struct backend *base, struct matrix *out, const struct matrix *x,
                           struct matrix *step, const struct matrix *b, const struct matrix *c,
                           const struct scan_parameters *parameters);
void hybrid_multiply_by(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows);

// ---- hybrid_layers.c: see engine/backend.h ----
void hybrid_set_columns(struct backend *base, struct matrix *matrix, int32_t n_cols);
void hybrid_keep_outputs(struct backend *base);
void hybrid_mix(struct backend *base, struct matrix *out, int32_t first, const struct matrix *coefficients,
                float bias, const struct matrix *x, int32_t width, int32_t n_rows);
void hybrid_match_rms(struct backend *base, struct matrix *x, int32_t width, int32_t n_rows);
void hybrid_sparsify(struct backend *base, struct matrix *x, int32_t n_rows, float factor);
void hybrid_multiply(struct backend *base, struct matrix *x, const struct weight *weight, int32_t n_rows);
void hybrid_gate_softplus(struct backend *base, struct matrix *x, struct matrix *gate, int32_t n_rows);
void hybrid_limit(struct backend *base, struct matrix *x, int32_t n_rows, float least, float most);
void hybrid_xielu(struct backend *base, struct matrix *x, int32_t n_rows, const struct xielu *parameters);
