// Tensors that are made when gguf_load asks for them, and their memory: addresses reserved for each, and
// pages only for those that are kept and for the one made last. The memory of a struct gguf that was put
// together (gguf_made.h). Private to gguf.c and gguf_made.c. Thread: one until the model is loaded.
#pragma once

#include "engine/file/tensor.h"
#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interrupt;
struct pool;

// Where made tensors come from. `make` writes tensor->size_bytes bytes of the tensor at `index`; `finish`
// frees the context when the gguf is closed. `hash` and `check` are gguf_content_hash and gguf_check_files of
// what the tensors and keys are made from; NULL: of nothing.
struct gguf_source {
    void *context;
    enum status (*make)(void *context, size_t index, void *data, struct error *error);
    void (*finish)(void *context);
    uint64_t (*hash)(void *context, struct pool *pool, const struct interrupt *interrupt);
    enum status (*check)(void *context, struct error *error);
};

struct gguf_regions;

// For up to `n_regions_max` tensors. Takes source->context over, also when it fails: NULL, no memory.
struct gguf_regions *gguf_regions_create(struct gguf_source source, size_t n_regions_max);
void gguf_regions_destroy(struct gguf_regions *regions);
// Reserves addresses for the tensor, whose data they become. Its name has to stay as long as the regions.
enum status gguf_regions_add(struct gguf_regions *regions, struct tensor *tensor, size_t index, bool kept,
                             struct error *error) WARN_UNUSED;
// To be called once, after the last gguf_regions_add and before any of the following.
void gguf_regions_sort(struct gguf_regions *regions);
bool gguf_regions_contain(const struct gguf_regions *regions, const void *data);
// Makes the tensor whose region contains the address; one made earlier and not kept is freed. No region:
// nothing to do.
enum status gguf_regions_load(struct gguf_regions *regions, const void *data,
                              struct error *error) WARN_UNUSED;
uint64_t gguf_regions_hash(const struct gguf_regions *regions, struct pool *pool,
                           const struct interrupt *interrupt);
enum status gguf_regions_check(const struct gguf_regions *regions, struct error *error) WARN_UNUSED;
