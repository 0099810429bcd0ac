// Everything a step's kernels read that the host prepared, in one piece of memory, copied by one upload:
//
//   tokens, positions, rows' sequences, output rows, sequences, sampling settings, rope tables, shared prefixes' tiles and members |
//   block tables, biases, histories
//
// The part before the bar has places that follow from the padded counts alone, so that a graph captured for
// those counts finds them again; what varies stands behind it and is pointed at by index from the upload's
// beginning. Padding is harmless: token 0, sequences without rows, outputs that nobody wants.
//
// A token below 0, of a row or the last of a history, is output -1 - token of the step before: launch_resolve
// puts it there.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "gpu/kernels_attention.h"
#include "gpu/kernels_sample.h"
#include "gpu/shared_prefix.h"

// Counts the step's kernels are launched for: the step's own, or rounded up for a graph.
struct upload_counts {
    int32_t n_rows, n_sequences, n_outputs;
    int32_t n_shared_tiles;
};

// Offsets in bytes, multiples of 16.
struct upload_layout {
    size_t tokens, positions, row_sequences, output_rows, sequences, settings, rope[2];
    size_t shared_tiles, shared_members;
    size_t pages, biases, history; // vary
    size_t total;
};

// Where everything stands. `page_positions`: 0 without pages.
struct upload_layout upload_layout(const struct step *step, const struct upload_counts *counts, int32_t page_positions);
// Fills `bytes` [layout->total]; block tables' places are told as indices into it as int32_t. Ids in the
// samples' lists are in range (asserted against n_vocab).
void upload_fill(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                 const struct upload_counts *counts, int32_t page_positions, const struct shared_prefix *shared,
                 int32_t n_vocab);
