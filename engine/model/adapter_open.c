// Opens an adapter in any format.
#include "engine/model/adapter_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The largest rank of the matrices that the newest file adapts.
static void raise_rank(struct model *model)
{
    struct adapters *adapters = model->adapters;
    for (size_t i = adapters->file_parts; i < adapters->n_parts; i++) {
        const struct adapter_part *part = &adapters->parts[i];
        for (int32_t set = part->set; set < (part->set ? part->set + 1 : adapters->n_sets); set++) {
            int32_t rank = model_adapter_rank(model, set, part->layer, part->slot);
            adapters->rank_max = rank > adapters->rank_max ? rank : adapters->rank_max;
        }
    }
}

static bool names_safetensors(const char *path)
{
    static const char suffix[] = ".safetensors";
    size_t size = strlen(path), suffix_size = sizeof suffix - 1;
    struct stat information;
    return size > suffix_size && strcmp(path + size - suffix_size, suffix) == 0 &&
           stat(path, &information) == 0 && !S_ISDIR(information.st_mode);
}

// `set` 0: all sets.
static enum status add_file(struct model *model, int32_t set, const char *path, double scale,
                            struct buffer *unknown, struct error *error)
{
    struct stat information;
    if (!isfinite(scale))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: expected a finite scale", path);
    if (model->adapters->n_files == ADAPTERS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: a model has at most %d adapters",
                         path, ADAPTERS_MAX);
    if (names_safetensors(path))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s: a safetensors file: expected its folder, with adapter_config.json", path);
    struct adapter_file *file = &model->adapters->files[model->adapters->n_files++];
    *file = (struct adapter_file){.set = set, .scale = scale};
    model->adapters->file_parts = model->adapters->n_parts;
    bool is_folder = strlen(path) <= FOLDER_PATH_BYTES_MAX && stat(path, &information) == 0 &&
                     S_ISDIR(information.st_mode);
    enum status status = is_folder ? adapter_open_folder(model, file, path, unknown, error)
                                   : adapter_open_gguf(model, file, path, error);
    if (status == STATUS_OK && model->adapters->n_parts == model->adapters->file_parts)
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "an adapter without tensors");
    if (status != STATUS_OK)
        return error_prefix(error, "%s", path);
    raise_rank(model);
    return STATUS_OK;
}

static enum status reserve_adapters(struct model *model, struct error *error)
{
    if (model->adapters)
        return STATUS_OK;
    model->adapters = calloc(1, sizeof *model->adapters);
    if (!model->adapters)
        return error_memory(error, STATUS_REFUSE, "an adapter");
    model->adapters->n_sets = 1;
    return STATUS_OK;
}

enum status model_add_adapter(struct model *model, const char *path, double scale, struct buffer *unknown,
                              struct error *error)
{
    enum status status = reserve_adapters(model, error);
    return status == STATUS_OK ? add_file(model, 0, path, scale, unknown, error) : status;
}

enum status model_add_adapter_set(struct model *model, const char *path, double scale, struct buffer *unknown,
                                  struct error *error)
{
    enum status status = reserve_adapters(model, error);
    return status == STATUS_OK ? add_file(model, model->adapters->n_sets++, path, scale, unknown, error)
                               : status;
}
