// Writes small GGUF files for tests, well formed or not: every field is written exactly as given.
#pragma once

#include "engine/file/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void put_integer(struct buffer *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buffer_add_byte(out, (char)(value >> (8 * i)));
}

static inline void put_string(struct buffer *out, struct text string)
{
    put_integer(out, string.size, 8);
    buffer_add_text(out, string);
}

static inline void put_header(struct buffer *out, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    buffer_add(out, "GGUF", 4);
    put_integer(out, version, 4);
    put_integer(out, n_tensors, 8);
    put_integer(out, n_keys, 8);
}

static inline void put_key(struct buffer *out, const char *key, uint32_t kind)
{
    put_string(out, text_from_string(key));
    put_integer(out, kind, 4);
}

static inline void put_key_u32(struct buffer *out, const char *key, uint32_t value)
{
    put_key(out, key, GGUF_U32);
    put_integer(out, value, 4);
}

static inline void put_key_bool(struct buffer *out, const char *key, bool value)
{
    put_key(out, key, GGUF_BOOL);
    put_integer(out, value, 1);
}

static inline void put_key_string(struct buffer *out, const char *key, const char *value)
{
    put_key(out, key, GGUF_STRING);
    put_string(out, text_from_string(value));
}

static inline void put_key_array(struct buffer *out, const char *key, uint32_t kind, uint64_t n_items)
{
    put_key(out, key, GGUF_ARRAY);
    put_integer(out, kind, 4);
    put_integer(out, n_items, 8);
}

static inline void put_float(struct buffer *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put_integer(out, bits, 4);
}

static inline void put_tensor(struct buffer *out, const char *name, uint32_t n_dims, const uint64_t *dims,
                              uint32_t type, uint64_t offset)
{
    put_string(out, text_from_string(name));
    put_integer(out, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++)
        put_integer(out, dims[i], 8);
    put_integer(out, type, 4);
    put_integer(out, offset, 8);
}

static inline void put_padding(struct buffer *out, size_t alignment)
{
    while (out->size % alignment)
        buffer_add_byte(out, 0);
}

static inline void put_zeros(struct buffer *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buffer_add_byte(out, 0);
}

// A directory of the test's own, removed with everything in it by remove_directory.
static inline void make_directory(char path[64])
{
    strcpy(path, "/tmp/sheaf-test-XXXXXX");
    if (!mkdtemp(path))
        abort();
}

static inline void remove_directory(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command))
        abort();
}

static inline void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        abort();
}
