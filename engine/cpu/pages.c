#include "engine/cpu/pages.h"

#include "engine/cpu/kernels.h"
#include "engine/cpu/memory.h"

#include <assert.h>
#include <string.h>

static bool multiply(size_t *product, size_t factor)
{
    return !__builtin_mul_overflow(*product, factor, product);
}

enum status pages_create(struct pages *pages, const struct kv_shape *shape, struct error *error)
{
    assert(shape->n_layers > 0 && shape->n_kv_heads > 0 && shape->key_dim > 0 && shape->value_dim > 0);
    assert(shape->n_pages > 0 && shape->page_positions >= PAGE_BLOCK);
    assert(ATTENTION_SEGMENT % shape->page_positions == 0);
    *pages = (struct pages){.shape = *shape};
    if (shape->type != KV_F32 && shape->type != KV_F16)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "KV pages in q8_0: the CPU backend keeps f16 or f32, expected --kv-type f16");
    pages->value_width = (shape->value_dim + PAGE_BLOCK - 1) / PAGE_BLOCK * PAGE_BLOCK;
    pages->item_bytes = shape->type == KV_F16 ? 2 : 4;
    pages->key_block_bytes = PAGE_BLOCK * (size_t)shape->key_dim * pages->item_bytes;
    pages->value_block_bytes = PAGE_BLOCK * (size_t)pages->value_width * pages->item_bytes;
    size_t n_blocks = (size_t)shape->page_positions / PAGE_BLOCK;
    pages->values_offset = n_blocks * pages->key_block_bytes;
    pages->head_bytes = n_blocks * (pages->key_block_bytes + pages->value_block_bytes);
    pages->page_bytes = pages->layer_bytes = pages->head_bytes;
    bool fits = multiply(&pages->page_bytes, (size_t)shape->n_kv_heads);
    pages->layer_bytes = pages->page_bytes;
    fits = fits && multiply(&pages->layer_bytes, (size_t)shape->n_pages);
    pages->memory_bytes = pages->layer_bytes;
    fits = fits && multiply(&pages->memory_bytes, (size_t)shape->n_layers);
    if (!fits)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "key-value cache: %d layers of %d pages of %d positions: the size overflows",
                         shape->n_layers, shape->n_pages, shape->page_positions);
    pages->memory = memory_map(pages->memory_bytes);
    if (!pages->memory)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "key-value cache: no memory for %zu bytes", pages->memory_bytes);
    return STATUS_OK;
}

void pages_finish(struct pages *pages)
{
    memory_unmap(pages->memory, pages->memory_bytes);
    *pages = (struct pages){0};
}

static unsigned char *head_part(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head)
{
    assert(layer >= 0 && layer < pages->shape.n_layers && page >= 0 && page < pages->shape.n_pages);
    return pages->memory + (size_t)layer * pages->layer_bytes + (size_t)page * pages->page_bytes +
           (size_t)kv_head * pages->head_bytes;
}

const void *pages_keys(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head, int32_t block)
{
    return head_part(pages, layer, page, kv_head) + (size_t)block * pages->key_block_bytes;
}

const void *pages_values(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head,
                         int32_t block)
{
    return head_part(pages, layer, page, kv_head) + pages->values_offset +
           (size_t)block * pages->value_block_bytes;
}

enum { STORE_DIMS = 64 }; // narrowed at a time

static void store_f16(const struct pages *pages, const struct row_kernels *kernels, unsigned char *part,
                      int32_t position, const float *keys, const float *values)
{
    int32_t key_dim = pages->shape.key_dim;
    uint16_t *key = (uint16_t *)(part + (size_t)(position / PAGE_BLOCK) * pages->key_block_bytes);
    key += position % PAGE_BLOCK;
    for (int32_t first = 0; first < key_dim; first += STORE_DIMS) {
        uint16_t narrow[STORE_DIMS];
        int32_t count = key_dim - first < STORE_DIMS ? key_dim - first : STORE_DIMS;
        kernels->narrow_f16(narrow, keys + first, count);
        for (int32_t i = 0; i < count; i++)
            key[(size_t)(first + i) * PAGE_BLOCK] = narrow[i];
    }
    uint16_t *value =
        (uint16_t *)(part + pages->values_offset) + (size_t)position * (size_t)pages->value_width;
    kernels->narrow_f16(value, values, pages->shape.value_dim);
}

static void store_f32(const struct pages *pages, unsigned char *part, int32_t position, const float *keys,
                      const float *values)
{
    float *key = (float *)(part + (size_t)(position / PAGE_BLOCK) * pages->key_block_bytes);
    key += position % PAGE_BLOCK;
    for (int32_t i = 0; i < pages->shape.key_dim; i++)
        key[(size_t)i * PAGE_BLOCK] = keys[i];
    float *value = (float *)(part + pages->values_offset) + (size_t)position * (size_t)pages->value_width;
    memcpy(value, values, (size_t)pages->shape.value_dim * sizeof *values);
}

void pages_store(struct pages *pages, const struct row_kernels *kernels, int32_t layer, int32_t page,
                 int32_t position_in_page, const float *keys, const float *values)
{
    const struct kv_shape *shape = &pages->shape;
    assert(position_in_page >= 0 && position_in_page < shape->page_positions);
    for (int32_t head = 0; head < shape->n_kv_heads; head++) {
        unsigned char *part = head_part(pages, layer, page, head);
        if (shape->type == KV_F16)
            store_f16(pages, kernels, part, position_in_page, keys, values);
        else
            store_f32(pages, part, position_in_page, keys, values);
        keys += shape->key_dim;
        values += shape->value_dim;
    }
}

static void load_f16(const struct pages *pages, const struct row_kernels *kernels, const unsigned char *part,
                     int32_t position, float *keys, float *values)
{
    const uint16_t *key = (const uint16_t *)(part + (size_t)(position / PAGE_BLOCK) * pages->key_block_bytes);
    key += position % PAGE_BLOCK;
    for (int32_t i = 0; i < pages->shape.key_dim; i++)
        kernels->widen_f16(keys + i, key + (size_t)i * PAGE_BLOCK, 1);
    const uint16_t *value =
        (const uint16_t *)(part + pages->values_offset) + (size_t)position * (size_t)pages->value_width;
    kernels->widen_f16(values, value, pages->shape.value_dim);
}

static void load_f32(const struct pages *pages, const unsigned char *part, int32_t position, float *keys, float *values)
{
    const float *key = (const float *)(part + (size_t)(position / PAGE_BLOCK) * pages->key_block_bytes);
    key += position % PAGE_BLOCK;
    for (int32_t i = 0; i < pages->shape.key_dim; i++)
        keys[i] = key[(size_t)i * PAGE_BLOCK];
    const float *value =
        (const float *)(part + pages->values_offset) + (size_t)position * (size_t)pages->value_width;
    memcpy(values, value, (size_t)pages->shape.value_dim * sizeof *values);
}

void pages_load(const struct pages *pages, const struct row_kernels *kernels, int32_t layer, int32_t page,
                int32_t position_in_page, float *keys, float *values)
{
    const struct kv_shape *shape = &pages->shape;
    assert(position_in_page >= 0 && position_in_page < shape->page_positions);
    for (int32_t head = 0; head < shape->n_kv_heads; head++) {
        const unsigned char *part = head_part(pages, layer, page, head);
        if (shape->type == KV_F16)
            load_f16(pages, kernels, part, position_in_page, keys, values);
        else
            load_f32(pages, part, position_in_page, keys, values);
        keys += shape->key_dim;
        values += shape->value_dim;
    }
}
