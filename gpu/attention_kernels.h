// Between the files of attention's kernels: which tiles a launch has and how large they are.
#pragma once

#include "gpu/attention_walk.h"

enum tile_way {
    TILES_SMALL,  // of sequences of a row or few
    TILES_LARGE,  // of the other sequences
    TILES_SHARED, // of segments that several sequences share
};

enum { N_TILE_WIDTHS = 5, TILE_STRIPS_MAX = 4 };

// Value dimensions decide how many warps there are and how many dimensions each has; `n_strips` is 1, 2 or 4.
struct tile_choice {
    int width, n_strips;
};

template <enum kv_type type>
void launch_attention_of(void *stream, const struct attention_arguments &arguments, enum tile_way way, struct tile_choice choice);
