#include "engine/model/adapter_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The slots whose products the forward pass makes with their adapters (engine/forward_adapter.c).
static const enum layer_slot adapted_slots[] = {SLOT_ATTN_Q,      SLOT_ATTN_K,    SLOT_ATTN_V,
                                                SLOT_ATTN_GATE,   SLOT_ATTN_OUT,  SLOT_FFN_GATE,
                                                SLOT_FFN_UP,      SLOT_FFN_DOWN,  SLOT_ROUTER,
                                                SLOT_SHARED_GATE, SLOT_SHARED_UP, SLOT_SHARED_DOWN};

static bool can_adapt(const struct model *model, enum layer_slot slot)
{
    return !model->shape.latent.dim || (slot != SLOT_ATTN_Q && slot != SLOT_ATTN_K && slot != SLOT_ATTN_V);
}

static bool texts_equal(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static int shown_size(struct text name)
{
    return name.size < 128 ? (int)name.size : 128;
}

static enum status wrong_dims(const struct tensor *tensor, uint64_t n_cols, uint64_t n_rows,
                              struct error *error)
{
    char expected[64], got[64];
    struct tensor wanted = {.n_dims = 2, .dims = {n_cols, n_rows, 1, 1}};
    tensor_shape_text(&wanted, expected);
    tensor_shape_text(tensor, got);
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: expected %s, the adapter has %s",
                     shown_size(tensor->name), tensor->name.data, expected, got);
}

// `whole`: the target, of which a slot may be a slice.
static enum status check_pair(const struct adapter_pair *pair, const struct tensor *whole,
                              struct error *error)
{
    const struct tensor *both[] = {pair->down, pair->up};
    uint64_t rank = pair->down->dims[1];
    for (int i = 0; i < 2; i++)
        if (!tensor_traits(both[i]->type)->dequantize)
            return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                             "tensor %.*s: type %s can't be computed with", shown_size(both[i]->name),
                             both[i]->name.data,
                             tensor_traits(both[i]->type)->name ? tensor_traits(both[i]->type)->name : "?");
    if (rank == 0 || rank > ADAPTER_RANK_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tensor %.*s: expected a rank from 1 to %d, the adapter has %llu",
                         shown_size(pair->down->name), pair->down->name.data, ADAPTER_RANK_MAX,
                         (unsigned long long)rank);
    if (pair->down->dims[0] != whole->dims[0] || pair->down->dims[2] * pair->down->dims[3] != 1)
        return wrong_dims(pair->down, whole->dims[0], rank, error);
    if (pair->up->dims[0] != rank || pair->up->dims[1] != whole->dims[1] ||
        pair->up->dims[2] * pair->up->dims[3] != 1)
        return wrong_dims(pair->up, rank, whole->dims[1], error);
    if (!isfinite(pair->scale))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: its scale is not finite",
                         shown_size(pair->up->name), pair->up->name.data);
    return STATUS_OK;
}

static struct folder_shape order_of(const struct model *model, int32_t layer)
{
    if (layer == LAYER_OUTPUT)
        return (struct folder_shape){0};
    struct layer_heads heads = model_layer_heads(model, layer);
    return (struct folder_shape){.n_heads = heads.n_heads,
                                 .n_kv_heads = heads.n_kv_heads,
                                 .head_dim = heads.key_dim};
}

static enum status add_part(struct model *model, const struct adapter_pair *pair, int32_t layer,
                            enum layer_slot slot, uint64_t first_row, struct error *error)
{
    struct adapters *adapters = model->adapters;
    struct folder_shape shape = order_of(model, layer);
    if (pair->form != FORM_AS_IS &&
        (!shape.n_heads || !shape.n_kv_heads || !folder_rows_fit(&shape, pair->form, pair->up)))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: expected rows of as many heads as the model has",
                         shown_size(pair->up->name), pair->up->name.data);
    for (size_t i = adapters->file_parts; i < adapters->n_parts; i++)
        if (adapters->parts[i].layer == layer && adapters->parts[i].slot == slot)
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "tensor %.*s: the adapter has two for the same matrix",
                             shown_size(pair->up->name), pair->up->name.data);
    if (adapters->n_parts == adapters->capacity) {
        size_t capacity = adapters->capacity ? 2 * adapters->capacity : 64;
        struct adapter_part *parts = realloc(adapters->parts, capacity * sizeof *parts);
        if (!parts)
            return error_memory(error, STATUS_REFUSE, "an adapter");
        adapters->parts = parts;
        adapters->capacity = capacity;
    }
    adapters->parts[adapters->n_parts++] =
        (struct adapter_part){.set = adapters->files[adapters->n_files - 1].set,
                              .layer = layer,
                              .slot = slot,
                              .down = *pair->down,
                              .up = *pair->up,
                              .first_row = first_row,
                              .form = pair->form,
                              .scale = pair->scale};
    return STATUS_OK;
}

enum status adapter_add_pair(struct model *model, const struct adapter_pair *pair, struct error *error)
{
    if (text_equals_string(pair->target, "output.weight") && model->output.data) {
        enum status status = check_pair(pair, &model->output, error);
        return status == STATUS_OK ? add_part(model, pair, LAYER_OUTPUT, SLOT_COUNT, 0, error) : status;
    }
    int n_added = 0;
    for (int32_t layer = 0; layer < model->shape.n_layers; layer++)
        for (size_t i = 0; i < sizeof adapted_slots / sizeof *adapted_slots; i++) {
            enum layer_slot slot = adapted_slots[i];
            const struct tensor *part = &model->layers[layer].tensors[slot];
            if (!part->data || !can_adapt(model, slot) || !texts_equal(part->name, pair->target))
                continue;
            char name[GGUF_TENSOR_NAME_BYTES_MAX + 1];
            snprintf(name, sizeof name, "%.*s", (int)part->name.size, part->name.data);
            const struct tensor *whole = gguf_tensor(model->gguf, name);
            whole = whole ? whole : part;
            enum status status = check_pair(pair, whole, error);
            uint64_t offset = (uint64_t)((const char *)part->data - (const char *)whole->data);
            if (status == STATUS_OK)
                status = add_part(model, pair, layer, slot, offset / tensor_row_bytes(whole), error);
            if (status != STATUS_OK)
                return status;
            n_added++;
        }
    return n_added
               ? STATUS_OK
               : error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                           "tensor %.*s: %s has no matrix %.*s that can be adapted (adapted are attention, "
                           "MLPs that are no experts, routers and the output matrix)",
                           shown_size(pair->up->name), pair->up->name.data, model->name,
                           shown_size(pair->target), pair->target.data);
}

void adapters_destroy(struct adapters *adapters)
{
    if (!adapters)
        return;
    for (int i = 0; i < adapters->n_files; i++) {
        gguf_close(adapters->files[i].gguf);
        safetensors_close(adapters->files[i].weights);
    }
    free(adapters->parts);
    free(adapters);
}

int model_n_adapters(const struct model *model)
{
    return model->adapters ? model->adapters->n_files : 0;
}

int model_n_adapter_sets(const struct model *model)
{
    return model->adapters ? model->adapters->n_sets : 1;
}

bool model_adapter_is_in(const struct model *model, int index, int32_t set)
{
    int32_t own = model->adapters->files[index].set;
    return own == 0 || own == set;
}

uint64_t model_adapter_fingerprint(const struct model *model, int index, struct pool *pool,
                                   const struct interrupt *interrupt)
{
    const struct adapter_file *file = &model->adapters->files[index];
    return file->gguf ? gguf_content_hash(file->gguf, pool, interrupt)
                      : safetensors_content_hash(file->weights, file->settings_hash, pool, interrupt);
}

double model_adapter_scale(const struct model *model, int index)
{
    return model->adapters->files[index].scale;
}

enum status model_check_adapters(const struct model *model, struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < model_n_adapters(model) && status == STATUS_OK; i++) {
        const struct adapter_file *file = &model->adapters->files[i];
        status =
            file->gguf ? gguf_check_files(file->gguf, error) : safetensors_check_files(file->weights, error);
    }
    return status;
}

static bool is_of(const struct adapter_part *part, int32_t set, int32_t layer, enum layer_slot slot)
{
    return part->layer == layer && part->slot == slot && (part->set == 0 || part->set == set);
}

int32_t model_adapter_rank(const struct model *model, int32_t set, int32_t layer, enum layer_slot slot)
{
    const struct adapters *adapters = model->adapters;
    int32_t rank = 0;
    for (size_t i = 0; adapters && i < adapters->n_parts; i++)
        if (is_of(&adapters->parts[i], set, layer, slot))
            rank += (int32_t)adapters->parts[i].down.dims[1];
    return rank;
}

int32_t model_adapter_rank_max(const struct model *model)
{
    return model->adapters ? model->adapters->rank_max : 0;
}

static const struct tensor *tensor_of(const struct model *model, const struct adapter_part *part)
{
    return part->layer == LAYER_OUTPUT ? &model->output : &model->layers[part->layer].tensors[part->slot];
}

// Transposes the part's rows of B, a row at a time. `up` [rank, n_outputs].
static void read_up(const struct model *model, const struct adapter_part *part, float *up)
{
    const struct folder_shape shape = order_of(model, part->layer);
    uint64_t n_outputs = tensor_of(model, part)->dims[1], rank = part->up.dims[0], n_rows = part->up.dims[1];
    float row[ADAPTER_RANK_MAX];
    for (uint64_t i = 0; i < n_outputs; i++) {
        uint64_t from = part->form == FORM_AS_IS
                            ? part->first_row + i
                            : folder_source_row(&shape, part->form, part->first_row + i, n_rows);
        tensor_traits(part->up.type)
            ->dequantize((const char *)part->up.data + from * tensor_row_bytes(&part->up), row, rank);
        for (uint64_t k = 0; k < rank; k++)
            up[k * n_outputs + i] = (float)(part->scale * (double)row[k]);
    }
}

void model_adapter_read(const struct model *model, int32_t set, int32_t layer, enum layer_slot slot,
                        float *down, float *up)
{
    const struct adapters *adapters = model->adapters;
    for (size_t i = 0; i < adapters->n_parts; i++) {
        const struct adapter_part *part = &adapters->parts[i];
        if (!is_of(part, set, layer, slot))
            continue;
        uint64_t rank = part->down.dims[1], n_inputs = part->down.dims[0];
        for (uint64_t k = 0; k < rank; k++, down += n_inputs)
            tensor_traits(part->down.type)
                ->dequantize((const char *)part->down.data + k * tensor_row_bytes(&part->down), down,
                             n_inputs);
        read_up(model, part, up);
        up += rank * tensor_of(model, part)->dims[1];
    }
}

uint64_t model_adapter_bytes(const struct model *model)
{
    const struct adapters *adapters = model->adapters;
    uint64_t n_items = 0;
    for (size_t i = 0; adapters && i < adapters->n_parts; i++) {
        const struct adapter_part *part = &adapters->parts[i];
        uint64_t n_sets = part->set ? 1 : (uint64_t)adapters->n_sets;
        n_items += n_sets * part->down.dims[1] * (part->down.dims[0] + tensor_of(model, part)->dims[1]);
    }
    return n_items * sizeof(float);
}
