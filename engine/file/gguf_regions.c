#include "engine/file/gguf_regions.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct region { // one generated tensor
    char *data;
    size_t size; // size of the tensor
    size_t index;
    struct text name;
    bool kept, loaded;
};

struct gguf_regions {
    struct gguf_source source;
    struct region *items; // sorted by data
    size_t n_items, n_items_max;
    struct region *passing; // freed when the next tensor is generated
};

struct gguf_regions *gguf_regions_create(struct gguf_source source, size_t n_regions_max)
{
    struct gguf_regions *regions = calloc(1, sizeof *regions);
    struct region *items = calloc(n_regions_max + 1, sizeof *items);
    if (!regions || !items) {
        free(regions);
        free(items);
        if (source.finish)
            source.finish(source.context);
        return NULL;
    }
    *regions = (struct gguf_regions){.source = source, .items = items, .n_items_max = n_regions_max};
    return regions;
}

void gguf_regions_destroy(struct gguf_regions *regions)
{
    if (!regions)
        return;
    for (size_t i = 0; i < regions->n_items; i++)
        munmap(regions->items[i].data, regions->items[i].size);
    if (regions->source.finish)
        regions->source.finish(regions->source.context);
    free(regions->items);
    free(regions);
}

// Reserves addresses without memory. Pages are allocated as the tensor is written.
enum status gguf_regions_add(struct gguf_regions *regions, struct tensor *tensor, size_t index, bool kept,
                             struct error *error)
{
    assert(regions->n_items < regions->n_items_max);
    void *data = mmap(NULL, (size_t)tensor->size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no addresses for tensor %.*s",
                         (int)tensor->name.size, tensor->name.data);
    regions->items[regions->n_items++] = (struct region){
        .data = data, .size = (size_t)tensor->size_bytes, .index = index, .name = tensor->name, .kept = kept};
    tensor->data = data;
    return STATUS_OK;
}

static int compare_regions(const void *a, const void *b)
{
    const struct region *left = a, *right = b;
    return (left->data > right->data) - (left->data < right->data);
}

void gguf_regions_sort(struct gguf_regions *regions)
{
    qsort(regions->items, regions->n_items, sizeof *regions->items, compare_regions);
}

// Finds the region that contains the address; NULL: none.
static struct region *region_of(const struct gguf_regions *regions, const void *data)
{
    size_t low = 0, high = regions->n_items;
    const char *address = data;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct region *region = &regions->items[middle];
        if (address < region->data)
            high = middle;
        else if (address >= region->data + region->size)
            low = middle + 1;
        else
            return region;
    }
    return NULL;
}

bool gguf_regions_contain(const struct gguf_regions *regions, const void *data)
{
    return region_of(regions, data) != NULL;
}

static void drop_region(struct region *region)
{
    madvise(region->data, region->size, MADV_DONTNEED);
    region->loaded = false;
}

enum status gguf_regions_load(struct gguf_regions *regions, const void *data, struct error *error)
{
    struct region *region = region_of(regions, data);
    if (!region || region->loaded)
        return STATUS_OK;
    if (regions->passing) {
        drop_region(regions->passing);
        regions->passing = NULL;
    }
    enum status status = regions->source.make(regions->source.context, region->index, region->data, error);
    region->loaded = status == STATUS_OK;
    if (status != STATUS_OK)
        return error_prefix(error, "tensor %.*s", (int)region->name.size, region->name.data);
    if (!region->kept)
        regions->passing = region;
    return STATUS_OK;
}

uint64_t gguf_regions_hash(const struct gguf_regions *regions, struct pool *pool,
                           const struct interrupt *interrupt)
{
    return regions->source.hash ? regions->source.hash(regions->source.context, pool, interrupt) : 0;
}

enum status gguf_regions_check(const struct gguf_regions *regions, struct error *error)
{
    return regions->source.check ? regions->source.check(regions->source.context, error) : STATUS_OK;
}
