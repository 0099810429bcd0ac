// Keys of an indexer whose blocks have one key each: the normalized mean of their positions' keys, rotated for the
// block's first position. A block's key replaces the key of its last position. The keys of the other positions
// are kept, so that a sequence can continue from the middle of a block.
#include "engine/cpu/state.h"

#include <assert.h>
#include <string.h>

enum { KEY_DIM_MAX = MODEL_HEAD_DIM_MAX };

struct mean_work {
    struct cpu_backend *backend;
    const struct norm_parameters *norm;
    const float *rope;
    int32_t layer, n_rope_dims;
    void (*rotate)(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims);
};

static void add_key(const struct mean_work *work, const struct step_sequence *sequence, int32_t position,
                    float *sum)
{
    const struct selection *selection = &work->backend->selection;
    const struct kv_shape *shape = &selection->keys.shape;
    float key[KEY_DIM_MAX];
    pages_load(&selection->keys, work->layer, sequence->pages[position / shape->page_positions],
               position % shape->page_positions, key, key); // without values
    work->backend->kernels.rows.add_scaled(sum, key, 1.0f, shape->key_dim);
}

static void mean_row(void *context, int32_t row, int thread)
{
    const struct mean_work *work = context;
    struct cpu_backend *backend = work->backend;
    struct selection *selection = &backend->selection;
    const struct kv_shape *shape = &selection->keys.shape;
    const struct step_sequence *sequence = &backend->step->sequences[backend->buffers.row_sequences[row]];
    int32_t position = sequence->position + (row - sequence->first_row), block = selection->shape.block,
            page = position / shape->page_positions;
    if (position < sequence->n_stored || (position + 1) % block != 0)
        return;
    float key[KEY_DIM_MAX] = {0};
    for (int32_t i = position + 1 - block; i <= position; i++)
        add_key(work, sequence, i, key);
    backend->kernels.rows.scale_cap(key, shape->key_dim, 1.0f / (float)block, 0.0f);
    backend->kernels.rows.norm_rms(key, key, work->norm->weight->items, shape->key_dim, work->norm->epsilon);
    work->rotate(key, 1, shape->key_dim, work->rope + (ptrdiff_t)row * work->n_rope_dims, work->n_rope_dims);
    pages_store(&selection->keys, &backend->kernels.rows, work->layer, sequence->pages[page],
                position % shape->page_positions, key, key);
    (void)thread;
}

void cpu_index_store_means(struct backend *base, int32_t layer, const struct matrix *k,
                           const struct norm_parameters *norm, int32_t n_rope_dims, enum rope_style style)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    cpu_index_store(base, layer, k);
    if (backend->failed)
        return;
    assert(style == ROPE_HALVES && backend->step->rope[1] && backend->step->n_rope_dims[1] == n_rope_dims);
    struct mean_work work = {.backend = backend,
                             .norm = norm,
                             .rope = backend->step->rope[1],
                             .layer = layer,
                             .n_rope_dims = n_rope_dims,
                             .rotate = backend->kernels.rows.rope_halves};
    spread_rows(backend, backend->step->n_tokens, 16 * (int64_t)k->n_cols, mean_row, &work);
}
