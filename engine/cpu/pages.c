#include "engine/cpu/pages.h"

#include "engine/cpu/kernels.h"
#include "engine/cpu/product/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool multiply_size(size_t *product, size_t factor)
{
    return !__builtin_mul_overflow(*product, factor, product);
}

static const size_t item_sizes[PAGE_ITEM_KINDS] = {sizeof(float), sizeof(int16_t), sizeof(int8_t)};

static enum page_items items_of(enum kv_type type)
{
    return type == KV_F16 ? PAGE_I16 : type == KV_Q8_0 ? PAGE_I8 : PAGE_F32;
}

enum status pages_create(struct pages *pages, const struct kv_shape *shape, struct error *error)
{
    assert(shape->n_layers > 0 && shape->n_kv_heads > 0 && shape->key_dim > 0 && shape->value_dim >= 0);
    assert(shape->n_pages > 0 && shape->page_positions >= PAGE_BLOCK);
    assert(ATTENTION_SEGMENT % shape->page_positions == 0);
    *pages = (struct pages){.shape = *shape};
    pages->value_width = (shape->value_dim + PAGE_BLOCK - 1) / PAGE_BLOCK * PAGE_BLOCK;
    pages->items = items_of(shape->type);
    bool integers = pages->items != PAGE_F32;
    if (integers && (shape->key_dim > I16_DIMS_MAX || shape->value_dim > I16_DIMS_MAX))
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "KV pages of integers: heads of %d and %d dimensions, at most %d", shape->key_dim,
                         shape->value_dim, I16_DIMS_MAX);
    size_t item_bytes = item_sizes[pages->items];
    size_t scales_bytes = integers ? PAGE_SCALES_BYTES : 0;
    size_t key_items = (size_t)(integers ? shape->key_dim + shape->key_dim % 2 : shape->key_dim);
    pages->key_block_bytes = PAGE_BLOCK * key_items * item_bytes + scales_bytes;
    pages->value_block_bytes = PAGE_BLOCK * (size_t)pages->value_width * item_bytes + scales_bytes;
    size_t n_blocks = (size_t)shape->page_positions / PAGE_BLOCK;
    pages->values_offset = n_blocks * pages->key_block_bytes;
    pages->head_bytes = n_blocks * (pages->key_block_bytes + pages->value_block_bytes);
    pages->page_bytes = pages->layer_bytes = pages->head_bytes;
    bool fits = multiply_size(&pages->page_bytes, (size_t)shape->n_kv_heads);
    pages->layer_bytes = pages->page_bytes;
    fits = fits && multiply_size(&pages->layer_bytes, (size_t)shape->n_pages);
    pages->memory_bytes = pages->layer_bytes;
    fits = fits && multiply_size(&pages->memory_bytes, (size_t)shape->n_layers);
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

// Returns the scales of a block's positions.
static float *scales_of(unsigned char *block, size_t block_bytes)
{
    return (float *)(void *)(block + block_bytes) - PAGE_BLOCK;
}

static unsigned char *key_block(const struct pages *pages, unsigned char *part, int32_t position)
{
    return part + (size_t)(position / PAGE_BLOCK) * pages->key_block_bytes;
}

static unsigned char *value_block(const struct pages *pages, unsigned char *part, int32_t position)
{
    return part + pages->values_offset + (size_t)(position / PAGE_BLOCK) * pages->value_block_bytes;
}

// Returns the index of item d of a position, in a block of keys and in a block of values.
static size_t key_place(int32_t position, int32_t d)
{
    return ((size_t)(d / 2) * PAGE_BLOCK + (size_t)(position % PAGE_BLOCK)) * 2 + (size_t)(d % 2);
}

static size_t value_place(int32_t position, int32_t d)
{
    int32_t pair = position % PAGE_BLOCK / 2, vector = d / PAGE_BLOCK * (PAGE_BLOCK / 2) + pair;
    return ((size_t)vector * PAGE_BLOCK + (size_t)(d % PAGE_BLOCK)) * 2 + (size_t)(position % 2);
}

static void integer_set(const struct pages *pages, unsigned char *block, size_t place, int16_t item)
{
    if (pages->items == PAGE_I8)
        ((int8_t *)block)[place] = (int8_t)item;
    else
        ((int16_t *)(void *)block)[place] = item;
}

static float integer_at(const struct pages *pages, const unsigned char *block, size_t place)
{
    return pages->items == PAGE_I8 ? (float)((const int8_t *)block)[place]
                                   : (float)((const int16_t *)(const void *)block)[place];
}

static void store_integers(const struct pages *pages, const struct row_kernels *kernels, unsigned char *part,
                           int32_t position, const float *keys, const float *values)
{
    int16_t items[I16_DIMS_MAX];
    bool bytes = pages->items == PAGE_I8;
    unsigned char *block = key_block(pages, part, position);
    scales_of(block, pages->key_block_bytes)[position % PAGE_BLOCK] =
        kernels->quantize_i16(items, keys, pages->shape.key_dim, bytes ? I8_LARGEST : I16_LARGEST, I16_NORM);
    for (int32_t d = 0; d < pages->shape.key_dim; d++)
        integer_set(pages, block, key_place(position, d), items[d]);
    block = value_block(pages, part, position);
    scales_of(block, pages->value_block_bytes)[position % PAGE_BLOCK] =
        kernels->quantize_i16(items, values, pages->shape.value_dim, bytes ? I8_LARGEST : I16_VALUE_MAX,
                              INFINITY);
    for (int32_t d = 0; d < pages->shape.value_dim; d++)
        integer_set(pages, block, value_place(position, d), items[d]);
}

enum { ROUNDED_DIMS = 64 }; // items rounded at a time

// Stores out[i * stride] = x[i]; for KV_F32_OF_F16 rounds to binary16.
static void store_floats(const struct pages *pages, const struct row_kernels *kernels, float *out,
                         size_t stride, const float *x, int32_t n)
{
    for (int32_t first = 0; first < n; first += ROUNDED_DIMS) {
        uint16_t halves[ROUNDED_DIMS];
        float items[ROUNDED_DIMS];
        int32_t count = n - first < ROUNDED_DIMS ? n - first : ROUNDED_DIMS;
        memcpy(items, x + first, (size_t)count * sizeof *items);
        if (pages->shape.type == KV_F32_OF_F16) {
            kernels->convert_f16(halves, items, count);
            kernels->widen_f16(items, halves, count);
        }
        for (int32_t i = 0; i < count; i++)
            out[(size_t)(first + i) * stride] = items[i];
    }
}

static void store_wide(const struct pages *pages, const struct row_kernels *kernels, unsigned char *part,
                       int32_t position, const float *keys, const float *values)
{
    float *key = (float *)(void *)key_block(pages, part, position) + position % PAGE_BLOCK;
    float *value =
        (float *)(void *)value_block(pages, part, position) + position % PAGE_BLOCK * pages->value_width;
    store_floats(pages, kernels, key, PAGE_BLOCK, keys, pages->shape.key_dim);
    store_floats(pages, kernels, value, 1, values, pages->shape.value_dim);
}

void pages_store(struct pages *pages, const struct row_kernels *kernels, int32_t layer, int32_t page,
                 int32_t position_in_page, const float *keys, const float *values)
{
    const struct kv_shape *shape = &pages->shape;
    assert(position_in_page >= 0 && position_in_page < shape->page_positions);
    for (int32_t head = 0; head < shape->n_kv_heads; head++) {
        unsigned char *part = head_part(pages, layer, page, head);
        if (pages->items != PAGE_F32)
            store_integers(pages, kernels, part, position_in_page, keys, values);
        else
            store_wide(pages, kernels, part, position_in_page, keys, values);
        keys += shape->key_dim;
        values += shape->value_dim;
    }
}

void pages_copy(struct pages *pages, int32_t layer, int32_t to, int32_t from)
{
    memcpy(head_part(pages, layer, to, 0), head_part(pages, layer, from, 0), pages->page_bytes);
}

static void load_integers(const struct pages *pages, unsigned char *part, int32_t position, float *keys,
                          float *values)
{
    unsigned char *block = key_block(pages, part, position);
    float scale = scales_of(block, pages->key_block_bytes)[position % PAGE_BLOCK];
    for (int32_t d = 0; d < pages->shape.key_dim; d++)
        keys[d] = integer_at(pages, block, key_place(position, d)) * scale;
    block = value_block(pages, part, position);
    scale = scales_of(block, pages->value_block_bytes)[position % PAGE_BLOCK];
    for (int32_t d = 0; d < pages->shape.value_dim; d++)
        values[d] = integer_at(pages, block, value_place(position, d)) * scale;
}

static void load_wide(const struct pages *pages, unsigned char *part, int32_t position, float *keys,
                      float *values)
{
    const float *key = (const float *)(const void *)key_block(pages, part, position) + position % PAGE_BLOCK;
    const float *value = (const float *)(const void *)value_block(pages, part, position) +
                         position % PAGE_BLOCK * pages->value_width;
    for (int32_t d = 0; d < pages->shape.key_dim; d++)
        keys[d] = key[(size_t)d * PAGE_BLOCK];
    memcpy(values, value, (size_t)pages->shape.value_dim * sizeof *values);
}

void pages_load(const struct pages *pages, int32_t layer, int32_t page, int32_t position_in_page, float *keys,
                float *values)
{
    const struct kv_shape *shape = &pages->shape;
    assert(position_in_page >= 0 && position_in_page < shape->page_positions);
    for (int32_t head = 0; head < shape->n_kv_heads; head++) {
        unsigned char *part = head_part(pages, layer, page, head);
        if (pages->items != PAGE_F32)
            load_integers(pages, part, position_in_page, keys, values);
        else
            load_wide(pages, part, position_in_page, keys, values);
        keys += shape->key_dim;
        values += shape->value_dim;
    }
}

static void gather_integers(const struct pages *from, unsigned char *part, int32_t position,
                            const struct pages *to, unsigned char *to_part, int32_t number)
{
    unsigned char *block = key_block(from, part, position), *to_block = key_block(to, to_part, number);
    for (int32_t d = 0; d < from->shape.key_dim; d++)
        integer_set(to, to_block, key_place(number, d),
                    (int16_t)integer_at(from, block, key_place(position, d)));
    scales_of(to_block, to->key_block_bytes)[number % PAGE_BLOCK] =
        scales_of(block, from->key_block_bytes)[position % PAGE_BLOCK];
    block = value_block(from, part, position), to_block = value_block(to, to_part, number);
    for (int32_t d = 0; d < from->shape.value_dim; d++)
        integer_set(to, to_block, value_place(number, d),
                    (int16_t)integer_at(from, block, value_place(position, d)));
    scales_of(to_block, to->value_block_bytes)[number % PAGE_BLOCK] =
        scales_of(block, from->value_block_bytes)[position % PAGE_BLOCK];
}

static void gather_wide(const struct pages *from, unsigned char *part, int32_t position,
                        const struct pages *to, unsigned char *to_part, int32_t number)
{
    const float *key = (const float *)(const void *)key_block(from, part, position) + position % PAGE_BLOCK;
    float *to_key = (float *)(void *)key_block(to, to_part, number) + number % PAGE_BLOCK;
    for (int32_t d = 0; d < from->shape.key_dim; d++)
        to_key[(size_t)d * PAGE_BLOCK] = key[(size_t)d * PAGE_BLOCK];
    const float *value = (const float *)(const void *)value_block(from, part, position) +
                         position % PAGE_BLOCK * from->value_width;
    float *to_value =
        (float *)(void *)value_block(to, to_part, number) + number % PAGE_BLOCK * to->value_width;
    memcpy(to_value, value, (size_t)from->value_width * sizeof *value);
}

// Whether the positions are a whole block, in order.
static bool is_block(const int32_t *positions)
{
    bool is = positions[0] % PAGE_BLOCK == 0;
    for (int32_t i = 1; i < PAGE_BLOCK && is; i++)
        is = positions[i] == positions[0] + i;
    return is;
}

void pages_gather(const struct pages *from, int32_t layer, int32_t kv_head, const int32_t *list,
                  const int32_t *positions, int32_t n, const struct pages *to)
{
    int32_t page_positions = from->shape.page_positions;
    for (int32_t i = 0; i < n; i++) {
        int32_t position = positions[i] % page_positions, number = i % page_positions;
        unsigned char *part = head_part(from, layer, list[positions[i] / page_positions], kv_head),
                      *to_part = head_part(to, 0, i / page_positions, kv_head);
        if (i % PAGE_BLOCK == 0 && n - i >= PAGE_BLOCK && is_block(positions + i)) {
            memcpy(key_block(to, to_part, number), key_block(from, part, position), from->key_block_bytes);
            memcpy(value_block(to, to_part, number), value_block(from, part, position),
                   from->value_block_bytes);
            i += PAGE_BLOCK - 1;
        } else if (from->items != PAGE_F32) {
            gather_integers(from, part, position, to, to_part, number);
        } else {
            gather_wide(from, part, position, to, to_part, number);
        }
    }
}
