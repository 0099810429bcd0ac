// What the KV pages hold, for the host: the layout of gpu/kernels.h read by the definition, not for speed.
#include "engine/dequantise.h"
#include "gpu/state.h"

#include <assert.h>
#include <stdlib.h>

// One head's ATTENTION_BLOCK positions, which begin at `keys` and `values` and stand a row apart.
static void read_block(const struct kv_shape *shape, const uint16_t *block, float *keys, float *values)
{
    int32_t key_steps = (shape->key_dim + 31) / 32;
    const uint16_t *block_values = block + (ptrdiff_t)key_steps * 32 * ATTENTION_BLOCK;
    int64_t key_row = (int64_t)shape->n_kv_heads * shape->key_dim, value_row = (int64_t)shape->n_kv_heads * shape->value_dim;
    for (int32_t at = 0; at < ATTENTION_BLOCK; at++) {
        for (int32_t d = 0; d < shape->key_dim; d++) {
            int32_t lane = at % 8 * 4 + d % 32 / 8;
            keys[at * key_row + d] = half_to_float(block[((at / 8 * key_steps + d / 32) * 32 + lane) * 8 + d % 8]);
        }
        for (int32_t d = 0; d < shape->value_dim; d++) {
            int32_t lane = d % 8 * 4 + at / 4;
            values[at * value_row + d] = half_to_float(block_values[((d / 16 * 32 + lane) * 2 + d % 16 / 8) * 4 + at % 4]);
        }
    }
}

static void read_page(const struct kv_shape *shape, const unsigned char *page, uint64_t block_bytes, float *keys,
                      float *values)
{
    int32_t n_blocks = shape->page_positions / ATTENTION_BLOCK;
    for (int32_t head = 0; head < shape->n_kv_heads; head++)
        for (int32_t i = 0; i < n_blocks; i++, page += block_bytes) {
            int64_t first = (int64_t)i * ATTENTION_BLOCK * shape->n_kv_heads + head;
            read_block(shape, (const uint16_t *)(const void *)page, keys + first * shape->key_dim,
                       values + first * shape->value_dim);
        }
}

enum status gpu_kv_read(struct backend *base, int32_t layer, const int32_t *pages, int32_t n_pages, float *keys,
                        float *values, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    const struct kv_shape *shape = &backend->kv;
    assert(!backend->step && layer >= 0 && layer < shape->n_layers);
    uint64_t page_bytes = backend->pages.size_bytes / (uint64_t)shape->n_layers / (uint64_t)shape->n_pages;
    uint64_t n_blocks = (uint64_t)shape->n_kv_heads * (uint64_t)(shape->page_positions / ATTENTION_BLOCK);
    const unsigned char *from =
        (const unsigned char *)backend->pages.memory + (uint64_t)layer * (uint64_t)shape->n_pages * page_bytes;
    if (shape->type != KV_F32 && shape->type != KV_F16)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "KV pages of this type can't be read");
    unsigned char *raw = malloc((size_t)n_pages * page_bytes + 1);
    if (!raw)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for %d KV pages", n_pages);
    for (int32_t i = 0; i < n_pages; i++) {
        assert(pages[i] >= 0 && pages[i] < shape->n_pages);
        device_download_rows(backend->device, raw + (size_t)i * page_bytes, from + (uint64_t)pages[i] * page_bytes, 1,
                             page_bytes, page_bytes);
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
