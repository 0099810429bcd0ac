// Matrix products of packed weights with the rows of a step: y[r][o] = sum over k of weight[o][k] * x[r][k] (+ bias[o]).
//
// Packed layout: panels of 16 outputs; a panel holds, block of 32 inputs by block, the 16 outputs' quants interleaved so
// that one vector register takes 4 consecutive inputs of 16 outputs, and beside them the blocks' scales. Quants keep about
// the file's bits. Float types stand as 16 outputs an input. Drawn type by type in pack.c.
//
// Quantised products see x as int8 in blocks of 32 with a float32 scale (absolute maximum / 127, ties to even), prepared
// once a row and shared by all products of that x. Float products see x as float32.
#pragma once

#include "engine/backend.h"
#include "engine/pool.h"

#include <stdint.h>

enum { PANEL_OUTPUTS = 16, PRODUCT_BLOCK = 32 };

struct packed; // one weight, or one expert's

struct packed_shape {
    enum tensor_type type;
    int32_t n_outputs, n_inputs;
};

// x prepared for products; memory taken once for n_rows_max x n_inputs_max.
struct prepared {
    int32_t n_rows, n_inputs;
    const float *items;  // [n_rows, stride] the caller's
    int64_t stride;
    int8_t *quants;      // [n_rows, n_inputs rounded up to PRODUCT_BLOCK]
    float *scales;       // [n_rows, blocks]
    float *sums;         // [n_rows, blocks] scale * sum of the block's quants: for types with an offset
};

// Kernel of one type: outputs [panel_begin, panel_end) x 16 for rows [row_begin, row_end).
struct product_kernels {
    void (*quantise)(const float *x, int32_t n, int8_t *quants, float *scales, float *sums);
    void (*product[TENSOR_TYPE_COUNT])(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                                       const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                                       int64_t y_stride, const float *bias);
};

// Packs a [n_rows, n_cols] slice of a tensor on the pool. A type without a kernel of its own is packed as another that holds
// it exactly, else as F32. Errors: ERROR_OUT_OF_MEMORY, ERROR_UNKNOWN_TYPE.
enum status packed_create(struct packed **packed, const struct tensor *tensor, struct pool *pool,
                          struct error *error) WARN_UNUSED;
void packed_destroy(struct packed *packed);
struct packed_shape packed_shape(const struct packed *packed);
uint64_t packed_bytes(const struct packed *packed);
bool packed_is_quantised(const struct packed *packed); // whether products need x's int8 form

enum status prepared_create(struct prepared *prepared, int32_t n_rows_max, int32_t n_inputs_max,
                            struct error *error) WARN_UNUSED;
void prepared_finish(struct prepared *prepared);
// Takes x; quantises it when `quantised`. Rows are spread over the pool.
void prepared_set(struct prepared *prepared, const struct product_kernels *kernels, struct pool *pool,
                  const float *x, int64_t stride, int32_t n_rows, int32_t n_inputs, bool quantised);

// One product of a group that shares x.
struct product_task {
    const struct packed *weight;
    const float *bias; // [n_outputs] or NULL
    float *y;
    int64_t y_stride;
};

enum { PRODUCT_TASKS_MAX = 4 };

// Runs the group over the pool: work is cut into pieces by panels and rows, sized to the caches.
void product_run(const struct product_kernels *kernels, struct pool *pool, const struct product_task *tasks, int n,
                 const struct prepared *x);
