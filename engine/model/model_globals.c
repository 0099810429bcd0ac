// The tensors of no layer: embeddings and their norm, inputs of the layers, the output, linear layers and a
// classification head after the pooling.
#include "engine/model/tensor_search.h"

#include <stdio.h>
#include <stdlib.h>

// The tables of the layers' inputs: of each token (for tokens of a tower's vocabulary it may have no rows),
// and the projection of the embedding.
static enum status take_layer_inputs(struct tensor_search *search)
{
    struct model *model = search->model;
    const struct tensor *table = gguf_tensor(model->gguf, "per_layer_token_embd.weight");
    int64_t width = model->shape.n_layer_input * (int64_t)model->shape.n_layers,
            n_vocab = model->shape.n_vocab;
    if (model->shape.n_layer_input == 0)
        return STATUS_OK;
    if (table && table->dims[1] >= 1 && table->dims[1] < (uint64_t)n_vocab)
        n_vocab = (int64_t)table->dims[1];
    enum status status = STATUS_OK;
    if (!model->family->inputs_projected)
        status = take_tensor(search, "per_layer_token_embd.weight", true, (int64_t[3]){width, n_vocab, 1},
                             &model->layer_embd);
    if (status == STATUS_OK)
        status = take_matrix(search, "per_layer_model_proj.weight", true,
                             (int64_t[3]){search->widths[EMBD], width, 1}, &model->layer_embd_proj);
    if (status == STATUS_OK)
        status = take_vector(search, "per_layer_proj_norm.weight", true, model->shape.n_layer_input,
                             &model->layer_embd_norm);
    return status;
}

static enum status take_altup(struct tensor_search *search)
{
    struct model *model = search->model;
    int64_t n_embd = search->widths[EMBD], dims[3] = {n_embd, n_embd, model->shape.altup.n - 1};
    enum status status = STATUS_OK;
    if (model->shape.altup.n)
        status = take_matrix(search, "altup_proj.weight", true, dims, &model->altup_proj);
    if (model->shape.altup.n && status == STATUS_OK)
        status = take_matrix(search, "altup_unembd_proj.weight", true, dims, &model->altup_unembd_proj);
    return status;
}

static int64_t table_width(const struct tensor_search *search)
{
    int32_t n = search->model->shape.n_embd_table;
    return n ? n : search->widths[EMBD];
}

// The projection of embeddings whose width is not n_embd.
static enum status take_projection(struct tensor_search *search)
{
    struct model *model = search->model;
    const int64_t dims[3] = {table_width(search), search->widths[EMBD], 1};
    if (model->shape.n_embd_table == 0)
        return STATUS_OK;
    enum status status = take_matrix(search, "token_embd_proj.weight", true, dims, &model->embd_proj);
    return status == STATUS_OK
               ? take_vector(search, "token_embd_proj.bias", true, dims[1], &model->embd_proj_bias)
               : status;
}

static enum status take_token_types(struct tensor_search *search)
{
    const struct tensor *found = gguf_tensor(search->model->gguf, "token_types.weight");
    const int64_t dims[3] = {table_width(search), found ? (int64_t)found->dims[1] : 1, 1};
    return take_tensor(search, "token_types.weight", false, dims, &search->model->token_types);
}

static enum status take_relative_bias(struct tensor_search *search)
{
    const struct tensor *found;
    enum status status = find_tensor(search, "attn_rel_b.weight", true, &found);
    if (status != STATUS_OK)
        return status;
    search->n_found--; // take_tensor counts it
    const int64_t dims[3] = {search->widths[HEADS], (int64_t)found->dims[1], 1};
    status = take_tensor(search, "attn_rel_b.weight", true, dims, &search->model->relative_bias);
    if (status == STATUS_OK && (dims[1] < 4 || dims[1] % 4 != 0))
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor attn_rel_b.weight: %lld buckets; expected a multiple of 4",
                         (long long)dims[1]);
    return status;
}

// Relative position embeddings, learned positions and the convolution. Each may be absent.
static enum status take_disentangled(struct tensor_search *search)
{
    struct model *model = search->model;
    const int64_t n_embd = search->widths[EMBD];
    int64_t dims[3] = {n_embd, search->widths[CONTEXT], 1};
    enum status status = take_tensor(search, "position_embd.weight", false, dims, &model->position_embd);
    dims[1] = model->shape.disentangled.n_rows;
    if (status != STATUS_OK || dims[1] == 0)
        return status;
    status = take_tensor(search, "attn_rel_embd.weight", true, dims, &model->relative_embd);
    if (status == STATUS_OK && model->shape.disentangled.normed)
        status = take_vector(search, "attn_rel_embd_norm.weight", true, n_embd, &model->relative_embd_norm);
    if (status == STATUS_OK && model->shape.disentangled.normed)
        status =
            take_vector(search, "attn_rel_embd_norm.bias", true, n_embd, &model->relative_embd_norm_bias);
    return status;
}

static enum status take_convolution(struct tensor_search *search)
{
    struct model *model = search->model;
    const int64_t n_embd = search->widths[EMBD], dims[3] = {n_embd, n_embd, model->shape.convolution.n_taps};
    if (dims[2] == 0)
        return STATUS_OK;
    enum status status = take_matrix(search, "conv.weight", true, dims, &model->convolution);
    if (status == STATUS_OK)
        status = take_vector(search, "conv.bias", true, n_embd, &model->convolution_bias);
    if (status == STATUS_OK)
        status = take_vector(search, "conv_norm.weight", true, n_embd, &model->convolution_norm);
    return status == STATUS_OK
               ? take_vector(search, "conv_norm.bias", true, n_embd, &model->convolution_norm_bias)
               : status;
}

// Linear layers after the pooling, dense_2 and so on: the outputs of each are the inputs of the next.
static enum status take_dense(struct tensor_search *search)
{
    struct model *model = search->model;
    int64_t n_inputs = search->widths[EMBD];
    enum status status = STATUS_OK;
    for (int i = 0; i < MODEL_DENSE_MAX && status == STATUS_OK; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "dense_%d.weight", MODEL_DENSE_FIRST + i);
        const struct tensor *found = gguf_tensor(model->gguf, name);
        if (!found)
            break;
        const int64_t dims[3] = {n_inputs, (int64_t)found->dims[1], 1};
        if (dims[1] < 1 || dims[1] > MODEL_WIDTH_MAX)
            return error_set(search->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                             "tensor %s: expected 1 to %d rows, file has %llu", name, MODEL_WIDTH_MAX,
                             (unsigned long long)found->dims[1]);
        status = take_tensor(search, name, true, dims, &model->dense[i].weight);
        snprintf(name, sizeof name, "dense_%d.bias", MODEL_DENSE_FIRST + i);
        if (status == STATUS_OK)
            status = take_vector(search, name, false, dims[1], &model->dense[i].bias);
        n_inputs = dims[1];
    }
    return status;
}

// A matrix [n_inputs, its own number of rows, at most n_rows_max] and its bias; absent: *n_rows is unchanged.
static enum status take_head_layer(struct tensor_search *search, const char *name, int64_t n_inputs,
                                   int64_t n_rows_max, struct tensor *weight, struct tensor *bias,
                                   int64_t *n_rows)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s.weight", name);
    const struct tensor *found = gguf_tensor(search->model->gguf, whole);
    if (!found)
        return STATUS_OK;
    const int64_t dims[3] = {n_inputs, (int64_t)found->dims[1], 1};
    if (dims[1] < 1 || dims[1] > n_rows_max)
        return error_set(search->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tensor %s: expected 1 to %lld rows, file has %llu", whole, (long long)n_rows_max,
                         (unsigned long long)found->dims[1]);
    enum status status = take_matrix(search, whole, true, dims, weight);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (status == STATUS_OK)
        status = take_vector(search, whole, false, dims[1], bias);
    *n_rows = dims[1];
    return status;
}

static enum status take_classifier(struct tensor_search *search)
{
    struct model_classifier *head = &search->model->classifier;
    int64_t width = search->widths[EMBD], n_labels = 0;
    enum status status =
        take_head_layer(search, "cls", width, MODEL_WIDTH_MAX, &head->dense, &head->dense_bias, &width);
    if (status == STATUS_OK)
        status = take_vector(search, "cls.norm.weight", false, width, &head->norm);
    if (status == STATUS_OK)
        status = take_vector(search, "cls.norm.bias", false, width, &head->norm_bias);
    if (status != STATUS_OK)
        return status;
    return take_head_layer(search, "cls.output", width, MODEL_LABELS_MAX, &head->output, &head->output_bias,
                           &n_labels);
}

// The weights of norms that have none in the file; the model frees them.
static enum status make_ones(struct tensor_search *search)
{
    struct model *model = search->model;
    size_t n = (size_t)search->widths[EMBD];
    model->ones = malloc(n * sizeof *model->ones);
    if (!model->ones)
        return error_memory(search->error, STATUS_REFUSE, "norms without weights");
    for (size_t i = 0; i < n; i++)
        model->ones[i] = 1.0f;
    return STATUS_OK;
}

struct tensor tensor_of_ones(const struct tensor_search *search)
{
    uint64_t n = (uint64_t)search->widths[EMBD];
    return (struct tensor){.name = text_from_string("1"),
                           .type = TENSOR_F32,
                           .n_dims = 1,
                           .dims = {n, 1, 1, 1},
                           .data = search->model->ones,
                           .size_bytes = n * sizeof *search->model->ones};
}

static enum status take_output_norm(struct tensor_search *search)
{
    struct model *model = search->model;
    const struct family *family = model->family;
    int64_t n_embd = search->widths[EMBD];
    bool biased = (family->biased & (SLOT(ATTN_NORM) | SLOT(ATTN_POST_NORM))) != 0;
    if (family->plain_norms) {
        model->output_norm = tensor_of_ones(search);
        return STATUS_OK;
    }
    enum status status =
        take_vector(search, family->output_norm_as_embd ? "token_embd_norm.weight" : "output_norm.weight",
                    true, n_embd, &model->output_norm);
    if (status == STATUS_OK && search->model->shape.norm == NORM_LAYER)
        status = take_vector(search, "output_norm.bias", biased, n_embd, &model->output_norm_bias);
    return status;
}

static enum status take_output_head(struct tensor_search *search)
{
    struct model *model = search->model;
    int64_t n = search->widths[EMBD];
    enum status status =
        take_matrix(search, "output_head.weight", true, (int64_t[3]){n, n, 1}, &model->output_head);
    if (status == STATUS_OK)
        status = take_vector(search, "output_head.bias", false, n, &model->output_head_bias);
    if (status == STATUS_OK)
        status = take_vector(search, "output_head_norm.weight", true, n, &model->output_head_norm);
    if (status == STATUS_OK)
        status = take_vector(search, "output_head_norm.bias", false, n, &model->output_head_norm_bias);
    return status;
}

enum status take_globals(struct tensor_search *search)
{
    struct model *model = search->model;
    const struct family *family = model->family;
    int64_t n_embd = search->widths[EMBD], n_vocab = search->widths[VOCABULARY],
            n_table = table_width(search);
    int64_t table[3] = {n_embd, n_vocab, 1}, positions[3] = {n_table, search->widths[CONTEXT], 1};
    int64_t tokens[3] = {n_table, n_vocab, 1};
    bool norm_biased = (family->biased & (SLOT(ATTN_NORM) | SLOT(ATTN_POST_NORM))) != 0;
    enum status status = take_tensor(search, "token_embd.weight", true, tokens, &model->token_embd);
    if (status == STATUS_OK && family->has_position_embd)
        status = take_tensor(search, "position_embd.weight", true, positions, &model->position_embd);
    if (status == STATUS_OK && family->has_token_types)
        status = take_token_types(search);
    if (status == STATUS_OK && family->has_relative_bias)
        status = take_relative_bias(search);
    if (status == STATUS_OK && family->disentangled)
        status = take_disentangled(search);
    if (status == STATUS_OK && family->disentangled)
        status = take_convolution(search);
    if (status == STATUS_OK && family->has_embd_norm)
        status = take_vector(search, "token_embd_norm.weight", true, n_table, &model->embd_norm);
    if (status == STATUS_OK && (family->unit_all_norms || family->plain_norms))
        status = make_ones(search);
    if (status == STATUS_OK && family->unit_all_norms)
        model->embd_norm = tensor_of_ones(search);
    if (status == STATUS_OK && family->has_embd_norm)
        status = take_vector(search, "token_embd_norm.bias", norm_biased, n_table, &model->embd_norm_bias);
    if (status == STATUS_OK)
        status = take_projection(search);
    if (status == STATUS_OK && family->hyper)
        status = take_hyper_output(search);
    else if (status == STATUS_OK && !family->normed_after_sum)
        status = take_output_norm(search);
    if (status == STATUS_OK && family->has_output_head)
        status = take_output_head(search);
    if (status == STATUS_OK)
        status = take_dense(search);
    if (status == STATUS_OK)
        status = take_classifier(search);
    if (status == STATUS_OK && !family->bidirectional)
        status = take_matrix(search, "output.weight", false, table, &model->output);
    if (status == STATUS_OK && !family->bidirectional)
        status = take_vector(search, "output.bias", family->has_output_bias, n_vocab, &model->output_bias);
    if (status == STATUS_OK && !model->output.data)
        model->output = model->token_embd; // tied
    if (status == STATUS_OK)
        status = take_layer_inputs(search);
    if (status == STATUS_OK)
        status = take_altup(search);
    const struct tensor *rope; // read before, by model_read_rope
    static const char *const ropes[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                        "rope_factors_long.weight"};
    for (int i = 0; i < 3 && status == STATUS_OK && family->rope_style != ROPE_NONE; i++)
        status = find_tensor(search, ropes[i], false, &rope);
    return status;
}
