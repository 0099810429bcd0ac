#include "engine/model/model.h"

#include "engine/model/adapter.h"
#include "engine/model/family.h"
#include "engine/model/folder/model_folder.h"
#include "engine/model/model_parts.h"

#include <stdlib.h>
#include <string.h>

static const char *family_name_at(size_t index)
{
    const struct family *family = family_at(index);
    return family ? family->name : NULL;
}

static enum status find_family(struct model *model, struct error *error)
{
    struct text name = {0};
    bool found = false;
    enum status status = gguf_text(model->gguf, "general.architecture", &name, &found, error);
    if (status != STATUS_OK)
        return status;
    if (!found)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "key general.architecture is missing");
    model->family = family_find(name);
    if (!model->family)
        return family_refuse_unknown(error, "model family", name, family_name_at);
    return STATUS_OK;
}

static void set_name(struct model *model, const char *path)
{
    struct text name = {0};
    struct error ignored;
    if (gguf_text(model->gguf, "general.name", &name, NULL, &ignored) != STATUS_OK || name.size == 0) {
        const char *slash = strrchr(path, '/');
        name = text_from_string(slash ? slash + 1 : path);
    }
    size_t size = name.size < sizeof model->name - 1 ? name.size : sizeof model->name - 1;
    memcpy(model->name, name.data, utf8_complete_prefix(name.data, size));
}

static enum status read_model(struct model *model, struct error *error)
{
    const char *path = gguf_path(model->gguf);
    enum status status = find_family(model, error);
    if (status == STATUS_OK)
        status = model_read_shape(model, error);
    if (status == STATUS_OK)
        status = model_read_rope(model, error);
    if (status == STATUS_OK)
        status = model_read_tensors(model, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s", path);
    set_name(model, path);
    return STATUS_OK;
}

enum status model_open(struct model **model, const char *path, struct error *error)
{
    struct gguf *gguf;
    *model = NULL;
    enum status status = model_folder_open(&gguf, path, error);
    return status == STATUS_OK ? model_open_taking(model, gguf, error) : status;
}

enum status model_open_taking(struct model **model, struct gguf *gguf, struct error *error)
{
    *model = NULL;
    struct model *opened = calloc(1, sizeof *opened);
    if (!opened) {
        gguf_close(gguf);
        return error_memory(error, STATUS_REFUSE, "a model");
    }
    opened->gguf = gguf;
    enum status status = read_model(opened, error);
    if (status != STATUS_OK) {
        model_close(opened);
        return status;
    }
    *model = opened;
    return STATUS_OK;
}

void model_close(struct model *model)
{
    if (!model)
        return;
    rope_finish(&model->rope[0]);
    rope_finish(&model->rope[1]);
    rope_finish(&model->rope_long);
    free(model->layers);
    free(model->heads);
    free(model->paged);
    free(model->ngrams);
    free(model->ones);
    adapters_destroy(model->adapters);
    gguf_close(model->gguf);
    free(model);
}

bool model_has_logits(const struct model *model)
{
    return !model->shape.bidirectional && !gguf_has(model->gguf, MODEL_FOLDER_NO_OUTPUT);
}

const char *model_family_name(const struct model *model)
{
    return model->family->name;
}

uint64_t model_weight_bytes(const struct model *model)
{
    uint64_t bytes = model_adapter_bytes(model);
    for (size_t i = 0; i < gguf_n_tensors(model->gguf); i++)
        bytes += gguf_tensor_at(model->gguf, i)->size_bytes;
    return bytes;
}

static uint64_t mapped_bytes(const struct model *model, const struct tensor *table)
{
    return gguf_is_generated(model->gguf, table) ? 0 : table->size_bytes;
}

uint64_t model_mapped_bytes(const struct model *model)
{
    uint64_t bytes = mapped_bytes(model, &model->layer_embd);
    for (int32_t i = 0; i < model->shape.n_layers && model->shape.ngram.n_layers; i++)
        bytes += mapped_bytes(model, &model->layers[i].tensors[SLOT_NGRAM_TABLE]);
    return bytes;
}

uint64_t model_n_parameters(const struct model *model)
{
    uint64_t n = 0;
    for (size_t i = 0; i < gguf_n_tensors(model->gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(model->gguf, i);
        n += tensor->dims[0] * tensor_n_rows(tensor);
    }
    return n;
}

uint64_t model_fingerprint(const struct model *model, struct pool *pool, const struct interrupt *interrupt)
{
    return gguf_content_hash(model->gguf, pool, interrupt);
}
