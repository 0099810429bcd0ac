// Shared by the files of the attention kernels: the tiles of a launch and their sizes.
#pragma once

#include "gpu/kernels/attention_walk.h"

enum tile_way {
    TILES_SMALL,  // decode: small sequences
    TILES_LARGE,  // prefill: the other sequences
    TILES_SHARED, // shared segments
};

enum { N_TILE_WIDTHS = 5, TILE_STRIPS_MAX = 4 };

// The shape of a tile. The number of value dimensions determines the number of warps and of dimensions per
// warp; `n_strips` is 1, 2 or 4. With `ring`, keys and values are copied asynchronously
// (gpu/kernels/attention_ring.h); this requires one of the first RING_WIDTHS widths and enough shared memory.
struct tile_choice {
    int width, n_strips;
    bool ring;
};

template <enum kv_type type>
void launch_attention_of(void *stream, const struct attention_arguments &arguments, enum tile_way way,
                         struct tile_choice choice);
