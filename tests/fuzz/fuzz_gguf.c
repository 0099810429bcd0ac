// Any bytes as a GGUF file: opened, and if that works everything the file claims is read.
#include "engine/file/gguf.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_keys(const struct gguf *gguf)
{
    struct buffer rendered = {0};
    for (size_t i = 0; i < gguf_n_keys(gguf); i++) {
        struct text key = gguf_key_at(gguf, i, &rendered);
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(key.size < 255 ? key.size : 255), key.data);
        struct error error;
        uint32_t integer;
        float number;
        bool boolean;
        struct text text;
        struct gguf_array array = {0};
        bool found = false;
        if (gguf_u32(gguf, name, &integer, NULL, &error) == STATUS_OK &&
            gguf_f32(gguf, name, &number, NULL, &error) == STATUS_OK &&
            gguf_bool(gguf, name, &boolean, NULL, &error) == STATUS_OK &&
            gguf_text(gguf, name, &text, NULL, &error) == STATUS_OK && key.size < 255)
            abort(); // no value has all these types
        if (gguf_array(gguf, name, &array, &found, &error) != STATUS_OK || !found)
            continue;
        double sum = 0;
        for (size_t j = 0; j < array.n_items && array.kind != GGUF_STRING; j++)
            sum += gguf_array_number(&array, j) + (double)gguf_array_integer(&array, j);
        buffer_add_format(&rendered, "%g", sum);
        for (size_t j = 0; j < array.n_items && array.kind == GGUF_STRING; j++)
            buffer_add_text(&rendered, array.strings[j]);
    }
    buffer_finish(&rendered);
}

static void read_tensors(const struct gguf *gguf)
{
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        const struct tensor_traits *traits = tensor_traits(tensor->type);
        char shape[64];
        tensor_shape_text(tensor, shape);
        if (tensor_row_bytes(tensor) * tensor_n_rows(tensor) != tensor->size_bytes)
            abort();
        if (!traits->dequantize)
            continue;
        float items[256];
        const unsigned char *last =
            (const unsigned char *)tensor->data + tensor->size_bytes - traits->block_bytes;
        traits->dequantize(tensor->data, items, traits->block_items);
        traits->dequantize(last, items, traits->block_items);
        gguf_release(gguf, tensor);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct gguf *gguf;
    struct error error;
    if (gguf_open(&gguf, path, &error) == STATUS_OK) {
        read_keys(gguf);
        read_tensors(gguf);
        gguf_close(gguf);
    } else if (strlen(error.text) == 0) {
        abort();
    }
    close(file);
    return 0;
}
