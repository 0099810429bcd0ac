// Private header of the CUDA backend: its state, and the operations in backend.c's table.
#pragma once

#include "gpu/backend.h"
#include "gpu/device.h"
#include "gpu/graphs.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_layers.h"
#include "gpu/kernels/kernels_recurrent.h"
#include "gpu/kernels/kernels_rows.h"
#include "gpu/kernels/kernels_sample.h"
#include "gpu/kernels/kernels_selection.h"
#include "gpu/output_bound.h"
#include "gpu/shared_prefix.h"
#include "gpu/staging.h"
#include "gpu/tile_choice.h"
#include "gpu/kernels/tiles.h"
#include "gpu/upload.h"

#include <stddef.h>

struct matrix {
    struct device_matrix device;
    int32_t n_rows_max, n_cols;
    size_t size_bytes;
};

struct weight {
    enum weight_role role;
    struct tensor tensor; // its data is read only while loading
    unsigned char *memory;
    size_t size_bytes;
    struct device_table table; // used with WEIGHT_TABLE
    float *items;              // used with WEIGHT_VECTOR
    int64_t n_items;
    enum tensor_type tiles; // used with WEIGHT_PRODUCT (gpu/kernels/tiles.h); the matrices are contiguous
    int64_t n_matrices;
    const float *factors; // [n_matrices] after the tiles: additional factors; NULL: none
    // Bounds (gpu/output_bound.h). For WEIGHT_PRODUCT: of the outputs for normed rows. For WEIGHT_VECTOR:
    // .largest of its items.
    struct output_bound bound;
};

// Device memory for one purpose, sized for the largest step.
struct device_scratch {
    void *memory;
    size_t size_bytes;
};

// A deferred residual sum, to be fused with the norm of the same matrix if that is the next operation.
struct pending_add {
    struct matrix *x; // NULL: none
    const struct matrix *y;
    int32_t n_rows;
    float scale;
};

enum pending_kind { PENDING_NORM, PENDING_ATTENTION, PENDING_GATED };

// A deferred launch that writes the rows of `out`. If the next GEMM reads these rows, the launch also writes
// the operand of that GEMM.
struct pending_rows {
    const struct matrix *out; // NULL: none
    enum pending_kind kind;
    int32_t n_rows;
    bool consumed; // for a norm: only the next GEMM reads the rows
    bool pairs;    // for gated GEMMs: rows are (row, expert) pairs
    union {
        struct norm_launch norm;
        struct attention_launch attention;
        struct product_launch gated;
    };
    // In a traced step, for attention: `phase` begins after this launch and is marked then.
    bool ends_phase;
    enum step_phase phase;
};

// How a step, or a part that is submitted separately, is enqueued.
struct step_part {
    enum step_way way;
    struct graph_entry *entry; // set if it is captured or replayed
};

// State of a step from its begin until its results are collected. At most two steps have one.
struct step_slot {
    unsigned char *upload_host, *outcome_host; // pinned
    struct device_scratch upload;              // upload_host is copied here while the step before it runs
    struct device_event *ended;
    int32_t n_outputs, n_outputs_padded;
    size_t outcome_bytes; // bytes to download
    bool drawn;           // tokens were sampled
    // without samples_apart `forward` is the whole step
    struct step_part forward, sampling;
    struct step_part *part; // the part being enqueued, or the last one
    // Index of the event set that its graphs record. The other submitted step uses the other set.
    int events;
    // `phases` covers upload and eager operations; outcome_phases covers the download, and the sampling if it
    // is submitted apart.
    struct phases phases, outcome_phases;
    struct step_times times; // valid if `timed`
    bool timed;
};

// Deferred rotations of the queries, then of the keys. If the next operation stores the keys, its launch
// performs them.
struct pending_rope {
    struct matrix *x;
    int32_t n_rows, n_heads, head_dim;
    struct attention_rotation rotation;
};

enum { PENDING_ROPES_MAX = 2 };

struct pending_ropes {
    struct pending_rope ropes[PENDING_ROPES_MAX]; // rotations of different matrices
    int n;
};

// Device memory for a step, sized for the largest one.
struct step_memory {
    // Input and outcome of a step. Submitted steps share them, because they run one after the other, and a graph has
    // their addresses.
    struct device_scratch upload, outcome;
    struct device_scratch operand_items, operand_scales, attention;
    struct device_scratch next_items, next_scales, arrivals; // for struct next_operand
    struct device_scratch partial_sums, partial_arrivals;    // for GEMMs: struct product_partials
    struct device_scratch given, counts, states;             // for sampling
    struct device_scratch ones;                              // weights of norms without weights
    struct device_scratch pair_experts, pair_weights, pair_order, expert_first;
};

// Memory of sparse attention (gpu/selection.c).
struct sparse_attention {
    struct device_scratch pages;    // the indexer's keys
    struct device_scratch scores;   // of some rows
    struct device_scratch selected; // positions of all rows
    struct device_scratch copies;   // selected keys and values of some rows
    struct device_scratch places;   // the step's sequences, then the sequences and the tables of the copies
};

// Maxima over the created matrices and weights. They determine the sizes above.
struct step_capacity {
    int32_t n_rows_max, n_rows_least, n_cols_max, n_inputs_max, n_experts_max;
    bool reserved;
};

// The step between its begin and its end.
struct current_step {
    const struct step *step; // NULL: none
    bool decoding;           // it may run as a graph
    struct graph_kind kind;  // kind of that graph
    struct upload_counts padded;
    struct {
        int32_t n_positions, n_positions_padded;
        int32_t n_rows; // maximum number of rows per sequence
    } longest;
    struct shared_prefix shared;
    int32_t n_part_rows;       // rows of small sequences, whose partial results are in the scratch
    int32_t n_shared_segments; // capacity of the scratch in this step
    struct attention_assign_rules assignment;
    struct upload_layout layout;
    struct pending_add pending;
    struct pending_rows pending_rows;
    struct pending_ropes ropes;
    struct route_launch route; // the last expert routing
    bool keeps_outputs;        // since keep_outputs
    struct step_times *times;  // NULL: not traced
};

struct submitted_steps {
    struct step_slot slots[2];
    struct step_slot *slot; // slot of the current step, else of the step submitted last
    int n_under_way;        // submitted and not collected
};

struct latched_fault {
    bool failed; // operations do nothing until the end of the step, which returns `error`
    struct error error;
};

struct gpu_backend {
    struct backend base;
    char name[96]; // of base.device
    struct gpu_options options;
    struct device *device;
    void *stream;
    struct staging staging;          // used until the first step
    const struct norm_items *normed; // the norm that precedes the weights created next; NULL: none
    uint64_t used_bytes;             // allocated device memory

    struct kv_shape kv;
    struct device_scratch pages;
    struct sparse_attention sparse;
    struct state_shape state_shape;
    struct device_scratch states; // of recurrent layers (gpu/kernels/kernels_recurrent.h)

    struct step_memory memory;
    struct step_capacity capacity;
    struct submitted_steps submitted;
    struct current_step current;
    struct graphs graphs;
    struct tile_choices tile_choices;
    bool measures_tiles, keeps_tiles; // keeps: in options.tiles_path
    bool tunes;                       // within gpu_tune, which keeps the tiles at its end
    struct gpu_counts figures;

    struct latched_fault fault;
};

static inline struct gpu_backend *gpu_backend_of(struct backend *backend)
{
    return (struct gpu_backend *)(void *)backend;
}

static inline const void *upload_address(const struct gpu_backend *backend, size_t offset)
{
    return (const unsigned char *)backend->memory.upload.memory + offset;
}

// memory.c
uint64_t gpu_available_bytes(struct backend *base);
// Allocates device memory. NULL: the limit of the options is reached, or memory ran out.
void *gpu_allocate(struct gpu_backend *backend, size_t size_bytes);
// Sets the error for a failed gpu_allocate.
enum status gpu_no_memory(struct gpu_backend *backend, uint64_t size_bytes, const char *what,
                          struct error *error) WARN_UNUSED;
void gpu_free(struct gpu_backend *backend, void *memory, size_t size_bytes);
enum status gpu_scratch_reserve(struct gpu_backend *backend, struct device_scratch *scratch,
                                uint64_t size_bytes, const char *what, struct error *error) WARN_UNUSED;
void gpu_scratch_finish(struct gpu_backend *backend, struct device_scratch *scratch);
// A graph of some hundred launches needs megabytes of device memory. If memory ran out then, the worker would
// end.
bool gpu_has_graph_memory(const struct gpu_backend *backend);

// weights.c
enum status gpu_weight_create(struct backend *base, const struct tensor *tensor, enum weight_role role,
                              struct weight **weight, struct error *error) WARN_UNUSED;
void gpu_weight_destroy(struct backend *base, struct weight *weight);
void gpu_normed_input(struct backend *base, const struct norm_items *norm);
uint64_t gpu_weight_bytes(struct backend *base, const struct tensor *tensor, enum weight_role role);

// step_memory.c
// Allocates the scratch of the largest step.
enum status gpu_step_memory_reserve(struct gpu_backend *backend, struct error *error) WARN_UNUSED;
void gpu_step_memory_finish(struct gpu_backend *backend);
// See engine/backend.h.
uint64_t gpu_scratch_bytes(struct backend *base, const struct model_shape *shape, int32_t n_rows_max,
                           int32_t n_outputs_max, int64_t n_positions);

// attention.c
enum status gpu_kv_create(struct backend *base, const struct kv_shape *shape,
                          struct error *error) WARN_UNUSED;
uint64_t gpu_page_bytes(struct backend *base, const struct kv_shape *shape);
uint64_t gpu_attention_scratch_bytes(const struct gpu_backend *backend);
// Pages of one layer for the kernels. If layers differ, they are the pages of this layer only, and `layer` is 0.
struct layer_pages {
    struct attention_pages pages;
    int32_t layer;
};

struct layer_pages gpu_layer_pages(const struct gpu_backend *backend, int32_t layer);
void gpu_copy_pages(struct gpu_backend *backend, const struct step *step); // step->copies
// Finds the step's shared prefixes. Called before the layout of the step is computed.
void gpu_find_shared(struct gpu_backend *backend, const struct step *step);
// Sets the number of runs of segments for the step's attention. Called once the step's padded counts are
// known.
void gpu_size_runs(struct gpu_backend *backend);
void gpu_kv_store(struct backend *base, int32_t layer, const struct matrix *k, const struct matrix *v);
void gpu_attend(struct backend *base, struct matrix *out, const struct matrix *q,
                const struct attention_parameters *parameters);

// selection.c: see engine/backend.h
uint64_t gpu_index_bytes(const struct kv_shape *kv);     // of the indexer's pages
uint64_t gpu_selection_bytes(const struct kv_shape *kv); // of its working memory
enum status gpu_selection_create(struct gpu_backend *backend, const struct kv_shape *kv,
                                 struct error *error) WARN_UNUSED;
void gpu_selection_finish(struct gpu_backend *backend);
// True if a row of the step attends to selected positions.
bool gpu_selects(const struct gpu_backend *backend);
void gpu_copy_index_pages(struct gpu_backend *backend, const struct step *step);
void gpu_index_store(struct backend *base, int32_t layer, const struct matrix *k);
void gpu_select_positions(struct backend *base, int32_t layer, const struct matrix *queries,
                          const struct matrix *weights);
// Enqueues the attention of a step that selects.
void gpu_attend_selected(struct gpu_backend *backend, struct attention_launch launch);

// recurrent.c: see engine/backend.h
enum status gpu_states_create(struct backend *base, const struct state_shape *shape,
                              struct error *error) WARN_UNUSED;
void gpu_state_copy(struct backend *base, int32_t to, int32_t from);
uint64_t gpu_state_bytes(struct backend *base, const struct state_shape *shape);
void gpu_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                  const struct convolution_parameters *parameters);
void gpu_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                    struct matrix *beta, const struct delta_parameters *parameters);
void gpu_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
              const struct scan_parameters *parameters);
void gpu_selective_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
                        const struct matrix *b, const struct matrix *c,
                        const struct scan_parameters *parameters);
void gpu_multiply_by(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows);

// layers.c: see engine/backend.h
void gpu_set_columns(struct backend *base, struct matrix *matrix, int32_t n_cols);
void gpu_keep_outputs(struct backend *base);
void gpu_mix(struct backend *base, struct matrix *out, int32_t first, const struct matrix *coefficients,
             float bias, const struct matrix *x, int32_t width, int32_t n_rows);
void gpu_match_rms(struct backend *base, struct matrix *x, int32_t width, int32_t n_rows);
void gpu_sparsify(struct backend *base, struct matrix *x, int32_t n_rows, float factor);
void gpu_multiply(struct backend *base, struct matrix *x, const struct weight *weight, int32_t n_rows);
void gpu_gate_softplus(struct backend *base, struct matrix *x, struct matrix *gate, int32_t n_rows);
void gpu_limit(struct backend *base, struct matrix *x, int32_t n_rows, float least, float most);
void gpu_xielu(struct backend *base, struct matrix *x, int32_t n_rows, const struct xielu *parameters);

// page_read.c
enum status gpu_kv_read(struct backend *base, int32_t layer, const int32_t *pages, int32_t n_pages,
                        float *keys, float *values, struct error *error) WARN_UNUSED;

// ---- operations.c ----
// Returns the phases of this step. A graph has phases of its own, which its replays reuse.
struct phases *gpu_phases(struct gpu_backend *backend);
// Enqueues a deferred launch that the caller removed from current.pending_rows.
void gpu_launch_rows(struct gpu_backend *backend, struct pending_rows *rows);
// False: the step has failed or replays a graph; else flushes the pending operations.
bool gpu_enqueues(struct gpu_backend *backend);
int32_t gpu_rows(const struct gpu_backend *backend, int32_t n_rows); // padded as in this step
void gpu_embed(struct backend *base, struct matrix *out, const struct weight *table, float scale,
               const struct weight *positions_table, const struct weight *types_table);
void gpu_norm(struct backend *base, struct matrix *out, const struct matrix *in, int32_t n_rows,
              const struct norm_parameters *parameters);
void gpu_rope(struct backend *base, struct matrix *x, int32_t n_rows, int32_t n_heads, int32_t head_dim,
              int32_t n_rope_dims, enum rope_style style, int table);
void gpu_activate(struct backend *base, struct matrix *out, const struct matrix *gate,
                  const struct matrix *up, int32_t n_rows, enum activation_kind kind);
void gpu_add(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows, float scale);
void gpu_scale(struct backend *base, struct matrix *x, int32_t n_rows, float scale, float cap);
void gpu_gather(struct backend *base, struct matrix *out, const struct matrix *in);
void gpu_gate_rows(struct backend *base, struct matrix *x, const struct matrix *gate, int32_t n_rows);
void gpu_route(struct backend *base, const struct matrix *logits, int32_t n_rows,
               const struct route_parameters *parameters);
void gpu_expert_sum(struct backend *base, struct matrix *out, const struct matrix *y, int32_t n_rows);
void gpu_copy_columns(struct backend *base, struct matrix *out, struct head_columns to,
                      const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                      int32_t n_rows);
void gpu_write(struct backend *base, struct matrix *matrix, int32_t n_rows, const float *rows);
void gpu_read(struct backend *base, const struct matrix *matrix, int32_t n_rows, float *rows);

// launch_products.c
// Reads the file of tiles, if the options name one.
enum status gpu_tiles_read(struct gpu_backend *backend, struct error *error) WARN_UNUSED;
// Launches GEMMs of the same x. In an eager step, tiles that no earlier step needed are measured first.
void gpu_launch_products(struct gpu_backend *backend, struct product_launch *calls, int32_t n);
// Computes a step of each size for which tiles are measured (engine/backend.h).
enum status gpu_tune(struct backend *base, int32_t n_rows_max,
                     enum status (*run)(void *context, int32_t n_rows, struct error *error), void *context,
                     struct error *error) WARN_UNUSED;

// products.c
void gpu_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                  int32_t n_rows);
void gpu_expert_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                         int32_t n_rows, bool x_per_pair);
void gpu_gated_products(struct backend *base, const struct product *gate, const struct product *up,
                        const struct matrix *x, int32_t n_rows, bool experts, enum activation_kind kind);
void gpu_head_products(struct backend *base, struct matrix *y, struct head_columns to,
                       const struct weight *weight, const struct matrix *x, struct head_columns from,
                       int32_t n_rows);

// sampling.c
size_t gpu_outcome_bytes(int32_t n_outputs);
size_t gpu_outcome_wanted_bytes(const struct gpu_backend *backend, const struct step *step);
void gpu_sample(struct backend *base, struct matrix *logits);
void gpu_take_outcomes(const struct step_slot *slot, struct sample_result *results);
