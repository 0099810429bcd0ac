// The weights of a Hugging Face folder: one safetensors file, or several named by
// model.safetensors.index.json, mapped and validated. Format: github.com/huggingface/safetensors, README.
//
//   u64 n, little-endian
//   n bytes of JSON: {"NAME": {"dtype": "BF16", "shape": [r, c], "data_offsets": [b, e]}, ...,
//                     "__metadata__": {...}}
//   data, in which the offsets leave no hole and do not overlap
//
// Everything is checked at open; a hostile file gives an error and never a crash.
// Thread: any, after open.
#pragma once

#include "engine/file/tensor.h"
#include "schemas/base/text.h"

struct interrupt;
struct pool;
struct safetensors;

// Limits on what a file may declare; above them: ERROR_LIMIT_EXCEEDED, STATUS_REFUSE.
enum {
    SAFETENSORS_HEADER_BYTES_MAX = 64 << 20,
    SAFETENSORS_TENSORS_MAX = 1 << 17,
    SAFETENSORS_FILES_MAX = 512,
    SAFETENSORS_NAME_BYTES_MAX = 512,
};

// A tensor as described in the file. dims[0] is the row length, so the file's shape is reversed. A scalar is
// one item.
// A shape may have more dimensions than struct tensor (kernels of a vision tower's convolutions): the outermost ones
// are then multiplied into one.
enum { SAFETENSORS_DIMS_MAX = 8 };
struct safetensors_tensor {
    struct tensor tensor;
    const char *dtype; // "BF16"
    bool readable;     // true for F32, F16, BF16: tensor.type is set; otherwise tensor.type means nothing
};

// Opens a file, or a folder with model.safetensors or the index.
enum status safetensors_open(struct safetensors **safetensors, const char *path,
                             struct error *error) WARN_UNUSED;
void safetensors_close(struct safetensors *safetensors);
size_t safetensors_n_tensors(const struct safetensors *safetensors);
const struct safetensors_tensor *safetensors_at(const struct safetensors *safetensors, size_t index);
// Returns the tensor's index; SIZE_MAX: absent.
size_t safetensors_find(const struct safetensors *safetensors, struct text name);

// Do the same as gguf_content_hash and gguf_check_files. The hash includes `seed`.
uint64_t safetensors_content_hash(const struct safetensors *safetensors, uint64_t seed, struct pool *pool,
                                  const struct interrupt *interrupt);
enum status safetensors_check_files(const struct safetensors *safetensors, struct error *error) WARN_UNUSED;
