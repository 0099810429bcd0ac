#include "engine/cpu/states.h"

#include "engine/cpu/product/memory.h"

#include <assert.h>
#include <string.h>

static size_t rows_items(const struct state_shape *shape)
{
    size_t n = (size_t)(shape->n_taps - 1) * (size_t)shape->n_channels;
    return (n + STATE_BLOCK - 1) / STATE_BLOCK * STATE_BLOCK;
}

static size_t block_items(const struct state_shape *shape)
{
    return (size_t)shape->key_dim * STATE_BLOCK;
}

static int32_t count_blocks(const struct state_shape *shape)
{
    return (shape->value_dim + STATE_BLOCK - 1) / STATE_BLOCK;
}

static size_t ngram_items(const struct ngram_state_shape *shape)
{
    return (size_t)shape->n_rows * (size_t)shape->n_channels + (size_t)shape->n_tokens;
}

static size_t slot_items(const struct state_shape *shape)
{
    return rows_items(shape) + (size_t)shape->n_heads * (size_t)count_blocks(shape) * block_items(shape);
}

size_t states_all_items(const struct state_shape *shape)
{
    return slot_items(shape) * (size_t)shape->n_layers +
           ngram_items(&shape->ngram) * (size_t)shape->ngram.n_layers;
}

enum status states_create(struct states *states, const struct state_shape *shape, struct error *error)
{
    assert(shape->n_layers > 0 && shape->n_slots > 0 && shape->n_taps > 1 && shape->n_heads >= 0);
    *states = (struct states){.shape = *shape, .n_blocks = count_blocks(shape)};
    states->head_items = (size_t)states->n_blocks * block_items(shape);
    states->slot_items = slot_items(shape);
    states->ngram_items = ngram_items(&shape->ngram);
    size_t n_bytes = 0, n_layer_bytes;
    if (__builtin_mul_overflow(states->slot_items, (size_t)shape->n_slots, &states->layer_items) ||
        __builtin_mul_overflow(states->layer_items, (size_t)shape->n_layers * sizeof(float),
                               &n_layer_bytes) ||
        __builtin_mul_overflow(states_all_items(shape) * sizeof(float), (size_t)shape->n_slots, &n_bytes))
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "recurrent states: %d layers of %d slots: the size overflows", shape->n_layers,
                         shape->n_slots);
    states->memory = memory_map(n_bytes);
    if (!states->memory)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "recurrent states: no memory for %zu bytes", n_bytes);
    states->memory_bytes = n_bytes;
    return STATUS_OK;
}

void states_finish(struct states *states)
{
    memory_unmap(states->memory, states->memory_bytes);
    *states = (struct states){0};
}

float *states_rows(const struct states *states, int32_t layer, int32_t slot)
{
    assert(layer >= 0 && layer < states->shape.n_layers && slot >= 0 && slot < states->shape.n_slots);
    return states->memory + (size_t)layer * states->layer_items + (size_t)slot * states->slot_items;
}

float *states_ngram_rows(const struct states *states, int32_t layer, int32_t slot)
{
    const struct state_shape *shape = &states->shape;
    assert(layer >= 0 && layer < shape->ngram.n_layers && slot >= 0 && slot < shape->n_slots);
    return states->memory + (size_t)shape->n_layers * states->layer_items +
           ((size_t)layer * (size_t)shape->n_slots + (size_t)slot) * states->ngram_items;
}

float *states_ngram_tokens(const struct states *states, int32_t layer, int32_t slot)
{
    const struct ngram_state_shape *shape = &states->shape.ngram;
    return states_ngram_rows(states, layer, slot) + (size_t)shape->n_rows * (size_t)shape->n_channels;
}

float *states_block(const struct states *states, int32_t layer, int32_t slot, int32_t head, int32_t block)
{
    assert(head >= 0 && head < states->shape.n_heads && block >= 0 && block < states->n_blocks);
    return states_rows(states, layer, slot) + rows_items(&states->shape) + (size_t)head * states->head_items +
           (size_t)block * block_items(&states->shape);
}

void states_copy(struct states *states, int32_t to, int32_t from)
{
    for (int32_t layer = 0; to != from && layer < states->shape.n_layers; layer++)
        memcpy(states_rows(states, layer, to), states_rows(states, layer, from),
               states->slot_items * sizeof(float));
    for (int32_t layer = 0; to != from && layer < states->shape.ngram.n_layers; layer++)
        memcpy(states_ngram_rows(states, layer, to), states_ngram_rows(states, layer, from),
               states->ngram_items * sizeof(float));
}
