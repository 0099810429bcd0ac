// Apertus: parameters of its activation, tensors of one item, become keys with an item for each layer.
#include "engine/model/folder/folder_parts.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <string.h>

enum status folder_add_xielu(const struct safetensors *weights, const struct folder_config *config,
                             const struct folder_naming *naming, bool *used, struct gguf_writer *keys,
                             struct error *error)
{
    static const char *const names[][2] = {{"alpha_p", "xielu.alpha_p"},
                                           {"alpha_n", "xielu.alpha_n"},
                                           {"beta", "xielu.beta"},
                                           {"eps", "xielu.eps"}};
    int64_t n_layers = config->shape.n_layers;
    float items[MODEL_LAYERS_MAX];
    if (strcmp(config->family->activations, "xielu") != 0)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int64_t layer = 0; layer < n_layers; layer++) {
            char name[128];
            snprintf(name, sizeof name, "%slayers.%lld.mlp.act_fn.%s",
                     config->language_part ? naming->model : "model.", (long long)layer, names[i][0]);
            size_t index = safetensors_find(weights, text_from_string(name));
            const struct tensor *tensor = index == SIZE_MAX ? NULL : &safetensors_at(weights, index)->tensor;
            if (!tensor || tensor->dims[0] * tensor_n_rows(tensor) != 1 ||
                tensor_traits(tensor->type)->block_items != 1)
                return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s: expected one item",
                                 name);
            tensor_traits(tensor->type)->dequantize(tensor->data, &items[layer], 1);
            used[index] = true;
        }
        gguf_writer_f32s(keys, names[i][1], items, (size_t)n_layers);
    }
    return STATUS_OK;
}
