// Writes GGUF v3 (engine/file/gguf.h draws the format): a header of key-values and tensor infos, built in
// memory, then the data. Call gguf_writer_* for keys and tensors, then gguf_writer_encode for the header, or
// gguf_write for a whole file. Thread: one.
#pragma once

#include "engine/file/gguf.h"

#include <stdio.h>

enum { GGUF_WRITE_ALIGNMENT = 32 };

// A zeroed struct is valid and empty. The first error is kept; gguf_writer_encode returns it.
struct gguf_writer {
    struct buffer keys, infos;
    uint64_t n_keys, n_tensors, data_bytes;
    struct error fault; // status STATUS_OK: none
};

void gguf_writer_finish(struct gguf_writer *writer);

// A key must be valid UTF-8 of 1 to GGUF_KEY_BYTES_MAX bytes. The caller must not repeat a key: a reader
// refuses the file.
void gguf_writer_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *writer, const char *key, bool value);
void gguf_writer_text(struct gguf_writer *writer, const char *key, struct text value);
void gguf_writer_texts(struct gguf_writer *writer, const char *key, const struct text *items, size_t n_items);
void gguf_writer_i32s(struct gguf_writer *writer, const char *key, const int32_t *items, size_t n_items);
void gguf_writer_f32s(struct gguf_writer *writer, const char *key, const float *items, size_t n_items);
void gguf_writer_u8s(struct gguf_writer *writer, const char *key, struct text bytes);
void gguf_writer_bools(struct gguf_writer *writer, const char *key, const bool *items, size_t n_items);
// Copies a key-value of another file.
void gguf_writer_copy(struct gguf_writer *writer, const struct gguf *gguf, size_t index);
// Copies all keys of another writer.
void gguf_writer_append(struct gguf_writer *writer, const struct gguf_writer *more);

// Records name, type and dims. The data must follow the header in the order of these calls; each tensor is
// padded to GGUF_WRITE_ALIGNMENT.
void gguf_writer_tensor(struct gguf_writer *writer, const struct tensor *tensor);

// Encodes the header, the key-values, the infos and the padding before the data.
enum status gguf_writer_encode(const struct gguf_writer *writer, struct buffer *out,
                               struct error *error) WARN_UNUSED;

// Writes a whole model to `file`. Omits keys named "split.*", because the file is not split. `more` has
// additional keys; it and `progress` may be NULL.
enum status gguf_write(const struct gguf *gguf, const struct gguf_writer *more, FILE *file,
                       void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                       void *context, struct error *error) WARN_UNUSED;
