// What a device must do: about 20 operations on float matrices, weights and KV pages. The forward pass is written
// over this table once; engine/cpu/ and gpu/ implement it.
//
// Order of calls: weights, matrices and pages are created at start, then ready. Then for each step: begin, operations, end. An
// operation only enqueues; the first error is latched and returned by end. Between begin and end nothing is allocated.
//
// Every operation works on rows [0, n_rows). Promise of every backend: what comes out for a row depends on nothing but
// that row, its sequence's pages and the weights: not on n_rows, the other rows, the thread, or how a prompt was cut.
//
// Thread: engine.
#pragma once

#include "engine/model/model.h"
#include "schemas/job.h"

#include <stdint.h>

struct backend;
struct matrix; // float32 [n_rows_max, n_cols], row-major, in the device's memory
struct weight; // one tensor in the device's own layout

enum weight_role {
    WEIGHT_PRODUCT, // right-hand side of a product; [n_rows outputs, n_cols inputs]; 3 dims: one matrix an expert
    WEIGHT_TABLE,   // rows looked up by token or position
    WEIGHT_VECTOR,  // bias, norm: widened to float32
};

// How pages keep keys and values.
enum kv_type {
    KV_F32,
    KV_F32_OF_F16, // float32 that was rounded to binary16: for comparisons with engines that keep binary16
    KV_F16,        // 16 bits an item: binary16 on a GPU, integers with a scale a position on a CPU
    KV_Q8_0,       // a GPU's alone
};

enum { ATTENTION_SEGMENT = 256 }; // positions merged at a time, in order: part of the results' definition

struct kv_shape {
    int32_t n_layers, n_kv_heads, key_dim, value_dim;
    int32_t page_positions; // 16 or more; divides ATTENTION_SEGMENT
    int32_t n_pages;
    enum kv_type type; // a GPU keeps binary16 for both kinds of float32 too
    int32_t n_heads;   // of queries; 0: not known
    int32_t n_positions_most; // that a sequence may have; 0: as many as the pages hold
};

// A run of rows of one sequence: a chunk of its prompt, or its newest token.
struct step_sequence {
    int32_t first_row, n_rows;
    int32_t position;      // of the first row: how many positions the pages hold already
    const int32_t *pages;  // block table: page of positions [i * page_positions, ...), as many as the last row needs
    bool long_context;     // rotated by the frequencies for contexts beyond shape.n_context_original: one choice for
                           // all of a sequence's life, so pages are shared only among equals
};

// What the sampler needs to draw one token. The draw depends on this and the logits alone.
struct sample_request {
    const struct sampling *sampling;
    uint32_t choice;            // 0..n-1 of the job
    uint32_t index;             // how many tokens were generated before: the random number's counter
    int32_t pending;            // 1 + j: the newest of them is output j of the step submitted before; 0: all are known
    const int32_t *prompt;      // for the penalties
    int32_t n_prompt;
    const int32_t *generated;   // those that are known
    int32_t n_generated;
};

struct sample_result {
    int32_t token;              // -1: the logits held a NaN
    float logprob;              // filled when the request asks for logprobs, with the alternatives
    int32_t n_top;
    struct token_logprob top[JOB_TOP_LOGPROBS_MAX];
};

// One pass of the model over a batch's rows. Everything is the caller's and stays untouched until end returns.
struct step {
    int32_t n_rows;
    const int32_t *tokens;        // [n_rows]; -1 - j: what output j of the step submitted before draws
    const int32_t *positions;     // [n_rows]
    int32_t n_sequences;
    const struct step_sequence *sequences; // rows ascending, without gaps
    const float *rope[2];         // cos, sin pairs [n_rows, n_rope_dims] of each table; NULL: no such table
    int32_t n_rope_dims;
    int32_t n_outputs;
    const int32_t *output_rows;   // [n_outputs], ascending: the rows whose logits are wanted
    const struct sample_request *samples; // [n_outputs], or NULL when logits are read instead
    bool stops;                   // matrices are read or written, or waited for, in its middle: it can't run as a graph
};

struct norm_parameters {
    enum norm_kind kind;
    const struct weight *weight, *bias; // bias may be NULL
    float epsilon;
    int32_t n_groups; // the row is this many vectors normalised each by itself; else 1
    bool own_weights; // each group has its own weight and bias items; else all share those of one vector
};

struct attention_parameters {
    int32_t layer;
    int32_t n_heads;
    float scale;
    float softcap;           // 0: none; else cap * tanh(x / cap)
    int32_t window;          // positions seen, the row's own included; 0: all
    float alibi_bias_max;    // 0: none
    const struct weight *sinks; // [n_heads] logit that takes part in the softmax without a value; NULL: none
};

enum { ROUTE_GROUPS_MAX = 64 };

// How experts are picked. Logits become probabilities; a row goes to the n_used experts with the largest choice value:
// probability + pick_bias. Their weights are the probabilities, divided by their sum when normalised, times scale.
struct route_parameters {
    enum route_kind kind;
    int32_t n_used;
    bool normalised;
    float scale;                    // 1: none
    const struct weight *pick_bias; // [n_experts]; NULL: none
    // Above 1: experts stand in n_groups equal runs, and only those of the n_groups_used best runs are picked. A run's
    // rank is its largest choice value (softmax) or the sum of its two largest (sigmoid); of equals the first.
    int32_t n_groups, n_groups_used;
};

// Which columns of a row belong to each head: head h's begin at first + h * step.
struct head_columns {
    int32_t first, step;
};

// One product y = W x (+ bias) of several that share x, so that x is prepared once.
struct product {
    struct matrix *y;
    const struct weight *weight;
    const struct weight *bias; // NULL: none
};

enum { PRODUCTS_MAX = 4 };

// What a step's time goes to. Norms, activations and sums are counted with the products they stand between; rotation and
// storing keys with attention.
enum step_phase { PHASE_UPLOAD, PHASE_EMBED, PHASE_ATTENTION, PHASE_PRODUCTS, PHASE_SAMPLING, PHASE_DOWNLOAD, PHASE_COUNT };

struct step_times {
    double us[PHASE_COUNT];
};

enum { LAYER_BEFORE = -1, LAYER_AFTER = INT32_MAX }; // the embedding with its norm; the output with its norm

struct backend_impl {
    const char *name; // "cpu/avx512"
    void (*destroy)(struct backend *backend);

    // At start. Errors: ERROR_OUT_OF_MEMORY, ERROR_UNKNOWN_TYPE, STATUS_REFUSE.
    // Weights created from now on are of this layer: LAYER_BEFORE the first one, 0.., LAYER_AFTER the last one. NULL: it is
    // all the same.
    void (*layer)(struct backend *backend, int32_t layer);
    enum status (*weight_create)(struct backend *backend, const struct tensor *tensor, enum weight_role role,
                                 struct weight **weight, struct error *error);
    void (*weight_destroy)(struct backend *backend, struct weight *weight);
    enum status (*matrix_create)(struct backend *backend, int32_t n_rows_max, int32_t n_cols,
                                 struct matrix **matrix, struct error *error);
    void (*matrix_destroy)(struct backend *backend, struct matrix *matrix);
    enum status (*kv_create)(struct backend *backend, const struct kv_shape *shape, struct error *error);
    // Between steps: what one layer's pages hold, as float32: keys [n_pages, page_positions, n_kv_heads, key_dim], and values with
    // value_dim. NULL: they can't be told.
    enum status (*kv_read)(struct backend *backend, int32_t layer, const int32_t *pages, int32_t n_pages, float *keys,
                           float *values, struct error *error);
    // The same into the pages. NULL: not here.
    void (*kv_write)(struct backend *backend, int32_t layer, const int32_t *pages, int32_t n_pages, const float *keys,
                     const float *values);
    // All weights, matrices and pages are there: takes what else steps need. NULL: nothing.
    enum status (*ready)(struct backend *backend, struct error *error);
    uint64_t (*memory_available)(struct backend *backend); // bytes that weights, matrices and pages may still take
    // Bytes a weight takes of them. NULL: as many as in the file.
    uint64_t (*weight_bytes)(struct backend *backend, const struct tensor *tensor, enum weight_role role);
    // Bytes of one page, of all layers. NULL: as forward_page_bytes counts.
    uint64_t (*page_bytes)(struct backend *backend, const struct kv_shape *shape);
    // Bytes it takes besides for steps of so many rows, with pages for so many positions. NULL: too few to count.
    uint64_t (*scratch_bytes)(struct backend *backend, const struct model_shape *shape, int32_t n_rows_max,
                              int32_t n_outputs_max, int64_t n_positions);
    // Host memory that matrices are read to and written from fastest. NULL: any is as fast.
    void *(*host_allocate)(struct backend *backend, size_t size_bytes);
    void (*host_free)(struct backend *backend, void *memory);
    // From now on end writes each step's times here, measured on the device; NULL: no more.
    void (*trace)(struct backend *backend, struct step_times *times);

    // A step.
    void (*begin)(struct backend *backend, const struct step *step);
    // What is enqueued from here on belongs to this phase: for the trace alone.
    void (*phase)(struct backend *backend, enum step_phase phase);
    // out[r] = scale * table[tokens[r]] (+ positions_table[positions[r]] when given)
    void (*embed)(struct backend *backend, struct matrix *out, const struct weight *table, float scale,
                  const struct weight *positions_table);
    // out may be in.
    void (*norm)(struct backend *backend, struct matrix *out, const struct matrix *in, int32_t n_rows,
                 const struct norm_parameters *parameters);
    // n products of the same x, at most PRODUCTS_MAX.
    void (*products)(struct backend *backend, const struct product *products, int n, const struct matrix *x,
                     int32_t n_rows);
    // Rotates n_heads vectors of head_dim in each row by the step's table; dims from n_rope_dims on stay.
    void (*rope)(struct backend *backend, struct matrix *x, int32_t n_rows, int32_t n_heads, int32_t head_dim,
                 int32_t n_rope_dims, enum rope_style style, int table);
    // Writes the rows' keys and values to their pages.
    void (*kv_store)(struct backend *backend, int32_t layer, const struct matrix *k, const struct matrix *v);
    // out[r] = causal attention of row r over its sequence's pages, its own position included.
    void (*attend)(struct backend *backend, struct matrix *out, const struct matrix *q,
                   const struct attention_parameters *parameters);
    // out = activation(gate) * up; up NULL: activation(gate). out may be gate.
    void (*activate)(struct backend *backend, struct matrix *out, const struct matrix *gate,
                     const struct matrix *up, int32_t n_rows, enum activation_kind kind);
    // x += scale * y
    void (*add)(struct backend *backend, struct matrix *x, const struct matrix *y, int32_t n_rows, float scale);
    // x *= scale, then cap * tanh(x / cap) unless cap is 0
    void (*scale)(struct backend *backend, struct matrix *x, int32_t n_rows, float scale, float cap);
    // out[i] = in[output_rows[i]]
    void (*gather)(struct backend *backend, struct matrix *out, const struct matrix *in);
    // Experts: route picks some for each row; expert_products multiplies each picked (row, expert) pair, x being one row a
    // pair or one row a row, a bias being [n_experts, outputs]; expert_sum makes out[r] the sum of the pairs' rows by
    // weight, added in the order picked.
    void (*route)(struct backend *backend, const struct matrix *logits, int32_t n_rows,
                  const struct route_parameters *parameters);
    void (*expert_products)(struct backend *backend, const struct product *products, int n,
                            const struct matrix *x, int32_t n_rows, bool x_per_pair);
    void (*expert_sum)(struct backend *backend, struct matrix *out, const struct matrix *y, int32_t n_rows);
    // x[r] *= sigmoid(gate[r][0]): a shared expert's gate.
    void (*gate_rows)(struct backend *backend, struct matrix *x, const struct matrix *gate, int32_t n_rows);
    // Latent attention (engine/forward_latent.c); a backend without it leaves both NULL, and such models are refused.
    // Each head's own product: for head h, y's columns = matrix h of a 3-dimensional weight times x's columns.
    void (*head_products)(struct backend *backend, struct matrix *y, struct head_columns to,
                          const struct weight *weight, const struct matrix *x, struct head_columns from,
                          int32_t n_rows);
    // n columns of each of n_heads heads: out's columns become in's.
    void (*copy_columns)(struct backend *backend, struct matrix *out, struct head_columns to,
                         const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                         int32_t n_rows);
    // gate's y = activation(gate's product) * up's product, where both are products of x, or with `experts` as expert_products
    // has them of one row a row. up's y is used up. NULL: products and activate are called.
    void (*gated_products)(struct backend *backend, const struct product *gate, const struct product *up,
                           const struct matrix *x, int32_t n_rows, bool experts, enum activation_kind kind);
    // Draws a token for each output from logits [n_outputs, n_vocab], by step->samples.
    void (*sample)(struct backend *backend, struct matrix *logits);
    // Fills the first n_rows rows from the host; `rows` is read before end returns.
    void (*write)(struct backend *backend, struct matrix *matrix, int32_t n_rows, const float *rows);
    // Copies the first n_rows rows to the host; `rows` is filled when end returns.
    void (*read)(struct backend *backend, const struct matrix *matrix, int32_t n_rows, float *rows);
    // Waits for what was enqueued so far, in a step that stops: what was read is filled, what was written may change. An
    // error ends the step. NULL: operations have run when they return.
    enum status (*wait)(struct backend *backend, struct error *error);
    // end in two calls, for a device that computes by itself; else NULL, both. `submit` does not wait: the next step may begin, and
    // name this one's outputs as its tokens. `collect` waits for the oldest of the at most two submitted. Matrices are not
    // read in such a step. After an error nothing is under way.
    enum status (*submit)(struct backend *backend, struct error *error);
    enum status (*collect)(struct backend *backend, struct sample_result *results, struct error *error);
    // Waits for the step. `results` [n_outputs] when sample was called, else NULL. STATUS_RESTART: the device is lost.
    enum status (*end)(struct backend *backend, struct sample_result *results, struct error *error);
};

// Implementations begin with this struct.
struct backend {
    const struct backend_impl *impl;
};
