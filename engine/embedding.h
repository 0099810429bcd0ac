// Embeddings of texts: the final hidden states of a text's tokens (after the output norm, before the output
// weight), pooled to one vector. engine/embedding_head.h describes the steps after pooling. Several texts
// share a step. The vector of a text does not depend on other texts, on the size of steps or on the number of
// threads.
//
// With causal attention, a text longer than a step is computed in several steps, with KV pages for all
// layers. With bidirectional attention, whole texts share a step; a text longer than a step is computed
// alone, layer by layer (forward_text), with pages for one layer.
// Thread: engine.
#pragma once

#include "engine/forward.h"
#include "schemas/base/arena.h"
#include "schemas/value.h"

// Values of the key NAME.pooling_type. The first three are from github.com/ggml-org/llama.cpp
// (gguf-py/gguf/constants.py), the others are our own. SQRT is the sum divided by the square root of the
// number of tokens. WEIGHTED is the mean with the weights 1, 2, 3, ... (sentence-transformers,
// modules/pooling.py).
enum pooling {
    POOLING_MEAN = 1,
    POOLING_FIRST = 2,
    POOLING_LAST = 3,
    POOLING_MAX = 101,
    POOLING_SQRT = 102,
    POOLING_WEIGHTED = 103
};

// Errors: STATUS_REFUSE, ERROR_UNKNOWN_TYPE if the model computes embeddings in a way that is not
// implemented.
enum status embedding_check_model(const struct model *model, struct error *error) WARN_UNUSED;
// Returns the pooling that the model names. If it names none, the default is the mean for an encoder, else
// the last token, because only that token attends to the whole text.
// STATUS_REFUSE, ERROR_UNKNOWN_TYPE: the model's pooling is not implemented.
enum status pooling_of_model(const struct model *model, enum pooling *pooling,
                             struct error *error) WARN_UNUSED;

// Further settings in the model's files.
struct embedding_defaults {
    struct text prompt;   // added before each text
    int32_t n_tokens_max; // limit of a text, including bos and eos; longer texts are cut. 0: no limit
    bool normalize;       // true if the files do not say
};
// Finds the text of one of the model's prompts, in the arena. STATUS_REFUSE, ERROR_USAGE: the prompt does not
// exist; the text lists the names.
enum status embedding_find_prompt(const struct model *model, const char *name, struct arena *arena,
                                  struct text *prompt, struct error *error) WARN_UNUSED;
// The model's prompts, an object of texts by their names; no member: none.
enum status embedding_read_prompts(const struct model *model, struct arena *arena, struct value *prompts,
                                   struct error *error) WARN_UNUSED;
enum status embedding_read_defaults(struct embedding_defaults *defaults, const struct model *model,
                                    struct error *error) WARN_UNUSED;
// Errors: STATUS_REFUSE, ERROR_UNKNOWN_TYPE if the model keeps other dimensions than the first n.
enum status embedding_check_dimensions(const struct model *model, struct error *error) WARN_UNUSED;
// Finds a pooling by name: "mean", "cls", "last", "max", "mean_sqrt_len" or "weightedmean". False: the name
// is unknown.
bool pooling_find(const char *name, enum pooling *pooling);
const char *pooling_name(enum pooling pooling);

// Bytes of the embedder's rows for texts of up to n_longest tokens.
uint64_t embedder_bytes(const struct forward_limits *limits, const struct model *model, int32_t n_longest);
// Longest text in tokens: limited by the model's context, and by the pages that a step of other texts leaves
// free.
int32_t embedder_longest(const struct forward_limits *limits, const struct model *model);
// Number of pages for texts of n_tokens. Ignores limits->n_pages.
int64_t embedder_pages(const struct forward_limits *limits, int32_t n_tokens);

struct embedder_options {
    const struct model *model;
    struct forward *forward; // must be created with limits.hidden_only
    struct forward_limits limits;
    enum pooling pooling;
    bool normalize;       // to Euclidean length 1
    int32_t n_dimensions; // 1 to embedding_width: the first items of a vector are kept
    int32_t n_longest;    // texts are at most this long
    void (*before_step)(const struct step *step); // called before each step is computed; NULL: none
    // NULL: vectors. Else the n_dimensions of a "vector" are the head's scores; `normalize` has no effect
    // (engine/classifier.h creates it). It must outlive the embedder.
    struct classifier_head *classifier;
};

struct embedder;

// A text's tokens.
struct embedding_text {
    const int32_t *ids;   // within the vocabulary (asserted)
    int32_t n_ids;        // 1 to n_longest
    const int32_t *types; // [n_ids] token types, where the model has them; NULL: all 0
    int32_t n_dimensions; // items of this text's vector, at most the embedder's; 0: the embedder's
};

// Creates an embedder. The model and the forward pass must outlive it. Errors: STATUS_REFUSE,
// ERROR_OUT_OF_MEMORY.
enum status embedder_create(struct embedder **embedder, const struct embedder_options *options,
                            struct error *error) WARN_UNUSED;
void embedder_destroy(struct embedder *embedder);
// `vectors` [n_texts, n_dimensions]; of a text with fewer dimensions the row's other items are unchanged. Errors: the errors of forward_hidden.
enum status embedder_compute(struct embedder *embedder, const struct embedding_text *texts, int32_t n_texts,
                             float *vectors, struct error *error) WARN_UNUSED;
