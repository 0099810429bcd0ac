// A struct gguf put together in memory, so that what comes from other files (engine/model/model_folder.c) or is
// computed from another model (engine/file/gguf_quantise.c) opens like a GGUF file. Its key-values are those of a
// gguf_writer. Its tensors lie where somebody else keeps them, or are made when gguf_load asks for them:
// their memory is reserved as addresses only, and given back when the next is made, so that a large model is
// never in memory twice.
//
// Thread: one until the model is loaded.
#pragma once

#include "engine/file/gguf_write.h"

struct pool;

struct gguf_made_tensor {
    struct tensor tensor; // data NULL: made when asked for
    bool kept;            // once made it stays: tables whose rows are looked up where they lie
};

// Where made tensors come from. `make` writes tensor->size_bytes bytes of the tensor at `index`; `finish`
// frees the context when the gguf is closed. `hash` and `check` are gguf_content_hash and gguf_check_files of what the tensors and
// keys are made from; NULL: of nothing.
struct gguf_source {
    void *context;
    enum status (*make)(void *context, size_t index, void *data, struct error *error);
    void (*finish)(void *context);
    uint64_t (*hash)(void *context, struct pool *pool);
    enum status (*check)(void *context, struct error *error);
};

// Copies keys and tensors (names too); takes source->context over, also when it fails. `path` is for
// messages.
enum status gguf_create(struct gguf **gguf, const char *path, const struct gguf_writer *keys,
                        const struct gguf_made_tensor *tensors, size_t n_tensors, struct gguf_source source,
                        struct error *error) WARN_UNUSED;
