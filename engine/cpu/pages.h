// The key-value cache: pages of positions, in host memory, in huge pages where the system offers them.
//
// [layer][page][key-value head], each: keys, then values of the page's positions.
//   keys    [block of 16 positions][key_dim][16]: one vector load takes one dimension of 16 positions, so
//   that a query's
//           scores with 16 keys come out side by side, without a sum across a register
//   values  [position][value_dim rounded up to 16]; the padding is zero
// Items are float32 or binary16.
//
// Thread: the engine's; rows may be stored by many threads at once.
#pragma once

#include "engine/backend.h"

#include <stddef.h>

enum { PAGE_BLOCK = 16 }; // positions whose keys are interleaved

struct row_kernels;

struct pages {
    struct kv_shape shape;
    int32_t value_width; // value_dim rounded up to PAGE_BLOCK
    size_t item_bytes;
    size_t key_block_bytes, value_block_bytes; // of one head's PAGE_BLOCK positions
    size_t values_offset;                      // in a head's part of a page
    size_t head_bytes, page_bytes, layer_bytes;
    size_t memory_bytes;
    unsigned char *memory;
};

// Errors: ERROR_OUT_OF_MEMORY; ERROR_LIMIT_EXCEEDED when a size overflows. Memory comes zeroed.
enum status pages_create(struct pages *pages, const struct kv_shape *shape, struct error *error) WARN_UNUSED;
void pages_finish(struct pages *pages);

// Where one head's keys and values of positions [block * 16, block * 16 + 16) of a page stand.
const void *pages_keys(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head,
                       int32_t block);
const void *pages_values(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head,
                         int32_t block);

// Writes one position's keys [n_kv_heads, key_dim] and values [n_kv_heads, value_dim].
void pages_store(struct pages *pages, const struct row_kernels *kernels, int32_t layer, int32_t page,
                 int32_t position_in_page, const float *keys, const float *values);
// Reads one position's, widened.
void pages_load(const struct pages *pages, const struct row_kernels *kernels, int32_t layer, int32_t page,
                int32_t position_in_page, float *keys, float *values);
