// Reads KV pages on the host, in the layout of gpu/kernels/kernels_attention.h; not optimized.
#include "engine/file/dequantize.h"
#include "engine/file/quantize.h"
#include "gpu/state.h"

#include <assert.h>
#include <stdlib.h>

// Offsets of the parts of one head's block.
struct block_parts {
    bool bytes; // true: 8-bit integers with scales; false: binary16
    const unsigned char *keys, *values;
    const uint16_t *key_scales, *value_scales;
};

static struct block_parts parts_of(const struct attention_pages *shape, const unsigned char *block)
{
    ptrdiff_t key_steps = (shape->key_dim + 31) / 32, value_blocks = (shape->value_dim + 15) / 16;
    bool bytes = shape->type == KV_Q8_0;
    ptrdiff_t key_bytes = key_steps * (bytes ? 512 : 1024), key_scale_bytes = bytes ? key_steps * 32 : 0;
    const unsigned char *values = block + key_bytes + key_scale_bytes;
    return (struct block_parts){.bytes = bytes,
                                .keys = block,
                                .values = values,
                                .key_scales = (const uint16_t *)(const void *)(block + key_bytes),
                                .value_scales =
                                    (const uint16_t *)(const void *)(values + value_blocks * 256)};
}

static float item_at(const struct block_parts *parts, const unsigned char *items, int32_t place,
                     const uint16_t *scale)
{
    if (!parts->bytes)
        return half_to_float(((const uint16_t *)(const void *)items)[place]);
    return half_to_float(float_to_half((float)(items[place] - 128) * half_to_float(*scale)));
}

// Reads ATTENTION_BLOCK positions of one head. A row of `keys` and `values` holds all heads.
static void read_block(const struct attention_pages *shape, const unsigned char *block, float *keys,
                       float *values)
{
    int32_t key_steps = (shape->key_dim + 31) / 32;
    struct block_parts parts = parts_of(shape, block);
    int64_t key_row = (int64_t)shape->n_kv_heads * shape->key_dim,
            value_row = (int64_t)shape->n_kv_heads * shape->value_dim;
    for (int32_t at = 0; at < ATTENTION_BLOCK; at++) {
        for (int32_t d = 0; d < shape->key_dim; d++) {
            int32_t lane = at % 8 * 4 + d % 32 / 8;
            int32_t group = at / 8 * key_steps + d / 32;
            keys[at * key_row + d] = item_at(&parts, parts.keys, (group * 32 + lane) * 8 + d % 8,
                                             parts.key_scales + group * 8 + at % 8);
        }
        for (int32_t d = 0; d < shape->value_dim; d++) {
            int32_t lane = d % 8 * 4 + at / 4;
            values[at * value_row + d] =
                item_at(&parts, parts.values, ((d / 16 * 32 + lane) * 2 + d % 16 / 8) * 4 + at % 4,
                        parts.value_scales + d / 32 * ATTENTION_BLOCK + at);
        }
    }
}

static void read_page(const struct attention_pages *shape, const unsigned char *page, uint64_t block_bytes,
                      float *keys, float *values)
{
    int32_t n_blocks = shape->page_positions / ATTENTION_BLOCK;
    for (int32_t head = 0; head < shape->n_kv_heads; head++)
        for (int32_t i = 0; i < n_blocks; i++, page += block_bytes) {
            int64_t first = (int64_t)i * ATTENTION_BLOCK * shape->n_kv_heads + head;
            read_block(shape, page, keys + first * shape->key_dim, values + first * shape->value_dim);
        }
}

enum status gpu_kv_read(struct backend *base, int32_t layer, const int32_t *pages, int32_t n_pages,
                        float *keys, float *values, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    const struct layer_pages own = gpu_layer_pages(backend, layer);
    const struct attention_pages *shape = &own.pages;
    assert(!backend->current.step && shape->n_kv_heads > 0);
    device_use(backend->device);
    uint64_t n_blocks = (uint64_t)shape->n_kv_heads * (uint64_t)(shape->page_positions / ATTENTION_BLOCK);
    uint64_t page_bytes = n_blocks * attention_block_bytes(shape);
    const unsigned char *from =
        (const unsigned char *)shape->memory + (uint64_t)own.layer * (uint64_t)shape->n_pages * page_bytes;
    unsigned char *raw = malloc((size_t)n_pages * page_bytes + 1);
    if (!raw)
        return error_memory(error, STATUS_REFUSE, "%d KV pages", n_pages);
    for (int32_t i = 0; i < n_pages; i++) {
        assert(pages[i] >= 0 && pages[i] < shape->n_pages);
        device_download_rows(backend->device, raw + (size_t)i * page_bytes,
                             from + (uint64_t)pages[i] * page_bytes, 1, page_bytes, page_bytes);
    }
    enum status status = device_wait(backend->device, error);
    int64_t positions = shape->page_positions;
    for (int32_t i = 0; i < n_pages && status == STATUS_OK; i++)
        read_page(shape, raw + (size_t)i * page_bytes, page_bytes / n_blocks,
                  keys + i * positions * shape->n_kv_heads * shape->key_dim,
                  values + i * positions * shape->n_kv_heads * shape->value_dim);
    free(raw);
    return status;
}
