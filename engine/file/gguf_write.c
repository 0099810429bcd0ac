#include "engine/file/gguf_write.h"

#include "engine/file/gguf_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_integer(struct buffer *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buffer_add_byte(out, (char)(value >> (8 * i)));
}

static void put_float(struct buffer *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put_integer(out, bits, 4);
}

static void put_text(struct buffer *out, struct text text)
{
    put_integer(out, text.size, 8);
    buffer_add_text(out, text);
}

static void put_padding(struct buffer *out)
{
    while (!out->failed && out->size % GGUF_WRITE_ALIGNMENT)
        buffer_add_byte(out, 0);
}

// --- Key-values ---

static void note_fault(struct gguf_writer *writer, const char *what, struct text name)
{
    if (writer->fault.status == STATUS_OK)
        error_set(&writer->fault, STATUS_REFUSE, ERROR_MODEL_FILE, "%s %.*s: can't be in a GGUF file", what,
                  name.size < 128 ? (int)name.size : 128, name.data ? name.data : "");
}

static void put_key(struct gguf_writer *writer, struct text key, enum gguf_kind kind)
{
    if (key.size == 0 || key.size > GGUF_KEY_BYTES_MAX || !utf8_valid(key.data, key.size))
        note_fault(writer, "key", key);
    put_text(&writer->keys, key);
    put_integer(&writer->keys, kind, 4);
    writer->n_keys++;
}

static void put_array(struct gguf_writer *writer, const char *key, enum gguf_kind kind, size_t n_items)
{
    put_key(writer, text_from_string(key), GGUF_ARRAY);
    if (n_items > GGUF_ARRAY_ITEMS_MAX)
        note_fault(writer, "array", text_from_string(key));
    put_integer(&writer->keys, kind, 4);
    put_integer(&writer->keys, n_items, 8);
}

void gguf_writer_finish(struct gguf_writer *writer)
{
    buffer_finish(&writer->keys);
    buffer_finish(&writer->infos);
    *writer = (struct gguf_writer){0};
}

void gguf_writer_u32(struct gguf_writer *writer, const char *key, uint32_t value)
{
    put_key(writer, text_from_string(key), GGUF_U32);
    put_integer(&writer->keys, value, 4);
}

void gguf_writer_f32(struct gguf_writer *writer, const char *key, float value)
{
    put_key(writer, text_from_string(key), GGUF_F32);
    put_float(&writer->keys, value);
}

void gguf_writer_bool(struct gguf_writer *writer, const char *key, bool value)
{
    put_key(writer, text_from_string(key), GGUF_BOOL);
    put_integer(&writer->keys, value, 1);
}

void gguf_writer_text(struct gguf_writer *writer, const char *key, struct text value)
{
    put_key(writer, text_from_string(key), GGUF_STRING);
    put_text(&writer->keys, value);
}

void gguf_writer_texts(struct gguf_writer *writer, const char *key, const struct text *items, size_t n_items)
{
    put_array(writer, key, GGUF_STRING, n_items);
    for (size_t i = 0; i < n_items; i++)
        put_text(&writer->keys, items[i]);
}

void gguf_writer_i32s(struct gguf_writer *writer, const char *key, const int32_t *items, size_t n_items)
{
    put_array(writer, key, GGUF_I32, n_items);
    for (size_t i = 0; i < n_items; i++)
        put_integer(&writer->keys, (uint32_t)items[i], 4);
}

void gguf_writer_f32s(struct gguf_writer *writer, const char *key, const float *items, size_t n_items)
{
    put_array(writer, key, GGUF_F32, n_items);
    for (size_t i = 0; i < n_items; i++)
        put_float(&writer->keys, items[i]);
}

void gguf_writer_u8s(struct gguf_writer *writer, const char *key, struct text bytes)
{
    put_array(writer, key, GGUF_U8, bytes.size);
    buffer_add_text(&writer->keys, bytes);
}

void gguf_writer_bools(struct gguf_writer *writer, const char *key, const bool *items, size_t n_items)
{
    put_array(writer, key, GGUF_BOOL, n_items);
    for (size_t i = 0; i < n_items; i++)
        put_integer(&writer->keys, items[i], 1);
}

void gguf_writer_copy(struct gguf_writer *writer, const struct gguf *gguf, size_t index)
{
    const struct gguf_entry *entry = &gguf->parts[0].entries[index];
    put_key(writer, entry->key, entry->kind);
    if (entry->kind == GGUF_STRING) {
        put_text(&writer->keys, entry->string);
    } else if (entry->kind != GGUF_ARRAY) {
        buffer_add(&writer->keys, entry->scalar, gguf_kind_bytes(entry->kind));
    } else {
        const struct gguf_array *array = &entry->array;
        put_integer(&writer->keys, array->kind, 4);
        put_integer(&writer->keys, array->n_items, 8);
        for (size_t i = 0; array->kind == GGUF_STRING && i < array->n_items; i++)
            put_text(&writer->keys, array->strings[i]);
        if (array->kind != GGUF_STRING)
            buffer_add(&writer->keys, array->data, array->n_items * gguf_kind_bytes(array->kind));
    }
}

void gguf_writer_append(struct gguf_writer *writer, const struct gguf_writer *more)
{
    if (writer->fault.status == STATUS_OK)
        writer->fault = more->fault;
    writer->keys.failed |= more->keys.failed;
    buffer_add(&writer->keys, more->keys.data, more->keys.size);
    writer->n_keys += more->n_keys;
}

// --- Tensors ---

static uint64_t padded_size(uint64_t size)
{
    return (size + GGUF_WRITE_ALIGNMENT - 1) / GGUF_WRITE_ALIGNMENT * GGUF_WRITE_ALIGNMENT;
}

void gguf_writer_tensor(struct gguf_writer *writer, const struct tensor *tensor)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    bool fits = tensor->name.size > 0 && tensor->name.size <= GGUF_TENSOR_NAME_BYTES_MAX && traits->name &&
                utf8_valid(tensor->name.data, tensor->name.size) && tensor->n_dims >= 1 &&
                tensor->n_dims <= TENSOR_DIMS_MAX && tensor->dims[0] % traits->block_items == 0 &&
                tensor->size_bytes == tensor_row_bytes(tensor) * tensor_n_rows(tensor);
    if (!fits) {
        note_fault(writer, "tensor", tensor->name);
        return;
    }
    put_text(&writer->infos, tensor->name);
    put_integer(&writer->infos, tensor->n_dims, 4);
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        put_integer(&writer->infos, tensor->dims[i], 8);
    put_integer(&writer->infos, tensor->type, 4);
    put_integer(&writer->infos, writer->data_bytes, 8);
    writer->data_bytes += padded_size(tensor->size_bytes);
    writer->n_tensors++;
}

enum status gguf_writer_encode(const struct gguf_writer *writer, struct buffer *out, struct error *error)
{
    enum { VERSION = 3 };
    if (writer->fault.status != STATUS_OK) {
        *error = writer->fault;
        return error->status;
    }
    buffer_add(out, "GGUF", 4);
    put_integer(out, VERSION, 4);
    put_integer(out, writer->n_tensors, 8);
    put_integer(out, writer->n_keys, 8);
    buffer_add(out, writer->keys.data, writer->keys.size);
    buffer_add(out, writer->infos.data, writer->infos.size);
    put_padding(out);
    if (out->failed || writer->keys.failed || writer->infos.failed)
        return gguf_out_of_memory(error);
    return STATUS_OK;
}

// --- The file ---

static enum status put_bytes(FILE *file, const void *data, size_t size, struct error *error)
{
    if (fwrite(data, 1, size, file) == size)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "writing: %s", strerror(errno));
}

static enum status write_tensors(const struct gguf *gguf, FILE *file,
                                 void (*progress)(void *, uint64_t, uint64_t), void *context,
                                 struct error *error)
{
    static const char zeros[GGUF_WRITE_ALIGNMENT];
    uint64_t total = 0, done = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++)
        total += gguf_tensor_at(gguf, i)->size_bytes;
    for (size_t i = 0; i < gguf_n_tensors(gguf) && status == STATUS_OK; i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        status = gguf_load(gguf, tensor, error);
        if (status == STATUS_OK)
            status = put_bytes(file, tensor->data, tensor->size_bytes, error);
        if (status == STATUS_OK)
            status = put_bytes(file, zeros, padded_size(tensor->size_bytes) - tensor->size_bytes, error);
        gguf_release(gguf, tensor);
        done += tensor->size_bytes;
        if (progress)
            progress(context, done, total);
    }
    return status;
}

static enum status write_header(const struct gguf *gguf, const struct gguf_writer *more, FILE *file,
                                struct error *error)
{
    struct gguf_writer writer = {0};
    struct buffer header = {0};
    for (size_t i = 0; i < gguf->parts[0].n_entries; i++) {
        struct text key = gguf->parts[0].entries[i].key;
        bool split = key.size >= 6 && memcmp(key.data, "split.", 6) == 0;
        bool alignment = text_equals_string(key, "general.alignment"); // the writer has its own
        if (!split && !alignment)
            gguf_writer_copy(&writer, gguf, i);
    }
    if (more)
        gguf_writer_append(&writer, more);
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++)
        gguf_writer_tensor(&writer, gguf_tensor_at(gguf, i));
    enum status status = gguf_writer_encode(&writer, &header, error);
    if (status == STATUS_OK)
        status = put_bytes(file, header.data, header.size, error);
    buffer_finish(&header);
    gguf_writer_finish(&writer);
    return status;
}

enum status gguf_write(const struct gguf *gguf, const struct gguf_writer *more, FILE *file,
                       void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                       void *context, struct error *error)
{
    enum status status = write_header(gguf, more, file, error);
    return status == STATUS_OK ? write_tensors(gguf, file, progress, context, error) : status;
}
