// Opens an adapter in any format.
#include "engine/model/adapter_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum status model_add_adapter(struct model *model, const char *path, double scale, struct buffer *unknown,
                              struct error *error)
{
    struct stat information;
    if (!isfinite(scale))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: expected a finite scale", path);
    if (!model->adapters && !(model->adapters = calloc(1, sizeof *model->adapters)))
        return error_memory(error, STATUS_REFUSE, "an adapter");
    if (model->adapters->n_files == ADAPTERS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: a model has at most %d adapters",
                         path, ADAPTERS_MAX);
    struct adapter_file *file = &model->adapters->files[model->adapters->n_files++];
    *file = (struct adapter_file){.scale = scale};
    model->adapters->file_parts = model->adapters->n_parts;
    bool is_folder = strlen(path) <= FOLDER_PATH_BYTES_MAX && stat(path, &information) == 0 &&
                     S_ISDIR(information.st_mode);
    enum status status = is_folder ? adapter_open_folder(model, file, path, unknown, error)
                                   : adapter_open_gguf(model, file, path, error);
    if (status == STATUS_OK && model->adapters->n_parts == model->adapters->file_parts)
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "an adapter without tensors");
    return status == STATUS_OK ? status : error_prefix(error, "%s", path);
}
