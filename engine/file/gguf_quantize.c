#include "engine/file/gguf_quantize.h"

#include "engine/file/gguf_made.h"
#include "schemas/base/pool.h"
#include "engine/file/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct quantizing {
    struct gguf *source;
    struct pool *pool;
    enum tensor_type *types; // new type of each tensor
};

bool gguf_quantize_type(const char *name, enum tensor_type *type)
{
    for (uint32_t i = 0; i < TENSOR_TYPE_COUNT; i++)
        if (quantize_knows((enum tensor_type)i) && strcasecmp(name, tensor_traits(i)->name) == 0) {
            *type = (enum tensor_type)i;
            return true;
        }
    return false;
}

// --- Which tensor gets which type ---

static bool has_part(struct text name, const char *part)
{
    return memmem(name.data, name.size, part, strlen(part)) != NULL;
}

static bool stays_float(const struct tensor *tensor)
{
    static const char *const parts[] = {"norm",   "position_embd", "token_types", "attn_rel_b",
                                        "rope_",  "ffn_gate_inp",  "ssm_conv1d",  "shortconv.conv",
                                        "dense_", "altup",         "laurel",      "per_layer_model_proj",
                                        "cls."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (has_part(tensor->name, parts[i]))
            return true;
    static const char weight[] = ".weight"; // biases, and decays of recurrent layers, have other endings
    const size_t size = sizeof weight - 1;
    return tensor_n_rows(tensor) == 1 || tensor->name.size < size ||
           memcmp(tensor->name.data + tensor->name.size - size, weight, size) != 0;
}

static bool gives_logits(const struct gguf *gguf, const struct tensor *tensor)
{
    return text_equals_string(tensor->name, "output.weight") ||
           (text_equals_string(tensor->name, "token_embd.weight") && !gguf_tensor(gguf, "output.weight"));
}

static double bits_an_item(enum tensor_type type)
{
    const struct tensor_traits *traits = tensor_traits(type);
    return 8.0 * traits->block_bytes / traits->block_items;
}

// Returns the type that is nearest in size and whose block divides a row. If two types are equally near,
// returns the larger one.
static enum tensor_type nearest_type(uint64_t n_cols, enum tensor_type wanted)
{
    static const enum tensor_type types[] = {TENSOR_F16,  TENSOR_Q8_0, TENSOR_Q6_K,
                                             TENSOR_Q5_K, TENSOR_Q4_K, TENSOR_Q4_0};
    enum tensor_type nearest = TENSOR_F16; // its block is one item
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (n_cols % tensor_traits(types[i])->block_items == 0 &&
            fabs(bits_an_item(types[i]) - bits_an_item(wanted)) <
                fabs(bits_an_item(nearest) - bits_an_item(wanted)))
            nearest = types[i];
    return nearest;
}

// Returns the GGUF type with the same items.
static enum tensor_type exact_type(const struct tensor *tensor)
{
    if (tensor->type < TENSOR_OWN_FIRST && !tensor->order)
        return tensor->type;
    bool is_u4 = tensor->type == TENSOR_U4_32 || tensor->type == TENSOR_U4_64;
    return is_u4 && !tensor->order ? TENSOR_Q5_0 : TENSOR_F32;
}

static enum tensor_type type_for(const struct gguf *gguf, const struct tensor *tensor,
                                 enum tensor_type wanted)
{
    if (wanted == TENSOR_TYPE_COUNT)
        return exact_type(tensor);
    if (stays_float(tensor))
        return TENSOR_F32;
    bool few_bits = wanted == TENSOR_Q4_0 || wanted == TENSOR_Q4_K || wanted == TENSOR_Q5_K;
    enum tensor_type type = few_bits && gives_logits(gguf, tensor) ? TENSOR_Q6_K : wanted;
    bool divides = tensor->dims[0] % tensor_traits(type)->block_items == 0;
    return divides ? type : nearest_type(tensor->dims[0], type);
}

// --- Rows ---

// A few rows of one tensor at a time.
struct tensor_rows {
    const struct tensor *tensor;
    enum tensor_type type;
    char *out;
    uint64_t out_row_bytes;
    int64_t n_rows, n_rows_each;
    float *items;         // a row for each thread; two rows if columns are sorted
    struct error *errors; // an error for each thread
};

// Restores the order of a row's columns. The items are followed by room for a copy.
static void unsort(const int32_t *order, uint64_t n, float *items)
{
    memcpy(items + n, items, n * sizeof *items);
    for (uint64_t i = 0; i < n; i++)
        items[order[i]] = items[n + i];
}

static void quantize_rows(void *context, int index, int thread)
{
    struct tensor_rows *rows = context;
    uint64_t n_cols = rows->tensor->dims[0], row_bytes = tensor_row_bytes(rows->tensor);
    const int32_t *order = rows->tensor->order;
    float *items = rows->items + (uint64_t)thread * n_cols * (order ? 2 : 1);
    struct error *error = &rows->errors[thread];
    int64_t first = index * rows->n_rows_each, end = first + rows->n_rows_each;
    for (int64_t row = first; row < end && row < rows->n_rows && error->status == STATUS_OK; row++) {
        const char *data = (const char *)rows->tensor->data + (uint64_t)row * row_bytes;
        tensor_traits(rows->tensor->type)->dequantize(data, items, n_cols);
        if (order)
            unsort(order + (uint64_t)row / rows->tensor->dims[1] * n_cols, n_cols, items);
        struct error fault;
        if (quantize_items(rows->type, items, n_cols, rows->out + (uint64_t)row * rows->out_row_bytes,
                           &fault) != STATUS_OK) {
            *error = fault;
            error_prefix(error, "row %lld", (long long)row);
        }
    }
}

static enum status run_rows(struct tensor_rows *rows, struct pool *pool, struct error *error)
{
    enum { TASK_ITEMS = 1 << 16, TASKS_MAX = 1 << 20 };
    int n_threads = pool ? pool_n_threads(pool) : 1;
    rows->n_rows_each = TASK_ITEMS / (int64_t)rows->tensor->dims[0] + 1 + rows->n_rows / TASKS_MAX;
    int n_tasks = (int)((rows->n_rows + rows->n_rows_each - 1) / rows->n_rows_each);
    rows->items = calloc((size_t)n_threads,
                         rows->tensor->dims[0] * (rows->tensor->order ? 2 : 1) * sizeof *rows->items);
    rows->errors = calloc((size_t)n_threads, sizeof *rows->errors);
    enum status status = STATUS_OK;
    if (!rows->items || !rows->errors) {
        status = error_memory(error, STATUS_REFUSE, "rows of %llu items",
                              (unsigned long long)rows->tensor->dims[0]);
    } else {
        if (pool)
            pool_run(pool, n_tasks, quantize_rows, rows);
        for (int i = 0; !pool && i < n_tasks; i++)
            quantize_rows(rows, i, 0);
        for (int i = 0; i < n_threads && status == STATUS_OK; i++)
            if ((status = rows->errors[i].status) != STATUS_OK)
                *error = rows->errors[i];
    }
    free(rows->items);
    free(rows->errors);
    return status;
}

// Writes U4 blocks as Q5_0. Its quants are the items minus the zero point (which is below 16), plus 16.
static void write_u4_as_q5_0(const struct tensor *tensor, uint8_t *out)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    const uint8_t *block = tensor->data, *end = block + tensor->size_bytes;
    for (; block < end; block += traits->block_bytes)
        for (uint32_t run = 0; run < traits->block_items / 32; run++, out += 22) {
            const uint8_t *nibbles = block + 3 + 16 * run;
            memset(out, 0, 22);
            memcpy(out, block, 2);
            for (int i = 0; i < 32; i++) {
                int quant = (i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4) - block[2] + 16;
                out[2 + i / 8] |= (uint8_t)(quant >> 4 << i % 8);
                out[6 + i % 16] |= (uint8_t)((quant & 15) << (i / 16 * 4));
            }
        }
}

static enum status make_tensor(void *context, size_t index, void *data, struct error *error)
{
    struct quantizing *quantizing = context;
    const struct tensor *tensor = gguf_tensor_at(quantizing->source, index);
    const struct tensor_traits *traits = tensor_traits(quantizing->types[index]);
    enum status status = gguf_load(quantizing->source, tensor, error);
    if (status != STATUS_OK)
        return status;
    struct tensor_rows rows = {.tensor = tensor,
                               .type = quantizing->types[index],
                               .out = data,
                               .out_row_bytes = tensor->dims[0] / traits->block_items * traits->block_bytes,
                               .n_rows = (int64_t)tensor_n_rows(tensor)};
    if (tensor->type == rows.type && !tensor->order)
        memcpy(data, tensor->data, tensor->size_bytes);
    else if (rows.type == TENSOR_Q5_0)
        write_u4_as_q5_0(tensor, data);
    else
        status = run_rows(&rows, quantizing->pool, error);
    gguf_release(quantizing->source, tensor);
    return status;
}

static void finish_quantizing(void *context)
{
    struct quantizing *quantizing = context;
    gguf_close(quantizing->source);
    free(quantizing->types);
    free(quantizing);
}

static uint64_t hash_source(void *context, struct pool *pool, const struct interrupt *interrupt)
{
    return gguf_content_hash(((struct quantizing *)context)->source, pool, interrupt);
}

static enum status check_source(void *context, struct error *error)
{
    return gguf_check_files(((struct quantizing *)context)->source, error);
}

// --- The model ---

// Rope factors, scales of matrices and factors of layers are read without gguf_load, so they are generated at
// once and kept.
static bool is_made_at_once(const struct tensor *tensor)
{
    return has_part(tensor->name, "rope_") || has_part(tensor->name, ".scale") ||
           has_part(tensor->name, "layer_output_scale");
}

static enum status plan_tensor(struct quantizing *quantizing, size_t index, enum tensor_type wanted,
                               struct gguf_made_tensor *made, struct error *error)
{
    const struct tensor *tensor = gguf_tensor_at(quantizing->source, index);
    if (!tensor_traits(tensor->type)->dequantize)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "tensor %.*s: type %s can't be read",
                         (int)tensor->name.size, tensor->name.data, tensor_traits(tensor->type)->name);
    enum tensor_type type = type_for(quantizing->source, tensor, wanted);
    const struct tensor_traits *traits = tensor_traits(type);
    quantizing->types[index] = type;
    *made = (struct gguf_made_tensor){.tensor = *tensor};
    made->tensor.type = type;
    made->tensor.data = NULL;
    made->tensor.order = NULL;
    // The bytes of the source limit the number of items. So the size can overflow only if a type with fewer
    // bits becomes a plain type.
    if (__builtin_mul_overflow(tensor->dims[0] / traits->block_items * tensor_n_rows(tensor),
                               traits->block_bytes, &made->tensor.size_bytes) ||
        made->tensor.size_bytes > SIZE_MAX / 2)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: too large",
                         (int)tensor->name.size, tensor->name.data);
    made->kept = has_part(tensor->name, "token_embd.weight") || // matches per_layer_token_embd too
                 text_equals_string(tensor->name, "position_embd.weight") ||
                 text_equals_string(tensor->name, "token_types.weight") || is_made_at_once(tensor);
    return STATUS_OK;
}

// Returns the type that most items of the matrices have.
static enum tensor_type main_type(const struct gguf_made_tensor *made, size_t n_tensors,
                                  enum tensor_type wanted)
{
    uint64_t n_items[TENSOR_TYPE_COUNT] = {0};
    enum tensor_type main = wanted == TENSOR_TYPE_COUNT ? TENSOR_F32 : wanted;
    for (size_t i = 0; i < n_tensors; i++)
        if (tensor_n_rows(&made[i].tensor) > 1)
            n_items[made[i].tensor.type] += made[i].tensor.dims[0] * tensor_n_rows(&made[i].tensor);
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (n_items[type] > n_items[main])
            main = (enum tensor_type)type;
    return main;
}

// Finds general.file_type, GGUF's number for the type of most tensors. False: unknown.
static bool find_file_type(enum tensor_type type, uint32_t *number)
{
    static const struct {
        enum tensor_type type;
        uint32_t number;
    } numbers[] = {{TENSOR_F32, 0},   {TENSOR_F16, 1},   {TENSOR_Q4_0, 2},
                   {TENSOR_Q8_0, 7},  {TENSOR_Q5_0, 8},  {TENSOR_Q4_K, 14},
                   {TENSOR_Q5_K, 16}, {TENSOR_Q6_K, 18}, {TENSOR_BF16, 32}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].type == type) {
            *number = numbers[i].number;
            return true;
        }
    return false;
}

static void write_keys(struct gguf_writer *keys, const struct gguf *source, enum tensor_type type)
{
    struct buffer rendered = {0};
    for (size_t i = 0; i < gguf_n_keys(source); i++) {
        struct text key = gguf_key_at(source, i, &rendered);
        if (!text_equals_string(key, "general.file_type") &&
            !text_equals_string(key, "general.quantization_version") &&
            !text_equals_string(key, "general.alignment") &&
            !text_equals_string(key, "huggingface.quantization")) // of the source's tensors (model_folder.h)
            gguf_writer_copy(keys, source, i);
    }
    buffer_finish(&rendered);
    uint32_t number;
    if (find_file_type(type, &number))
        gguf_writer_u32(keys, "general.file_type", number);
    gguf_writer_u32(keys, "general.quantization_version", 2);
}

static enum status load_kept(struct gguf *gguf, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < gguf_n_tensors(gguf) && status == STATUS_OK; i++)
        if (is_made_at_once(gguf_tensor_at(gguf, i)))
            status = gguf_load(gguf, gguf_tensor_at(gguf, i), error);
    return status;
}

enum status gguf_quantize(struct gguf **gguf, struct gguf *source, enum tensor_type type, struct pool *pool,
                          struct error *error)
{
    *gguf = NULL;
    size_t n_tensors = gguf_n_tensors(source);
    struct quantizing *quantizing = calloc(1, sizeof *quantizing);
    struct gguf_made_tensor *made = calloc(n_tensors + 1, sizeof *made);
    enum tensor_type *types = calloc(n_tensors + 1, sizeof *types);
    if (!quantizing || !made || !types) {
        free(quantizing);
        free(made);
        free(types);
        gguf_close(source);
        return error_memory(error, STATUS_REFUSE, "quantizing");
    }
    *quantizing = (struct quantizing){source, pool, types};
    struct gguf_writer keys = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_tensors && status == STATUS_OK; i++)
        status = plan_tensor(quantizing, i, type, &made[i], error);
    if (status == STATUS_OK)
        write_keys(&keys, source, main_type(made, n_tensors, type));
    if (status == STATUS_OK)
        status = gguf_create(gguf, gguf_path(source), &keys, made, n_tensors,
                             (struct gguf_source){quantizing, make_tensor, finish_quantizing, hash_source,
                                                  check_source},
                             error);
    else
        finish_quantizing(quantizing);
    gguf_writer_finish(&keys);
    free(made);
    if (status == STATUS_OK)
        status = load_kept(*gguf, error);
    if (status != STATUS_OK) {
        gguf_close(*gguf);
        *gguf = NULL;
    }
    return status;
}

static size_t count_replaced(const struct gguf *gguf, enum tensor_type wanted, enum tensor_type type,
                             uint64_t *n_cols)
{
    size_t n = 0;
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        if (tensor->type != type || type == wanted ||
            tensor->dims[0] % tensor_traits(wanted)->block_items == 0 || stays_float(tensor))
            continue;
        *n_cols = n++ ? *n_cols : tensor->dims[0];
    }
    return n;
}

size_t gguf_quantize_replaced(const struct gguf *gguf, enum tensor_type wanted, char *text, size_t text_bytes)
{
    size_t n = 0, used = 0;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        uint64_t n_cols = 0;
        size_t n_of_type = count_replaced(gguf, wanted, (enum tensor_type)type, &n_cols);
        if (n_of_type && used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%zu %s (rows of %llu items)",
                                     n ? ", " : "", n_of_type, tensor_traits((enum tensor_type)type)->name,
                                     (unsigned long long)n_cols);
        n += n_of_type;
    }
    return n;
}
