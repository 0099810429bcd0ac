// T5's biases of scores, by the distance between two tokens, in buckets that grow with the distance (Raffel
// et al. 2020, arXiv:1910.10683, section 2.1; the buckets as in transformers' modeling_mpnet.py).
#include "engine/forward_parts.h"
#include "engine/file/gguf.h"
#include "schemas/base/elementary.h"

#include <stdlib.h>
#include <string.h>

// Returns the bucket of d, the key's position minus the query's. Half of the buckets are for later keys. In
// each half, one half of the buckets has a bucket for each distance.
static int32_t bucket_of(int32_t d, int32_t n_buckets, int32_t distance_max)
{
    int32_t n = n_buckets / 2, distance = d < 0 ? -d : d, first = d > 0 ? n : 0, n_exact = n / 2;
    if (distance < n_exact)
        return first + distance;
    double ratio =
        elementary_log((double)distance / n_exact) / elementary_log((double)distance_max / n_exact);
    int32_t bucket = n_exact + (int32_t)(ratio * (n - n_exact));
    return first + (bucket < n ? bucket : n - 1);
}

static int32_t n_distances(const struct model_shape *shape)
{
    return 2 * relative_bias_center(shape) + 1;
}

uint64_t relative_bias_bytes(const struct model *model)
{
    if (!model->relative_bias.data)
        return 0;
    return (uint64_t)n_distances(&model->shape) * (uint64_t)model->shape.attention.n_heads * sizeof(float);
}

enum status relative_bias_create(struct forward *forward, struct error *error)
{
    const struct tensor *buckets = &forward->model->relative_bias;
    const struct model_shape *shape = &forward->model->shape;
    if (!buckets->data)
        return STATUS_OK;
    int32_t n = n_distances(shape), n_heads = shape->attention.n_heads, center = relative_bias_center(shape);
    float *items = malloc(relative_bias_bytes(forward->model)), *row = malloc((size_t)n_heads * sizeof *row);
    enum status status = STATUS_OK;
    if (!items || !row)
        status = error_memory(error, STATUS_REFUSE, "biases of %d distances", n);
    if (status == STATUS_OK)
        status = gguf_load(forward->model->gguf, buckets, error);
    for (int32_t i = 0; status == STATUS_OK && i < n; i++) {
        int32_t bucket = bucket_of(i - center, (int32_t)buckets->dims[1], shape->relative_distance_max);
        tensor_traits(buckets->type)
            ->dequantize((const char *)buckets->data + (uint64_t)bucket * tensor_row_bytes(buckets), row,
                         (uint64_t)n_heads);
        for (int32_t head = 0; head < n_heads; head++)
            items[(int64_t)head * n + i] = row[head];
    }
    struct tensor expanded = {.name = buckets->name,
                              .type = TENSOR_F32,
                              .n_dims = 2,
                              .dims = {(uint64_t)n, (uint64_t)n_heads, 1, 1},
                              .data = items,
                              .size_bytes = relative_bias_bytes(forward->model)};
    if (status == STATUS_OK)
        status = forward->backend->device.weight_create(forward->backend, &expanded, WEIGHT_VECTOR,
                                                        &forward->relative_bias, error);
    free(items);
    free(row);
    return status;
}
