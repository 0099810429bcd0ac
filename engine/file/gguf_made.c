#include "engine/file/gguf_made.h"

#include "engine/file/gguf_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static enum status add_tensor(struct gguf *gguf, const struct gguf_made_tensor *made, struct error *error)
{
    struct tensor *tensor = &gguf->tensors[gguf->n_tensors];
    *tensor = made->tensor;
    char *name = arena_copy(&gguf->arena, tensor->name.data, tensor->name.size);
    if (!name)
        return gguf_out_of_memory(error);
    tensor->name.data = name;
    if (gguf_tensor(gguf, name))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s occurs twice", name);
    enum status status = STATUS_OK;
    if (!tensor->data)
        status = gguf_regions_add(gguf->regions, tensor, gguf->n_tensors, made->kept, error);
    if (status == STATUS_OK)
        gguf_names_add(&gguf->names, tensor->name, gguf->n_tensors++);
    return status;
}

// Encodes the keys in an anonymous mapping, as a part without tensors.
static enum status add_keys(struct gguf *gguf, const char *path, const struct gguf_writer *keys,
                            struct error *error)
{
    struct buffer header = {0};
    enum status status = gguf_writer_encode(keys, &header, error);
    void *data = MAP_FAILED;
    if (status == STATUS_OK)
        data = mmap(NULL, header.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (status == STATUS_OK && data == MAP_FAILED)
        status = gguf_out_of_memory(error);
    if (status == STATUS_OK) {
        struct gguf_part *part = &gguf->parts[0];
        memcpy(data, header.data, header.size);
        part->data = data;
        part->size = header.size;
        gguf->n_parts = 1;
        part->path = arena_copy(&gguf->arena, path, strlen(path));
        status = part->path ? gguf_parse(part, &gguf->arena, error) : gguf_out_of_memory(error);
    }
    buffer_finish(&header);
    return status;
}

static enum status build_parts(struct gguf *gguf, const char *path, const struct gguf_writer *keys,
                               const struct gguf_made_tensor *tensors, size_t n_tensors, struct error *error)
{
    gguf->parts = arena_allocate_array(&gguf->arena, 1, sizeof *gguf->parts);
    gguf->tensors = arena_allocate_array(&gguf->arena, n_tensors + 1, sizeof *gguf->tensors);
    if (!gguf->parts || !gguf->tensors)
        return gguf_out_of_memory(error);
    enum status status = add_keys(gguf, path, keys, error);
    if (status == STATUS_OK)
        status = gguf_names_create(&gguf->names, n_tensors, &gguf->arena, error);
    for (size_t i = 0; i < n_tensors && status == STATUS_OK; i++)
        status = add_tensor(gguf, &tensors[i], error);
    if (status == STATUS_OK)
        gguf_regions_sort(gguf->regions);
    return status;
}

enum status gguf_create(struct gguf **gguf, const char *path, const struct gguf_writer *keys,
                        const struct gguf_made_tensor *tensors, size_t n_tensors, struct gguf_source source,
                        struct error *error)
{
    *gguf = NULL;
    struct gguf *created = calloc(1, sizeof *created);
    struct gguf_regions *regions = gguf_regions_create(source, n_tensors);
    if (!created || !regions) {
        free(created);
        gguf_regions_destroy(regions);
        return gguf_out_of_memory(error);
    }
    created->regions = regions;
    enum status status = build_parts(created, path, keys, tensors, n_tensors, error);
    if (status == STATUS_OK)
        *gguf = created;
    else
        gguf_close(created);
    return status;
}
