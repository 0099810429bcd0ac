// Recurrent states in host memory.
//
// [layer][slot]: the convolution's last n_taps - 1 input rows [n_channels], oldest first; then each head's
// matrix in blocks of 16 values: [block][key_dim][16], so that a block stays in the L1 cache while it goes
// through the tokens of a chunk. Values beyond value_dim are zero.
//
// Thread: engine; several threads may work on different blocks, channels or sequences at a time.
#pragma once

#include "engine/backend.h"

#include <stddef.h>

enum { STATE_BLOCK = 16 }; // values of a block

struct states {
    struct state_shape shape; // n_slots 0: none were created
    int32_t n_blocks;         // of one head
    size_t head_items, slot_items, layer_items;
    size_t memory_bytes;
    float *memory;
};

// Floats of one slot in one layer.
size_t states_slot_items(const struct state_shape *shape);
// The memory is zeroed. Errors: ERROR_OUT_OF_MEMORY; ERROR_LIMIT_EXCEEDED if a size overflows.
enum status states_create(struct states *states, const struct state_shape *shape,
                          struct error *error) WARN_UNUSED;
void states_finish(struct states *states);
void states_copy(struct states *states, int32_t to, int32_t from);
// The convolution's rows of a slot, and a block of a head's matrix.
float *states_rows(const struct states *states, int32_t layer, int32_t slot);
float *states_block(const struct states *states, int32_t layer, int32_t slot, int32_t head, int32_t block);
