// Launches of sparse attention (DeepSeek-V3.2, section 2.1): an indexer scores positions, the best positions are selected
// for each row, and their keys and values are copied to pages of the row's own. The attention kernels read these pages as
// the pages of a sequence. The rules of gpu/kernels/kernels.h apply.
//
// Pages of the indexer, float32: [layer][page][page_positions][key_dim].
//
// For a row at position p >= n_selected, and each position j <= p:
//   s[j] = sum over the heads h, in order, of weight[h] * max(0, q[h] . k[j]), as product and sum; the dot product by
//          fused multiply-add in order of dimensions
//   Selected are the n_selected positions with the largest s; among equal scores the first positions.
// Rows at earlier positions select nothing: they attend to all positions.
#pragma once

#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SELECTION_DIM_MAX = 256, SELECTION_POSITIONS = 64 }; // positions that a block scores

struct selection_pages {
    float *memory;
    int32_t n_layers, n_pages, page_positions, key_dim;
};

// Rows [first, first + n) of a step.
struct selection_rows {
    const struct attention_sequence *sequences; // [n_sequences]
    int32_t n_sequences;
    const int32_t *tables;
    const int32_t *positions; // [rows of the step]; padding has position 0
    int32_t first, n, n_selected;
    int32_t *selected; // [rows of the step, n_selected], ascending
};

struct selection_store {
    struct selection_pages pages;
    int32_t layer;
    const struct attention_sequence *sequences;
    const int32_t *row_sequences; // as in struct attention_store
    const int32_t *tables;
    int32_t n_rows;
    struct device_matrix keys;
};

struct selection_launch {
    struct selection_pages pages;
    int32_t layer;
    struct selection_rows rows;
    int32_t n_heads;
    struct device_matrix queries, weights; // [rows, n_heads * key_dim], [rows, n_heads]
    float *scores;                         // [rows.n, n_scores]
    int32_t n_scores;                      // a multiple of SELECTION_POSITIONS; no row sees more positions
};

// Copies the selected keys and values of row i to pages [i * n, (i + 1) * n) of `to`, where n = to.n_pages / rows.n. Row i
// becomes a sequence with one row at position n_selected - 1, or without rows if the row selects nothing.
struct selection_gather {
    struct attention_pages from, to; // to: one layer
    int32_t layer;
    struct selection_rows rows;
    int32_t n_pages_each;
    struct attention_sequence *sequences; // [rows.n]
    int32_t *tables;                      // [rows.n * n_pages_each]
};

// Writes the rows' keys to their pages.
void launch_selection_store(void *stream, const struct selection_store *store);
void launch_selection(void *stream, const struct selection_launch *selection);
void launch_selection_gather(void *stream, const struct selection_gather *gather);
// out[i] = in[i] with only the rows that select nothing, without shared segments and runs.
void launch_selection_rest(void *stream, struct attention_sequence *out, const struct attention_sequence *in,
                           int32_t n_sequences, int32_t n_selected);

#ifdef __cplusplus
}
#endif
