// Shared by model_folder.c (opening, tensors), folder_files.c (reading), folder_config.c (config.json),
// folder_tokenizer.c (tokenizer, chat templates, generation_config.json), folder_embedding.c (pooling),
// folder_names.c (families as data), and folder_rows.c, folder_experts.c and folder_nvfp4.c (forms of matrices).
// Private to these and to engine/model/adapter*.c, whose adapters have a folder's names and order of rows.
#pragma once

#include "engine/file/gguf_write.h"
#include "engine/file/safetensors.h"
#include "engine/model/folder/folder_quantized.h"
#include "engine/model/model.h"
#include "schemas/value.h"

// How a GGUF tensor is made from tensors of the folder.
enum folder_form {
    FORM_AS_IS,
    FORM_ADD_ONE,              // float32, 1 added to weights
    FORM_FLOAT32,              // a vector, converted at once
    FORM_TRANSPOSED,           // weights are transposed; biases are not
    FORM_SCALED,               // float32, rows multiplied by folder_row_factor; as is if all factors are 1
    FORM_ROWS_Q,               // rows reordered from halves to adjacent pairs, per head
    FORM_ROWS_K,               // the same
    FORM_ROWS_TURNED,          // the halves of each head exchanged: rotates the other way
    FORM_ROWS_BY_HEAD,         // q, k, v of each head together -> all q, all k, all v
    FORM_ROWS_BY_GROUP,        // the same, for the query heads of one key-value head
    FORM_ROWS_PAIRED,          // all q, all k, all v; q and k as FORM_ROWS_Q
    FORM_ROWS_BY_GROUP_PAIRED, // as FORM_ROWS_BY_GROUP, and q and k as FORM_ROWS_Q
    FORM_POSITIONS,            // without the rows before shape.first_position
    FORM_TAPS,                 // a convolution's [channels, 1, taps] -> [channels, taps]
    FORM_DECAY,                // float32: x becomes -exp(x); a vector becomes a column
    FORM_COLUMN,               // a vector becomes a column: [n] -> [n, 1]
    FORM_PADDED,               // rows of zeros for tokens without a row; folder_output.c has their bias
    FORM_GROUPS,               // a norm of all heads' values -> a row for each group of heads
    FORM_STACKED,              // a tensor for each "{}" from 0 on, stacked into one
    FORM_JOINED,               // rows of the tensors of "{a|b|c}", one after the other, and as FORM_TAPS
    // Recurrent layers. Families whose GGUF has the value heads tiled (enum delta_heads) reorder them.
    FORM_DELTA_HEADS,   // the value heads' rows, the last ones of the tensor
    FORM_DELTA_COLUMNS, // the value heads' columns
    FORM_DELTA_DECAY,   // float32: x becomes -exp(x)
    FORM_DELTA_TAPS,    // FORM_TAPS, and the value heads' channels
    // Several rules from here on may use the same tensor.
    // Rows of each key head together: query, key, its value heads' values, their gates
    FORM_DELTA_QKV,  // -> all queries, all keys, all values
    FORM_DELTA_GATE, // -> all gates
    // From rows of all queries, all keys, all values, all gates, betas and steps, in this order
    FORM_DELTA_FIRST, // -> queries, keys and values
    FORM_DELTA_SECOND,
    FORM_DELTA_BETAS,
    FORM_DELTA_STEPS,
    FORM_FIRST_ROWS, // the first half of the rows, the second
    FORM_SECOND_ROWS,
    // Selects a part of each expert's rows from a tensor that holds the matrices of all experts.
    FORM_FIRST_HALF,  // [experts, 2 rows, columns]: gate, then up; this is gate
    FORM_SECOND_HALF, // up
    // gpt-oss: rows of gate and up alternate. Shapes in the folder:
    //   weights            [experts, columns, rows], transposed
    //   weights, *_blocks  MXFP4's items [experts, rows, columns / 32, 16], with the exponents in *_scales
    //   biases             [experts, rows]
    FORM_EVEN,
    FORM_ODD,
    FORM_EVERY, // all rows of such a tensor
    // [experts, columns, 2 rows], transposed: gate, then up
    FORM_FIRST_COLUMNS,
    FORM_SECOND_COLUMNS,
    FORM_TAP_MATRICES, // a convolution's [outputs, inputs, taps] -> a matrix for each tap
    FORM_EVEN_MXFP4,
    FORM_ODD_MXFP4,
    FORM_EVERY_MXFP4,
};

struct folder_rule {
    // "model.layers.*.mlp.up_proj": * is the layer, {} the index within a stack, {a|b} the alternative of that index
    const char *from;
    const char *to; // "ffn_up"; .weight and .bias are appended to both, unless `from` begins with =
    enum folder_form form;
};

enum folder_windows { WINDOWS_NEVER, WINDOWS_GIVEN, WINDOWS_IF_USED };

struct folder_family {
    const char *model_type;                     // in config.json
    const char *name;                           // GGUF's
    const struct folder_rule *globals, *layers; // `from` NULL at the end
    bool tied;                                  // unless config.json says otherwise
    bool gated;                                 // SiLU or GELU between gate and up
    const char *activations;                    // config.json's names for its activation, separated by blanks
    enum folder_windows windows;
    bool rotates;         // has rotary positions
    const char *defaults; // settings that config.json may omit, as JSON; NULL: none
};

// folder_encoders.c
extern const struct folder_rule folder_bert_globals[], folder_bert_layers[], folder_roberta_globals[],
    folder_roberta_layers[], folder_distilbert_globals[], folder_distilbert_layers[], folder_mpnet_globals[],
    folder_mpnet_layers[], folder_jina_layers[], folder_nomic_globals[], folder_nomic_layers[],
    folder_modernbert_globals[], folder_modernbert_layers[], folder_jina3_globals[], folder_jina3_layers[],
    folder_gte_globals[], folder_gte_layers[], folder_ultrabert_globals[], folder_ultrabert_layers[],
    folder_embedding_gemma2_globals[], folder_embedding_gemma2_layers[], folder_modernbert_decoder_globals[],
    folder_modernbert_decoder_layers[], folder_t5_globals[], folder_t5_layers[], folder_electra_globals[],
    folder_electra_layers[], folder_albert_globals[], folder_albert_layers[];
// folder_deberta.c
extern const struct folder_rule folder_deberta_globals[], folder_deberta_positions_globals[],
    folder_deberta_layers[], folder_deberta_v2_layers[];
// The name of a model_type "deberta" or "deberta-v2" in the table of families.
struct text folder_deberta_type(const struct value *json, struct text model_type);
// FORM_TAP_MATRICES. The first sets the dims of `out`, a copy of `from` (false: the shape does not fit), the second writes
// the items.
bool folder_taps_shape(const struct tensor *from, struct tensor *out);
void folder_taps_make(const struct tensor *from, char *data);
// folder_expert_names.c
extern const struct folder_rule folder_mixtral_layers[], folder_qwen2_moe_layers[], folder_qwen3_moe_layers[],
    folder_gpt_oss_layers[], folder_glm4_moe_layers[], folder_dots1_layers[], folder_deepseek_layers[],
    folder_granite_moe_layers[], folder_phimoe_layers[], folder_minimax_layers[], folder_cohere2_moe_layers[],
    folder_minimax_m3_globals[], folder_minimax_m3_layers[], folder_qwen3_vl_moe_layers[],
    folder_hunyuan_moe_layers[], folder_ernie_moe_layers[], folder_ernie_vl_layers[], folder_afmoe_layers[],
    folder_llama4_layers[], folder_mistral4_layers[], folder_granite_shared_layers[],
    folder_granite_moe_swa_layers[], folder_exaone_moe_layers[], folder_hy_v3_layers[],
    folder_flex_olmo_layers[], folder_bailing_globals[], folder_bailing_layers[], folder_bailing_1_globals[],
    folder_bailing_1_layers[], folder_mimo_layers[], folder_step_layers[], folder_laguna_layers[],
    folder_dsa_layers[];
// folder_recurrent_names.c
extern const struct folder_rule folder_lfm2_globals[], folder_lfm2_layers[], folder_lfm2_moe_layers[],
    folder_granite_hybrid_layers[], folder_granite_hybrid_dense_layers[], folder_mamba_globals[],
    folder_nemotron_h_layers[], folder_falcon_h1_globals[], folder_falcon_h1_layers[], folder_mamba2_layers[],
    folder_mamba_layers[], folder_jamba_layers[], folder_lfm3_layers[], folder_bamba_layers[],
    folder_olmo_hybrid_layers[], folder_lara_mini_layers[], folder_kimi_linear_layers[],
    folder_qwen4_exp_globals[], folder_qwen4_exp_layers[];
// Whether the tensor belongs to what may follow an encoder: a pooler, classifier or masked language model.
bool folder_is_head(struct text name);

const struct folder_family *folder_family_find(struct text model_type); // NULL: none
const char *folder_family_name_at(size_t index);                        // a model_type; NULL past the end
// Tensors that are ignored: buffers in older files, and layers for speculation, after the last layer or of
// their own ("mtp.").
bool folder_ignores(struct text name, int64_t n_layers_used);
// Whether it is of an expert for images, or of their router, beside n_text_experts for texts; 0: none are.
bool folder_is_image_expert(struct text name, int64_t n_text_experts);

// folder_language.c: the language model in a folder of a model that also reads images or audio.
// Whether the tensor belongs to a part that reads images or audio or writes speech, which is not computed.
bool folder_is_tower(struct text name);
// What replaces "model." in names of tensors, and what precedes the others ("lm_head").
struct folder_naming {
    const char *model, *head;
};
// Divides the output norm's weights [n] by the norms of the output matrix's columns (Ling 1's norm_head).
// STATUS_REFUSE: the folder has no such matrix.
enum status folder_divide_norm(const struct safetensors *weights, float *norm, uint64_t n,
                               struct error *error);
const struct folder_naming *folder_find_naming(const struct safetensors *weights);

// folder_language.c: how a folder's names differ from the rules'.
struct folder_names {
    const struct folder_naming *naming; // of a language model beside towers
    bool language_part;
    bool is_bare; // names lack "model.", as in a transformer saved without its output matrix
};
// Expands `from`: the layer for *, the index for {}, then the suffix.
struct text folder_expand_name(const struct folder_names *names, const char *from, int64_t layer,
                               size_t index, const char *suffix, char out[512]);

// Recurrent layers: value heads and key heads, and their dimensions.
struct folder_delta {
    int64_t n_heads, n_key_heads, key_dim, value_dim;
    bool tiled; // GGUF's order of the value heads
};

// A matrix whose rows are multiplied by a setting.
struct folder_scale {
    const char *to; // GGUF's name
    double factor;
};
enum { FOLDER_SCALES_MAX = 8, FOLDER_SCALED_PARTS = 5 };

struct folder_shape {
    int64_t n_layers, n_heads, n_kv_heads, head_dim;
    struct folder_delta delta;
    struct folder_scale scales[FOLDER_SCALES_MAX]; // to NULL: unused
    // rows of ssm_in, one part after the other, have further factors
    double part_factors[FOLDER_SCALED_PARTS];
    int64_t part_rows[FOLDER_SCALED_PARTS];
    int64_t n_text_experts; // the first ones of a layer, before those for images; 0: all
    int64_t n_vocab;        // of a padded output matrix
    int64_t n_output;       // its rows in the folder; 0: none is padded
    bool divides_by_output; // folder_divide_norm
    int64_t first_position; // row of the position embeddings that is the first token's
    struct ngram_shape ngram;
    bool tied;
};

// config.json as key-values "NAME.*". `divisors`: rope divisors of Llama 3 or LongRoPE, to be added as
// tensors: [0] rope_freqs, [1] rope_factors_short, [2] rope_factors_long; [n_divisors] items each, in the
// arena; NULL: absent.
struct folder_config {
    const struct folder_family *family;
    struct folder_shape shape;
    const float *divisors[3];
    size_t n_divisors;
    int64_t n_layers_used;                   // layers from this one on are for speculation; INT64_MAX: none
    bool encoder;                            // bidirectional attention; no output matrix
    bool headless;                           // a decoder may lack its output matrix
    bool classifies;                         // a classification head is in its place
    bool language_part;                      // a vision-language model: tensor names have another prefix
    bool nvfp4;                              // matrices may be stored in NVFP4
    struct folder_quantization quantization; // or otherwise quantized
};

enum status folder_read_config(struct folder_config *config, const struct value *json,
                               struct gguf_writer *keys, struct arena *arena,
                               struct error *error) WARN_UNUSED;

// folder_rows.c. Number of rows that the form makes of n_rows rows.
uint64_t folder_made_rows(const struct folder_shape *shape, enum folder_form form, uint64_t n_rows);
// Returns the folder's row from which row `row` of n_rows is copied.
uint64_t folder_source_row(const struct folder_shape *shape, enum folder_form form, uint64_t row,
                           uint64_t n_rows);
// Whether the rows can be reordered as the form says.
bool folder_rows_fit(const struct folder_shape *shape, enum folder_form form, const struct tensor *from);
// Sets shape and size of a tensor of reordered rows, until now its source's.
void folder_set_rows(const struct folder_shape *shape, struct tensor *tensor, enum folder_form form);
// FORM_DELTA_COLUMNS: the folder's column from which column `column` is copied.
uint64_t folder_source_column(const struct folder_shape *shape, uint64_t column);
// FORM_DELTA_COLUMNS: copies the rows of `from` with the heads' columns reordered. FORM_DELTA_DECAY.
void folder_copy_columns(const struct folder_shape *shape, const struct tensor *from, char *out);
void folder_make_decay(const struct folder_shape *shape, const struct tensor *from, float *out);
// FORM_SCALED. The factor of a row; whether any row has a factor other than 1; writes the rows.
double folder_row_factor(const struct folder_shape *shape, const char *to, uint64_t row);
bool folder_is_scaled(const struct folder_shape *shape, const char *to);
void folder_make_scaled(const struct folder_shape *shape, const char *to, const struct tensor *from,
                        float *out);
void folder_make_decays(const struct tensor *from, float *out); // FORM_DECAY
// Writes the transpose of `from`, whose items have n_bytes.
void folder_copy_transposed(const struct tensor *from, size_t n_bytes, char *out);

// folder_matrix_rows.c: matrices that become one tensor, which has their type. Writes their rows.
enum status folder_matrices_write(const struct folder_shape *shape, enum folder_form form,
                                  const struct folder_matrix *matrices, const struct tensor *tensor,
                                  char *out, struct error *error) WARN_UNUSED;
// Sets tensor->order, in the arena, if the columns of one must be sorted by group.
enum status folder_matrices_order(const struct folder_matrix *matrices, size_t n, struct arena *arena,
                                  struct tensor *tensor, struct error *error) WARN_UNUSED;

// folder_experts.c: forms from FORM_FIRST_HALF on. `from`: matrices (or vectors) of all experts;
// `scales`: MXFP4's exponents. Sets type, dims and size of `out`. False: the shape of `from` does not fit.
bool folder_part_shape(enum folder_form form, const struct tensor *from, const struct tensor *scales,
                       struct tensor *out);
void folder_part_make(enum folder_form form, const struct tensor *from, const struct tensor *scales,
                      const struct tensor *out, char *data);

// folder_nvfp4.c. Whether quantization_config of config.json, or "quantization" of
// hf_quant_config.json, declares NVFP4 matrices.
bool folder_is_nvfp4(const struct value *settings);
// Reads hf_quant_config.json, which ModelOpt writes in older folders, where config.json says nothing.
// STATUS_REFUSE: another quantization.
struct folder_files;
enum status folder_read_quantization_file(const struct folder_files *files, struct folder_config *config,
                                          struct error *error) WARN_UNUSED;

// A matrix of NVFP4: indexes of its tensors.
struct folder_nvfp4 {
    size_t items, scales, factor;
};
// `weight`: "X.weight". *found false and no error if the matrix is not stored in NVFP4.
enum status folder_find_nvfp4(const struct safetensors *weights, struct text weight, struct folder_nvfp4 *out,
                              bool *found, struct error *error) WARN_UNUSED;
// Whether a matrix of NVFP4 can have this form.
bool folder_may_be_nvfp4(enum folder_form form);
// `out` is a copy of `items`: sets its type, columns and size.
void folder_nvfp4_shape(const struct tensor *items, struct tensor *out);
// Converts a row of n_items to GGUF's blocks: n_items / 64 * 36 bytes.
void folder_nvfp4_row(const unsigned char *items, const unsigned char *scales, uint64_t n_items,
                      unsigned char *out);
// The factor of the matrix whose items have that name; compressed-tensors stores its reciprocal.
float folder_nvfp4_factor(struct text items, const struct tensor *factor);

// folder_xielu.c: the keys xielu.*, for a family with that activation. Sets `used` of the tensors it reads.
enum status folder_add_xielu(const struct safetensors *weights, const struct folder_config *config,
                             const struct folder_naming *naming, bool *used, struct gguf_writer *keys,
                             struct error *error) WARN_UNUSED;

// folder_hyper.c: checks the tensors with the constants of the n-grams' hash functions and sets their `used`.
// STATUS_REFUSE: the constants do not follow from config.json.
enum status folder_check_ngrams(const struct safetensors *weights, const struct folder_shape *shape,
                                const struct folder_names *names, bool *used,
                                struct error *error) WARN_UNUSED;

// folder_output.c: an output matrix without the last tokens of the vocabulary (FORM_PADDED).
enum status folder_pad_output(const struct tensor *from, int64_t n_vocab, struct tensor *padded,
                              struct error *error) WARN_UNUSED;
void folder_copy_padded(const struct tensor *from, const struct tensor *padded, char *out);
// "output.bias" for `n_rows` rows and zeros up to n_vocab, in the arena. data NULL: no memory.
struct tensor folder_make_output_bias(int64_t n_rows, int64_t n_vocab, struct arena *arena);

// folder_files.c: files of the folder, in the arena. *found false and no error if the file does not
// exist.
enum { FOLDER_PATH_BYTES_MAX = 4096, FOLDER_FILE_NAME_BYTES_MAX = 63 };
struct folder_files {
    const char *path;
    struct arena *arena;
    struct buffer *unknown; // unknown keys, as "FILE: KEY, FILE: KEY"; NULL: not wanted
};
enum status folder_read_file(const struct folder_files *files, const char *name, struct text *content,
                             bool *found, struct error *error) WARN_UNUSED;
// Sets general.name to the folder's name, without trailing slashes.
enum status folder_put_name(const char *path, bool language_part, struct arena *arena,
                            struct gguf_writer *keys, struct error *error) WARN_UNUSED;
// A JSON object; `json` is null if the file does not exist.
enum status folder_read_json(const struct folder_files *files, const char *name, struct value *json,
                             bool *found, struct error *error) WARN_UNUSED;

// folder_classifier.c: a classification head. Whether config.json names one; the tensors of it, none if it does
// not; the keys NAME.classifier.* (engine/classifier_head.h).
bool folder_classifies(const struct value *config);
const struct folder_rule *folder_classifier_rules(const struct folder_config *config);
enum status folder_add_classifier(const struct folder_files *files, const struct folder_config *config,
                                  const struct value *json, struct gguf_writer *keys,
                                  struct error *error) WARN_UNUSED;

enum status folder_refuse_adapter(const struct folder_files *files, struct error *error) WARN_UNUSED;

// folder_tokenizer.c: the keys tokenizer.* and general.sampling.*. `config` is config.json.
enum status folder_add_tokenizer(const struct folder_files *files, const struct value *config,
                                 struct gguf_writer *keys, struct error *error) WARN_UNUSED;

// folder_sentencepiece.c: the keys of a tokenizer.model, or of another file with such content. `config` is
// tokenizer_config.json (may be null).
enum status folder_add_sentencepiece(const struct folder_files *files, const char *file, struct text content,
                                     const struct value *config, struct gguf_writer *keys,
                                     struct error *error) WARN_UNUSED;

// folder_vocabulary.c: makes the text of a tokenizer.json from vocab.json and merges.txt. *found false:
// one of the two is missing. `config` is config.json; `tokenizer_config` may be null.
enum status folder_make_tokenizer(const struct folder_files *files, const struct value *config,
                                  const struct value *tokenizer_config, struct text *tokenizer, bool *found,
                                  struct error *error) WARN_UNUSED;

// folder_keys.c: the keys of a folder's small files.
enum folder_key_use {
    KEY_READ,    // the reader of the file uses it
    KEY_NO_PART, // results do not depend on it
    KEY_REFUSED, // not supported, except null and the values in `neutral`, which have no effect
};
struct folder_key {
    const char *file;
    enum folder_key_use use;
    const char *names;   // separated by blanks
    const char *neutral; // JSON values, separated by blanks
};
const struct folder_key *folder_keys(size_t *n_keys);
const struct folder_key *folder_key_find(const char *file, struct text name); // NULL: not known
bool folder_key_refuses(const struct folder_key *key, const struct value *value);
// Sets *refused, in the arena, to the first refused key of `object` ("PATH: KEY VALUE is not built"), unless
// *refused is set already. `file` is the file's name in the table, `path` the name for messages. An unknown
// key is refused in some files and added to files->unknown in the others.
enum status folder_check_keys(const struct folder_files *files, const char *file, const char *path,
                              const struct value *object, struct text *refused,
                              struct error *error) WARN_UNUSED;
// Refuses config.json for its first refused key.
enum status folder_check_config(const struct folder_files *files, const struct value *config,
                                struct error *error) WARN_UNUSED;
// Sets *refused, in the arena, unless it is set already: the first reason is kept.
enum status folder_refuse(const struct folder_files *files, struct text *refused, struct error *error,
                          const char *format, ...) PRINTF_LIKE(4, 5) WARN_UNUSED;

// folder_embedding.c: how an embedding model (sentence-transformers) computes vectors. STATUS_REFUSE: a
// file that cannot be read.
struct folder_dense {           // a linear layer after the pooling
    struct tensor weight, bias; // F32, in the arena, named dense_2.weight and so on; no bias: data NULL
    const char *activation;     // "tanh"; NULL: none
};

struct folder_embedding {
    const struct folder_files *files;
    uint32_t pooling_type; // engine/embedding.h; 0: none given
    uint32_t n_tokens_max; // longer texts are truncated; 0: no limit given
    struct text prompt;    // prepended to each text
    struct text prompts;   // all, by name: a JSON object; empty: none
    bool is_listed;        // modules.json exists: it decides whether vectors are normalized
    bool normalizes;
    struct folder_dense dense[MODEL_DENSE_MAX];
    int n_dense;
    // Unsupported settings; data NULL: none. Options can override the pooling and the dimensions.
    struct text refused, pooling_refused, dimensions_refused;
    bool has_path, leaves_prompt_out; // private
};
enum status folder_read_embedding(struct folder_embedding *embedding, struct error *error) WARN_UNUSED;
// Adds the keys of model_folder.h that describe the pooling, and sets the linear layers after it.
enum status folder_add_pooling(const struct folder_files *files, const char *family, struct gguf_writer *keys,
                               struct tensor dense[2 * MODEL_DENSE_MAX], int *n_dense,
                               struct error *error) WARN_UNUSED;
