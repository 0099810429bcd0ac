// Recurrent layers of a model file: their sizes, which layers they are, and their tensors. Keys and tensors as in
// github.com/ggml-org/llama.cpp, src/models/.
#include "engine/model/tensor_search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- Sizes ---

static void refuse_sizes(struct key_reader *reader, const struct recurrent_shape *shape)
{
    if (reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "recurrent layers: %d values can't be divided evenly by %d heads with %d "
                                   "key heads",
                                   shape->inner, shape->n_heads, shape->n_key_heads);
}

static void check_states(struct key_reader *reader, const struct recurrent_shape *shape)
{
    int64_t n_items = (int64_t)shape->key_dim * shape->inner;
    bool wide = shape->value_dim > MODEL_HEAD_DIM_MAX && shape->kind != RECURRENT_SELECTIVE;
    if (reader->status == STATUS_OK && (wide || n_items > MODEL_STATE_ITEMS_MAX))
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                                   "recurrent layers: states of %d heads of %d x %d items; at most %d items, "
                                   "and heads of %d",
                                   shape->n_heads, shape->key_dim, shape->value_dim, MODEL_STATE_ITEMS_MAX,
                                   MODEL_HEAD_DIM_MAX);
}

// Heads of the delta rule and of Mamba-2's scan. ssm.inner_size is the width of all heads' values.
static void read_heads(struct key_reader *reader, struct recurrent_shape *shape)
{
    shape->n_heads = read_size(reader, "ssm.time_step_rank", -1, 1, MODEL_HEADS_MAX);
    shape->n_key_heads = read_size(reader, "ssm.group_count", -1, 1, MODEL_HEADS_MAX);
    shape->key_dim = read_size(reader, "ssm.state_size", -1, 1, MODEL_HEAD_DIM_MAX);
    shape->inner = read_size(reader, "ssm.inner_size", -1, 1, MODEL_WIDTH_MAX);
    if (reader->status != STATUS_OK)
        return;
    shape->value_dim = shape->inner / shape->n_heads;
    shape->n_channels = 2 * shape->n_key_heads * shape->key_dim + shape->inner;
    if (shape->n_heads % shape->n_key_heads != 0 || shape->inner % shape->n_heads != 0)
        refuse_sizes(reader, shape);
}

// Bounds of the time step; GGUF has no keys for them, a folder's have a name of ours.
static void read_steps(struct key_reader *reader, struct recurrent_shape *shape)
{
    bool bounded;
    shape->step_min = read_number(reader, "ssm.time_step_min", 0.0f, NULL);
    shape->step_max = read_number(reader, "ssm.time_step_max", INFINITY, &bounded);
    if (reader->status == STATUS_OK && !(shape->step_min >= 0.0f && shape->step_min <= shape->step_max))
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%s.ssm.time_step_min and _max: %g and %g can't be used", reader->family,
                                   (double)shape->step_min, (double)shape->step_max);
}

// Heads of the delta rule with a decay for each channel, whose keys are as wide as its values. GGUF has no key for
// their number, which is attention's; a folder's has a name of ours.
static void read_channels(struct key_reader *reader, int32_t n_heads, struct recurrent_shape *shape)
{
    shape->n_taps = read_size(reader, "ssm.conv_kernel", -1, 2, MODEL_TAPS_MAX);
    shape->n_heads = read_size(reader, "kda.head_count", n_heads, 1, MODEL_HEADS_MAX);
    shape->key_dim = read_size(reader, "kda.head_dim", -1, 1, MODEL_HEAD_DIM_MAX);
    shape->n_key_heads = shape->n_heads;
    shape->value_dim = shape->rank = shape->key_dim;
    shape->inner = shape->n_heads * shape->key_dim;
    shape->n_channels = 3 * shape->inner;
}

// One head as wide as all values.
static void read_selective(struct key_reader *reader, struct recurrent_shape *shape)
{
    shape->n_taps = read_size(reader, "ssm.conv_kernel", -1, 2, MODEL_TAPS_MAX);
    shape->rank = read_size(reader, "ssm.time_step_rank", -1, 1, MODEL_WIDTH_MAX);
    shape->key_dim = read_size(reader, "ssm.state_size", -1, 1, MODEL_HEAD_DIM_MAX);
    shape->inner = read_size(reader, "ssm.inner_size", -1, 1, MODEL_WIDTH_MAX);
    shape->unit_norms = read_bool(reader, "ssm.dt_b_c_rms", false);
    // GGUF has no key for it: the authors' default, which their published models keep.
    shape->unit_epsilon = read_number(reader, "ssm.dt_b_c_rms_epsilon", 1e-6f, NULL);
    if (reader->status == STATUS_OK && !(shape->unit_epsilon >= 0.0f))
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%s.ssm.dt_b_c_rms_epsilon: expected 0 or more, got %g", reader->family,
                                   (double)shape->unit_epsilon);
    shape->n_heads = shape->n_key_heads = 1;
    shape->value_dim = shape->n_channels = shape->inner;
    shape->step_max = INFINITY;
}

void read_recurrent(struct key_reader *reader, const struct family *family, struct model_shape *shape)
{
    struct recurrent_shape *recurrent = &shape->recurrent;
    recurrent->kind = family->recurrent;
    recurrent->norm_epsilon =
        family->state_norm_epsilon > 0.0f ? family->state_norm_epsilon : shape->norm_epsilon;
    switch (family->recurrent) {
    case RECURRENT_NONE:
        return;
    case RECURRENT_DELTA:
        recurrent->tiled = family->delta_tiled;
        recurrent->separate = family->delta_tiled || family->delta_apart;
        recurrent->doubles_beta = family->delta_doubled;
        recurrent->sigmoid_gate = family->hyper && read_bool(reader, "ssm.sigmoid_gate", false);
        recurrent->n_taps = read_size(reader, "ssm.conv_kernel", -1, 2, MODEL_TAPS_MAX);
        read_heads(reader, recurrent);
        break;
    case RECURRENT_CHANNELS:
        read_channels(reader, shape->attention.n_heads, recurrent);
        break;
    case RECURRENT_SHORT:
        recurrent->n_taps = read_size(reader, "shortconv.l_cache", -1, 2, MODEL_TAPS_MAX);
        recurrent->inner = recurrent->n_channels = shape->n_embd;
        break;
    case RECURRENT_SCAN:
        recurrent->n_taps = read_size(reader, "ssm.conv_kernel", -1, 2, MODEL_TAPS_MAX);
        recurrent->normed_first = read_bool(reader, "ssm.norm_before_gate", false);
        read_heads(reader, recurrent);
        read_steps(reader, recurrent);
        break;
    case RECURRENT_SELECTIVE:
        read_selective(reader, recurrent);
        break;
    }
    check_states(reader, recurrent);
}

// --- Tensors ---

enum { VECTOR = 1, OPTIONAL = 2, BIASED = 4, SLICE = 8 };

// A tensor of a recurrent layer. SLICE: parts one after the other with the same name are rows of one matrix.
// BIASED: it may have a bias. Vectors and convolutions may have further dims of 1.
struct recurrent_part {
    enum layer_slot slot;
    const char *name, *kind; // kind NULL: the name has no suffix
    enum width dims[2];      // row length, rows
    int flags;
};

static const struct recurrent_part delta_parts[] = {
    {SLOT_STATE_INPUT, "attn_qkv", "weight", {EMBD, STATE_CHANNELS}, 0},
    {SLOT_STATE_GATE, "attn_gate", "weight", {EMBD, STATE_INNER}, 0},
    {SLOT_STATE_CONVOLUTION, "ssm_conv1d", "weight", {STATE_TAPS, STATE_CHANNELS}, VECTOR},
    {SLOT_STATE_STEP_BIAS, "ssm_dt", "bias", {STATE_HEADS, ONE}, VECTOR},
    {SLOT_STATE_DECAY, "ssm_a", NULL, {STATE_HEADS, ONE}, VECTOR},
    {SLOT_STATE_NORM, "ssm_norm", "weight", {STATE_VALUE, ONE}, VECTOR},
    {SLOT_STATE_OUT, "ssm_out", "weight", {STATE_INNER, EMBD}, 0},
};
static const struct recurrent_part delta_separate[] = {
    {SLOT_STATE_BETA, "ssm_beta", "weight", {EMBD, STATE_HEADS}, 0},
    {SLOT_STATE_STEP, "ssm_alpha", "weight", {EMBD, STATE_HEADS}, 0},
};
static const struct recurrent_part delta_together[] = {
    {SLOT_STATE_BETA_STEP, "ssm_ba", "weight", {EMBD, STATE_HEADS_TWICE}, 0},
};
static const struct recurrent_part channels_separate[] = {
    {SLOT_STATE_QUERY, "attn_q", "weight", {EMBD, STATE_INNER}, 0},
    {SLOT_STATE_KEY, "attn_k", "weight", {EMBD, STATE_INNER}, 0},
    {SLOT_STATE_VALUE, "attn_v", "weight", {EMBD, STATE_INNER}, 0},
};
static const struct recurrent_part channels_together[] = {
    {SLOT_STATE_QUERY, "attn_qkv", "weight", {EMBD, STATE_INNER}, SLICE},
    {SLOT_STATE_KEY, "attn_qkv", "weight", {EMBD, STATE_INNER}, SLICE},
    {SLOT_STATE_VALUE, "attn_qkv", "weight", {EMBD, STATE_INNER}, SLICE},
};
static const struct recurrent_part channels_parts[] = {
    {SLOT_STATE_CONVOLUTION, "ssm_conv1d_q", "weight", {STATE_TAPS, STATE_INNER}, VECTOR},
    {SLOT_STATE_CONVOLUTION_KEY, "ssm_conv1d_k", "weight", {STATE_TAPS, STATE_INNER}, VECTOR},
    {SLOT_STATE_CONVOLUTION_VALUE, "ssm_conv1d_v", "weight", {STATE_TAPS, STATE_INNER}, VECTOR},
    {SLOT_STATE_BETA, "ssm_beta", "weight", {EMBD, STATE_HEADS}, 0},
    {SLOT_STATE_STEP_LOW, "ssm_f_a", "weight", {EMBD, STATE_RANK}, 0},
    {SLOT_STATE_STEP, "ssm_f_b", "weight", {STATE_RANK, STATE_INNER}, 0},
    {SLOT_STATE_GATE_LOW, "ssm_g_a", "weight", {EMBD, STATE_RANK}, 0},
    {SLOT_STATE_GATE, "ssm_g_b", "weight", {STATE_RANK, STATE_INNER}, 0},
    {SLOT_STATE_STEP_BIAS, "ssm_dt", "bias", {STATE_INNER, ONE}, VECTOR},
    {SLOT_STATE_DECAY, "ssm_a", NULL, {STATE_HEADS, ONE}, VECTOR},
    {SLOT_STATE_NORM, "ssm_norm", "weight", {STATE_VALUE, ONE}, VECTOR},
    {SLOT_STATE_OUT, "attn_output", "weight", {STATE_INNER, EMBD}, 0},
};
static const struct recurrent_part short_parts[] = {
    {SLOT_STATE_B, "shortconv.in_proj", "weight", {EMBD, STATE_INNER}, SLICE | BIASED},
    {SLOT_STATE_C, "shortconv.in_proj", "weight", {EMBD, STATE_INNER}, SLICE | BIASED},
    {SLOT_STATE_INPUT, "shortconv.in_proj", "weight", {EMBD, STATE_INNER}, SLICE | BIASED},
    {SLOT_STATE_CONVOLUTION, "shortconv.conv", "weight", {STATE_TAPS, STATE_CHANNELS}, VECTOR | BIASED},
    {SLOT_STATE_OUT, "shortconv.out_proj", "weight", {STATE_INNER, EMBD}, BIASED},
};
static const struct recurrent_part scan_parts[] = {
    {SLOT_STATE_GATE, "ssm_in", "weight", {EMBD, STATE_INNER}, SLICE | BIASED},
    {SLOT_STATE_INPUT, "ssm_in", "weight", {EMBD, STATE_CHANNELS}, SLICE | BIASED},
    {SLOT_STATE_STEP, "ssm_in", "weight", {EMBD, STATE_HEADS}, SLICE | BIASED},
    {SLOT_STATE_CONVOLUTION, "ssm_conv1d", "weight", {STATE_TAPS, STATE_CHANNELS}, VECTOR | BIASED},
    {SLOT_STATE_STEP_BIAS, "ssm_dt", "bias", {STATE_HEADS, ONE}, VECTOR},
    {SLOT_STATE_DECAY, "ssm_a", NULL, {STATE_HEADS, ONE}, VECTOR},
    {SLOT_STATE_DIRECT, "ssm_d", NULL, {STATE_HEADS, ONE}, VECTOR},
    {SLOT_STATE_OUT, "ssm_out", "weight", {STATE_INNER, EMBD}, BIASED},
};
static const struct recurrent_part selective_parts[] = {
    {SLOT_STATE_INPUT, "ssm_in", "weight", {EMBD, STATE_INNER}, SLICE | BIASED},
    {SLOT_STATE_GATE, "ssm_in", "weight", {EMBD, STATE_INNER}, SLICE | BIASED},
    {SLOT_STATE_CONVOLUTION, "ssm_conv1d", "weight", {STATE_TAPS, STATE_CHANNELS}, VECTOR | BIASED},
    {SLOT_STATE_STEP_LOW, "ssm_x", "weight", {STATE_INNER, STATE_RANK}, SLICE},
    {SLOT_STATE_B, "ssm_x", "weight", {STATE_INNER, STATE_KEYS}, SLICE},
    {SLOT_STATE_C, "ssm_x", "weight", {STATE_INNER, STATE_KEYS}, SLICE},
    {SLOT_STATE_STEP, "ssm_dt", "weight", {STATE_RANK, STATE_INNER}, 0},
    {SLOT_STATE_STEP_BIAS, "ssm_dt", "bias", {STATE_INNER, ONE}, VECTOR},
    {SLOT_STATE_DECAY, "ssm_a", NULL, {STATE_KEYS, STATE_INNER}, VECTOR},
    {SLOT_STATE_DIRECT, "ssm_d", NULL, {STATE_INNER, ONE}, VECTOR},
    {SLOT_STATE_OUT, "ssm_out", "weight", {STATE_INNER, EMBD}, BIASED},
};
static const struct recurrent_part selective_norms[] = {
    {SLOT_STATE_STEP_NORM, "ssm_dt_norm", "weight", {STATE_RANK, ONE}, VECTOR},
    {SLOT_STATE_B_NORM, "ssm_b_norm", "weight", {STATE_KEYS, ONE}, VECTOR},
    {SLOT_STATE_C_NORM, "ssm_c_norm", "weight", {STATE_KEYS, ONE}, VECTOR},
};
// One norm for all items, or one for each group.
static const struct recurrent_part norm_whole[] = {
    {SLOT_STATE_NORM, "ssm_norm", "weight", {STATE_INNER, ONE}, VECTOR | OPTIONAL},
};
static const struct recurrent_part norm_groups[] = {
    {SLOT_STATE_NORM, "ssm_norm", "weight", {STATE_GROUP, STATE_GROUPS}, VECTOR | OPTIONAL},
};

// Whether the dims are these, apart from dims of 1.
static bool fits(const struct tensor *tensor, const int64_t dims[2])
{
    uint64_t own[4] = {1, 1, 1, 1}, wanted[4] = {1, 1, 1, 1};
    for (int i = 0, n = 0; i < 4; i++)
        if (tensor->dims[i] != 1)
            own[n++] = tensor->dims[i];
    for (int i = 0, n = 0; i < 2; i++)
        if (dims[i] != 1)
            wanted[n++] = (uint64_t)dims[i];
    return memcmp(own, wanted, sizeof own) == 0;
}

static enum status take_squeezed(struct tensor_search *search, const char *name, bool required,
                                 const int64_t dims[2], struct tensor *out)
{
    const struct tensor *tensor;
    enum status status = find_tensor(search, name, required, &tensor);
    if (status != STATUS_OK || !tensor)
        return status;
    if (!fits(tensor, dims))
        return wrong_shape(search, tensor, (int64_t[3]){dims[0], dims[1], 1});
    if (tensor_traits(tensor->type)->block_items != 1)
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %s: a vector of type %s can't be used", name,
                         tensor_traits(tensor->type)->name);
    *out = *tensor;
    out->n_dims = dims[1] > 1 ? 2 : 1;
    out->dims[0] = (uint64_t)dims[0];
    out->dims[1] = (uint64_t)dims[1];
    out->dims[2] = out->dims[3] = 1;
    return STATUS_OK;
}

// Takes n parts of one tensor, and of its bias if it has one.
static enum status take_parts(struct tensor_search *search, int32_t index, const struct recurrent_part *parts,
                              size_t n)
{
    struct model_layer *layer = &search->model->layers[index];
    const struct recurrent_part *first = parts;
    struct tensor weight = {0}, bias = {0};
    int64_t n_rows = 0;
    char name[NAME_BYTES];
    for (size_t i = 0; i < n; i++)
        n_rows += search->widths[parts[i].dims[1]];
    bool vector = first->flags & VECTOR, required = !(first->flags & OPTIONAL);
    int64_t dims[3] = {search->widths[first->dims[0]], n_rows, 1};
    layer_name(name, index, first->name, first->kind);
    enum status status = vector ? take_squeezed(search, name, required, dims, &weight)
                                : take_matrix(search, name, required, dims, &weight);
    layer_name(name, index, first->name, "bias");
    if (status == STATUS_OK && (first->flags & BIASED))
        status = take_squeezed(search, name, false, (int64_t[2]){n_rows, 1}, &bias);
    if (status != STATUS_OK || n == 1) {
        layer->tensors[first->slot] = weight;
        layer->biases[first->slot] = bias;
        return status;
    }
    int64_t row = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t count = search->widths[parts[i].dims[1]];
        layer->tensors[parts[i].slot] = slice_tensor(&weight, row, count, false);
        if (bias.data)
            layer->biases[parts[i].slot] = slice_tensor(&bias, row, count, true);
        row += count;
    }
    return STATUS_OK;
}

static enum status take_list(struct tensor_search *search, int32_t index, const struct recurrent_part *parts,
                             size_t n)
{
    enum status status = STATUS_OK;
    for (size_t i = 0, end; i < n && status == STATUS_OK; i = end) {
        end = i + 1;
        while (end < n && (parts[i].flags & SLICE) && strcmp(parts[end].name, parts[i].name) == 0)
            end++;
        status = take_parts(search, index, parts + i, end - i);
    }
    return status;
}

#define TAKE(parts) take_list(search, index, parts, sizeof(parts) / sizeof *(parts))

static enum status take_norm(struct tensor_search *search, int32_t index)
{
    char name[NAME_BYTES];
    layer_name(name, index, norm_whole->name, norm_whole->kind);
    const struct tensor *norm = gguf_tensor(search->model->gguf, name);
    int64_t whole[2] = {search->widths[STATE_INNER], 1};
    return norm && fits(norm, whole) ? TAKE(norm_whole) : TAKE(norm_groups);
}

static enum status take_channels(struct tensor_search *search, int32_t index)
{
    char name[NAME_BYTES];
    layer_name(name, index, channels_together->name, channels_together->kind);
    enum status status =
        gguf_tensor(search->model->gguf, name) ? TAKE(channels_together) : TAKE(channels_separate);
    return status == STATUS_OK ? TAKE(channels_parts) : status;
}

enum status take_recurrent(struct tensor_search *search, int32_t index)
{
    const struct recurrent_shape *shape = &search->model->shape.recurrent;
    enum status status = STATUS_OK;
    switch (shape->kind) {
    case RECURRENT_NONE:
        break;
    case RECURRENT_DELTA:
        status = TAKE(delta_parts);
        if (status == STATUS_OK)
            status = shape->separate ? TAKE(delta_separate) : TAKE(delta_together);
        break;
    case RECURRENT_CHANNELS:
        status = take_channels(search, index);
        break;
    case RECURRENT_SHORT:
        status = TAKE(short_parts);
        break;
    case RECURRENT_SCAN:
        status = TAKE(scan_parts);
        if (status == STATUS_OK)
            status = take_norm(search, index);
        break;
    case RECURRENT_SELECTIVE: {
        char name[NAME_BYTES];
        status = TAKE(selective_parts);
        layer_name(name, index, "ssm_dt_norm", "weight");
        if (status == STATUS_OK && gguf_tensor(search->model->gguf, name))
            status = TAKE(selective_norms);
        break;
    }
    }
    return status;
}
