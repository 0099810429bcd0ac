#include "engine/file/gguf_made.h"

#include "engine/file/gguf_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct gguf_region { // one made tensor
    char *data;
    size_t size; // of the tensor
    size_t index;
    bool kept, loaded;
};

struct gguf_making {
    struct gguf_source source;
    struct gguf_region *regions; // ascending by data
    size_t n_regions;
    struct gguf_region *passing; // the one that goes when the next is made
};

void gguf_making_destroy(struct gguf_making *making)
{
    if (!making)
        return;
    for (size_t i = 0; i < making->n_regions; i++)
        munmap(making->regions[i].data, making->regions[i].size);
    if (making->source.finish)
        making->source.finish(making->source.context);
    free(making->regions);
    free(making);
}

uint64_t gguf_making_hash(const struct gguf_making *making, struct pool *pool)
{
    return making->source.hash ? making->source.hash(making->source.context, pool) : 0;
}

enum status gguf_making_check(const struct gguf_making *making, struct error *error)
{
    return making->source.check ? making->source.check(making->source.context, error) : STATUS_OK;
}

// The region that holds the address; NULL: none.
static struct gguf_region *region_of(const struct gguf_making *making, const void *data)
{
    size_t low = 0, high = making->n_regions;
    const char *address = data;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct gguf_region *region = &making->regions[middle];
        if (address < region->data)
            high = middle;
        else if (address >= region->data + region->size)
            low = middle + 1;
        else
            return region;
    }
    return NULL;
}

static void drop(struct gguf_region *region)
{
    madvise(region->data, region->size, MADV_DONTNEED);
    region->loaded = false;
}

enum status gguf_load(const struct gguf *gguf, const struct tensor *tensor, struct error *error)
{
    struct gguf_making *making = gguf->making;
    struct gguf_region *region = making ? region_of(making, tensor->data) : NULL;
    if (!region || region->loaded)
        return STATUS_OK;
    if (making->passing) {
        drop(making->passing);
        making->passing = NULL;
    }
    enum status status = making->source.make(making->source.context, region->index, region->data, error);
    region->loaded = status == STATUS_OK;
    if (status != STATUS_OK)
        return error_prefix(error, "tensor %.*s", (int)gguf->tensors[region->index].name.size,
                            gguf->tensors[region->index].name.data);
    if (!region->kept)
        making->passing = region;
    return STATUS_OK;
}

bool gguf_is_made(const struct gguf *gguf, const void *data)
{
    return gguf->making && region_of(gguf->making, data);
}

static int compare_regions(const void *a, const void *b)
{
    const struct gguf_region *left = a, *right = b;
    return (left->data > right->data) - (left->data < right->data);
}

// Addresses without memory behind them: it comes page by page as the tensor is written.
static enum status reserve(struct gguf_making *making, size_t index, struct gguf_made_tensor made,
                           struct tensor *tensor, struct error *error)
{
    void *data = mmap(NULL, (size_t)tensor->size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return gguf_out_of_memory(error);
    making->regions[making->n_regions++] = (struct gguf_region){
        .data = data, .size = (size_t)tensor->size_bytes, .index = index, .kept = made.kept};
    tensor->data = data;
    return STATUS_OK;
}

static enum status add_tensor(struct gguf *gguf, const struct gguf_made_tensor *made, struct error *error)
{
    struct tensor *tensor = &gguf->tensors[gguf->n_tensors];
    *tensor = made->tensor;
    char *name = arena_copy(&gguf->arena, tensor->name.data, tensor->name.size);
    if (!name)
        return gguf_out_of_memory(error);
    tensor->name.data = name;
    if (gguf_tensor(gguf, name))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s stands twice", name);
    enum status status = STATUS_OK;
    if (!tensor->data)
        status = reserve(gguf->making, gguf->n_tensors, *made, tensor, error);
    if (status == STATUS_OK)
        gguf_names_add(&gguf->names, tensor->name, gguf->n_tensors++);
    return status;
}

// The keys as a file without tensors, in a mapping like any other part's.
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

static enum status build(struct gguf *gguf, const char *path, const struct gguf_writer *keys,
                         const struct gguf_made_tensor *tensors, size_t n_tensors, struct error *error)
{
    gguf->parts = arena_allocate_array(&gguf->arena, 1, sizeof *gguf->parts);
    gguf->tensors = arena_allocate_array(&gguf->arena, n_tensors + 1, sizeof *gguf->tensors);
    gguf->making->regions = calloc(n_tensors + 1, sizeof *gguf->making->regions);
    if (!gguf->parts || !gguf->tensors || !gguf->making->regions)
        return gguf_out_of_memory(error);
    enum status status = add_keys(gguf, path, keys, error);
    if (status == STATUS_OK)
        status = gguf_names_create(&gguf->names, n_tensors, &gguf->arena, error);
    for (size_t i = 0; i < n_tensors && status == STATUS_OK; i++)
        status = add_tensor(gguf, &tensors[i], error);
    if (status == STATUS_OK)
        qsort(gguf->making->regions, gguf->making->n_regions, sizeof *gguf->making->regions, compare_regions);
    return status;
}

enum status gguf_create(struct gguf **gguf, const char *path, const struct gguf_writer *keys,
                        const struct gguf_made_tensor *tensors, size_t n_tensors, struct gguf_source source,
                        struct error *error)
{
    *gguf = NULL;
    struct gguf *created = calloc(1, sizeof *created);
    struct gguf_making *making = calloc(1, sizeof *making);
    if (!created || !making) {
        free(created);
        free(making);
        if (source.finish)
            source.finish(source.context);
        return gguf_out_of_memory(error);
    }
    making->source = source;
    created->making = making;
    enum status status = build(created, path, keys, tensors, n_tensors, error);
    if (status == STATUS_OK)
        *gguf = created;
    else
        gguf_close(created);
    return status;
}
