#include "engine/file/gguf.h"

#include "engine/file/gguf_file.h"
#include "engine/file/gguf_regions.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static enum status open_part(struct gguf_part *part, const char *path, struct arena *arena,
                             struct error *error)
{
    part->path = arena_copy(arena, path, strlen(path));
    if (!part->path)
        return gguf_out_of_memory(error);
    enum status status = mapped_file_open(&part->file, path, error);
    if (status == STATUS_OK) {
        part->data = part->file.data;
        part->size = part->file.size;
        status = gguf_parse(part, arena, error);
    }
    return status == STATUS_OK ? status : error_prefix(error, "%s", path);
}

static void close_part(struct gguf_part *part)
{
    if (part->file.data)
        mapped_file_close(&part->file);
    else if (part->data)
        munmap((void *)part->data, part->size);
    part->data = NULL;
}

// --- Split models: NAME-00001-of-0000N.gguf ---

enum { SPLIT_SUFFIX_BYTES = sizeof "-00001-of-00003.gguf" - 1 };

// Returns the path of part `index` (from 0) of the split model to which `path` belongs. NULL: the name has
// another form, or memory ran out.
static char *part_path(const char *path, size_t index, size_t n_parts, struct arena *arena)
{
    size_t size = strlen(path);
    unsigned number, count;
    int end = 0;
    if (size < SPLIT_SUFFIX_BYTES)
        return NULL;
    size_t stem = size - SPLIT_SUFFIX_BYTES;
    if (sscanf(path + stem, "-%5u-of-%5u.gguf%n", &number, &count, &end) != 2 || end != SPLIT_SUFFIX_BYTES ||
        count != n_parts || number < 1 || number > count)
        return NULL;
    char *result = arena_copy(arena, path, size);
    for (unsigned digit = 5, rest = (unsigned)index + 1; result && digit > 0; digit--, rest /= 10)
        result[stem + digit] = (char)('0' + rest % 10);
    return result;
}

static enum status split_numbers(const struct gguf_part *part, uint32_t *number, uint32_t *count,
                                 struct error *error)
{
    *number = 0;
    *count = 1;
    enum status status = gguf_part_u32(part, "split.no", number, NULL, error);
    if (status == STATUS_OK)
        status = gguf_part_u32(part, "split.count", count, NULL, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s", part->path);
    if (*count == 0) // some tools write 0 for "not split"
        *count = 1;
    if (*count > GGUF_PARTS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: split into %u parts, at most %d",
                         part->path, *count, GGUF_PARTS_MAX);
    if (*number >= *count)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s: says it is part %u of %u", part->path,
                         *number + 1, *count);
    return STATUS_OK;
}

static enum status open_split(struct gguf *gguf, const char *path, uint32_t n_parts, struct error *error)
{
    for (uint32_t i = 0; i < n_parts; i++) {
        char *name = part_path(path, i, n_parts, &gguf->arena);
        if (!name)
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "%s: one of %u parts, expected a name ending in -00001-of-%05u.gguf", path,
                             n_parts, n_parts);
        gguf->n_parts = i + 1;
        enum status status = open_part(&gguf->parts[i], name, &gguf->arena, error);
        if (status != STATUS_OK)
            return status;
        uint32_t number = 0, count = 1;
        status = split_numbers(&gguf->parts[i], &number, &count, error);
        if (status != STATUS_OK)
            return status;
        if (number != i || count != n_parts)
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "%s: says it is part %u of %u, expected %u of %u", name, number + 1, count,
                             i + 1, n_parts);
    }
    return STATUS_OK;
}

static enum status open_parts(struct gguf *gguf, const char *path, struct error *error)
{
    gguf->parts = arena_allocate_array(&gguf->arena, GGUF_PARTS_MAX, sizeof *gguf->parts);
    if (!gguf->parts)
        return gguf_out_of_memory(error);
    gguf->n_parts = 1;
    enum status status = open_part(&gguf->parts[0], path, &gguf->arena, error);
    if (status != STATUS_OK)
        return status;
    uint32_t number = 0, count = 1;
    status = split_numbers(&gguf->parts[0], &number, &count, error);
    if (status != STATUS_OK || count == 1)
        return status;
    close_part(&gguf->parts[0]);
    gguf->parts[0] = (struct gguf_part){0};
    gguf->n_parts = 0;
    return open_split(gguf, path, count, error);
}

static const struct tensor *tensor_find(const struct gguf *gguf, struct text name)
{
    if (!gguf->names.slots)
        return NULL;
    for (size_t i = gguf_names_start(&gguf->names, name);; i = (i + 1) & gguf->names.mask) {
        uint32_t slot = gguf->names.slots[i];
        if (slot == 0)
            return NULL;
        if (text_equal(gguf->tensors[slot - 1].name, name))
            return &gguf->tensors[slot - 1];
    }
}

static enum status merge_tensors(struct gguf *gguf, struct error *error)
{
    size_t n_tensors = 0;
    for (size_t i = 0; i < gguf->n_parts; i++)
        n_tensors += gguf->parts[i].n_tensors;
    if (n_tensors > GGUF_TENSORS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "%s: %zu tensors in all parts, at most %d", gguf_path(gguf), n_tensors,
                         GGUF_TENSORS_MAX);
    uint32_t declared = (uint32_t)n_tensors;
    enum status status = STATUS_OK;
    if (gguf->n_parts > 1)
        status = gguf_u32(gguf, "split.tensors.count", &declared, NULL, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s", gguf_path(gguf));
    if (declared != n_tensors)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s: the parts hold %zu tensors, expected %u", gguf_path(gguf), n_tensors, declared);
    status = gguf_names_create(&gguf->names, n_tensors, &gguf->arena, error);
    if (status != STATUS_OK)
        return status;
    gguf->tensors = arena_allocate_array(&gguf->arena, n_tensors, sizeof *gguf->tensors);
    if (!gguf->tensors)
        return gguf_out_of_memory(error);
    for (size_t i = 0; i < gguf->n_parts; i++) {
        for (size_t j = 0; j < gguf->parts[i].n_tensors; j++) {
            const struct tensor *tensor = &gguf->parts[i].tensors[j];
            if (tensor_find(gguf, tensor->name))
                return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s: tensor %.*s occurs twice",
                                 gguf->parts[i].path, (int)tensor->name.size, tensor->name.data);
            gguf->tensors[gguf->n_tensors] = *tensor;
            gguf_names_add(&gguf->names, tensor->name, gguf->n_tensors++);
        }
    }
    return STATUS_OK;
}

enum status gguf_open(struct gguf **gguf, const char *path, struct error *error)
{
    *gguf = NULL;
    struct gguf *opened = calloc(1, sizeof *opened);
    if (!opened)
        return gguf_out_of_memory(error);
    enum status status = open_parts(opened, path, error);
    if (status == STATUS_OK)
        status = merge_tensors(opened, error);
    if (status == STATUS_OK)
        *gguf = opened;
    else
        gguf_close(opened);
    return status;
}

void gguf_close(struct gguf *gguf)
{
    if (!gguf)
        return;
    for (size_t i = 0; i < gguf->n_parts; i++)
        close_part(&gguf->parts[i]);
    gguf_regions_destroy(gguf->regions);
    arena_finish(&gguf->arena);
    free(gguf);
}

const char *gguf_path(const struct gguf *gguf)
{
    return gguf->parts[0].path;
}

uint64_t gguf_file_bytes(const struct gguf *gguf)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf->n_parts; i++)
        bytes += gguf->parts[i].size;
    for (size_t i = 0; gguf->regions && i < gguf->n_tensors; i++)
        bytes += gguf->tensors[i].size_bytes;
    return bytes;
}

size_t gguf_n_tensors(const struct gguf *gguf)
{
    return gguf->n_tensors;
}

const struct tensor *gguf_tensor_at(const struct gguf *gguf, size_t index)
{
    assert(index < gguf->n_tensors);
    return &gguf->tensors[index];
}

const struct tensor *gguf_tensor(const struct gguf *gguf, const char *name)
{
    return tensor_find(gguf, text_from_string(name));
}

enum status gguf_load(const struct gguf *gguf, const struct tensor *tensor, struct error *error)
{
    return gguf->regions ? gguf_regions_load(gguf->regions, tensor->data, error) : STATUS_OK;
}

bool gguf_is_generated(const struct gguf *gguf, const struct tensor *tensor)
{
    return gguf->regions && gguf_regions_contain(gguf->regions, tensor->data);
}

void gguf_release(const struct gguf *gguf, const struct tensor *tensor)
{
    if (gguf_is_generated(gguf, tensor)) // freed when the next tensor is generated
        return;
    // Only pages that lie completely within the tensor: its neighbors may still be needed.
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)tensor->data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)tensor->data + tensor->size_bytes) & ~(page - 1);
    if (start < end)
        madvise((void *)start, end - start, MADV_DONTNEED); // advice: a failure changes nothing
}

uint64_t gguf_content_hash(const struct gguf *gguf, struct pool *pool, const struct interrupt *interrupt)
{
    if (gguf->regions)
        return gguf_regions_hash(gguf->regions, pool, interrupt);
    uint64_t hash = 0;
    for (size_t i = 0; i < gguf->n_parts; i++)
        hash = mapped_file_hash(&gguf->parts[i].file, hash, pool, interrupt);
    return hash;
}

enum status gguf_check_files(const struct gguf *gguf, struct error *error)
{
    enum status status = gguf->regions ? gguf_regions_check(gguf->regions, error) : STATUS_OK;
    for (size_t i = 0; i < gguf->n_parts && status == STATUS_OK; i++)
        status = mapped_file_check(&gguf->parts[i].file, gguf->parts[i].path, error);
    return status;
}
