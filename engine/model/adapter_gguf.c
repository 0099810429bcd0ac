// Adapters in llama.cpp's GGUF files.
#include "engine/model/adapter_parts.h"

#include "engine/model/family.h"

#include <stdio.h>
#include <string.h>

static enum status expect_text(const struct gguf *gguf, const char *key, const char *expected,
                               struct error *error)
{
    struct text value = {0};
    bool found = false;
    enum status status = gguf_text(gguf, key, &value, &found, error);
    if (status != STATUS_OK || text_equals_string(value, expected))
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s: expected \"%s\", file has %s%.*s%s",
                     key, expected, found ? "\"" : "none", value.size < 64 ? (int)value.size : 64,
                     found ? value.data : "", found ? "\"" : "");
}

static bool ends_with(struct text name, const char *ending)
{
    size_t size = strlen(ending);
    return name.size > size && memcmp(name.data + name.size - size, ending, size) == 0;
}

// "X.lora_a" -> the tensor "X.lora_b".
static const struct tensor *find_up(const struct gguf *gguf, struct text down)
{
    char name[GGUF_TENSOR_NAME_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*sb", (int)down.size - 1, down.data);
    return gguf_tensor(gguf, name);
}

static enum status add_tensor(struct model *model, const struct gguf *gguf, const struct tensor *down,
                              double alpha, double scale, struct error *error)
{
    static const char ending[] = ".lora_a";
    struct adapter_pair pair = {.down = down, .up = find_up(gguf, down->name), .form = FORM_AS_IS};
    if (!pair.up)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s has no .lora_b",
                         (int)down->name.size, down->name.data);
    pair.target = (struct text){down->name.data, down->name.size - (sizeof ending - 1)};
    pair.scale = alpha != 0.0 && pair.up->dims[0] ? scale * alpha / (double)pair.up->dims[0] : scale;
    return adapter_add_pair(model, &pair, error);
}

enum status adapter_open_gguf(struct model *model, struct adapter_file *file, const char *path,
                              struct error *error)
{
    double alpha = 0.0;
    enum status status = gguf_open(&file->gguf, path, error);
    if (status == STATUS_OK)
        status = expect_text(file->gguf, "general.type", "adapter", error);
    if (status == STATUS_OK)
        status = expect_text(file->gguf, "general.architecture", model->family->name, error);
    if (status == STATUS_OK)
        status = expect_text(file->gguf, "adapter.type", "lora", error);
    if (status == STATUS_OK)
        status = gguf_number(file->gguf, "adapter.lora.alpha", &alpha, NULL, error);
    if (status == STATUS_OK && gguf_has(file->gguf, "adapter.alora.invocation_tokens"))
        status =
            error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                      "key adapter.alora.invocation_tokens: adapters that begin at some token are not built");
    for (size_t i = 0; status == STATUS_OK && i < gguf_n_tensors(file->gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(file->gguf, i);
        bool is_up = ends_with(tensor->name, ".lora_b");
        struct text other = {tensor->name.data, tensor->name.size - 1};
        char name[GGUF_TENSOR_NAME_BYTES_MAX + 1];
        snprintf(name, sizeof name, "%.*sa", (int)other.size, other.data);
        if (ends_with(tensor->name, ".lora_a"))
            status = add_tensor(model, file->gguf, tensor, alpha, file->scale, error);
        else if (!is_up || !gguf_tensor(file->gguf, name))
            status = error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                               is_up ? "tensor %.*s has no .lora_a"
                                     : "tensor %.*s: expected names that end in .lora_a and .lora_b",
                               (int)tensor->name.size, tensor->name.data);
    }
    return status;
}
