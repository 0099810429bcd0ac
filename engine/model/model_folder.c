#include "engine/model/model_folder.h"

#include "engine/file/gguf_made.h"
#include "engine/model/model_folder_parts.h"
#include "schemas/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The source of one tensor of ours.
struct origin {
    const struct folder_rule *rule;
    size_t sources; // first of `n_sources` in folder.sources
    size_t n_sources;
    bool is_bias;
};

struct folder {
    const char *path;
    struct safetensors *weights;
    struct folder_config config;
    struct arena arena;
    struct gguf_made_tensor *made;
    struct origin *origins; // of each made tensor
    size_t n_made, capacity;
    size_t *sources; // indexes of their tensors
    size_t n_sources;
    bool *used; // of their tensors
    int naming; // of language_names
    uint64_t keys_hash;
};

static enum status out_of_memory(struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for a model's folder");
}

static void folder_destroy(void *context)
{
    struct folder *folder = context;
    safetensors_close(folder->weights);
    arena_finish(&folder->arena);
    free(folder->made);
    free(folder->origins);
    free(folder->sources);
    free(folder->used);
    free(folder);
}

// --- Making tensors ---

// Item bytes of the plain types.
static size_t item_bytes(enum tensor_type type)
{
    return tensor_traits(type)->block_bytes;
}

static void copy_transposed(const struct tensor *from, size_t n_bytes, char *out)
{
    // Theirs: dims[1] rows of dims[0]; a tile fits the cache on both sides.
    enum { TILE = 32 };
    size_t n_rows = from->dims[1], n_cols = from->dims[0];
    const char *data = from->data;
    for (size_t top = 0; top < n_rows; top += TILE)
        for (size_t left = 0; left < n_cols; left += TILE)
            for (size_t row = top; row < n_rows && row < top + TILE; row++)
                for (size_t col = left; col < n_cols && col < left + TILE; col++)
                    memcpy(out + (col * n_rows + row) * n_bytes, data + (row * n_cols + col) * n_bytes,
                           n_bytes);
}

// The row of theirs that is our row `row`.
static uint64_t source_row(const struct folder_shape *shape, enum folder_form form, uint64_t row,
                           uint64_t n_rows)
{
    uint64_t n_heads = (uint64_t)shape->n_heads, n_kv = (uint64_t)shape->n_kv_heads;
    if (form == FORM_ROWS_Q || form == FORM_ROWS_K) {
        uint64_t width = n_rows / (form == FORM_ROWS_Q ? n_heads : n_kv), at = row % width;
        return row - at + at % 2 * (width / 2) + at / 2;
    }
    uint64_t width = (uint64_t)shape->head_dim, head = row / width, at = row % width;
    uint64_t group = form == FORM_ROWS_BY_HEAD ? 1 : n_heads / n_kv; // query heads of one key-value head
    uint64_t first = head < n_heads          ? head / group * (group + 2) + head % group
                     : head < n_heads + n_kv ? (head - n_heads) * (group + 2) + group
                                             : (head - n_heads - n_kv) * (group + 2) + group + 1;
    return first * width + at;
}

static enum status make_tensor(void *context, size_t index, void *data, struct error *error)
{
    struct folder *folder = context;
    const struct origin *origin = &folder->origins[index];
    const struct tensor *tensor = &folder->made[index].tensor;
    const struct tensor *from = &safetensors_at(folder->weights, folder->sources[origin->sources])->tensor;
    char *out = data;
    if (origin->rule->form >= FORM_FIRST_HALF) {
        size_t last = folder->sources[origin->sources + origin->n_sources - 1];
        folder_part_make(origin->rule->form, from, &safetensors_at(folder->weights, last)->tensor, tensor,
                         out);
    } else if (origin->rule->form == FORM_STACKED) {
        for (size_t i = 0; i < origin->n_sources; i++, out += from->size_bytes)
            memcpy(out, safetensors_at(folder->weights, folder->sources[origin->sources + i])->tensor.data,
                   from->size_bytes);
    } else if (origin->rule->form == FORM_ADD_ONE) {
        float *items = data;
        tensor_traits(from->type)->dequantize(from->data, items, tensor->dims[0]);
        for (uint64_t i = 0; i < tensor->dims[0]; i++)
            items[i] += 1.0f;
    } else if (origin->rule->form == FORM_TRANSPOSED) {
        copy_transposed(from, item_bytes(from->type), out);
    } else {
        uint64_t n_rows = from->n_dims == 1 ? from->dims[0] : tensor_n_rows(from);
        uint64_t row_bytes = from->size_bytes / n_rows;
        for (uint64_t row = 0; row < n_rows; row++)
            memcpy(out + row * row_bytes,
                   (const char *)from->data +
                       source_row(&folder->config.shape, origin->rule->form, row, n_rows) * row_bytes,
                   row_bytes);
    }
    return STATUS_OK;
}

// --- Planning them ---

static enum status wrong_shape(const struct tensor *from, const char *expected, struct error *error)
{
    char shape[64];
    tensor_shape_text(from, shape);
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: expected %s, file has %s",
                     (int)from->name.size, from->name.data, expected, shape);
}

// Whether the rows can be reordered as the form says.
static bool rows_fit(const struct folder_shape *shape, enum folder_form form, const struct tensor *from)
{
    uint64_t n_rows = from->n_dims == 1 ? from->dims[0] : tensor_n_rows(from), n = (uint64_t)shape->n_heads;
    uint64_t n_kv = (uint64_t)shape->n_kv_heads;
    if (from->n_dims > 2)
        return false;
    switch (form) {
    case FORM_ROWS_Q:
        return n_rows % (2 * n) == 0;
    case FORM_ROWS_K:
        return n_rows % (2 * n_kv) == 0;
    case FORM_ROWS_BY_HEAD:
        return n_kv == n && n_rows == 3 * n * (uint64_t)shape->head_dim;
    case FORM_ROWS_BY_GROUP:
        return n % n_kv == 0 && n_rows == (n + 2 * n_kv) * (uint64_t)shape->head_dim;
    default:
        return true;
    }
}

static enum status set_form(struct folder *folder, struct gguf_made_tensor *made, const struct origin *origin,
                            const struct tensor *from, struct error *error)
{
    struct tensor *tensor = &made->tensor;
    switch (origin->rule->form) {
    case FORM_AS_IS:
        return STATUS_OK;
    case FORM_ADD_ONE:
        if (from->n_dims != 1)
            return wrong_shape(from, "a vector", error);
        tensor->type = TENSOR_F32;
        tensor->size_bytes = tensor->dims[0] * sizeof(float);
        break;
    case FORM_TRANSPOSED:
        if (origin->is_bias)
            return STATUS_OK;
        if (from->n_dims != 2)
            return wrong_shape(from, "a matrix", error);
        tensor->dims[0] = from->dims[1];
        tensor->dims[1] = from->dims[0];
        break;
    case FORM_STACKED:
        if (from->n_dims > 2 ||
            __builtin_mul_overflow(from->size_bytes, origin->n_sources, &tensor->size_bytes))
            return wrong_shape(from, "a vector or a matrix", error);
        tensor->dims[tensor->n_dims++] = origin->n_sources;
        break;
    case FORM_FIRST_HALF:
    case FORM_SECOND_HALF:
    case FORM_EVEN:
    case FORM_ODD:
    case FORM_EVERY:
    case FORM_EVEN_MXFP4:
    case FORM_ODD_MXFP4:
    case FORM_EVERY_MXFP4: {
        const struct tensor *scales =
            &safetensors_at(folder->weights, folder->sources[folder->n_sources - 1])->tensor;
        if (!folder_part_shape(origin->rule->form, from, scales, tensor))
            return wrong_shape(from, "the matrices of all experts", error);
        break;
    }
    default:
        if (!rows_fit(&folder->config.shape, origin->rule->form, from))
            return wrong_shape(from, "rows of as many heads as config.json says", error);
        break;
    }
    tensor->data = NULL;
    return STATUS_OK;
}

static bool reserve_tensors(struct folder *folder)
{
    if (folder->n_made < folder->capacity)
        return true;
    size_t capacity = folder->capacity ? 2 * folder->capacity : 64;
    void *made = realloc(folder->made, capacity * sizeof *folder->made);
    if (made)
        folder->made = made;
    void *origins = realloc(folder->origins, capacity * sizeof *folder->origins);
    if (origins)
        folder->origins = origins;
    if (!made || !origins)
        return false;
    folder->capacity = capacity;
    return true;
}

// How the names of a model of images and text begin for its language model: older and newer files.
static const struct {
    const char *model, *head;
} language_names[] = {{"language_model.model.", "language_model."}, {"model.language_model.", ""}};

// `from` with the layer for * and the index for {}, then the suffix.
static struct text expand_name(const struct folder *folder, const char *from, int64_t layer, size_t index,
                               const char *suffix, char out[512])
{
    size_t size = 0;
    from += *from == '=';
    if (folder->config.language_part) {
        bool model = strncmp(from, "model.", 6) == 0;
        const char *prefix =
            model ? language_names[folder->naming].model : language_names[folder->naming].head;
        size = (size_t)snprintf(out, 512, "%s", prefix);
        from += model ? 6 : 0;
    }
    for (; *from && size < 400; from++) {
        if (*from == '*')
            size += (size_t)snprintf(out + size, 512 - size, "%lld", (long long)layer);
        else if (from[0] == '{' && from[1] == '}')
            size += (size_t)snprintf(out + size, 512 - size, "%zu", index), from++;
        else
            out[size++] = *from;
    }
    size += (size_t)snprintf(out + size, 512 - size, "%s", suffix);
    return (struct text){out, size};
}

// MXFP4's two tensors of bytes.
static enum status find_blocks(struct folder *folder, struct origin *origin, int64_t layer,
                               struct error *error)
{
    char name[512];
    struct text blocks = expand_name(folder, origin->rule->from, layer, 0, "", name);
    size_t index[2] = {safetensors_find(folder->weights, blocks), SIZE_MAX};
    if (index[0] == SIZE_MAX)
        return STATUS_OK;
    memcpy(name + blocks.size - strlen("blocks"), "scales", strlen("scales"));
    index[1] = safetensors_find(folder->weights, blocks);
    if (index[1] == SIZE_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s is missing", name);
    for (int i = 0; i < 2; i++) {
        const struct safetensors_tensor *found = safetensors_at(folder->weights, index[i]);
        if (strcmp(found->dtype, "U8") != 0)
            return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                             "tensor %.*s: expected dtype U8, file has %s", (int)found->tensor.name.size,
                             found->tensor.name.data, found->dtype);
        folder->sources[folder->n_sources++] = index[i];
        folder->used[index[i]] = true;
        origin->n_sources++;
    }
    return STATUS_OK;
}

// Their tensors that the rule names, taken note of in folder->sources; all alike.
static enum status find_sources(struct folder *folder, struct origin *origin, int64_t layer,
                                const char *suffix, struct error *error)
{
    char name[512];
    const struct tensor *first = NULL;
    enum folder_form form = origin->rule->form;
    origin->sources = folder->n_sources;
    if (form >= FORM_EVEN_MXFP4)
        return find_blocks(folder, origin, layer, error);
    for (size_t i = 0; i == 0 || form == FORM_STACKED; i++) {
        struct text whole = expand_name(folder, origin->rule->from, layer, i, suffix, name);
        size_t index = safetensors_find(folder->weights, whole);
        if (index == SIZE_MAX)
            break;
        const struct safetensors_tensor *found = safetensors_at(folder->weights, index);
        if (!found->readable)
            return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                             "tensor %s: dtype %s can't be computed with", name, found->dtype);
        first = first ? first : &found->tensor;
        if (found->tensor.type != first->type || found->tensor.n_dims != first->n_dims ||
            memcmp(found->tensor.dims, first->dims, sizeof first->dims) != 0)
            return wrong_shape(&found->tensor, "the shape and type of the others", error);
        if (!folder->used[index] || form >= FORM_FIRST_HALF) // at most two parts, so `sources` has room
            folder->sources[folder->n_sources++] = index;
        folder->used[index] = true;
        origin->n_sources++;
    }
    return STATUS_OK;
}

static enum status add_tensor(struct folder *folder, const struct folder_rule *rule, int64_t layer,
                              const char *suffix, struct error *error)
{
    struct origin origin = {.rule = rule, .is_bias = strcmp(suffix, ".bias") == 0};
    enum status status = find_sources(folder, &origin, layer, suffix, error);
    if (status != STATUS_OK || origin.n_sources == 0)
        return status;
    if (folder->n_sources != origin.sources + origin.n_sources)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s%s: taken twice", rule->from, suffix);
    char name[160];
    int size = layer < 0 ? snprintf(name, sizeof name, "%s%s", rule->to, suffix)
                         : snprintf(name, sizeof name, "blk.%lld.%s%s", (long long)layer, rule->to, suffix);
    char *copy = arena_copy(&folder->arena, name, (size_t)size);
    if (!copy || !reserve_tensors(folder))
        return out_of_memory(error);
    const struct tensor *from = &safetensors_at(folder->weights, folder->sources[origin.sources])->tensor;
    struct gguf_made_tensor *made = &folder->made[folder->n_made];
    *made = (struct gguf_made_tensor){.tensor = *from};
    made->tensor.name = (struct text){copy, (size_t)size};
    status = set_form(folder, made, &origin, from, error);
    folder->origins[folder->n_made] = origin;
    folder->n_made += status == STATUS_OK;
    return status;
}

static enum status add_rules(struct folder *folder, const struct folder_rule *rules, int64_t layer,
                             struct error *error)
{
    enum status status = STATUS_OK;
    for (; rules->from && status == STATUS_OK; rules++) {
        if (folder->config.shape.tied && strcmp(rules->to, "output") == 0)
            continue;                     // the embedding serves; a copy in the file is not read
        bool whole = *rules->from == '='; // the name unchanged
        status = add_tensor(folder, rules, layer, whole ? "" : ".weight", error);
        if (status == STATUS_OK && !whole)
            status = add_tensor(folder, rules, layer, ".bias", error);
    }
    return status;
}

static enum status add_divisors(struct folder *folder, struct error *error)
{
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                        "rope_factors_long.weight"};
    size_t n = folder->config.n_divisors;
    for (int i = 0; i < 3; i++) {
        if (!folder->config.divisors[i])
            continue;
        if (!reserve_tensors(folder))
            return out_of_memory(error);
        folder->origins[folder->n_made] = (struct origin){0};
        folder->made[folder->n_made++].tensor = (struct tensor){.name = text_from_string(names[i]),
                                                                .type = TENSOR_F32,
                                                                .n_dims = 1,
                                                                .dims = {n, 1, 1, 1},
                                                                .data = folder->config.divisors[i],
                                                                .size_bytes = n * sizeof(float)};
    }
    return STATUS_OK;
}

static bool is_unused_output(const struct folder *folder, struct text name)
{
    return folder->config.shape.tied &&
           (text_equals_string(name, "lm_head.weight") || text_equals_string(name, "embed_out.weight") ||
            (folder->config.language_part && text_equals_string(name, "language_model.lm_head.weight")));
}

static enum status refuse_left_over(struct folder *folder, struct error *error)
{
    for (size_t i = 0; i < safetensors_n_tensors(folder->weights); i++) {
        struct text name = safetensors_at(folder->weights, i)->tensor.name;
        if (folder->used[i] || folder_ignores(name, folder->config.n_layers_used) ||
            is_unused_output(folder, name) || (folder->config.language_part && folder_is_sight(name)))
            continue;
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s has no place in model_type %s: without it the results would be wrong",
                         name.size < 128 ? (int)name.size : 128, name.data,
                         folder->config.family->model_type);
    }
    for (size_t i = 0; i < folder->n_made; i++)
        if (folder->config.shape.tied || text_equals_string(folder->made[i].tensor.name, "output.weight"))
            return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                     "the output matrix is missing, and \"tie_word_embeddings\" is not true");
}

static enum status add_tensors(struct folder *folder, struct error *error)
{
    size_t n = safetensors_n_tensors(folder->weights);
    folder->used = calloc(n + 1, sizeof *folder->used);
    folder->sources = calloc(3 * n + 1, sizeof *folder->sources); // blocks for two parts, with their scales
    if (!folder->used || !folder->sources)
        return out_of_memory(error);
    struct text embedding = TEXT("model.language_model.embed_tokens.weight");
    folder->naming = safetensors_find(folder->weights, embedding) != SIZE_MAX;
    enum status status = add_rules(folder, folder->config.family->globals, -1, error);
    for (int64_t i = 0; i < folder->config.shape.n_layers && status == STATUS_OK; i++)
        status = add_rules(folder, folder->config.family->layers, i, error);
    if (status == STATUS_OK)
        status = refuse_left_over(folder, error);
    return status == STATUS_OK ? add_divisors(folder, error) : status;
}

// --- Opening ---

static enum status read_folder(struct folder *folder, struct gguf_writer *keys, struct error *error)
{
    struct folder_files files = {folder->path, &folder->arena};
    struct value config;
    bool found;
    enum status status = folder_read_json(&files, "config.json", &config, &found, error);
    if (status == STATUS_OK && !found)
        status =
            error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: a folder without config.json", folder->path);
    if (status != STATUS_OK)
        return status;
    status = folder_read_config(&folder->config, &config, keys, &folder->arena, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s/config.json", folder->path);
    status = folder_add_tokenizer(&files, &config, keys, error);
    if (status == STATUS_OK)
        status = safetensors_open(&folder->weights, folder->path, error);
    if (status != STATUS_OK)
        return status;
    status = add_tensors(folder, error);
    return status == STATUS_OK ? status : error_prefix(error, "%s", folder->path);
}

// The keys without the name, which is the folder's, and the factors that stand beside them as tensors.
static enum status hash_keys(struct folder *folder, const struct gguf_writer *keys, struct error *error)
{
    struct buffer encoded = {0};
    enum status status = gguf_writer_encode(keys, &encoded, error);
    folder->keys_hash = hash_bytes(encoded.data, encoded.size, 0);
    for (int i = 0; i < 3; i++)
        if (folder->config.divisors[i])
            folder->keys_hash = hash_bytes(folder->config.divisors[i],
                                           folder->config.n_divisors * sizeof(float), folder->keys_hash);
    buffer_finish(&encoded);
    return status;
}

static uint64_t hash_content(void *context, struct pool *pool, const struct interrupt *interrupt)
{
    const struct folder *folder = context;
    return safetensors_content_hash(folder->weights, folder->keys_hash, pool, interrupt);
}

static enum status check_files(void *context, struct error *error)
{
    return safetensors_check_files(((const struct folder *)context)->weights, error);
}

// The folder's own name, without slashes after it.
static enum status put_name(struct folder *folder, struct gguf_writer *keys, const char *path,
                            struct error *error)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    static const char part[] =
        " (its language model alone)"; // what sees images is left out: the name says so
    char *name = arena_allocate(&folder->arena, end - start + sizeof part);
    if (!name)
        return out_of_memory(error);
    memcpy(name, path + start, end - start);
    memcpy(name + (end - start), part, sizeof part);
    size_t size = end - start + (folder->config.language_part ? sizeof part - 1 : 0);
    gguf_writer_text(keys, "general.name", (struct text){name, size});
    return STATUS_OK;
}

static enum status open_folder(struct gguf **gguf, const char *path, struct error *error)
{
    struct folder *folder = calloc(1, sizeof *folder);
    struct gguf_writer keys = {0};
    if (!folder)
        return out_of_memory(error);
    folder->path = arena_copy(&folder->arena, path, strlen(path));
    enum status status = folder->path ? read_folder(folder, &keys, error) : out_of_memory(error);
    if (status == STATUS_OK)
        status = hash_keys(folder, &keys, error);
    if (status == STATUS_OK)
        status = put_name(folder, &keys, path, error);
    if (status == STATUS_OK)
        status =
            gguf_create(gguf, path, &keys, folder->made, folder->n_made,
                        (struct gguf_source){folder, make_tensor, folder_destroy, hash_content, check_files},
                        error);
    else
        folder_destroy(folder);
    gguf_writer_finish(&keys);
    return status;
}

enum status model_folder_open(struct gguf **gguf, const char *path, struct error *error)
{
    struct stat information;
    *gguf = NULL;
    if (strlen(path) <= FOLDER_PATH_BYTES_MAX && stat(path, &information) == 0 &&
        S_ISDIR(information.st_mode))
        return open_folder(gguf, path, error);
    return gguf_open(gguf, path, error);
}
