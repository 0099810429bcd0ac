#include "tests/support/make_adapter.h"

#include "engine/file/gguf_write.h"
#include "engine/file/quantize.h"
#include "tests/support/random.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_named(const struct tensor *tensor, const char *names)
{
    char name[128], word[160];
    int dots = 0;
    snprintf(name, sizeof name, "%.*s", (int)tensor->name.size, tensor->name.data);
    char *end = strstr(name, ".weight"), *begin = name;
    if (!end || end[strlen(".weight")] || tensor->n_dims != 2)
        return false;
    *end = 0;
    for (char *c = name; *c && dots < 2; c++)
        if (*c == '.' && strncmp(name, "blk.", 4) == 0)
            begin = c + 1, dots++;
    snprintf(word, sizeof word, " %s ", begin);
    char padded[256];
    snprintf(padded, sizeof padded, " %s ", names);
    return strstr(padded, word) != NULL;
}

static float *random_items(uint64_t *state, uint64_t n, float scale)
{
    float *items = malloc(n * sizeof *items);
    for (uint64_t i = 0; i < n; i++)
        items[i] = scale * random_float(state);
    return items;
}

void make_adapter(struct made_adapter *adapter, const struct gguf *gguf, const char *names, uint64_t seed,
                  uint64_t rank, float alpha)
{
    uint64_t state = random_seed(seed);
    *adapter = (struct made_adapter){.alpha = alpha};
    adapter->pairs = calloc(gguf_n_tensors(gguf), sizeof *adapter->pairs);
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        if (!is_named(tensor, names))
            continue;
        struct made_pair *pair = &adapter->pairs[adapter->n_pairs];
        snprintf(pair->target, sizeof pair->target, "%.*s", (int)tensor->name.size, tensor->name.data);
        pair->n_inputs = tensor->dims[0], pair->n_outputs = tensor->dims[1];
        pair->rank = rank + (uint64_t)adapter->n_pairs % 3;
        pair->down = random_items(&state, pair->rank * pair->n_inputs, 0.3f);
        pair->up = random_items(&state, pair->rank * pair->n_outputs, 0.3f);
        adapter->n_pairs++;
    }
    assert(adapter->n_pairs > 0);
}

void finish_adapter(struct made_adapter *adapter)
{
    for (int i = 0; i < adapter->n_pairs; i++) {
        free(adapter->pairs[i].down);
        free(adapter->pairs[i].up);
    }
    free(adapter->pairs);
    *adapter = (struct made_adapter){0};
}

// The items as the file has them, and back in memory what the file says.
static char *convert_items(float *items, uint64_t n, enum tensor_type type)
{
    char *out = malloc(n * tensor_traits(type)->block_bytes);
    struct error error = {0};
    if (quantize_items(type, items, n, out, &error) != STATUS_OK)
        abort();
    tensor_traits(type)->dequantize(out, items, n);
    return out;
}

void write_adapter(struct made_adapter *adapter, const char *path, const char *family, enum tensor_type type)
{
    struct gguf_writer writer = {0};
    struct buffer header = {0};
    struct error error = {0};
    FILE *file = fopen(path, "wb");
    char name[96];
    gguf_writer_text(&writer, "general.architecture", text_from_string(family));
    gguf_writer_text(&writer, "general.type", text_from_string("adapter"));
    gguf_writer_text(&writer, "adapter.type", text_from_string("lora"));
    gguf_writer_f32(&writer, "adapter.lora.alpha", adapter->alpha);
    for (int i = 0; i < 2 * adapter->n_pairs; i++) {
        const struct made_pair *pair = &adapter->pairs[i / 2];
        struct tensor tensor = {.type = type, .n_dims = 2, .dims = {1, 1, 1, 1}};
        snprintf(name, sizeof name, "%s.lora_%c", pair->target, "ab"[i % 2]);
        tensor.name = text_from_string(name);
        tensor.dims[0] = i % 2 ? pair->rank : pair->n_inputs;
        tensor.dims[1] = i % 2 ? pair->n_outputs : pair->rank;
        tensor.size_bytes = tensor.dims[0] * tensor.dims[1] * tensor_traits(type)->block_bytes;
        gguf_writer_tensor(&writer, &tensor);
    }
    if (!file || gguf_writer_encode(&writer, &header, &error) != STATUS_OK ||
        fwrite(header.data, 1, header.size, file) != header.size)
        abort();
    for (int i = 0; i < 2 * adapter->n_pairs; i++) {
        struct made_pair *pair = &adapter->pairs[i / 2];
        uint64_t n = pair->rank * (i % 2 ? pair->n_outputs : pair->n_inputs);
        size_t size = n * tensor_traits(type)->block_bytes;
        char *items = convert_items(i % 2 ? pair->up : pair->down, n, type),
             padding[GGUF_WRITE_ALIGNMENT] = {0};
        size_t more = (GGUF_WRITE_ALIGNMENT - size % GGUF_WRITE_ALIGNMENT) % GGUF_WRITE_ALIGNMENT;
        if (fwrite(items, 1, size, file) != size || fwrite(padding, 1, more, file) != more)
            abort();
        free(items);
    }
    if (fclose(file))
        abort();
    buffer_finish(&header);
    gguf_writer_finish(&writer);
}
