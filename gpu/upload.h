// The host inputs of a step in one block of memory, copied by one upload:
//
//   tokens, positions, token types, rows' sequences, output rows, sequences, sampling settings, rope tables,
//   shared prefixes' tiles and members, runs of attention and zeros to count arrivals, kept rows |
//   block tables, biases, histories, masks of allowed tokens
//
// The masks of a step with samples_apart are a second upload, before its sampling.
//
// Offsets of the part before the bar depend on the padded counts only, so a graph captured for these counts
// can be replayed. The arrays after the bar vary in size and are referenced by index from the beginning of
// the upload. Padding has no effect: token 0, sequences without rows, outputs without SAMPLE_WANTED.
//
// Kept rows (backend_operations.keep_outputs) are the rows with an output, as sequences of one row each and with their
// rows of the rope tables.
//
// A negative token t, of a row or at the end of a history, means output -1 - t of the previous step;
// launch_resolve replaces it by the token drawn there.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "gpu/attention_assign.h"
#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_sample.h"
#include "gpu/shared_prefix.h"

// Sizes of the step's launches: its counts, padded for a graph.
struct upload_counts {
    int32_t n_rows, n_sequences, n_outputs;
    int32_t n_shared_tiles;
    int32_t n_runs, n_arrivals; // for attention; 0: the model has no KV pages
    int32_t n_kept;             // n_outputs if the step may keep only rows with an output; 0: it does not
};

// Offsets in bytes, multiples of 16.
struct upload_layout {
    size_t tokens, positions, types, row_sequences, output_rows, sequences, settings, rope[2];
    struct {
        size_t tiles, members;
    } shared;
    size_t runs, arrivals;
    struct {
        size_t sequences, rope[2];
    } kept;
    size_t pages, biases, history, masks; // arrays whose sizes vary
    size_t total_bytes;
};

// Computes the offsets of the arrays. `page_positions` is 0 without pages.
struct upload_layout upload_layout(const struct step *step, const struct upload_counts *counts,
                                   int32_t page_positions);
// Fills `bytes` [layout->total_bytes], except the masks of a step with samples_apart. Block tables are
// referred to by their index in `bytes` as an int32_t array. Token ids in the samples must be below n_vocab
// (asserted). `assignment` is used if there are runs.
void upload_fill(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                 const struct upload_counts *counts, int32_t page_positions,
                 const struct shared_prefix *shared, const struct attention_assign_rules *assignment,
                 int32_t n_vocab);
// Fills the masks of the outputs that had a mask in upload_fill. If a mask was removed since then, all tokens
// are allowed.
void upload_fill_masks(unsigned char *bytes, const struct upload_layout *layout, const struct step *step);
