// The device interface: about 25 operations on float matrices, weights, KV pages and recurrent states. The forward pass
// (engine/forward.c) is written once over this table; engine/cpu/ and gpu/ implement it.
//
// Order of calls: at start create weights, matrices, pages and states, then call ready. For each step: begin,
// operations, end. An operation only enqueues; the first error is latched and returned by end. Nothing is
// allocated between begin and end.
//
// An operation computes rows [0, n_rows); a row holds one token of the batch. Every backend is
// batch-invariant: the result for a row depends only on that row, the pages and the state of its sequence and
// the weights, not on n_rows, the other rows, the thread or the chunks in which the prompt was prefilled.
//
// Thread: engine.
#pragma once

#include "engine/model/model.h"
#include "engine/model/ngram.h"
#include "schemas/job.h"

#include <stdint.h>

struct backend;
struct matrix; // float32 [n_rows_max, n_cols], row-major, in the device's memory
struct weight; // one tensor in the device's own layout

enum weight_role {
    WEIGHT_PRODUCT, // weights of a GEMM, [n_rows outputs, n_cols inputs]; with 3 dims: one matrix per expert
    WEIGHT_TABLE,   // embedding: rows indexed by token or position
    WEIGHT_VECTOR,  // bias or norm, converted to float32
};

// Data type of keys and values in the KV pages.
enum kv_type {
    KV_F32,
    KV_F32_OF_F16, // float32 rounded to binary16: the values of a GPU's KV_F16
    // 16 bits per item: binary16 on a GPU; on a CPU integers with a scale per position and head
    KV_F16,
    KV_Q8_0, // 8 bits, with a scale: per position and 32 items on a GPU, per position and head on a CPU
};

// Attention is computed split-KV in segments of this many positions, merged in order; the size is part of the
// definition of the results.
enum { ATTENTION_SEGMENT = 256 };

struct kv_shape {
    int32_t n_layers, n_kv_heads, key_dim, value_dim;
    int32_t page_positions; // 16 or more; divides ATTENTION_SEGMENT
    int32_t n_pages;
    enum kv_type type; // a GPU stores binary16 for both kinds of float32
    // query heads, n_heads / n_kv_heads per key-value head (grouped-query attention); 0: unknown
    int32_t n_heads;
    int32_t n_positions_most; // longest sequence; 0: limited by n_pages only
    // [n_layers] heads of each layer, if layers differ; 0 heads: no pages. NULL: all layers are as above.
    // Used only with a backend that has set_columns.
    const struct layer_heads *layers;
    struct index_shape index; // of sparse attention, with a backend that has select_positions
    int32_t n_rows_most;      // rows of the largest step, if there is an index
};

// Recurrent states in float32. A slot holds the state of one sequence after some of its tokens, in all
// recurrent layers. The state of the convolution is its last n_taps - 1 input rows [n_channels]; the state of
// a head is a matrix [key_dim, value_dim]. n_heads 0: only the convolution has a state.
struct state_shape {
    int32_t n_layers; // recurrent layers
    int32_t n_slots;
    int32_t n_channels, n_taps;
    int32_t n_heads, key_dim, value_dim;
    bool selective; // the states of selective scans: one head as wide as all values
    // State of the n_layers layers with n-gram embeddings: the last n_rows input rows [n_channels] of their
    // convolution, and the last n_tokens tokens. n_layers 0: none. Only with a backend that has ngram_embed.
    struct ngram_state_shape {
        int32_t n_layers, n_rows, n_channels, n_tokens;
    } ngram;
};

// Consecutive tokens of one sequence: a prefill chunk, or one decode token.
struct step_sequence {
    int32_t first_row, n_tokens;
    int32_t position; // position of the first row
    // Block table: the page of positions [i * page_positions, ...), up to the position of the last row.
    const int32_t *pages;
    // The sequence uses the rope frequencies for contexts beyond shape.n_context_original. This never changes
    // during a sequence. Only sequences with the same value share pages.
    bool long_context;
    // The pages already hold the positions below n_stored. Rows of these positions are computed for their
    // outputs but not stored, because other sequences may read the pages in the same step.
    int32_t n_stored;
    // Bidirectional attention: number of positions of the whole text. Every row sees all of them, and the
    // pages hold them before the first attend. 0: attention is causal; a row sees the positions up to its
    // own.
    int32_t n_text;
    // For models with recurrent layers: state_in is the slot with the state after `position` tokens, and
    // state_out gets the state after position + n_tokens tokens. They may be equal. If they differ, state_in
    // does not change, so other sequences can use it too. At position 0 state_in is not read: a sequence
    // begins with the zero state. No other sequence of the step reads or writes state_out.
    int32_t state_in, state_out;
    // Set of LoRA adapters of its rows (engine/model/adapter.h). Only sequences with the same set share pages.
    int32_t adapter_set;
};

// Input of the sampler for one token. The draw depends only on this and the logits.
struct sample_request {
    const struct sampling *sampling;
    uint32_t choice; // index of the job's choice, 0..n-1
    // Number of tokens generated before this one: the counter of the random number generator.
    uint32_t index;
    // 1 + j: the newest token is output j of the previous step. 0: all tokens are known.
    int32_t pending;
    const int32_t *prompt; // read by the penalties
    int32_t n_prompt;
    const int32_t *generated; // known tokens
    int32_t n_generated;
    // [n_allowed_words] mask: bit token % 32 of word token / 32 is set if the token may be drawn. NULL: all
    // tokens may be drawn.
    const uint32_t *allowed;
    int32_t n_allowed_words; // token_mask_words(n_vocab)
    bool scores;             // scores a token that the caller chose; backends ignore it
};

static inline int32_t token_mask_words(int32_t n_vocab)
{
    return (n_vocab + 31) / 32;
}

static inline bool token_mask_has(const uint32_t *mask, int32_t token)
{
    return mask[token / 32] >> (token % 32) & 1;
}

struct sample_result {
    int32_t token; // -1: the logits held a NaN
    float logprob; // set if the request asks for logprobs, with the alternatives in `top`
    int32_t n_top;
    struct token_logprob top[JOB_TOP_LOGPROBS_MAX];
};

// A copy of a KV page in all layers. Only earlier steps write `from`; no other copy writes `to`.
struct page_copy {
    int32_t from, to;
};

// One pass of the model over a batch of tokens: prefill chunks and decode tokens mixed (continuous batching).
// The caller owns all arrays and must not change them until end returns.
struct step {
    int32_t n_tokens;
    const int32_t *tokens;    // [n_tokens]; -1 - j: output j of the previous step
    const int32_t *positions; // [n_tokens]
    const int32_t *types;     // [n_tokens] token types; NULL: all 0
    int32_t n_sequences;
    const struct step_sequence *sequences; // rows ascending, without gaps
    int32_t n_copies;
    const struct page_copy *copies; // [n_copies] made before the rows are computed
    const float *rope[2]; // cos, sin pairs [n_tokens, n_rope_dims] of each table; NULL: the table is not used
    int32_t n_rope_dims[2];
    int32_t n_outputs;
    // [n_outputs], ascending: the rows for which logits are computed; NULL: all rows
    const int32_t *output_rows;
    const struct sample_request *samples; // [n_outputs], or NULL to read logits instead
    // Waits until the samples' masks are complete. Called, any number of times, before the masks are read.
    // NULL: they are complete.
    void (*await_masks)(void *context);
    void *masks_context;
    // The masks depend on the previous step, which is still running. So the step is submitted without its
    // sampling; `resume` continues it when the masks are complete.
    bool samples_apart;
    // The host reads, writes or waits within the step, so the step cannot be captured into a graph.
    bool stops;
};

struct norm_parameters {
    enum norm_kind kind;
    // bias may be NULL. For NORM_RMS in a backend with set_columns or states_create weight may be NULL too: all
    // weights are 1.
    const struct weight *weight, *bias;
    float epsilon;
    int32_t n_groups; // vectors per row, each normalized separately (e.g. per head); 1: the whole row
    bool own_weights; // each group has its own weight and bias items; else all groups share one vector
    // The next operation is the only one that reads `out`: it is products or gated_products, with `out` as x.
    // A backend that fuses the two operations may leave `out` undefined.
    bool consumed;
};

// Weight and bias of a norm in float32.
struct norm_items {
    const float *weight, *bias; // [n]; bias NULL: none
    int64_t n;
};

struct attention_parameters {
    int32_t layer;
    int32_t n_heads;
    float scale;
    float softcap; // 0: none; else cap * tanh(x / cap)
    // Sliding window in positions, including the row's own. With bidirectional attention the row also sees
    // window - 1 later positions. 0: unlimited.
    int32_t window;
    int32_t chunk;        // a row sees positions from the last multiple of `chunk` on; 0: unlimited
    float alibi_bias_max; // 0: none; else the bias is proportional to the distance
    // Biases added to scores, by distance d, the key's position minus the row's. The bias is item head *
    // (n_items / n_heads) + relative_center + d. A kernel may read up to d = 16 beyond the longest text.
    // NULL: none.
    const struct weight *relative_bias;
    int32_t relative_center;
    const struct disentangled_terms *disentangled; // with a backend that has place_products; NULL: none
    bool selects;                                  // sparse attention: see select_positions
    // [n_heads] attention sinks: one logit per head that takes part in the softmax but has no value. NULL:
    // none.
    const struct weight *sinks;
};

// Terms of disentangled attention (engine/forward_disentangled.c), added to the score of row i and key j before its
// scale: queries[i][head][b] + keys[place of j][head][b], where b = buckets[center + j - i]. Both matrices have n_heads
// parts of equal width. `keys` is the output of place_products.
struct disentangled_terms {
    const struct matrix *queries, *keys; // NULL: no such term
    const int32_t *buckets;              // [2 center + 1]
    int32_t center;
};

// Top-k expert routing. The choice value of an expert is its probability plus pick_bias. Each row is routed
// to the n_used experts with the largest choice values. Their weights are their probabilities, divided by
// their sum if `normalized`, times scale.
struct route_parameters {
    int32_t layer;
    const struct matrix *input; // rows that the experts read next; NULL: unknown. A hint for transfers.
    enum route_kind kind;
    int32_t n_used;
    bool normalized;
    float scale;                    // 1: none
    const struct weight *pick_bias; // [n_experts]; NULL: none
    // Group-limited routing (DeepSeek) if n_groups > 1. The experts form n_groups equal groups, and only the
    // best n_groups_used groups are eligible. Groups are ranked by their largest choice value (softmax) or by
    // the sum of their two largest (sigmoid); ties are ordered by index.
    int32_t n_groups, n_groups_used;
    // The weights are applied to the rows that the experts' first products read; expert_sum then adds without
    // weights.
    bool weighs_inputs;
};

// The short convolution of a recurrent layer.
struct convolution_parameters {
    int32_t layer;               // number among the recurrent layers
    const struct weight *kernel; // [n_taps, n_channels]
    const struct weight *bias;   // [n_channels]; NULL: none
    bool activated;              // by SiLU
};

// The n-gram embeddings of a layer.
struct ngram_parameters {
    int32_t layer; // number among the layers with such embeddings
    const struct ngram *ngram;
    const struct weight *table;  // [rows, head_dim]
    const struct weight *kernel; // [n_taps, n_channels]
};

// The gated delta rule (struct recurrent_shape of engine/model/model.h).
struct delta_parameters {
    int32_t layer; // index among the recurrent layers
    int32_t n_key_heads;
    bool tiled;
    bool doubles_beta;
    bool by_channel;                // each key channel of a head has its own alpha and step_bias
    const struct weight *decay;     // [n_heads]
    const struct weight *step_bias; // [n_heads]; by_channel: [n_heads, key_dim]
};

// The scan of Mamba-2, and the selective scan (struct recurrent_shape of engine/model/model.h).
struct scan_parameters {
    int32_t layer;    // number among the recurrent layers
    int32_t n_groups; // of heads with common keys and queries
    // [n_heads]; of a selective scan decay [key_dim, value_dim], the others [value_dim]
    const struct weight *decay, *step_bias, *direct;
    float step_min, step_max; // bounds of the time step
};

// Columns of the heads in a row: head h begins at column first + h * step.
struct head_columns {
    int32_t first, step;
};

// A LoRA adapter of a weight (engine/model/adapter.h): y += up (down x). Both halves are WEIGHT_VECTOR.
struct adapter_weights {
    struct weight
        *down;         // [n_inputs, rank rounded up to ADAPTER_LANES], the transpose of A; padded with zeros
    struct weight *up; // [rank, n_outputs]
    int32_t rank;      // 0: the set has no adapter of this weight
};

enum { ADAPTER_LANES = 16 };

// The rows of a step whose sequences have the same set of adapters.
struct adapter_rows {
    int32_t set, n;
    const int32_t *rows; // [n], ascending
};

// One GEMM y = W x (+ bias). GEMMs with the same x are called together, so that x is converted once.
struct product {
    struct matrix *y;
    const struct weight *weight;
    const struct weight *bias; // NULL: none
    const struct adapter_weights
        *adapters; // [n_sets]; NULL: none. Read by the forward pass alone (forward_adapter.c)
};

// The adapters of one product: y += up (down x).
struct low_rank_sum {
    struct matrix *y;
    const struct adapter_weights *adapters; // [n_sets]
    struct matrix *low;                     // scratch: [R, largest rank rounded up to ADAPTER_LANES]
};

enum { PRODUCTS_MAX = 4 };

// Phases of a step, for the trace. Norms, activations and residual sums count as PHASE_PRODUCTS. Rope and the
// storing of keys and values count as PHASE_ATTENTION.
enum step_phase {
    PHASE_UPLOAD,
    PHASE_EMBED,
    PHASE_ATTENTION,
    PHASE_PRODUCTS,
    PHASE_SAMPLING,
    PHASE_DOWNLOAD,
    PHASE_COUNT
};

struct step_times {
    double us[PHASE_COUNT];
};

enum { LAYER_BEFORE = -1, LAYER_AFTER = INT32_MAX }; // embedding with norm; output with norm

// Weights, matrices and pages in the device's memory. A function marked "optional" may be NULL in a table;
// backend_init then fills it in.
struct backend_device {
    const char *name; // "cpu/avx512"
    void (*destroy)(struct backend *backend);

    // Called at start unless noted otherwise. Errors: STATUS_REFUSE, ERROR_OUT_OF_MEMORY, ERROR_UNKNOWN_TYPE.

    // Sets the layer to which weights created next belong: LAYER_BEFORE, 0.., LAYER_AFTER. `experts`: they are of its
    // routed experts, or choose among these (pick_bias). Optional.
    void (*layer)(struct backend *backend, int32_t layer, bool experts);
    // Announces that weights created next multiply only the output of a norm with these items, with one group
    // per row. With `norm` NULL they multiply other rows. The items stay valid until the next call. NULL in a
    // backend that does not need this.
    void (*normed_input)(struct backend *backend, const struct norm_items *norm);
    enum status (*weight_create)(struct backend *backend, const struct tensor *tensor, enum weight_role role,
                                 struct weight **weight, struct error *error);
    void (*weight_destroy)(struct backend *backend, struct weight *weight);
    enum status (*matrix_create)(struct backend *backend, int32_t n_rows_max, int32_t n_cols,
                                 struct matrix **matrix, struct error *error);
    void (*matrix_destroy)(struct backend *backend, struct matrix *matrix);
    enum status (*kv_create)(struct backend *backend, const struct kv_shape *shape, struct error *error);
    // Reads the pages of one layer as float32: keys [n_pages, page_positions, n_kv_heads, key_dim], values
    // with value_dim. Called between steps. NULL: not implemented.
    enum status (*kv_read)(struct backend *backend, int32_t layer, const int32_t *pages, int32_t n_pages,
                           float *keys, float *values, struct error *error);
    // Writes the same arrays to the pages. NULL: not implemented.
    void (*kv_write)(struct backend *backend, int32_t layer, const int32_t *pages, int32_t n_pages,
                     const float *keys, const float *values);
    // Creates the slots of recurrent states. NULL: models with recurrent layers are refused.
    enum status (*states_create)(struct backend *backend, const struct state_shape *shape,
                                 struct error *error);
    // Copies a slot's state in all layers. Called between steps. NULL without states_create.
    void (*state_copy)(struct backend *backend, int32_t to, int32_t from);
    // Returns the bytes of one slot in all layers. NULL without states_create.
    uint64_t (*state_bytes)(struct backend *backend, const struct state_shape *shape);
    // Allocates the scratch of a step. Called once, after all weights, matrices, pages and states were
    // created. Optional.
    enum status (*ready)(struct backend *backend, struct error *error);
    // Autotuning, called once after `ready`: computes a step of each size for which the device selects among kernels
    // with the same bytes, so that later steps measure nothing. run(context, n_rows) computes one step of n_rows
    // tokens, at most n_rows_max. NULL: the device has no such kernels.
    enum status (*tune)(struct backend *backend, int32_t n_rows_max,
                        enum status (*run)(void *context, int32_t n_rows, struct error *error), void *context,
                        struct error *error);
    uint64_t (*available_bytes)(struct backend *backend); // bytes left for weights, matrices and pages
    // Returns the bytes of available_bytes that a weight uses. NULL: the size of the weight in the file.
    uint64_t (*weight_bytes)(struct backend *backend, const struct tensor *tensor, enum weight_role role);
    // Returns the bytes of one page in all layers. NULL: forward_page_bytes computes them.
    uint64_t (*page_bytes)(struct backend *backend, const struct kv_shape *shape);
    // Returns the bytes of scratch for steps of n_rows_max tokens and for pages of n_positions. Optional; the
    // default is 0.
    uint64_t (*scratch_bytes)(struct backend *backend, const struct model_shape *shape, int32_t n_rows_max,
                              int32_t n_outputs_max, int64_t n_positions);
    // Allocate and free pinned host memory, for fast reads and writes of matrices. Both are optional; the
    // defaults are malloc and free.
    void *(*host_allocate)(struct backend *backend, size_t size_bytes);
    void (*host_free)(struct backend *backend, void *memory);
    // Makes `end` write the times of each step, measured on the device, to `times`. NULL: stops.
    void (*trace)(struct backend *backend, struct step_times *times);
};

// The operations of a step, one function each.
struct backend_operations {
    bool computes_all; // false: families with cpu_only (engine/model/family.h) are refused
    void (*begin)(struct backend *backend, const struct step *step);
    // True if `begin` does not read the samples' masks; the output product and `sample` do.
    bool reads_masks_late;
    // Sets the phase of the operations that are enqueued next. For the trace only.
    void (*phase)(struct backend *backend, enum step_phase phase);
    // out[r] = scale * table[tokens[r]] (+ positions_table[positions[r]] and types_table[types[r]] when given); a
    // token beyond the table's rows gets row 0.
    void (*embed)(struct backend *backend, struct matrix *out, const struct weight *table, float scale,
                  const struct weight *positions_table, const struct weight *types_table);
    // Normalizes each row. `out` may be `in`.
    void (*norm)(struct backend *backend, struct matrix *out, const struct matrix *in, int32_t n_rows,
                 const struct norm_parameters *parameters);
    // Computes n GEMMs of the same x; n is at most PRODUCTS_MAX.
    void (*products)(struct backend *backend, const struct product *products, int n, const struct matrix *x,
                     int32_t n_rows);
    // Adds the products of LoRA adapters: n sums of the same x (at most PRODUCTS_MAX), for the rows of n_groups adapter
    // sets. low[r] = down x[r], summed in order of the inputs; y[r][c] += the sum over k of low[r][k] * up[k][c], in
    // order of k. Both sums by fused multiply-adds. NULL: models with adapters are refused.
    void (*add_low_rank)(struct backend *backend, const struct low_rank_sum *sums, int n,
                         const struct matrix *x, const struct adapter_rows *groups, int n_groups);
    // Applies rotary embeddings to n_heads vectors of head_dim in each row. Dimensions from n_rope_dims on do
    // not change.
    void (*rope)(struct backend *backend, struct matrix *x, int32_t n_rows, int32_t n_heads, int32_t head_dim,
                 int32_t n_rope_dims, enum rope_style style, int table);
    // Writes the rows' keys and values to their pages. Afterwards `k` is undefined, because a backend may
    // rotate only what it stores.
    void (*kv_store)(struct backend *backend, int32_t layer, const struct matrix *k, const struct matrix *v);
    // Computes attention (multi-head, grouped-query or multi-query): out[r] for row r over the pages of its
    // sequence, including its own position. Causal, or bidirectional if the sequence has n_text.
    void (*attend)(struct backend *backend, struct matrix *out, const struct matrix *q,
                   const struct attention_parameters *parameters);
    // Sparse attention (engine/forward_index.c); NULL: such models are refused. Rows at positions below
    // n_selected of the kv_shape's index attend to all positions. Other rows attend to the positions that the last
    // select_positions selected, if attention_parameters.selects.
    //
    // Writes the rows' keys of the indexer to its pages.
    void (*index_store)(struct backend *backend, int32_t layer, const struct matrix *k);
    // The same for index_shape.means; then, for each row that completes a block, replaces its key by the normalized
    // mean of the block's keys, rotated by table 1 of the step's rope, which holds the angles of the block's first
    // position. NULL: such models are refused.
    void (*index_store_means)(struct backend *backend, int32_t layer, const struct matrix *k,
                              const struct norm_parameters *norm, int32_t n_rope_dims, enum rope_style style);
    // Selects positions for the rows at n_selected and later (engine/cpu/selection.h). queries [R, n_heads x key_dim],
    // weights [R, n_heads]; NULL with index_shape.by_head.
    void (*select_positions)(struct backend *backend, int32_t layer, const struct matrix *queries,
                             const struct matrix *weights);
    bool selects_blocks;    // index_shape's block, n_local and by_head are implemented
    bool attends_both_ways; // bidirectional attention, types_table and relative_bias are implemented
    // Computes out = activation(gate) * up; with up NULL, activation(gate). `out` may be `gate`.
    void (*activate)(struct backend *backend, struct matrix *out, const struct matrix *gate,
                     const struct matrix *up, int32_t n_rows, enum activation_kind kind);
    bool
        rectifies; // ACTIVATION_RELU and ACTIVATION_TANH are implemented; false: models with these are refused
    // Computes xIELU in place. NULL: models with this activation are refused.
    void (*xielu)(struct backend *backend, struct matrix *x, int32_t n_rows, const struct xielu *parameters);
    // x += scale * y
    void (*add)(struct backend *backend, struct matrix *x, const struct matrix *y, int32_t n_rows,
                float scale);
    // x *= scale, then cap * tanh(x / cap) unless cap is 0
    void (*scale)(struct backend *backend, struct matrix *x, int32_t n_rows, float scale, float cap);
    // out[i] = in[output_rows[i]]
    void (*gather)(struct backend *backend, struct matrix *out, const struct matrix *in);
    // Mixture of experts: `route` selects experts for each row. expert_products is a grouped GEMM over the
    // selected (row, expert) pairs. Its x has one row per pair or one row per token; its bias is [n_experts,
    // outputs]. expert_sum sets out[r] to the weighted sum of the rows of its pairs, in the order of
    // selection.
    void (*route)(struct backend *backend, const struct matrix *logits, int32_t n_rows,
                  const struct route_parameters *parameters);
    // True if the backend implements route_parameters.weighs_inputs and attention_parameters.chunk.
    bool weighs_inputs;
    void (*expert_products)(struct backend *backend, const struct product *products, int n,
                            const struct matrix *x, int32_t n_rows, bool x_per_pair);
    void (*expert_sum)(struct backend *backend, struct matrix *out, const struct matrix *y, int32_t n_rows);
    // x[r] *= sigmoid(gate[r][0]): a shared expert's gate. `gate` may have several columns, one for each of as many
    // equal parts of a row: the gates of attention heads.
    void (*gate_rows)(struct backend *backend, struct matrix *x, const struct matrix *gate, int32_t n_rows);
    // x[r] *= softplus(gate[r]), the gates of attention heads: one for each item, or for each of as many equal parts
    // of a row. gate is undefined afterwards. Not NULL if set_columns is not NULL, as `limit`.
    void (*gate_softplus)(struct backend *backend, struct matrix *x, struct matrix *gate, int32_t n_rows);
    // x = min(max(x, least), most). A NaN stays a NaN.
    void (*limit)(struct backend *backend, struct matrix *x, int32_t n_rows, float least, float most);
    // Latent attention (MLA, engine/forward_latent.c). A backend without it sets both functions to NULL, and
    // such models are refused. head_products is one GEMM per head: the columns of head h of y are matrix h of
    // a 3-dimensional weight times the columns of head h of x.
    void (*head_products)(struct backend *backend, struct matrix *y, struct head_columns to,
                          const struct weight *weight, const struct matrix *x, struct head_columns from,
                          int32_t n_rows);
    // The same for a step of bidirectional texts. The product of row r is stored in row r + (position of its sequence)
    // of y, so that y collects all chunks of a text that is longer than a step. NULL: models with disentangled
    // attention are refused.
    void (*place_products)(struct backend *backend, struct matrix *y, struct head_columns to,
                           const struct weight *weight, const struct matrix *x, struct head_columns from,
                           int32_t n_rows);
    // Sums the taps of a convolution over a text, as computed by place_products. Tap k is the columns [k, k + 1) * n of
    // `taps`, n = columns of `out`. Rows outside the text are 0.
    //   out[r] = bias + sum over k < n_taps of tap k in row (place of r) + k - n_taps / 2
    // Not NULL if place_products is not NULL.
    void (*sum_taps)(struct backend *backend, struct matrix *out, const struct matrix *taps,
                     const struct weight *bias, int32_t n_rows);
    // Copies n columns of each of n_heads heads from `in` to `out`.
    void (*copy_columns)(struct backend *backend, struct matrix *out, struct head_columns to,
                         const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                         int32_t n_rows);
    // Recurrent layers (engine/forward_recurrent.c); NULL without states_create.
    //
    // Computes a short causal convolution of each column over the rows of a sequence. The state has the rows
    // before the step. f is SiLU if `activated`, else the identity:
    //   out[r][c] = f(bias[c] + sum over j < n_taps of kernel[j][c] * in[r - (n_taps - 1) + j][c])
    void (*convolve)(struct backend *backend, struct matrix *out, const struct matrix *in,
                     const struct convolution_parameters *parameters);
    // Computes the gated delta rule token by token, in the same order for prefill and decode. A row of `qkv`
    // holds the queries and keys of all key heads, then the values of all heads. q and k are normalized to
    // length 1 (x / sqrt(x . x + 1e-6)), and q is divided by sqrt(key_dim). Then for each head with state S:
    //   a = exp(decay * softplus(alpha + step_bias)), b = sigmoid(beta), or twice this
    //   S = a S + k (b (v - (a S)^T k))^T, out = S^T q
    // by_channel (Kimi Delta Attention, arXiv:2510.26692, equation 1): alpha has n_heads * key_dim columns, and
    // a is a diagonal matrix.
    // Afterwards qkv, alpha and beta are undefined.
    void (*delta_rule)(struct backend *backend, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                       struct matrix *beta, const struct delta_parameters *parameters);
    // Computes the scan of Mamba-2 (arXiv:2405.21060, equation 6) token by token, in the same order for
    // prefill and decode. A row of `x` holds the values of all heads, then keys B and queries C of all groups. For each
    // head, with state S, its value v and its group's B and C:
    //   t = min(max(softplus(step + step_bias), step_min), step_max)
    //   S = exp(decay * t) S + B (t v)^T, out = S^T C + direct * v
    // Afterwards step is undefined.
    void (*scan)(struct backend *backend, struct matrix *out, const struct matrix *x, struct matrix *step,
                 const struct scan_parameters *parameters);
    // Computes the selective scan of Mamba (arXiv:2312.00752, algorithm 2) with values x, keys b and queries
    // c, in the same order. For each value v and its column S of the state:
    //   S[k] = exp(decay[k] * t) S[k] + b[k] t v, out = (sum of S[k] c[k]) + direct * v
    // step is undefined afterwards.
    void (*selective_scan)(struct backend *backend, struct matrix *out, const struct matrix *x,
                           struct matrix *step, const struct matrix *b, const struct matrix *c,
                           const struct scan_parameters *parameters);
    // Hyper-connections (engine/forward_hyper.c); NULL: such models are refused. A row of `streams`, and of other
    // matrices where said, is divided into equal groups of columns, one for each of n streams.
    //
    // out = the mean over the streams of sigmoid(gate) * x, item by item. gate and x are as wide as all streams.
    void (*merge_streams)(struct backend *backend, struct matrix *out, const struct matrix *gate,
                          const struct matrix *x, int32_t n_rows);
    // Each stream += 2 sigmoid(its gate) * y. gates [R, n].
    void (*add_to_streams)(struct backend *backend, struct matrix *streams, const struct matrix *gates,
                           const struct matrix *y, int32_t n_rows);
    // For each stream: out = sigmoid(g) * value, where g = sign(d) sqrt(max(|d|, 1e-6)) and d = key . query /
    // sqrt(items of a stream). `out` may be `key`.
    void (*gate_streams)(struct backend *backend, struct matrix *out, const struct matrix *key,
                         const struct matrix *query, const struct matrix *value, int32_t n_rows);
    // out = the table rows of all heads for the n-grams that end at each row's token (engine/model/ngram.h). The state
    // has the tokens before the step.
    void (*ngram_embed)(struct backend *backend, struct matrix *out,
                        const struct ngram_parameters *parameters);
    // As convolve with SiLU, with taps that are ngram->size rows apart.
    void (*ngram_convolve)(struct backend *backend, struct matrix *out, const struct matrix *in,
                           const struct ngram_parameters *parameters);
    // x *= y, item by item
    void (*multiply_by)(struct backend *backend, struct matrix *x, const struct matrix *y, int32_t n_rows);
    // For models whose layers differ, share keys and values or have inputs of their own; NULL: such models
    // are refused. From now on the matrix has n_cols columns, at most its number at creation.
    void (*set_columns)(struct backend *backend, struct matrix *matrix, int32_t n_cols);
    // The following functions are for the same models; they are not NULL if set_columns is not NULL. This one
    // keeps only rows with an output: until `end`, rope and attend treat rows [0, n_outputs) as the rows
    // output_rows.
    void (*keep_outputs)(struct backend *backend);
    // Mixes groups of `width` columns. To group i of out[r], from group `first` on, adds the sum over the
    // groups j of x[r] of (coefficients[r][i * groups of x + j] + bias) * group j, in order of j.
    // coefficients NULL means 0.
    void (*mix)(struct backend *backend, struct matrix *out, int32_t first, const struct matrix *coefficients,
                float bias, const struct matrix *x, int32_t width, int32_t n_rows);
    // Scales all groups of `width` columns but the first to the root mean square of the first group. A mean
    // square below 1e-5 counts as 1e-5.
    void (*match_rms)(struct backend *backend, struct matrix *x, int32_t width, int32_t n_rows);
    // Computes x[r] = max(0, x[r] - (mean + factor * standard deviation)), with the mean and deviation of row
    // x[r].
    void (*sparsify)(struct backend *backend, struct matrix *x, int32_t n_rows, float factor);
    // x[r] *= weight, item by item
    void (*multiply)(struct backend *backend, struct matrix *x, const struct weight *weight, int32_t n_rows);
    // A GEMM with a gated activation as epilogue: gate's y = activation(gate W x) * (up W x). With `experts`
    // it works like expert_products with one row of x per token. Afterwards up's y is undefined. The next
    // operation is the only one that reads gate's y: it is products or expert_products, with gate's y as x. A
    // backend that fuses the two may leave gate's y undefined. NULL: the caller uses products and activate.
    void (*gated_products)(struct backend *backend, const struct product *gate, const struct product *up,
                           const struct matrix *x, int32_t n_rows, bool experts, enum activation_kind kind);
    // The GEMM that computes the logits from which step->samples are drawn. Logits of tokens that are not
    // allowed may stay undefined, because `sample` does not need them. The backend may reorder the rows;
    // `sample` knows the order. Afterwards x is undefined. Used with reads_masks_late. NULL: the caller uses
    // products.
    void (*output_product)(struct backend *backend, const struct product *product, struct matrix *x);
    // Draws a token for each output from logits [n_outputs, n_vocab], with the settings in step->samples.
    void (*sample)(struct backend *backend, struct matrix *logits);
    // Copies the first n_rows rows from the host; `rows` may be read until end returns.
    void (*write)(struct backend *backend, struct matrix *matrix, int32_t n_rows, const float *rows);
    // Copies the first n_rows rows to the host; `rows` is complete when end returns.
    void (*read)(struct backend *backend, const struct matrix *matrix, int32_t n_rows, float *rows);
    // In a step that `stops`: waits for the operations enqueued so far, so that reads and writes are
    // complete. An error ends the step. Optional; a synchronous backend needs nothing.
    enum status (*wait)(struct backend *backend, struct error *error);
    // Split `end` in two calls, for an asynchronous device; both are NULL otherwise. `submit` does not wait:
    // the next step may begin, and may use this step's outputs as its tokens. `collect` waits for the oldest
    // of at most two submitted steps. A submitted step must not use `read`. After an error no step is
    // submitted.
    enum status (*submit)(struct backend *backend, struct error *error);
    enum status (*collect)(struct backend *backend, struct sample_result *results, struct error *error);
    // For an asynchronous device: continues a submitted step that has samples_apart, before the next step
    // begins. `sample` and `submit` follow. It reads the samples' masks and no other input. An output whose
    // draw will be discarded may have no mask. The previous step may be collected first.
    void (*resume)(struct backend *backend, const struct step *step);
    // Waits for the step. `results` is [n_outputs] if sample was called, else NULL. STATUS_RESTART: the
    // device is lost.
    enum status (*end)(struct backend *backend, struct sample_result *results, struct error *error);
};

// Implementations begin with this struct.
struct backend {
    struct backend_device device;
    struct backend_operations operations;
};

// Copies both tables and fills in the optional functions.
void backend_init(struct backend *backend, const struct backend_device *device,
                  const struct backend_operations *operations);
