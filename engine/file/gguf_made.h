// A struct gguf put together in memory, so that what comes from other files (engine/model/model_folder.c) or is
// computed from another model (engine/file/gguf_quantise.c) opens like a GGUF file. Its key-values are those of a
// gguf_writer. Its tensors lie where somebody else keeps them, or are made when gguf_load asks for them:
// their memory is reserved as addresses only, and given back when the next is made, so that a large model is
// never in memory twice.
//
// Thread: one until the model is loaded.
#pragma once

#include "engine/file/gguf_regions.h"
#include "engine/file/gguf_write.h"

struct gguf_made_tensor {
    struct tensor tensor; // data NULL: made when asked for
    bool kept;            // once made it stays: tables whose rows are looked up where they lie
};

// Copies keys and tensors (names too); takes source->context over, also when it fails. `path` is for
// messages.
enum status gguf_create(struct gguf **gguf, const char *path, const struct gguf_writer *keys,
                        const struct gguf_made_tensor *tensors, size_t n_tensors, struct gguf_source source,
                        struct error *error) WARN_UNUSED;
