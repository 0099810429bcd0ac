// Multi-head latent attention (MLA; DeepSeek-V2, arXiv:2405.04434, section 2.1), with absorbed projections.
// Keys and values of all heads are projections of one latent vector c per position; the KV cache holds only c
// and one rotated key. A head's key matrix K is applied to the query instead of the latent:
//     q . (K c) = (K^T q) . c
// Its value matrix V is applied to the attention output, a weighted sum of latents. So attention has one
// key-value head: the key is [rotated dims, latent], the value is the latent.
#include "engine/forward_parts.h"
#include "engine/model/family.h"
#include "engine/file/gguf.h"
#include "engine/file/quantize.h"

#include <stdlib.h>
#include <string.h>

// ---- loading ----

// The GEMM weights of each head: K^T [latent_key_dim inputs, latent_dim outputs] and V [latent_dim inputs,
// latent_value_dim outputs].
struct latent_split {
    const struct tensor *whole;
    int64_t n_heads, latent, key, value;
};

static const char *whole_row(const struct latent_split *split, int64_t head, int64_t row)
{
    uint64_t index = (uint64_t)(head * (split->key + split->value) + row);
    return (const char *)split->whole->data + index * tensor_row_bytes(split->whole);
}

// Transposing K breaks up the blocks along its rows, so quantized items are converted to F16, within half a
// unit in the last place; types of two bytes stay exact.
static void put_keys(const struct latent_split *split, enum tensor_type type, float *row, char *out)
{
    size_t item = tensor_traits(type)->block_bytes;
    for (int64_t head = 0; head < split->n_heads; head++)
        for (int64_t k = 0; k < split->key; k++) {
            const char *from = whole_row(split, head, k);
            bool plain = split->whole->type == type;
            tensor_traits(split->whole->type)->dequantize(from, row, (uint64_t)split->latent);
            for (int64_t c = 0; c < split->latent; c++) {
                char *to = out + (size_t)((head * split->latent + c) * split->key + k) * item;
                uint16_t half = float_to_half(row[c]);
                memcpy(to, plain ? from + (size_t)c * item : (const char *)&half, item);
            }
        }
}

static void put_values(const struct latent_split *split, char *out)
{
    size_t row_bytes = tensor_row_bytes(split->whole);
    for (int64_t head = 0; head < split->n_heads; head++)
        for (int64_t v = 0; v < split->value; v++, out += row_bytes)
            memcpy(out, whole_row(split, head, split->key + v), row_bytes);
}

static struct tensor part_of(const struct tensor *whole, enum tensor_type type, const int64_t dims[3],
                             const void *data)
{
    struct tensor part = {
        .name = whole->name, .type = type, .n_dims = 3, .data = data, .scales = whole->scales};
    part.one_scale = true;
    for (int i = 0; i < 3; i++)
        part.dims[i] = (uint64_t)dims[i];
    part.dims[3] = 1;
    part.size_bytes = tensor_row_bytes(&part) * tensor_n_rows(&part);
    return part;
}

static enum tensor_type key_type_of(const struct tensor *whole)
{
    return tensor_traits(whole->type)->block_items == 1 ? whole->type : TENSOR_F16;
}

uint64_t latent_split_bytes(const struct model *model, struct backend *backend, int32_t index)
{
    const struct model_shape *shape = &model->shape;
    const struct tensor *whole = &model->layers[index].tensors[SLOT_ATTN_KV_B];
    if (!whole->data)
        return 0;
    int64_t keys[3] = {shape->latent.key_dim, shape->latent.dim, shape->attention.n_heads};
    int64_t values[3] = {shape->latent.dim, shape->latent.value_dim, shape->attention.n_heads};
    struct tensor key_part = part_of(whole, key_type_of(whole), keys, NULL);
    struct tensor value_part = part_of(whole, whole->type, values, NULL);
    if (!backend->device.weight_bytes)
        return key_part.size_bytes + value_part.size_bytes;
    return backend->device.weight_bytes(backend, &key_part, WEIGHT_PRODUCT) +
           backend->device.weight_bytes(backend, &value_part, WEIGHT_PRODUCT);
}

static enum status create_part(struct forward *forward, const struct tensor *whole, enum tensor_type type,
                               const int64_t dims[3], const void *data, struct weight **weight,
                               struct error *error)
{
    struct tensor part = part_of(whole, type, dims, data);
    enum status status =
        forward->backend->device.weight_create(forward->backend, &part, WEIGHT_PRODUCT, weight, error);
    return status == STATUS_OK ? status
                               : error_prefix(error, "tensor %.*s", (int)whole->name.size, whole->name.data);
}

enum status latent_split(struct forward *forward, int32_t index, struct error *error)
{
    const struct model_shape *shape = &forward->model->shape;
    const struct tensor *whole = &forward->model->layers[index].tensors[SLOT_ATTN_KV_B];
    struct forward_layer *layer = &forward->layers[index];
    if (!whole->data)
        return STATUS_OK;
    struct latent_split split = {whole, shape->attention.n_heads, shape->latent.dim, shape->latent.key_dim,
                                 shape->latent.value_dim};
    enum tensor_type key_type = key_type_of(whole);
    size_t n_keys = (size_t)(split.n_heads * split.key * split.latent);
    size_t n_value_rows = (size_t)(split.n_heads * split.value);
    char *keys = malloc(n_keys * tensor_traits(key_type)->block_bytes);
    char *values = malloc(n_value_rows * tensor_row_bytes(whole));
    float *row = malloc((size_t)split.latent * sizeof *row);
    enum status status = STATUS_OK;
    if (!keys || !values || !row)
        status =
            error_memory(error, STATUS_REFUSE, "the parts of %.*s", (int)whole->name.size, whole->name.data);
    if (status == STATUS_OK)
        status = gguf_load(forward->model->gguf, whole, error);
    if (status == STATUS_OK) {
        put_keys(&split, key_type, row, keys);
        put_values(&split, values);
        gguf_release(forward->model->gguf, whole);
        status = create_part(forward, whole, key_type, (int64_t[3]){split.key, split.latent, split.n_heads},
                             keys, &layer->weights[SLOT_ATTN_K_B], error);
    }
    if (status == STATUS_OK)
        status =
            create_part(forward, whole, whole->type, (int64_t[3]){split.latent, split.value, split.n_heads},
                        values, &layer->weights[SLOT_ATTN_V_B], error);
    free(keys);
    free(values);
    free(row);
    return status;
}

// ---- a step ----

// The authors' code gives these norms no epsilon of the model's, so that they have their class's.
static const float latent_epsilon = 1e-6f;

static void normalize_latent(const struct pass *pass, struct matrix *x, const struct weight *weight)
{
    struct norm_parameters parameters = {
        .kind = NORM_RMS, .weight = weight, .epsilon = latent_epsilon, .n_groups = 1};
    pass->operations->norm(pass->backend, x, x, pass->n_rows, &parameters);
}

void latent_project(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model_shape *shape = pass->shape;
    struct weight *const *weights = layer->weights;
    int32_t n_rope = shape->latent.rope_dim, key = shape->latent.key_dim, n_heads = shape->attention.n_heads;
    bool compressed = weights[SLOT_ATTN_Q_A] != NULL;
    struct product products[] = {{m->v, weights[SLOT_ATTN_KV_A_LATENT], NULL},
                                 {m->latent.rope, weights[SLOT_ATTN_KV_A_ROPE], NULL},
                                 {compressed ? m->latent.query : m->latent.head_queries,
                                  compressed ? weights[SLOT_ATTN_Q_A] : weights[SLOT_ATTN_Q], NULL},
                                 {m->index.key, weights[SLOT_INDEX_KEY], NULL}};
    bool indexed = weights[SLOT_INDEX_KEY] != NULL;
    pass->operations->products(pass->backend, products, indexed ? 4 : 3, input, pass->n_rows);
    if (compressed) {
        struct product queries = {m->latent.head_queries, weights[SLOT_ATTN_Q_B], NULL};
        normalize_latent(pass, m->latent.query, weights[SLOT_ATTN_Q_A_NORM]);
        pass->operations->products(pass->backend, &queries, 1, m->latent.query, pass->n_rows);
    }
    if (indexed)
        index_select(pass, index, m->latent.query, input);
    normalize_latent(pass, m->v, weights[SLOT_ATTN_KV_A_NORM]);
    struct head_columns none = {0, 0}, latent = {n_rope, shape->attention.key_dim};
    struct head_columns plain = {0, key + n_rope}, rotated = {key, key + n_rope},
                        first = {0, shape->attention.key_dim};
    pass->operations->copy_columns(pass->backend, m->k, none, m->latent.rope, none, 1, n_rope, pass->n_rows);
    pass->operations->copy_columns(pass->backend, m->k, latent, m->v, none, 1, shape->latent.dim,
                                   pass->n_rows);
    pass->operations->copy_columns(pass->backend, m->q, first, m->latent.head_queries, rotated, n_heads,
                                   n_rope, pass->n_rows);
    pass->operations->head_products(pass->backend, m->q, latent, weights[SLOT_ATTN_K_B],
                                    m->latent.head_queries, plain, pass->n_rows);
}

struct matrix *latent_values(const struct pass *pass, const struct forward_layer *layer)
{
    const struct model_shape *shape = pass->shape;
    struct matrix *values = pass->forward->matrices.latent.head_values;
    pass->operations->head_products(pass->backend, values, (struct head_columns){0, shape->latent.value_dim},
                                    layer->weights[SLOT_ATTN_V_B], pass->heads,
                                    (struct head_columns){0, shape->latent.dim}, pass->n_rows);
    return values;
}
