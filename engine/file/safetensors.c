#include "engine/file/safetensors.h"

#include "engine/file/mapped_file.h"
#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct safetensors_part {
    struct mapped_file file;
    char *path; // in the arena
};

struct safetensors {
    struct safetensors_part parts[SAFETENSORS_FILES_MAX];
    size_t n_parts;
    struct safetensors_tensor *tensors; // sorted by name once all files are open
    size_t n_tensors, capacity;
    struct arena arena; // holds the headers
};

// Item sizes of the types in the format. A file may have tensors of types that cannot be read, if no model
// needs them.
static const struct {
    const char *name;
    uint32_t bytes;
    bool readable;
    enum tensor_type type;
} dtypes[] = {
    {"F32", 4, true, TENSOR_F32},  {"F16", 2, true, TENSOR_F16}, {"BF16", 2, true, TENSOR_BF16},
    {"BOOL", 1, false, 0},         {"U8", 1, false, 0},          {"I8", 1, false, 0},
    {"F8_E5M2", 1, false, 0},      {"F8_E4M3", 1, false, 0},     {"F8_E8M0", 1, false, 0},
    {"I16", 2, false, 0},          {"U16", 2, false, 0},         {"I32", 4, false, 0},
    {"U32", 4, false, 0},          {"I64", 8, false, 0},         {"U64", 8, false, 0},
    {"F64", 8, false, TENSOR_F64},
};

static enum status refuse_tensor(struct error *error, struct text name, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: %s", (int)name.size, name.data,
                     what);
}

// --- One tensor's entry ---

static enum status parse_shape(const struct value *shape, struct text name, struct safetensors_tensor *out,
                               uint64_t *n_items, struct error *error)
{
    if (!shape || shape->kind != VALUE_ARRAY)
        return refuse_tensor(error, name, "\"shape\" is missing or no array");
    size_t n_dims = shape->array.n_items;
    if (n_dims > SAFETENSORS_DIMS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tensor %.*s: %zu dimensions, at most %d", (int)name.size, name.data, n_dims,
                         SAFETENSORS_DIMS_MAX);
    out->tensor.n_dims = n_dims < 1 ? 1 : n_dims < TENSOR_DIMS_MAX ? (uint32_t)n_dims : TENSOR_DIMS_MAX;
    *n_items = 1;
    for (size_t i = 0; i < TENSOR_DIMS_MAX; i++)
        out->tensor.dims[i] = 1;
    for (size_t i = 0; i < n_dims; i++) {
        const struct value *dim = &shape->array.items[n_dims - 1 - i];
        if (dim->kind != VALUE_INTEGER || dim->integer < 1)
            return refuse_tensor(error, name, "\"shape\": expected whole numbers above 0");
        if (__builtin_mul_overflow(*n_items, (uint64_t)dim->integer, n_items) || *n_items > INT64_MAX / 8)
            return refuse_tensor(error, name, "\"shape\": too many items");
        out->tensor.dims[i < TENSOR_DIMS_MAX ? i : TENSOR_DIMS_MAX - 1] *= (uint64_t)dim->integer;
    }
    return STATUS_OK;
}

static enum status parse_offsets(const struct value *offsets, struct text name, uint32_t item_bytes,
                                 size_t available, uint64_t *begin, uint64_t *end, struct error *error)
{
    if (!offsets || offsets->kind != VALUE_ARRAY || offsets->array.n_items != 2 ||
        offsets->array.items[0].kind != VALUE_INTEGER || offsets->array.items[1].kind != VALUE_INTEGER ||
        offsets->array.items[0].integer < 0 ||
        offsets->array.items[1].integer < offsets->array.items[0].integer)
        return refuse_tensor(error, name, "\"data_offsets\": expected two ascending whole numbers");
    *begin = (uint64_t)offsets->array.items[0].integer;
    *end = (uint64_t)offsets->array.items[1].integer;
    if (*end > available)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: ends at byte %llu of the data, which has %zu (truncated?)",
                         (int)name.size, name.data, (unsigned long long)*end, available);
    if (*begin % item_bytes)
        return refuse_tensor(error, name, "its offset is not a multiple of its items' size");
    return STATUS_OK;
}

static enum status parse_tensor(struct text name, const struct value *entry, const unsigned char *data,
                                size_t available, struct safetensors_tensor *out, struct error *error)
{
    const struct value *dtype = value_get(entry, "dtype");
    if (name.size == 0 || name.size > SAFETENSORS_NAME_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "a tensor's name has %zu bytes, expected 1 to %d", name.size,
                         SAFETENSORS_NAME_BYTES_MAX);
    if (entry->kind != VALUE_OBJECT || !dtype || dtype->kind != VALUE_STRING)
        return refuse_tensor(error, name, "\"dtype\" is missing or no string");
    size_t d = 0;
    while (d < sizeof dtypes / sizeof *dtypes && !text_equals_string(dtype->text, dtypes[d].name))
        d++;
    if (d == sizeof dtypes / sizeof *dtypes)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "tensor %.*s: unknown dtype \"%.*s\"",
                         (int)name.size, name.data, (int)(dtype->text.size < 32 ? dtype->text.size : 32),
                         dtype->text.data);
    *out = (struct safetensors_tensor){.dtype = dtypes[d].name, .readable = dtypes[d].readable};
    out->tensor.name = name;
    out->tensor.type = dtypes[d].type;
    uint64_t n_items = 0, begin = 0, end = 0;
    enum status status = parse_shape(value_get(entry, "shape"), name, out, &n_items, error);
    if (status == STATUS_OK)
        status = parse_offsets(value_get(entry, "data_offsets"), name, dtypes[d].bytes, available, &begin,
                               &end, error);
    if (status != STATUS_OK)
        return status;
    out->tensor.size_bytes = n_items * dtypes[d].bytes;
    if (end - begin != out->tensor.size_bytes)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: its shape needs %llu bytes, it has %llu", (int)name.size, name.data,
                         (unsigned long long)out->tensor.size_bytes, (unsigned long long)(end - begin));
    out->tensor.data = data + begin;
    return STATUS_OK;
}

// --- One file ---

static int compare_places(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    return (left->tensor.data > right->tensor.data) - (left->tensor.data < right->tensor.data);
}

// Each tensor must begin where the previous one ends, and the last tensor must end at the end of the file.
static enum status check_places(struct safetensors_tensor *tensors, size_t n_tensors,
                                const unsigned char *data, size_t available, struct error *error)
{
    if (n_tensors)
        qsort(tensors, n_tensors, sizeof *tensors, compare_places);
    const unsigned char *at = data;
    for (size_t i = 0; i < n_tensors; i++) {
        const struct tensor *tensor = &tensors[i].tensor;
        if ((const unsigned char *)tensor->data != at)
            return refuse_tensor(error, tensor->name,
                                 (const unsigned char *)tensor->data < at ? "overlaps another tensor"
                                                                          : "a hole is before its data");
        at += tensor->size_bytes;
    }
    if ((size_t)(at - data) != available)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%zu bytes after the last tensor belong to none", available - (size_t)(at - data));
    return STATUS_OK;
}

static enum status reserve_tensors(struct safetensors *safetensors, size_t n_more, struct error *error)
{
    size_t wanted = safetensors->n_tensors + n_more;
    if (wanted > SAFETENSORS_TENSORS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%zu tensors, at most %d", wanted,
                         SAFETENSORS_TENSORS_MAX);
    if (wanted <= safetensors->capacity)
        return STATUS_OK;
    size_t capacity = wanted > 2 * safetensors->capacity ? wanted : 2 * safetensors->capacity;
    void *tensors = realloc(safetensors->tensors, capacity * sizeof *safetensors->tensors);
    if (!tensors)
        return error_memory(error, STATUS_REFUSE, "the index of the weights");
    safetensors->tensors = tensors;
    safetensors->capacity = capacity;
    return STATUS_OK;
}

static enum status parse_header(struct safetensors *safetensors, const struct safetensors_part *part,
                                struct error *error)
{
    uint64_t size = 0;
    if (part->file.size < 8)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "not a safetensors file: %zu bytes",
                         part->file.size);
    for (int i = 0; i < 8; i++)
        size |= (uint64_t)part->file.data[i] << (8 * i);
    if (size > part->file.size - 8)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "a header of %llu bytes in a file of %zu: truncated, or not a safetensors file",
                         (unsigned long long)size, part->file.size);
    if (size > SAFETENSORS_HEADER_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "a header of %llu bytes, at most %d",
                         (unsigned long long)size, SAFETENSORS_HEADER_BYTES_MAX);
    struct value header;
    struct text json = {(const char *)part->file.data + 8, (size_t)size};
    if (json_decode_document(json, &safetensors->arena, &header, error) != STATUS_OK) {
        error->status = STATUS_REFUSE;
        return error_prefix(error, "header");
    }
    if (header.kind != VALUE_OBJECT)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "header: expected an object");
    const unsigned char *data = part->file.data + 8 + size;
    size_t available = part->file.size - 8 - (size_t)size, first = safetensors->n_tensors;
    enum status status = reserve_tensors(safetensors, header.object.n_members, error);
    for (size_t i = 0; i < header.object.n_members && status == STATUS_OK; i++) {
        const struct value_member *member = &header.object.members[i];
        if (text_equals_string(member->key, "__metadata__"))
            continue;
        status = parse_tensor(member->key, &member->value, data, available,
                              &safetensors->tensors[safetensors->n_tensors], error);
        safetensors->n_tensors += status == STATUS_OK;
    }
    if (status == STATUS_OK)
        status = check_places(safetensors->tensors ? safetensors->tensors + first : NULL,
                              safetensors->n_tensors - first, data, available, error);
    return status;
}

static enum status open_part(struct safetensors *safetensors, const char *path, struct error *error)
{
    if (safetensors->n_parts == SAFETENSORS_FILES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "more than %d files of weights",
                         SAFETENSORS_FILES_MAX);
    struct safetensors_part *part = &safetensors->parts[safetensors->n_parts];
    *part = (struct safetensors_part){.path = arena_copy(&safetensors->arena, path, strlen(path))};
    enum status status = part->path ? mapped_file_open(&part->file, path, error)
                                    : error_memory(error, STATUS_REFUSE, "the index of the weights");
    if (status == STATUS_OK) {
        safetensors->n_parts++;
        status = parse_header(safetensors, part, error);
    }
    return status == STATUS_OK ? status : error_prefix(error, "%s", path);
}

// --- A folder ---

static int compare_texts(const void *a, const void *b)
{
    const struct text *left = a, *right = b;
    size_t size = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->data, right->data, size);
    return order ? order : (left->size > right->size) - (left->size < right->size);
}

// Whether the name is a plain file name in the folder: the index must not lead elsewhere.
static bool is_plain_name(struct text name)
{
    return name.size > 0 && name.size < 256 && name.data[0] != '.' && !memchr(name.data, '/', name.size) &&
           !memchr(name.data, '\0', name.size);
}

static enum status open_files(struct safetensors *safetensors, const char *folder, const struct value *map,
                              struct error *error)
{
    size_t n = map->object.n_members;
    struct text *names = calloc(n + 1, sizeof *names);
    if (!names)
        return error_memory(error, STATUS_REFUSE, "the index of the weights");
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct value *name = &map->object.members[i].value;
        if (name->kind != VALUE_STRING || !is_plain_name(name->text))
            status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                               "weight_map: a tensor's place is not the name of a file in the folder");
        else
            names[i] = name->text;
    }
    if (status == STATUS_OK)
        qsort(names, n, sizeof *names, compare_texts);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        char path[4096 + 256];
        if (i > 0 && text_equal(names[i], names[i - 1]))
            continue;
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)names[i].size, names[i].data);
        status = open_part(safetensors, path, error);
    }
    free(names);
    return status;
}

static enum status open_index(struct safetensors *safetensors, const char *folder, const char *path,
                              struct error *error)
{
    struct mapped_file file;
    struct value index;
    enum status status = mapped_file_open(&file, path, error);
    if (status == STATUS_OK) {
        struct text json = {(const char *)file.data, file.size};
        if (json_decode_document(json, &safetensors->arena, &index, error) != STATUS_OK)
            status = error->status = STATUS_REFUSE;
        mapped_file_close(&file);
    }
    const struct value *map = status == STATUS_OK ? value_get(&index, "weight_map") : NULL;
    if (status == STATUS_OK && (!map || map->kind != VALUE_OBJECT || map->object.n_members == 0))
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "\"weight_map\" is missing or no object");
    if (status != STATUS_OK)
        return error_prefix(error, "%s", path);
    return open_files(safetensors, folder, map, error);
}

static int compare_names(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    return compare_texts(&left->tensor.name, &right->tensor.name);
}

static enum status sort_by_name(struct safetensors *safetensors, const char *path, struct error *error)
{
    if (safetensors->n_tensors)
        qsort(safetensors->tensors, safetensors->n_tensors, sizeof *safetensors->tensors, compare_names);
    for (size_t i = 1; i < safetensors->n_tensors; i++)
        if (compare_names(&safetensors->tensors[i - 1], &safetensors->tensors[i]) == 0)
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s: tensor %.*s is in two files", path,
                             (int)safetensors->tensors[i].tensor.name.size,
                             safetensors->tensors[i].tensor.name.data);
    return STATUS_OK;
}

static enum status open_any(struct safetensors *safetensors, const char *path, struct error *error)
{
    char name[4096 + 64];
    struct stat information;
    if (strlen(path) > 4096)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "a path of %zu bytes, at most 4096", strlen(path));
    if (stat(path, &information) != 0 || !S_ISDIR(information.st_mode))
        return open_part(safetensors, path, error);
    snprintf(name, sizeof name, "%s/model.safetensors.index.json", path);
    if (access(name, F_OK) == 0)
        return open_index(safetensors, path, name, error);
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    return open_part(safetensors, name, error);
}

enum status safetensors_open(struct safetensors **safetensors, const char *path, struct error *error)
{
    *safetensors = NULL;
    struct safetensors *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, STATUS_REFUSE, "the index of the weights");
    enum status status = open_any(opened, path, error);
    if (status == STATUS_OK)
        status = sort_by_name(opened, path, error);
    if (status == STATUS_OK)
        *safetensors = opened;
    else
        safetensors_close(opened);
    return status;
}

void safetensors_close(struct safetensors *safetensors)
{
    if (!safetensors)
        return;
    for (size_t i = 0; i < safetensors->n_parts; i++)
        mapped_file_close(&safetensors->parts[i].file);
    free(safetensors->tensors);
    arena_finish(&safetensors->arena);
    free(safetensors);
}

size_t safetensors_n_tensors(const struct safetensors *safetensors)
{
    return safetensors->n_tensors;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *safetensors, size_t index)
{
    return &safetensors->tensors[index];
}

size_t safetensors_find(const struct safetensors *safetensors, struct text name)
{
    struct safetensors_tensor wanted = {.tensor.name = name};
    const struct safetensors_tensor *found =
        safetensors->n_tensors
            ? bsearch(&wanted, safetensors->tensors, safetensors->n_tensors, sizeof wanted, compare_names)
            : NULL;
    return found ? (size_t)(found - safetensors->tensors) : SIZE_MAX;
}

uint64_t safetensors_content_hash(const struct safetensors *safetensors, uint64_t seed, struct pool *pool,
                                  const struct interrupt *interrupt)
{
    for (size_t i = 0; i < safetensors->n_parts; i++)
        seed = mapped_file_hash(&safetensors->parts[i].file, seed, pool, interrupt);
    return seed;
}

enum status safetensors_check_files(const struct safetensors *safetensors, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < safetensors->n_parts && status == STATUS_OK; i++)
        status = mapped_file_check(&safetensors->parts[i].file, safetensors->parts[i].path, error);
    return status;
}
