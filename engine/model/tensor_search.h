// The search for a model's tensors in its file: shared by model_tensors.c, model_globals.c and tensor_search.c.
// Private to these. Errors: STATUS_REFUSE with the tensor's name.
#pragma once

#include "engine/model/family.h"
#include "engine/model/model_parts.h"

enum width {
    ONE,
    EMBD,
    VOCABULARY,
    CONTEXT,
    QUERY,
    KEY,
    VALUE,
    HEADS_OUT,
    FF,
    EXPERTS,
    FF_EXPERT,
    EMBD_EXPERT, // what experts read and write
    FF_SHARED,
    KEY_DIM,
    HEADS,
    LATENT, // from here on: latent attention
    LATENT_ROPE,
    LATENT_KEY,
    LATENT_VALUE,
    QUERY_LATENT,
    HEADS_KEY_VALUE,
    INDEX_QUERY, // an indexer
    INDEX_KEY,
    INDEX_HEADS,
    STREAMS, // hyper-connections: all streams; their number; the gates' rank
    STREAM_COUNT,
    STREAM_RANK,
    NGRAM_DIM, // n-gram embeddings
    NGRAM_ROWS,
    NGRAM_WIDTH,
    NGRAM_TAPS,
    INPUT, // a layer's own input
    ALTUP,
    ALTUP_SQUARE,
    LAUREL,
    STATE_CHANNELS, // from here on: recurrent layers
    STATE_GROUPS,
    STATE_RANK,
    STATE_KEYS,
    STATE_GROUP,
    STATE_INNER,
    STATE_HEADS,
    STATE_HEADS_TWICE,
    STATE_VALUE,
    STATE_TAPS,
    WIDTH_COUNT
};

enum { NAME_BYTES = 96 };

// The search over one file; `found` collects the file's tensors that got a place.
struct tensor_search {
    struct model *model;
    struct error *error;
    int64_t widths[WIDTH_COUNT];
    const struct tensor **found;
    size_t n_found;
};

bool has_dims(const struct tensor *tensor, const int64_t dims[3]);
// Finds a tensor and records it in `found`. *tensor is NULL if it is absent, which is an error only if
// `required`.
enum status find_tensor(struct tensor_search *search, const char *name, bool required,
                        const struct tensor **tensor) WARN_UNUSED;
// Finds a tensor and checks its dims. If it is absent and not required, *out is unchanged.
enum status take_tensor(struct tensor_search *search, const char *name, bool required, const int64_t dims[3],
                        struct tensor *out) WARN_UNUSED;
// A matrix, with the factors in a tensor of their own if it has these.
enum status take_matrix(struct tensor_search *search, const char *name, bool required, const int64_t dims[3],
                        struct tensor *out) WARN_UNUSED;
// Vectors are read item by item, so a type with blocks of several items is refused. n_vectors above 1: one
// per expert.
// Weights of 1 (model->ones) for a norm of n_embd items without weights.
struct tensor tensor_of_ones(const struct tensor_search *search);
enum status take_vectors(struct tensor_search *search, const char *name, bool required, int64_t n_items,
                         int64_t n_vectors, struct tensor *out) WARN_UNUSED;
enum status take_vector(struct tensor_search *search, const char *name, bool required, int64_t n_items,
                        struct tensor *out) WARN_UNUSED;
enum status wrong_shape(struct tensor_search *search, const struct tensor *tensor,
                        const int64_t dims[3]) WARN_UNUSED;
// "blk.INDEX.SLOT.KIND"; `kind` NULL: neither ".weight" nor ".bias".
void layer_name(char name[NAME_BYTES], int32_t index, const char *slot, const char *kind);
// Rows [first, first + n_rows) of a matrix, or items of a vector.
struct tensor slice_tensor(const struct tensor *whole, int64_t first, int64_t n_rows, bool vector);

// model_globals.c: the tensors of no layer.
enum status take_globals(struct tensor_search *search) WARN_UNUSED;
// model_hyper.c: the tensors of hyper-connections and of n-gram embeddings.
enum status take_hyper(struct tensor_search *search, int32_t index) WARN_UNUSED;
enum status take_hyper_output(struct tensor_search *search) WARN_UNUSED;
// model_recurrent.c: the tensors of a recurrent layer.
enum status take_recurrent(struct tensor_search *search, int32_t index) WARN_UNUSED;
