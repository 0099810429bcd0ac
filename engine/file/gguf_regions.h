// The memory of tensors that gguf_load generates, in a struct gguf constructed in memory (gguf_made.h). Each
// tensor has reserved addresses; only kept tensors and the last generated one have pages. Private to gguf.c
// and gguf_made.c. Thread: one until the model is loaded.
#pragma once

#include "engine/file/tensor.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interrupt;
struct pool;

// The generator of tensors. `make` writes tensor->size_bytes bytes of the tensor at `index`. `finish` frees
// the context when the gguf is closed. `hash` and `check` implement gguf_content_hash and gguf_check_files
// for the sources of tensors and keys; NULL: there are no sources.
struct gguf_source {
    void *context;
    enum status (*make)(void *context, size_t index, void *data, struct error *error);
    void (*finish)(void *context);
    uint64_t (*hash)(void *context, struct pool *pool, const struct interrupt *interrupt);
    enum status (*check)(void *context, struct error *error);
};

struct gguf_regions;

// Creates room for up to `n_regions_max` tensors. Takes ownership of source.context, even on failure. NULL:
// out of memory.
struct gguf_regions *gguf_regions_create(struct gguf_source source, size_t n_regions_max);
void gguf_regions_destroy(struct gguf_regions *regions);
// Reserves addresses and makes them the tensor's data. Its name must outlive the regions.
enum status gguf_regions_add(struct gguf_regions *regions, struct tensor *tensor, size_t index, bool kept,
                             struct error *error) WARN_UNUSED;
// Must be called once, after the last gguf_regions_add and before the functions below.
void gguf_regions_sort(struct gguf_regions *regions);
bool gguf_regions_contain(const struct gguf_regions *regions, const void *data);
// Generates the tensor whose region contains the address, and frees the previously generated one unless it is
// kept. Does nothing if no region contains the address.
enum status gguf_regions_load(struct gguf_regions *regions, const void *data,
                              struct error *error) WARN_UNUSED;
uint64_t gguf_regions_hash(const struct gguf_regions *regions, struct pool *pool,
                           const struct interrupt *interrupt);
enum status gguf_regions_check(const struct gguf_regions *regions, struct error *error) WARN_UNUSED;
