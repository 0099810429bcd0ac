#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status read_open_file(const struct folder_files *files, FILE *file, const char *path,
                                  struct text *content, struct error *error)
{
    struct stat information;
    if (fstat(fileno(file), &information) != 0 || !S_ISREG(information.st_mode))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: not a regular file", path);
    if (information.st_size > MODEL_FOLDER_JSON_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: %lld bytes, at most %d", path,
                         (long long)information.st_size, MODEL_FOLDER_JSON_BYTES_MAX);
    size_t size = (size_t)information.st_size;
    char *data = arena_allocate(files->arena, size + 1);
    if (!data)
        return error_memory(error, STATUS_REFUSE, "%s", path);
    if (fread(data, 1, size, file) != size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", path, strerror(errno));
    *content = (struct text){data, size};
    return STATUS_OK;
}

// NULL: errno says why. O_NONBLOCK keeps a FIFO or a device from blocking the open.
static FILE *open_at_once(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    if (descriptor >= 0 && !file)
        close(descriptor);
    return file;
}

enum status folder_read_file(const struct folder_files *files, const char *name, struct text *content,
                             bool *found, struct error *error)
{
    char path[FOLDER_PATH_BYTES_MAX + 1 + FOLDER_FILE_NAME_BYTES_MAX + 1];
    snprintf(path, sizeof path, "%s/%s", files->path, name);
    *content = (struct text){0};
    FILE *file = open_at_once(path);
    *found = file != NULL;
    if (!file)
        return errno == ENOENT || errno == ENOTDIR
                   ? STATUS_OK
                   : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
    enum status status = read_open_file(files, file, path, content, error);
    fclose(file);
    return status;
}

// Python writes an unlimited time step as Infinity, which JSON lacks: a large number, outside of texts.
static enum status replace_infinity(const struct folder_files *files, struct text *content,
                                    struct error *error)
{
    static const char infinity[] = "Infinity", number[] = "1e300   ";
    bool in_text = false;
    char *copy = NULL;
    for (size_t i = 0; i + sizeof infinity - 1 <= content->size; i++) {
        const char *at = content->data + i;
        in_text = in_text != (*at == '"');
        if (in_text && *at == '\\')
            i++;
        if (in_text || memcmp(at, infinity, sizeof infinity - 1) != 0)
            continue;
        copy = copy ? copy : arena_copy(files->arena, content->data, content->size);
        if (!copy)
            return error_memory(error, STATUS_REFUSE, "config.json");
        content->data = copy;
        memcpy(copy + i, number, sizeof number - 1);
    }
    return STATUS_OK;
}

enum status folder_read_json(const struct folder_files *files, const char *name, struct value *json,
                             bool *found, struct error *error)
{
    struct text content;
    *json = (struct value){.kind = VALUE_NULL};
    enum status status = folder_read_file(files, name, &content, found, error);
    if (status == STATUS_OK && *found && strcmp(name, "config.json") == 0)
        status = replace_infinity(files, &content, error);
    if (status != STATUS_OK || !*found)
        return status;
    if (json_decode_document(content, files->arena, json, error) != STATUS_OK) {
        error->status = STATUS_REFUSE;
        return error_prefix(error, "%s/%s", files->path, name);
    }
    if (json->kind != VALUE_OBJECT)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s/%s: expected an object", files->path,
                         name);
    return STATUS_OK;
}

// transformers would apply an adapter found beside the weights, which changes every result.
enum status folder_refuse_adapter(const struct folder_files *files, struct error *error)
{
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors",
                                        "adapter_model.bin"};
    char path[FOLDER_PATH_BYTES_MAX + 1 + FOLDER_FILE_NAME_BYTES_MAX + 1];
    struct stat information;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", files->path, names[i]);
        if (stat(path, &information) != 0)
            continue;
        struct value json = {.kind = VALUE_NULL};
        bool found = false;
        enum status status = i == 0 ? folder_read_json(files, names[i], &json, &found, error) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        const struct value *base = value_get(&json, "base_model_name_or_path");
        struct text of = base && base->kind == VALUE_STRING ? base->text : TEXT("another model");
        return error_set(
            error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
            "%s: a LoRA adapter of %.*s beside the weights: give the model without it, and the adapter's folder as "
            "--lora",
            path, of.size < 128 ? (int)of.size : 128, of.data);
    }
    return STATUS_OK;
}

enum status folder_put_name(const char *path, bool language_part, struct arena *arena,
                            struct gguf_writer *keys, struct error *error)
{
    static const char part[] = " (its language model alone)"; // of a vision-language model
    size_t end = strlen(path), start;
    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    char *name = arena_allocate(arena, end - start + sizeof part);
    if (!name)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    memcpy(name, path + start, end - start);
    memcpy(name + (end - start), part, sizeof part);
    size_t size = end - start + (language_part ? sizeof part - 1 : 0);
    gguf_writer_text(keys, "general.name", (struct text){name, size});
    return STATUS_OK;
}
