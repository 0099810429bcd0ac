#include "engine/model/model_folder.h"
#include "engine/model/model_folder_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for %s", path);
    if (fread(data, 1, size, file) != size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", path, strerror(errno));
    *content = (struct text){data, size};
    return STATUS_OK;
}

enum status folder_read_file(const struct folder_files *files, const char *name, struct text *content,
                             bool *found, struct error *error)
{
    char path[FOLDER_PATH_BYTES_MAX + 1 + FOLDER_FILE_NAME_BYTES_MAX + 1];
    snprintf(path, sizeof path, "%s/%s", files->path, name);
    *content = (struct text){0};
    FILE *file = fopen(path, "rbe");
    *found = file != NULL;
    if (!file)
        return errno == ENOENT || errno == ENOTDIR
                   ? STATUS_OK
                   : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
    enum status status = read_open_file(files, file, path, content, error);
    fclose(file);
    return status;
}

enum status folder_read_json(const struct folder_files *files, const char *name, struct value *json,
                             bool *found, struct error *error)
{
    struct text content;
    *json = (struct value){.kind = VALUE_NULL};
    enum status status = folder_read_file(files, name, &content, found, error);
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
