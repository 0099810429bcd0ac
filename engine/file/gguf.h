// A GGUF file (v2, v3), mapped and validated: header, key-values, tensor infos, data. Format:
// github.com/ggml-org/ggml, docs/gguf.md. Everything the file says is checked at open: counts, strings,
// dimensions, offsets, alignment; a hostile file gives an error and never a crash. A split model
// (-00001-of-0000N.gguf) can be opened by any of its parts; its key-values are in the first part.
//
//   magic "GGUF" | u32 version | u64 n_tensors | u64 n_keys
//   n_keys    x (string key, u32 type, value)          string: u64 size, bytes
//   n_tensors x (string name, u32 n_dims, u64 dims[], u32 type, u64 offset)
//   padding to general.alignment | tensor data
//
// Thread: any, after open.
#pragma once

#include "engine/file/tensor.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct interrupt;
struct pool;

enum gguf_kind { // value types as the file numbers them
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
};

// An array key-value. Scalars are packed and unaligned, so they must be read with gguf_array_*.
struct gguf_array {
    enum gguf_kind kind;
    size_t n_items;
    const unsigned char *data;  // first item in the mapping
    const struct text *strings; // GGUF_STRING: the items, indexed at open
};

// Limits on what a file may declare. Above them: ERROR_LIMIT_EXCEEDED, STATUS_REFUSE.
enum {
    GGUF_KEYS_MAX = 1 << 16,
    GGUF_TENSORS_MAX = 1 << 17,
    GGUF_KEY_BYTES_MAX = 65535,
    GGUF_TENSOR_NAME_BYTES_MAX = 255,
    GGUF_ARRAY_ITEMS_MAX = 1 << 24,
    GGUF_PARTS_MAX = 512,
    GGUF_ALIGNMENT_MAX = 65536,
};

enum status gguf_open(struct gguf **gguf, const char *path, struct error *error) WARN_UNUSED;
void gguf_close(struct gguf *gguf);
const char *gguf_path(const struct gguf *gguf);
uint64_t gguf_file_bytes(const struct gguf *gguf); // total of all parts
// Number of tensors. A vocabulary-only file has none.
size_t gguf_n_tensors(const struct gguf *gguf);
const struct tensor *gguf_tensor_at(const struct gguf *gguf, size_t index);
const struct tensor *gguf_tensor(const struct gguf *gguf, const char *name); // NULL: absent; found by hash

// Read key-values. If the key is missing, they return STATUS_OK, leave *value unchanged and set *found to
// false (`found` may be NULL). A key of the wrong type gives STATUS_REFUSE; the text has the key, the
// expected and the actual type.
bool gguf_has(const struct gguf *gguf, const char *key);
enum status gguf_u32(const struct gguf *gguf, const char *key, uint32_t *value, bool *found,
                     struct error *error) WARN_UNUSED; // any integer kind whose value fits
enum status gguf_f32(const struct gguf *gguf, const char *key, float *value, bool *found,
                     struct error *error) WARN_UNUSED;
// Reads an integer or a float.
enum status gguf_number(const struct gguf *gguf, const char *key, double *value, bool *found,
                        struct error *error) WARN_UNUSED;
enum status gguf_bool(const struct gguf *gguf, const char *key, bool *value, bool *found,
                      struct error *error) WARN_UNUSED;
enum status gguf_text(const struct gguf *gguf, const char *key, struct text *value, bool *found,
                      struct error *error) WARN_UNUSED;
enum status gguf_array(const struct gguf *gguf, const char *key, struct gguf_array *value, bool *found,
                       struct error *error) WARN_UNUSED;
// Returns an item of a numeric array, widened. The index must be in range and the kind numeric (asserted).
int64_t gguf_array_integer(const struct gguf_array *array, size_t index);
double gguf_array_number(const struct gguf_array *array, size_t index);

// Iterate over the key-values in file order, for `sheaf inspect`: the key and a short rendering of the value.
size_t gguf_n_keys(const struct gguf *gguf);
struct text gguf_key_at(const struct gguf *gguf, size_t index, struct buffer *rendered);

// Must be called before a tensor's data is read. Data in a file is always available. For a model constructed
// in memory (engine/file/gguf_made.h) this generates the tensor, or the tensor that it is a slice of. The
// data stays until the next call, or always if the tensor is kept.
enum status gguf_load(const struct gguf *gguf, const struct tensor *tensor, struct error *error) WARN_UNUSED;

// Hash of a model's sources, without file names: every byte of a GGUF's parts. For a model constructed in
// memory it covers its key-values and every byte of the weights from which it is made. Reads everything, on
// the pool (NULL: on this thread). After an interrupt (may be NULL) it returns at once and the hash has no
// meaning.
uint64_t gguf_content_hash(const struct gguf *gguf, struct pool *pool, const struct interrupt *interrupt);
// Checks that the files are unchanged since they were opened (engine/file/mapped_file.h). Errors:
// STATUS_RESTART, ERROR_MODEL_FILE.
enum status gguf_check_files(const struct gguf *gguf, struct error *error) WARN_UNUSED;
// True if gguf_load generates the tensor; otherwise the tensor is in a file's mapping.
bool gguf_is_generated(const struct gguf *gguf, const struct tensor *tensor);
// Advises the system that the tensor's file pages are no longer needed, because the tensor was repacked.
void gguf_release(const struct gguf *gguf, const struct tensor *tensor);
