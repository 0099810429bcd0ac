#include "engine/embedding_head.h"

#include "engine/file/gguf.h"
#include "engine/head_layer.h"
#include "engine/model/family.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct embedding_head {
    struct head_layer layers[MODEL_DENSE_MAX];
    int n_layers;
    int32_t n_embd, width;
    bool normed_before_cut, normalize;
    double *items[2]; // [the largest width] input and output of a layer
};

int32_t embedding_width(const struct model *model)
{
    int32_t width = model->shape.n_embd;
    for (int i = 0; i < MODEL_DENSE_MAX && model->dense[i].weight.data; i++)
        width = (int32_t)model->dense[i].weight.dims[1];
    return width;
}

static enum status read_activation(struct head_layer *layer, const struct model *model, int index,
                                   struct error *error)
{
    char key[128];
    struct text name = TEXT("identity");
    snprintf(key, sizeof key, "%s.dense_%d_activation", model_family_name(model), MODEL_DENSE_FIRST + index);
    enum status status = gguf_text(model->gguf, key, &name, NULL, error);
    layer->activation = text_equals_string(name, "tanh") ? HEAD_TANH : HEAD_IDENTITY;
    if (status == STATUS_OK && layer->activation == HEAD_IDENTITY && !text_equals_string(name, "identity"))
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "%s: expected identity or tanh, file has \"%.*s\"", key,
                         (int)(name.size < 64 ? name.size : 64), name.data);
    return status;
}

static enum status read_layer(struct head_layer *layer, const struct model *model, int index,
                              struct error *error)
{
    enum status status = read_activation(layer, model, index, error);
    return status == STATUS_OK
               ? head_layer_read(layer, model, &model->dense[index].weight, &model->dense[index].bias, error)
               : status;
}

enum status embedding_head_create(struct embedding_head **out, const struct model *model, bool normalize,
                                  struct error *error)
{
    struct embedding_head *head = calloc(1, sizeof *head);
    *out = head;
    if (!head)
        return error_memory(error, STATUS_REFUSE, "embeddings");
    head->n_embd = model->shape.n_embd;
    head->width = embedding_width(model);
    head->normalize = normalize;
    head->normed_before_cut = model->family->normed_before_cut;
    int32_t most = head->n_embd;
    enum status status = STATUS_OK;
    for (int i = 0; i < MODEL_DENSE_MAX && model->dense[i].weight.data && status == STATUS_OK; i++) {
        status = read_layer(&head->layers[head->n_layers++], model, i, error);
        most = head->layers[i].n_outputs > most ? head->layers[i].n_outputs : most;
    }
    for (int i = 0; i < 2; i++)
        head->items[i] = malloc((size_t)most * sizeof *head->items[i]);
    if (status == STATUS_OK && (!head->items[0] || !head->items[1]))
        status = error_memory(error, STATUS_REFUSE, "embeddings");
    if (status != STATUS_OK) {
        embedding_head_destroy(head);
        *out = NULL;
    }
    return status;
}

void embedding_head_destroy(struct embedding_head *head)
{
    if (!head)
        return;
    for (int i = 0; i < head->n_layers; i++)
        head_layer_finish(&head->layers[i]);
    free(head->items[0]);
    free(head->items[1]);
    free(head);
}

// Without weights: nomic-embed-text-v1.5 is trained with a layer norm between the pooling and the cut.
static void apply_layer_norm(double *items, int32_t n)
{
    double mean = 0.0, square = 0.0;
    for (int32_t i = 0; i < n; i++)
        mean += items[i];
    mean /= n;
    for (int32_t i = 0; i < n; i++)
        square += (items[i] - mean) * (items[i] - mean);
    double scale = 1.0 / sqrt(square / n + 1e-5);
    for (int32_t i = 0; i < n; i++)
        items[i] = (items[i] - mean) * scale;
}

void embedding_head_apply(struct embedding_head *head, const double *sum, double scale, int32_t n_dimensions,
                          float *vector)
{
    assert(n_dimensions >= 1 && n_dimensions <= head->width);
    double *items = head->items[0], *next = head->items[1], square = 0.0, factor = 1.0;
    for (int32_t i = 0; i < head->n_embd; i++)
        items[i] = sum[i] * scale;
    for (int i = 0; i < head->n_layers; i++) {
        head_layer_apply(&head->layers[i], items, next);
        double *done = items;
        items = next;
        next = done;
    }
    if (head->normed_before_cut && n_dimensions < head->width)
        apply_layer_norm(items, head->width);
    for (int32_t i = 0; i < n_dimensions; i++)
        square += items[i] * items[i];
    if (head->normalize)
        factor = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    for (int32_t i = 0; i < n_dimensions; i++)
        vector[i] = (float)(items[i] * factor);
}
