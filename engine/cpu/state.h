// Private header of the CPU backend: its state, and the operations in backend.c's table.
#pragma once

#include "engine/cpu/attention.h"
#include "engine/cpu/backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pages.h"
#include "engine/cpu/product/memory.h"
#include "engine/cpu/product/product.h"
#include "engine/cpu/selection.h"
#include "engine/cpu/states.h"

struct sampler;

struct matrix {
    float *items;               // [n_rows_max, stride]
    int32_t n_rows_max, n_cols; // n_cols: up to the stride
    int64_t stride;
    size_t bytes;
};

// The pages of layers that have the same heads, and attention over them.
struct page_group {
    struct pages pages;
    struct attention *attention;
};

// Location of a layer's pages: layer `index` of a group.
struct page_place {
    int32_t group, index;
};

struct weight {
    enum weight_role role;
    struct tensor tensor;   // for WEIGHT_TABLE its data in the file's mapping is read
    struct packed **packed; // for WEIGHT_PRODUCT: [n_packed], one per expert
    int32_t n_packed;
    float *items; // for WEIGHT_VECTOR: [n_items]
    int64_t n_items;
};

// Pairs of a row and one of its experts. The number of a pair is row * n_used + place among the selected
// experts.
struct routing {
    int32_t n_rows, n_used, n_experts;
    int32_t *experts;     // [n_pairs] expert of each pair
    float *weights;       // [n_pairs]
    int32_t *order;       // [n_pairs] pairs sorted by expert
    int32_t *first;       // [n_experts + 1] index of each expert's first pair in `order`
    float *probabilities; // [n_threads, 2, n_experts_max]: probabilities, choice values
    int32_t n_pairs_max, n_experts_max;
    bool weighs_inputs; // as in struct route_parameters
};

struct step_buffers {
    float *gathered_x,
        *gathered_y;           // rows of one expert: [n_rows_max, n_inputs_max], [n_rows_max, n_outputs_max]
    float *sorted_x;           // [n_rows_max, n_inputs_max] rows, with columns in the order of a weight
    struct sampler **samplers; // [n_threads], created at the first draw
    int32_t n_vocab;           // vocabulary size of the samplers
    float *table_rows;         // [n_threads, n_table_cols_max]
    int32_t *row_sequences;    // [n_rows_max] sequence of each row of the step
    struct sample_result *results; // [n_results_max]
    struct step_sequence *outputs; // [n_results_max] each output row as a sequence of its own
    // [n_results_max] row of each output in the logits, and output of each row; masks of gathered outputs by
    // row (output_product.c).
    int32_t *output_places, *place_outputs;
    const uint32_t **place_masks;
};

struct buffer_capacity {
    // Largest sizes created so far. The buffers must hold them.
    int32_t n_rows_max, n_inputs_max, n_expert_outputs_max, n_experts_max, n_table_cols_max;
    bool has_orders; // true if a weight has an order of columns
    // Allocated sizes of the buffers.
    int32_t n_rows_reserved, n_inputs_reserved, n_results_max;
};

struct step_timing {
    struct step_times *times; // times of the step's phases; NULL: not traced
    enum step_phase phase;
    double phase_began_us;
};

struct cpu_backend {
    struct backend base;
    struct pool *pool;
    struct cpu_kernels kernels;

    struct memory_stack weight_memory;
    struct page_group *groups; // [n_groups]
    int32_t n_groups;
    struct page_place *places; // [n_layers]
    struct states states;
    struct selection selection; // of sparse attention
    struct prepared prepared;
    int activation_parts; // number of int8 parts of an activation, 1 or 2
    struct routing routing;
    struct step_buffers buffers;
    struct buffer_capacity capacity;
    struct step_timing timing;

    const struct step *step; // set between begin and end
    bool outputs_only;       // after keep_outputs
    bool failed;             // `error` is latched: operations do nothing until end
    struct error error;
};

static inline struct cpu_backend *cpu_backend_of(struct backend *backend)
{
    return (struct cpu_backend *)(void *)backend;
}

// Returns the group with the pages of a layer. *index becomes the layer's index in the group.
static inline struct page_group *layer_pages(struct cpu_backend *backend, int32_t layer, int32_t *index)
{
    *index = backend->places[layer].index;
    return &backend->groups[backend->places[layer].group];
}

static inline float *matrix_row(const struct matrix *matrix, int32_t row)
{
    return matrix->items + row * matrix->stride;
}

// Calls `row` for each row in [0, n_rows), spread over the pool in tasks of about a microsecond or more;
// `n_floats` is the work of one row. Few rows run on the caller alone.
void spread_rows(struct cpu_backend *backend, int32_t n_rows, int64_t n_floats,
                 void (*row)(void *context, int32_t row, int thread), void *context);

// operations.c
// Prepares rows of x for a product with the weight, sorted if it has an order of columns. `last`: the weight
// for which the same rows were prepared before; NULL: none.
void prepare_products(struct cpu_backend *backend, const struct packed *weight, const struct packed *last,
                      const float *x, int64_t stride, int32_t n_rows, unsigned forms);
void cpu_embed(struct backend *base, struct matrix *out, const struct weight *table, float scale,
               const struct weight *positions_table, const struct weight *types_table);
void cpu_norm(struct backend *base, struct matrix *out, const struct matrix *in, int32_t n_rows,
              const struct norm_parameters *parameters);
void cpu_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                  int32_t n_rows);
void cpu_rope(struct backend *base, struct matrix *x, int32_t n_rows, int32_t n_heads, int32_t head_dim,
              int32_t n_rope_dims, enum rope_style style, int table);
void cpu_kv_store(struct backend *base, int32_t layer, const struct matrix *k, const struct matrix *v);
void cpu_index_store(struct backend *base, int32_t layer, const struct matrix *k);
void cpu_index_store_means(struct backend *base, int32_t layer, const struct matrix *k,
                           const struct norm_parameters *norm, int32_t n_rope_dims, enum rope_style style);
void cpu_select_positions(struct backend *base, int32_t layer, const struct matrix *queries,
                          const struct matrix *weights);
void cpu_attend(struct backend *base, struct matrix *out, const struct matrix *q,
                const struct attention_parameters *parameters);
void cpu_activate(struct backend *base, struct matrix *out, const struct matrix *gate,
                  const struct matrix *up, int32_t n_rows, enum activation_kind kind);
void cpu_add(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows, float scale);
void cpu_scale(struct backend *base, struct matrix *x, int32_t n_rows, float scale, float cap);
void cpu_xielu(struct backend *base, struct matrix *x, int32_t n_rows, const struct xielu *parameters);
void cpu_gather(struct backend *base, struct matrix *out, const struct matrix *in);
void cpu_gate_rows(struct backend *base, struct matrix *x, const struct matrix *gate, int32_t n_rows);
void cpu_gate_softplus(struct backend *base, struct matrix *x, struct matrix *gate, int32_t n_rows);
void cpu_limit(struct backend *base, struct matrix *x, int32_t n_rows, float least, float most);
void cpu_head_products(struct backend *base, struct matrix *y, struct head_columns to,
                       const struct weight *weight, const struct matrix *x, struct head_columns from,
                       int32_t n_rows);
void cpu_place_products(struct backend *base, struct matrix *y, struct head_columns to,
                        const struct weight *weight, const struct matrix *x, struct head_columns from,
                        int32_t n_rows);
void cpu_sum_taps(struct backend *base, struct matrix *out, const struct matrix *taps,
                  const struct weight *bias, int32_t n_rows);
void cpu_copy_columns(struct backend *base, struct matrix *out, struct head_columns to,
                      const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                      int32_t n_rows);
void cpu_set_columns(struct backend *base, struct matrix *matrix, int32_t n_cols);
void cpu_keep_outputs(struct backend *base);
void cpu_mix(struct backend *base, struct matrix *out, int32_t first, const struct matrix *coefficients,
             float bias, const struct matrix *x, int32_t width, int32_t n_rows);
void cpu_match_rms(struct backend *base, struct matrix *x, int32_t width, int32_t n_rows);
void cpu_sparsify(struct backend *base, struct matrix *x, int32_t n_rows, float factor);
void cpu_multiply(struct backend *base, struct matrix *x, const struct weight *weight, int32_t n_rows);
void cpu_sample(struct backend *base, struct matrix *logits);
void cpu_write(struct backend *base, struct matrix *matrix, int32_t n_rows, const float *rows);
void cpu_read(struct backend *base, const struct matrix *matrix, int32_t n_rows, float *rows);

// recurrent.c
void cpu_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                  const struct convolution_parameters *parameters);
void cpu_multiply_by(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows);
void cpu_selective_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
                        const struct matrix *b, const struct matrix *c,
                        const struct scan_parameters *parameters);
void cpu_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
              const struct scan_parameters *parameters);
void cpu_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                    struct matrix *beta, const struct delta_parameters *parameters);

// streams.c
void cpu_merge_streams(struct backend *base, struct matrix *out, const struct matrix *gate,
                       const struct matrix *x, int32_t n_rows);
void cpu_add_to_streams(struct backend *base, struct matrix *streams, const struct matrix *gates,
                        const struct matrix *y, int32_t n_rows);
void cpu_gate_streams(struct backend *base, struct matrix *out, const struct matrix *key,
                      const struct matrix *query, const struct matrix *value, int32_t n_rows);

// ngrams.c
void cpu_ngram_embed(struct backend *base, struct matrix *out, const struct ngram_parameters *parameters);
void cpu_ngram_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                        const struct ngram_parameters *parameters);

// low_rank.c
void cpu_add_low_rank(struct backend *base, const struct low_rank_sum *sums, int n, const struct matrix *x,
                      const struct adapter_rows *groups, int n_groups);

// output_product.c
enum { OUTPUT_GATHERED_MAX = 128 }; // with at most this many allowed tokens only their logits are computed
void cpu_output_product(struct backend *base, const struct product *product, struct matrix *x);

// experts.c
enum status routing_reserve(struct routing *routing, int32_t n_pairs_max, int32_t n_experts_max,
                            int n_threads, struct error *error) WARN_UNUSED;
void routing_finish(struct routing *routing);
void cpu_route(struct backend *base, const struct matrix *logits, int32_t n_rows,
               const struct route_parameters *parameters);
void cpu_expert_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                         int32_t n_rows, bool x_per_pair);
void cpu_expert_sum(struct backend *base, struct matrix *out, const struct matrix *y, int32_t n_rows);
