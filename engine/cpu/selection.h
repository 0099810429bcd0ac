// Sparse attention on the CPU: an indexer's keys in pages of their own, and the positions that it selects for each row
// of a step.
//
// Definition, the same for any number of rows, threads, chunks and instruction set. For a row at position p with
// p >= n_selected, and each position j <= p:
//   s[j] = sum over the heads h, in order, of weight[h] * max(0, q[h] . k[j]), as product and sum; the dot product as in
//          attention.h
//   Selected are the n_selected positions with the largest s; among equal scores the first positions.
// With by_head each head h selects for key-value head h:
//   s[j] = q[h] . k[j];  blocks of `block` positions, aligned to position 0: S[b] = max s[j] of the positions j <= p
//   Selected are the positions j <= p of n_selected / block blocks: the row's own block, the n_local - 1 blocks before
//   it, and the blocks with the largest S; among equal scores the first blocks.
// With `means` the keys of complete blocks are in their last positions (index_store_means):
//   S[b] = sum over the heads h, in order, of max(0, q[h] . k[last position of b])
//   Selected are the positions of the n_selected / block complete blocks with the largest S, and the positions after the
//   last complete block: up to block - 1, which n_selected includes.
// Rows at earlier positions select all positions and need no scores. Attention numbers the selected positions in
// ascending order, and computes with them what attention.h defines for positions.
//
// Thread: engine.
#pragma once

#include "engine/cpu/attention.h"

struct selection {
    struct pages keys; // [layer][page], one head; keys only
    struct index_shape shape;
    struct pool *pool;
    const struct attention_kernels *kernels;
    float *packed; // [n_threads, n_packed] the queries of one row
    int64_t n_packed;
    float *scores; // [n_scores]
    int64_t n_scores;
    int32_t n_rows_max;
    int32_t *rows;      // [n_rows_max] rows that select
    int32_t n_lists;    // lists per row: 1, or one per head
    int32_t *positions; // [n_rows_max, n_lists, n_selected] ascending
    int32_t *counts;    // [n_rows_max, n_lists]
};

// Errors: ERROR_OUT_OF_MEMORY, ERROR_LIMIT_EXCEEDED.
enum status selection_create(struct selection *selection, const struct kv_shape *shape, struct pool *pool,
                             const struct attention_kernels *kernels, struct error *error) WARN_UNUSED;
void selection_finish(struct selection *selection);
// Reserves memory for steps of up to n_rows_max tokens.
enum status selection_reserve(struct selection *selection, int32_t n_rows_max,
                              struct error *error) WARN_UNUSED;
// Sets `positions` of the step's rows that select. Call it after the keys of all rows are stored.
void selection_run(struct selection *selection, int32_t layer, struct attention_sequences sequences,
                   struct attention_rows queries, struct attention_rows weights);
// The last selection, for attention.
struct selected_rows selection_rows(const struct selection *selection);
