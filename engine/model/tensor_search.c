#include "engine/model/tensor_search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool has_dims(const struct tensor *tensor, const int64_t dims[3])
{
    return tensor->dims[0] == (uint64_t)dims[0] && tensor->dims[1] == (uint64_t)dims[1] &&
           tensor->dims[2] == (uint64_t)dims[2] && tensor->dims[3] == 1;
}

enum status wrong_shape(struct tensor_search *search, const struct tensor *tensor, const int64_t dims[3])
{
    char expected[64], got[64];
    struct tensor wanted = {.n_dims = dims[2] > 1   ? 3
                                      : dims[1] > 1 ? 2
                                                    : 1,
                            .dims = {(uint64_t)dims[0], (uint64_t)dims[1], (uint64_t)dims[2], 1}};
    tensor_shape_text(&wanted, expected);
    tensor_shape_text(tensor, got);
    return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: expected %s, file has %s",
                     (int)tensor->name.size, tensor->name.data, expected, got);
}

// The name of a tensor in llama.cpp's files of T5's encoder.
static void name_t5(const char *name, char out[NAME_BYTES])
{
    static const char output[] = "attn_output.", *const globals[][2] = {
                                                     {"output_norm.weight", "enc.output_norm.weight"},
                                                     {"attn_rel_b.weight", "enc.blk.0.attn_rel_b.weight"}};
    const char *found = strstr(name, output);
    snprintf(out, NAME_BYTES, "enc.%s", name);
    for (int i = 0; i < 2; i++)
        if (strcmp(name, globals[i][0]) == 0)
            snprintf(out, NAME_BYTES, "%s", globals[i][1]);
    if (found)
        snprintf(out, NAME_BYTES, "enc.%.*sattn_o.%s", (int)(found - name), name, found + strlen(output));
}

enum status find_tensor(struct tensor_search *search, const char *name, bool required,
                        const struct tensor **tensor)
{
    char other[NAME_BYTES];
    *tensor = gguf_tensor(search->model->gguf, name);
    if (!*tensor && search->model->family->t5_names) {
        name_t5(name, other);
        *tensor = gguf_tensor(search->model->gguf, other);
    }
    if (!*tensor)
        return required
                   ? error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s is missing", name)
                   : STATUS_OK;
    search->found[search->n_found++] = *tensor;
    const struct tensor_traits *traits = tensor_traits((*tensor)->type);
    if (!traits->dequantize)
        return error_set(search->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "tensor %s: type %s can't be computed with", name,
                         traits->name ? traits->name : "?");
    return STATUS_OK;
}

// Finds the factors of an NVFP4 matrix, in a tensor of their own: one, or one per expert. input_scale is for
// engines that quantize activations to NVFP4, too; it is accepted and not used.
static enum status take_scales(struct tensor_search *search, const char *name, struct tensor *out)
{
    char other[NAME_BYTES];
    const struct tensor *scales;
    const int stem = (int)(strlen(name) - strlen(".weight"));
    snprintf(other, sizeof other, "%.*s.input_scale", stem, name);
    enum status status = find_tensor(search, other, false, &scales);
    snprintf(other, sizeof other, "%.*s.scale", stem, name);
    if (status == STATUS_OK)
        status = find_tensor(search, other, false, &scales);
    if (status != STATUS_OK || !scales)
        return status;
    out->one_scale = has_dims(scales, (int64_t[3]){1, 1, 1});
    const int64_t each[3] = {(int64_t)out->dims[2], 1, 1};
    if (!out->one_scale && !has_dims(scales, each))
        return wrong_shape(search, scales, each);
    if (scales->type != TENSOR_F32)
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s: scales of type %s",
                         other, tensor_traits(scales->type)->name);
    out->scales = scales->data;
    return STATUS_OK;
}

enum status take_tensor(struct tensor_search *search, const char *name, bool required, const int64_t dims[3],
                        struct tensor *out)
{
    const struct tensor *tensor;
    enum status status = find_tensor(search, name, required, &tensor);
    if (status != STATUS_OK || !tensor)
        return status;
    if (!has_dims(tensor, dims))
        return wrong_shape(search, tensor, dims);
    *out = *tensor;
    return STATUS_OK;
}

enum status take_matrix(struct tensor_search *search, const char *name, bool required, const int64_t dims[3],
                        struct tensor *out)
{
    enum status status = take_tensor(search, name, required, dims, out);
    // There the router's ".scale" is a vector of its input: SLOT_ROUTER_SCALE.
    bool is_input = search->model->family->experts_beside_mlp && strstr(name, ".ffn_gate_inp.");
    return status == STATUS_OK && out->data && !is_input ? take_scales(search, name, out) : status;
}

enum status take_vectors(struct tensor_search *search, const char *name, bool required, int64_t n_items,
                         int64_t n_vectors, struct tensor *out)
{
    enum status status = take_tensor(search, name, required, (int64_t[3]){n_items, n_vectors, 1}, out);
    if (status == STATUS_OK && out->data && tensor_traits(out->type)->block_items != 1)
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %s: a vector of type %s can't be used", name,
                         tensor_traits(out->type)->name);
    return status;
}

enum status take_vector(struct tensor_search *search, const char *name, bool required, int64_t n_items,
                        struct tensor *out)
{
    return take_vectors(search, name, required, n_items, 1, out);
}

void layer_name(char name[NAME_BYTES], int32_t index, const char *slot, const char *kind)
{
    snprintf(name, NAME_BYTES, "blk.%" PRId32 ".%s%s%s", index, slot, kind ? "." : "", kind ? kind : "");
}

struct tensor slice_tensor(const struct tensor *whole, int64_t first, int64_t n_rows, bool vector)
{
    struct tensor part = *whole;
    uint64_t row_bytes = vector ? tensor_traits(whole->type)->block_bytes : tensor_row_bytes(whole);
    part.data = (const char *)whole->data + (uint64_t)first * row_bytes;
    part.size_bytes = (uint64_t)n_rows * row_bytes;
    part.dims[vector ? 0 : 1] = (uint64_t)n_rows;
    return part;
}
