// Everything a step's kernels read that the host prepared, in one piece of memory, copied by one upload:
//
//   tokens, positions, rows' sequences, output rows, sequences, sampling settings, rope tables | block tables, biases, histories
//
// The part before the bar has places that follow from the padded counts alone, so that a graph captured for those counts
// finds them again; what varies stands behind it and is pointed at by index from the upload's beginning. Padding is harmless:
// token 0, sequences without rows, outputs that nobody wants.
//
// A token below 0, of a row or the last of a history, is output -1 - token of the step before: launch_resolve puts it there.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "gpu/kernels_sample.h"

// A sequence's rows of the step, for kernels that go to the pages.
struct device_sequence {
    int32_t first_row, n_rows; // 0 rows: padding
    int32_t position;          // of the first row
    int32_t first_page;        // of its block table, an index into the upload as int32_t
};

// Counts the step's kernels are launched for: the step's own, or rounded up for a graph.
struct upload_counts {
    int32_t n_rows, n_sequences, n_outputs;
};

// Offsets in bytes, multiples of 16.
struct upload_layout {
    size_t tokens, positions, row_sequences, output_rows, sequences, settings, rope[2];
    size_t pages, biases, history; // vary
    size_t total;
};

// Where everything stands. `page_positions`: 0 without pages.
struct upload_layout upload_layout(const struct step *step, const struct upload_counts *counts, int32_t page_positions);
// Fills `bytes` [layout->total]. Ids in the samples' lists are in range (asserted against n_vocab).
void upload_fill(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                 const struct upload_counts *counts, int32_t page_positions, int32_t n_vocab);
