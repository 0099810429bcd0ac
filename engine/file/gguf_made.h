// A struct gguf constructed in memory, for models of other formats (engine/model/model_folder.c) and computed
// models (engine/file/gguf_quantize.c). Its key-values are those of a gguf_writer. Its tensors are borrowed,
// or generated when gguf_load requests them: their memory is only reserved as addresses, and released when
// the next one is generated, so that a large model is never in memory twice.
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
