// A small linear layer after the pooling, in double precision: the linear layers of embedding models
// (engine/embedding_head.h) and the layers of a classification head (engine/classifier_head.h). Each output is
// summed in the order of the inputs, so the result depends on nothing else.
// Thread: engine.
#pragma once

#include "engine/model/model.h"
#include "schemas/base/error.h"

enum head_activation {
    HEAD_IDENTITY,
    HEAD_TANH,
    HEAD_RELU,
    HEAD_GELU,      // with the error function
    HEAD_GELU_TANH, // the tanh form
    HEAD_SILU,
};

// The names of transformers' ACT2FN: "tanh", "relu", "gelu", "gelu_new", "silu", ... and "identity". False:
// unknown.
bool head_activation_find(struct text name, enum head_activation *activation);
const char *head_activation_name(enum head_activation activation);

// Zeroed is valid and empty.
struct head_layer {
    int32_t n_inputs, n_outputs;
    float *weights; // [n_inputs, n_outputs]: the loop over outputs is the inner one, and vectorizes
    float *biases;  // [n_outputs] or NULL
    enum head_activation activation;
};

// Reads `weight` [n_inputs, n_outputs] and `bias` (data NULL: none). STATUS_REFUSE, ERROR_OUT_OF_MEMORY; the
// errors of gguf_load.
enum status head_layer_read(struct head_layer *layer, const struct model *model, const struct tensor *weight,
                            const struct tensor *bias, struct error *error) WARN_UNUSED;
// The same with weights of one row of `table` an output: rows [n_rows] are rows of the table.
enum status head_layer_read_rows(struct head_layer *layer, const struct model *model,
                                 const struct tensor *table, const int32_t *rows, size_t n_rows,
                                 struct error *error) WARN_UNUSED;
void head_layer_finish(struct head_layer *layer);
// `in` [n_inputs], `out` [n_outputs]; they do not overlap.
void head_layer_apply(const struct head_layer *layer, const double *in, double *restrict out);
