// Recurrent states in host memory.
//
// Layout [layer][slot], then [layer with n-grams][slot]. A slot with n-grams: rows, oldest first, then tokens, most recent
// first. A slot of a layer: the last n_taps - 1 input rows [n_channels] of the convolution, oldest first; then
// the matrix of each head in blocks of 16 values, [block][key_dim][16]. So a block stays in the L1 cache
// while the tokens of a chunk are processed. Values beyond value_dim are zero.
//
// Thread: engine; several threads may work on different blocks, channels or sequences at a time.
#pragma once

#include "engine/backend.h"

#include <stddef.h>

enum { STATE_BLOCK = 16 }; // values in a block

struct states {
    struct state_shape shape; // n_slots is 0 if no states were created
    int32_t n_blocks;         // blocks of one head
    size_t head_items, slot_items, layer_items;
    size_t memory_bytes;
    float *memory;
    size_t ngram_items; // of one slot in one layer with n-gram embeddings; their layers are after the others
};

// Number of floats of one slot in all layers.
size_t states_all_items(const struct state_shape *shape);
// Allocates zeroed states. Errors: ERROR_OUT_OF_MEMORY; ERROR_LIMIT_EXCEEDED if a size overflows.
enum status states_create(struct states *states, const struct state_shape *shape,
                          struct error *error) WARN_UNUSED;
void states_finish(struct states *states);
void states_copy(struct states *states, int32_t to, int32_t from);
// Addresses of the convolution's rows in a slot, and of one block of a head's matrix.
float *states_rows(const struct states *states, int32_t layer, int32_t slot);
// Rows of n-gram embeddings [n_rows, n_channels], and tokens [n_tokens] after them.
float *states_ngram_rows(const struct states *states, int32_t layer, int32_t slot);
float *states_ngram_tokens(const struct states *states, int32_t layer, int32_t slot);
float *states_block(const struct states *states, int32_t layer, int32_t slot, int32_t head, int32_t block);
