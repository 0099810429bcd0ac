// Writes safetensors files for tests: entries one by one, then the whole file, unchecked.
#pragma once

#include "tests/support/gguf_writer.h"

struct safetensors_writer {
    struct buffer header, data;
};

static inline void put_entry(struct safetensors_writer *writer, const char *name, const char *dtype,
                             uint32_t n_dims, const uint64_t *shape, const void *data, size_t size)
{
    buffer_add_format(&writer->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                      writer->header.size ? "," : "{", name, dtype);
    for (uint32_t i = 0; i < n_dims; i++)
        buffer_add_format(&writer->header, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    buffer_add_format(&writer->header, "],\"data_offsets\":[%zu,%zu]}", writer->data.size,
                      writer->data.size + size);
    buffer_add(&writer->data, data, size);
}

static inline void write_header_and_data(const char *path, struct text header, struct text data)
{
    struct buffer file = {0};
    put_integer(&file, header.size, 8);
    buffer_add_text(&file, header);
    buffer_add_text(&file, data);
    write_file(path, file.data, file.size);
    buffer_finish(&file);
}

static inline void write_safetensors(struct safetensors_writer *writer, const char *path)
{
    if (!writer->header.size)
        buffer_add_byte(&writer->header, '{');
    buffer_add_byte(&writer->header, '}');
    write_header_and_data(path, (struct text){writer->header.data, writer->header.size},
                          (struct text){writer->data.data, writer->data.size});
    buffer_finish(&writer->header);
    buffer_finish(&writer->data);
}
