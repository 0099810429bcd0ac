// The paged KV cache in host memory, with huge pages if the system offers them.
//
// [layer][page][key-value head]: first all blocks of keys of the page, then all blocks of values. A block has
// 16 positions. In float32 (KV_F32, and KV_F32_OF_F16, which is rounded to binary16 first):
//   keys    [key_dim][16]: one vector load reads one dimension of 16 positions, so that the scores of a query
//           with 16 keys are in one register, without a horizontal sum
//   values  [16][value_dim rounded up to 16]; the padding is zero
// In 16 or 8 bits (KV_F16, KV_Q8_0), as integers with one scale per position; item = integer * scale:
//   keys    [pair of dimensions][16][2] int16 or int8, [16] float32
//   values  [16 dimensions][pair of positions][16][2] int16 or int8, [16] float32
// Processors multiply and add pairs of int16, twice as many items per cycle as float32. Binary16 has the same
// size, but needs a conversion and is less exact: 11 bits of each item, against about 13 bits relative to the
// largest item. Bytes are sign-extended to int16 in registers, so that all products are products of int16.
//
// Thread: engine; several threads may store rows at a time.
#pragma once

#include "engine/backend.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    PAGE_BLOCK = 16,                    // positions whose keys are interleaved
    I16_DIMS_MAX = 4096,                // limit for a head of integers: bounds the rounding error in I16_NORM
    PAGE_SCALES_BYTES = PAGE_BLOCK * 4, // the scales at the end of a block of integers
};

// Limits of the integers. For queries and keys the 2-norm is at most 46,300 plus rounding (at most
// sqrt(I16_DIMS_MAX) / 2), so that their dot product is below 2^31. attention.h has the limits of values.
#define I16_LARGEST   32767.0f
#define I16_NORM      46300.0f
#define I16_VALUE_MAX 16383.0f
#define I8_LARGEST    127.0f

struct row_kernels;

enum page_items { PAGE_F32, PAGE_I16, PAGE_I8, PAGE_ITEM_KINDS };

struct pages {
    struct kv_shape shape;
    int32_t value_width; // value_dim rounded up to PAGE_BLOCK
    enum page_items items;
    size_t key_block_bytes, value_block_bytes; // size of one head's block of PAGE_BLOCK positions
    size_t values_offset;                      // offset of the values in a head's part of a page
    size_t head_bytes, page_bytes, layer_bytes;
    size_t memory_bytes;
    unsigned char *memory;
};

// Allocates zeroed pages. Errors: ERROR_OUT_OF_MEMORY; ERROR_LIMIT_EXCEEDED if a size overflows, or if a head
// of integers has more than I16_DIMS_MAX dimensions.
enum status pages_create(struct pages *pages, const struct kv_shape *shape, struct error *error) WARN_UNUSED;
void pages_finish(struct pages *pages);

// Addresses of one head's keys and values at positions [block * 16, block * 16 + 16) of a page.
const void *pages_keys(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head,
                       int32_t block);
const void *pages_values(const struct pages *pages, int32_t layer, int32_t page, int32_t kv_head,
                         int32_t block);

// Writes one position's keys [n_kv_heads, key_dim] and values [n_kv_heads, value_dim].
void pages_store(struct pages *pages, const struct row_kernels *kernels, int32_t layer, int32_t page,
                 int32_t position_in_page, const float *keys, const float *values);
// Copies one layer of a page.
void pages_copy(struct pages *pages, int32_t layer, int32_t to, int32_t from);
// Copies a head's keys and values of n positions of a sequence, whose pages are `list`, to the positions 0, 1, ... of
// layer 0 of `to`, which has the same shape otherwise.
void pages_gather(const struct pages *from, int32_t layer, int32_t kv_head, const int32_t *list,
                  const int32_t *positions, int32_t n, const struct pages *to);
// Reads one position's keys and values.
void pages_load(const struct pages *pages, int32_t layer, int32_t page, int32_t position_in_page, float *keys,
                float *values);
