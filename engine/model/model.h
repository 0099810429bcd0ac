// An opened model file (GGUF, or a Hugging Face folder): its family, shape and tensors. Every tensor's shape
// is checked. A family is data: flags and tensor names (engine/model/family.c); all share one forward pass
// (engine/forward.c). Nothing is computed or copied here. Thread: any, after open.
#pragma once

#include "engine/model/rope.h"
#include "engine/file/tensor.h"

#include <stdbool.h>
#include <stdint.h>

struct gguf;
struct interrupt;
struct pool;
struct family;
struct adapters;

enum norm_kind { NORM_RMS, NORM_LAYER };
enum activation_kind {
    ACTIVATION_SILU,
    ACTIVATION_GELU, // with the error function
    ACTIVATION_GELU_TANH,
    ACTIVATION_RELU_SQUARED,
    // gpt-oss: g sigmoid(1.702 g) (u + 1), with g clamped to at most 7 and u to -7..7; without u: g
    // sigmoid(1.702 g).
    ACTIVATION_SWIGLU_CLAMPED,
    ACTIVATION_SIGMOID,
    ACTIVATION_RELU,
    ACTIVATION_TANH,
    ACTIVATION_XIELU, // with a layer's parameters: an operation of its own
};
// Sparse mixer (arXiv:2409.12136): experts by their logits, one after the other. An expert's weight is its softmax
// among the logits of the experts that are not selected yet and not further below it than 0.02 of the larger
// of the two magnitudes.
enum route_kind { ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_SPARSE_MIXER };
enum { ROUTE_GROUPS_MAX = 64 }; // groups of experts; a token's experts are selected from some of them

struct attention_shape {
    int32_t n_heads, n_kv_heads; // query heads, key-value heads
    int32_t key_dim, value_dim;  // of one head
    int32_t n_layers;            // layers with pages: those with attention; 1 if bidirectional
    bool gated;                  // the output is multiplied by sigmoid(gate), a gate per item, from attn_q
    float scale;                 // multiplies q.k
    float softcap;               // 0: none
    float alibi_bias_max;        // 0: none
    float value_scale;           // multiplies the heads' outputs; 1: none
};

struct experts_shape {
    int32_t n, n_used, n_ff, n_ff_shared; // n 0: no experts
    int32_t n_latent;                     // width that the experts read and write; 0: n_embd
    int32_t n_layers_dense;               // the first layers of a model with experts, which have none
    int32_t every;                        // of the others every n-th has experts
    bool weighs_inputs;                   // weights multiply the experts' inputs, not their outputs
    int32_t n_groups, n_groups_used;      // n_groups 1: experts are selected from all
    enum route_kind route_kind;
    float scale;          // of the used experts' weights; 1: none
    bool normalized;      // the used experts' weights are normalized to the sum 1
    float logits_softcap; // of the router; 0: none
    float shared_scale;   // of the shared expert; 1: none
};

// Latent attention (MLA; DeepSeek-V2, arXiv:2405.04434, section 2.1). Pages hold one key-value head for all
// query heads: the key is [rotated dims, latent], attention.key_dim wide; the value is the latent,
// attention.value_dim wide. All 0: none.
struct latent_shape {
    int32_t dim;
    int32_t query_dim; // 0: queries are projected from the embedding directly
    // of one head, before its projection into the latent; key_dim without the rotated dims
    int32_t key_dim, value_dim;
    int32_t rope_dim; // rotated dims, which all heads' keys share; not rotated in a family without positions
};

// Sparse attention: an indexer with heads of its own selects the positions that a row sees (engine/cpu/selection.h).
// n_selected 0: none.
struct index_shape {
    int32_t n_heads, key_dim;
    int32_t n_selected; // positions
    int32_t n_layers;   // layers with an indexer
    int32_t block;      // positions of a selected block; 1: single positions
    int32_t n_local;    // blocks that are always selected: the row's own one and the n_local - 1 before it
    bool by_head;       // each head of the indexer selects for one key-value head; else all for all
    bool
        means; // a block's key is the mean of its positions' keys; positions of incomplete blocks are selected
};

// What a recurrent layer computes after its short causal convolution.
enum recurrent_kind {
    RECURRENT_NONE,
    RECURRENT_DELTA,    // gated delta rule (Yang, Kautz, Hatamizadeh 2024, arXiv:2412.06464, equation 10)
    RECURRENT_CHANNELS, // the same with a decay for each key channel (Kimi Delta Attention, arXiv:2510.26692)
    RECURRENT_SHORT,    // nothing: the convolution's input and output are multiplied by gates (LFM2)
    RECURRENT_SCAN,     // scan of Mamba-2 (Dao, Gu 2024, arXiv:2405.21060): one decay a head
    RECURRENT_SELECTIVE, // selective scan of Mamba (Gu, Dao 2023, arXiv:2312.00752): one for each state item
};

// Recurrent layers: a short causal convolution of n_channels columns, and states of n_heads matrices
// [key_dim, value_dim].
//         delta                             scan
//   key   keys and queries of key heads     B and C of groups
//   value values                            x
// A selective scan has one head as wide as all values. n_layers 0: none.
struct recurrent_shape {
    enum recurrent_kind kind;
    int32_t n_layers;
    int32_t n_heads, n_key_heads; // several heads share a key head
    int32_t key_dim, value_dim;
    int32_t inner;      // width of the output before its projection
    int32_t n_channels; // delta: all queries, all keys, all values; scan: all values, all keys, all queries
    int32_t n_taps;     // rows that the convolution sees, including the row's own
    bool tiled;         // key head of head h: h % n_key_heads; else h / (n_heads / n_key_heads)
    int32_t rank;       // selective, channels: width from which time steps and the gate are projected
    bool unit_norms; // selective: time steps before their projection, B and C are normalized without weights
    float unit_epsilon;       // of these norms
    bool normed_first;        // scan: the output is normalized before it is multiplied by its gate, not after
    float step_min, step_max; // scan: bounds of the time step
    bool separate;            // delta: beta and alpha are separate matrices
    bool doubles_beta;        // delta: beta is 2 sigmoid
    bool sigmoid_gate;        // delta: the output's gate is a sigmoid, not SiLU
    float norm_epsilon;       // of the norm of the output
};

// xIELU (arXiv:2411.13010): x > 0: positive x^2 + beta x, else negative (exp(min(x, epsilon)) - 1 - x) + beta x.
struct xielu {
    float positive, negative, beta, epsilon;
};

struct window_shape {
    // positions that a windowed layer sees, the own one last, or if bidirectional in the middle of one more;
    // 0: no windows
    int32_t n_positions;
    bool chunked;    // windows do not slide: a row sees the positions from the last multiple on
    int32_t pattern; // every n-th layer has full attention; 0 or 1, with a window: none has
};

struct rope_shape {
    enum rope_style style;
    int32_t n_dims;
    // 1, or 2 if windowed layers have their own frequencies (table 1), or an indexer's blocks have their first
    // position's angles (index_shape.means)
    int32_t n_tables;
    // table 1 is not for windowed layers but for queries, and includes their temperature: of the layers that are
    // rotated, or of those that are not, with angles of 0
    bool queries_own_table, unrotated_own_table;
};

// Alternating updates (AltUp; Baykal et al. 2023, arXiv:2301.13310) as in Gemma 3n: the residual stream has n
// parts; a layer computes with one of them and predicts the others. n 0: none.
struct altup_shape {
    int32_t n, active;
    int32_t laurel_rank; // of the low-rank matrix beside a layer's attention
};

// Hyper-connections (arXiv:2409.19606) with gates of low rank, as in Qwen4-Exp: n residual streams. n 0: none.
struct hyper_shape {
    int32_t n, rank;
};

// Embeddings of hashed n-grams, which some recurrent layers add to the streams (Qwen4-Exp's per-layer embeddings).
// n_layers 0: none.
struct ngram_shape {
    int32_t n_layers;
    int32_t size;         // tokens of the longest n-gram; the shortest has 2
    int32_t n_heads_each; // rows of an n-gram of each length
    int32_t head_dim;     // items of a row
    int32_t n_taps;       // of a convolution over the results, `size` rows apart
    int32_t end;          // the token that ends a text: n-grams do not reach over it
    int64_t seed, n_rows_least;
};

// The heads and pages of one layer, where layers differ in them.
struct layer_heads {
    int32_t n_kv_heads, key_dim, value_dim; // n_kv_heads 0: no pages, another layer's are read
    int32_t n_heads;                        // query heads
};

// Disentangled attention (DeBERTa; He et al. 2020, arXiv:2006.03654, section 3.1): scores have additional terms, of
// contents and relative position embeddings (engine/forward_disentangled.c). n_rows 0: none.
struct disentangled_shape {
    int32_t n_rows; // of the relative embeddings, half of them for each direction
    int32_t
        n_buckets; // distances from n_buckets / 2 on are in logarithmic buckets; 0: each distance has a row
    int32_t distance_max;                          // of the last bucket, exclusive
    bool content_to_position, position_to_content; // the terms
    bool
        shared; // relative positions are projected by the weights of queries and keys, not by weights of their own
    bool normed; // the relative embeddings have a norm
};

// A convolution of the embedding over the positions, added to the first layer's output before a norm (DeBERTa V2 XL).
// n_taps 0: none.
struct convolution_shape {
    int32_t n_taps;
    enum activation_kind activation;
};

struct scales_shape {
    float embedding, residual, logits; // 1: none
    float logits_softcap;              // 0: none
};

// Dimensions and constants of the computation.
struct model_shape {
    int32_t n_layers, n_embd, n_vocab, n_context;
    int32_t n_layers_beyond;    // further layers in the file, for speculation; not used
    int32_t n_context_original; // the context before YaRN or LongRoPE extended it; else n_context
    int32_t n_ff;               // the largest of all layers
    enum activation_kind activation;
    bool bidirectional;               // a token also attends to the later tokens of its text
    struct attention_shape attention; // where layers differ, the largest of all
    struct experts_shape experts;
    struct latent_shape latent;
    struct index_shape index;
    struct disentangled_shape disentangled;
    struct recurrent_shape recurrent;
    struct window_shape window;
    struct rope_shape rope;
    struct scales_shape scales;
    enum norm_kind norm;
    float norm_epsilon, post_norm_epsilon; // of norms after attention and MLP
    bool unit_head_norms;                  // q and k are normalized without weights, where they are rotated
    bool parallel_residual;                // attention and MLP both read the layer's input
    int32_t n_layer_input; // width of a layer's own input, from a table by token (Gemma 3n, 4); 0: none
    struct altup_shape altup;
    struct hyper_shape hyper;
    struct ngram_shape ngram;
    int32_t relative_distance_max; // of the last bucket of biases by distance, exclusive
    struct convolution_shape convolution;
    int32_t
        n_embd_table; // width of the embeddings, which are projected to n_embd after their norm; 0: not projected
    bool layers_shared; // all layers have the weights of the first (ALBERT)
};

// A layer's tensors. Names in the file and shapes: model_tensors.c.
enum layer_slot {
    SLOT_ATTN_NORM,
    SLOT_ATTN_NORM_2, // Falcon 40B; empty after loading: moved to SLOT_ATTN_NORM, and that to SLOT_FFN_NORM
    SLOT_ATTN_Q,      // q, k, v: separate, or fused in attn_qkv, in every family
    SLOT_ATTN_K,
    SLOT_ATTN_V,
    SLOT_ATTN_Q_NORM,
    SLOT_ATTN_K_NORM,
    SLOT_ATTN_SINKS,
    SLOT_ATTN_GATE, // of the output, when attn_q has none
    SLOT_ATTN_OUT,
    SLOT_ATTN_POST_NORM,
    SLOT_FFN_NORM,
    SLOT_FFN_GATE, // gate and up: separate, or fused in ffn_up, in every gated family
    SLOT_FFN_UP,
    SLOT_FFN_DOWN,
    SLOT_FFN_POST_NORM,
    SLOT_ROUTER, // experts: in place of ffn_gate, ffn_up, ffn_down
    SLOT_GATE_EXPERTS,
    SLOT_UP_EXPERTS,
    SLOT_DOWN_EXPERTS,
    SLOT_SHARED_ROUTER,
    SLOT_SHARED_GATE,
    SLOT_SHARED_UP,
    SLOT_SHARED_DOWN,
    SLOT_EXPERTS_IN, // to the latent that the experts read, and from the one that they write
    SLOT_EXPERTS_OUT,
    SLOT_OF_FAMILY_LAST = SLOT_EXPERTS_OUT, // family.c lists slots up to here; flags decide on the others
    SLOT_ROUTER_PICK_BIAS,
    SLOT_ATTN_Q_A, // latent attention
    SLOT_ATTN_Q_A_NORM,
    SLOT_ATTN_Q_B,
    SLOT_ATTN_KV_A_LATENT, // fused in attn_kv_a_mqa
    SLOT_ATTN_KV_A_ROPE,
    SLOT_ATTN_KV_A_NORM,
    SLOT_ATTN_KV_B, // keys and values in one matrix, or in the next two slots
    SLOT_ATTN_K_B,
    SLOT_ATTN_V_B,
    SLOT_INDEX_QUERY, // an indexer, from the compressed query; the others from the embedding
    SLOT_INDEX_KEY,
    SLOT_INDEX_KEY_NORM,
    SLOT_INDEX_WEIGHTS,
    SLOT_INDEX_QUERY_EMBD, // from the embedding; empty after loading: moved to SLOT_INDEX_QUERY
    SLOT_INDEX_KEY_EMBD,   // moved to SLOT_INDEX_KEY
    SLOT_INDEX_QUERY_NORM,
    SLOT_ATTN_POSITION_Q, // disentangled attention: projections of relative positions; absent: attn_q's, attn_k's
    SLOT_ATTN_POSITION_K,
    SLOT_STATE_INPUT, // recurrent layers (model_recurrent.c): of the convolution
    SLOT_STATE_QUERY, // the input of the convolution in three matrices
    SLOT_STATE_KEY,
    SLOT_STATE_VALUE,
    SLOT_STATE_GATE_LOW, // from which GATE projects
    SLOT_STATE_GATE,     // of the output
    SLOT_STATE_BETA,     // beta and step: separate, or in one matrix
    SLOT_STATE_STEP,
    SLOT_STATE_BETA_STEP, // of each key head in turn: its heads' beta, then their step
    SLOT_STATE_B,         // gates of a short convolution: before it, after it; B and C of a selective scan
    SLOT_STATE_C,
    SLOT_STATE_STEP_LOW, // from which STEP projects
    SLOT_STATE_STEP_NORM,
    SLOT_STATE_B_NORM,
    SLOT_STATE_C_NORM,
    SLOT_STATE_CONVOLUTION, // of all channels, or of the queries; then keys and values have the next two
    SLOT_STATE_CONVOLUTION_KEY,
    SLOT_STATE_CONVOLUTION_VALUE,
    SLOT_STATE_STEP_BIAS,
    SLOT_STATE_DECAY,
    SLOT_STATE_DIRECT, // multiplies the values beside the states' output
    SLOT_STATE_NORM,
    SLOT_STATE_OUT,
    SLOT_ROUTER_SCALE, // experts beside an MLP (Gemma 4)
    SLOT_FFN_POST_NORM_1,
    SLOT_FFN_NORM_2,
    SLOT_FFN_POST_NORM_2,
    SLOT_INPUT_GATE, // a layer's own input
    SLOT_INPUT_OUT,
    SLOT_INPUT_POST_NORM,
    SLOT_ATTN_SUB_NORM, // of the heads' outputs together, and of the MLP's inner items (BitNet)
    SLOT_FFN_SUB_NORM,
    SLOT_ALTUP_ROUTER_NORM, // alternating updates
    SLOT_ALTUP_ROUTER,
    SLOT_ALTUP_PREDICT,
    SLOT_ALTUP_CORRECT,
    SLOT_ALTUP_SCALE,
    SLOT_LAUREL_IN,
    SLOT_LAUREL_OUT,
    SLOT_LAUREL_POST_NORM,
    SLOT_HYPER_ATTN_NORM, // hyper-connections, of attention or a recurrence, then of the MLP
    SLOT_HYPER_ATTN_LOW,
    SLOT_HYPER_ATTN_MIX,
    SLOT_HYPER_ATTN_ADD,
    SLOT_HYPER_FFN_NORM,
    SLOT_HYPER_FFN_LOW,
    SLOT_HYPER_FFN_MIX,
    SLOT_HYPER_FFN_ADD,
    SLOT_NGRAM_TABLE, // n-gram embeddings
    SLOT_NGRAM_KEY,
    SLOT_NGRAM_VALUE,
    SLOT_NGRAM_KEY_NORM,
    SLOT_NGRAM_QUERY_NORM,
    SLOT_NGRAM_STATE_NORM,
    SLOT_NGRAM_CONVOLUTION,
    SLOT_COUNT,
};

// Absent tensors have data NULL. Parts of a fused tensor are slices of it.
struct model_layer {
    struct tensor tensors[SLOT_COUNT], biases[SLOT_COUNT];
    bool windowed;
    bool unrotated;          // the layer does not rotate queries and keys
    struct xielu xielu;      // with ACTIVATION_XIELU
    bool attends, recurrent; // has attention, a recurrence: one, both, or neither in a layer with an MLP only
    bool linear;             // attn_output alone is in place of attention
    // number among the layers with attention, of all if heads vary; bidirectional: the first layer with the same
    // heads
    int32_t store;
    bool indexed;       // has an indexer
    bool selects;       // sparse attention, by its own indexer or the last one before
    int32_t index;      // number among the layers with an indexer
    int32_t state;      // number among the recurrent layers
    int32_t ngram;      // number among the layers with n-gram embeddings; -1: none
    bool sparse;        // has experts in place of an MLP
    int32_t n_ff;       // 0: no MLP
    int32_t kv_layer;   // whose keys and values it reads: its own index, or an earlier layer's
    float output_scale; // multiplies the layer's output; 1: none
    // A gated activation of experts, of the shared expert: its gate is at most this, the other factor from
    // -limit to limit. 0: none
    float experts_limit, shared_limit;
    // Items of the MLP's gate below mean + sparsity * standard deviation become 0, the others are their
    // distance from it. -INFINITY: none
    float sparsity;
};

// Tensors of linear layers after the pooling are dense_2, dense_3, ... (their places in modules.json).
enum { MODEL_DENSE_FIRST = 2, MODEL_DENSE_MAX = 4 };

// A classification head after the pooling (engine/classifier_head.h): a layer with an activation and a norm, which
// may be absent, then the output, a row a label. output absent: the model has no head.
struct model_classifier {
    struct tensor dense, dense_bias, norm, norm_bias, output, output_bias;
};

struct model {
    struct gguf *gguf;
    const struct family *family;
    struct model_shape shape;
    struct tensor token_embd, position_embd, token_types, embd_norm, embd_norm_bias, output_norm,
        output_norm_bias, output, output_bias;
    struct tensor output_head, output_head_bias, output_head_norm, output_head_norm_bias; // forward_output.c
    struct tensor embd_proj, embd_proj_bias; // with shape.n_embd_table
    float *ones; // [n_embd] weights of norms without weights in the file; NULL: none
    struct tensor layer_embd, layer_embd_proj, layer_embd_norm; // inputs of the layers
    struct tensor altup_proj, altup_unembd_proj;
    struct tensor hyper_norm, hyper_low, hyper_mix; // of the output
    struct ngram *ngrams;                           // [shape.ngram.n_layers] engine/model/ngram.h
    // MPNet: biases of scores by distance [heads, buckets] (engine/relative_bias.c)
    struct tensor relative_bias;
    // DeBERTa: relative position embeddings, and their norm
    struct tensor relative_embd, relative_embd_norm, relative_embd_norm_bias;
    // DeBERTa V2 XL: the taps' matrices, and the norm after the sum
    struct tensor convolution, convolution_bias, convolution_norm, convolution_norm_bias;
    struct {
        struct tensor weight, bias;
    } dense[MODEL_DENSE_MAX]; // linear layers after the pooling of an embedding model, in order
    struct model_classifier classifier;
    struct model_layer *layers; // [n_layers]
    struct layer_heads *heads;  // [n_layers]; NULL: all layers have the heads and pages of shape.attention
    struct layer_heads
        *paged;          // [n_layers] of a bidirectional model with `heads`: those that have pages, others 0
    struct rope rope[2]; // [table]; unused: empty
    struct rope rope_long;     // table 0 for sequences with long_context; empty: as for all others
    struct adapters *adapters; // engine/model/adapter.h; NULL: none
    char name[128];            // general.name, else the file's name
};

// Limits on what a file may declare; above them: ERROR_LIMIT_EXCEEDED.
enum {
    MODEL_LAYERS_MAX = 1024,
    MODEL_CONTEXT_MAX = 1 << 24,
    MODEL_VOCABULARY_MAX = 1 << 24,
    MODEL_WIDTH_MAX = 1 << 20, // n_embd, n_ff
    MODEL_HEADS_MAX = 1024,
    MODEL_HEAD_DIM_MAX = 1024,
    MODEL_EXPERTS_MAX = 1024,
    MODEL_EXPERTS_USED_MAX = 64,
    MODEL_TAPS_MAX = 16,
    MODEL_RELATIVE_MAX = 1 << 15,    // distances of relative position embeddings
    MODEL_STATE_ITEMS_MAX = 1 << 24, // of one recurrent layer and sequence
    MODEL_ALTUP_MAX = 16,
    MODEL_STREAMS_MAX = 16,
    MODEL_NGRAM_MAX = 8, // tokens
    MODEL_NGRAM_HEADS_MAX = 64,
    MODEL_LABELS_MAX = 1 << 16,
};

// Errors: STATUS_REFUSE. The text names an unknown family, tensor type or rope scaling, or a missing or
// misshapen tensor with the expected and the actual shape.
enum status model_open(struct model **model, const char *path, struct error *error) WARN_UNUSED;
// The same from an opened file. Takes ownership of `gguf`, also on failure.
enum status model_open_taking(struct model **model, struct gguf *gguf, struct error *error) WARN_UNUSED;
void model_close(struct model *model);
// Whether the model predicts tokens: false for an encoder, and for a decoder saved without its output matrix.
bool model_has_logits(const struct model *model);
bool model_slot_is_vector(enum layer_slot slot); // else a matrix
// The heads of a layer, and of the keys and values that it reads.
static inline struct layer_heads model_layer_heads(const struct model *model, int32_t layer)
{
    const struct attention_shape *attention = &model->shape.attention;
    if (!model->heads)
        return (struct layer_heads){attention->n_kv_heads, attention->key_dim, attention->value_dim,
                                    attention->n_heads};
    struct layer_heads heads = model->heads[model->layers[layer].kv_layer];
    heads.n_heads = model->heads[layer].n_heads;
    return heads;
}
const char *model_family_name(const struct model *model);
uint64_t
model_weight_bytes(const struct model *model); // of all tensors, as the file holds them, and adapters
// The bytes of the table of the layers' inputs if it is read in the file's mapping, row by row: such a table
// needs no memory. 0: none is.
uint64_t model_mapped_bytes(const struct model *model);
uint64_t model_n_parameters(const struct model *model);
// Hash of all the model's content (gguf_content_hash), equal for copies under other names. Reads all of it.
// After an interrupt (NULL: none) it returns at once and the hash has no meaning.
uint64_t model_fingerprint(const struct model *model, struct pool *pool, const struct interrupt *interrupt);
