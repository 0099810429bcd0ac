// Converts the pooled hidden states of a text to its vector, in double precision:
//
//   scaled sum -> linear layers (model->dense) -> layer norm, if the family has one before a cut
//     -> the first n_dimensions -> Euclidean length 1
//
// Thread: engine.
#pragma once

#include "engine/model/model.h"
#include "schemas/base/error.h"

// Number of items of a vector before it is cut: the outputs of the last linear layer, else n_embd.
int32_t embedding_width(const struct model *model);

struct embedding_head;

// STATUS_REFUSE: ERROR_OUT_OF_MEMORY; ERROR_UNKNOWN_TYPE: the activation of
// a linear layer (key NAME.dense_N_activation) is neither identity nor tanh.
enum status embedding_head_create(struct embedding_head **head, const struct model *model, bool normalize,
                                  struct error *error) WARN_UNUSED;
void embedding_head_destroy(struct embedding_head *head);
// `sum` [n_embd], `vector` [n_dimensions]. n_dimensions: 1 to embedding_width.
void embedding_head_apply(struct embedding_head *head, const double *sum, double scale, int32_t n_dimensions,
                          float *vector);
