// sentence-transformers: modules.json lists the modules that compute a vector, each with its own folder:
//   [{"path": "", "type": "sentence_transformers.models.Transformer"},      sentence_bert_config.json
//    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}, 1_Pooling/config.json
//    {"path": "2_Normalize", "type": "..."}]
// config_sentence_transformers.json has prompts by name, and the name of the prompt to prepend to each text.
// Source: github.com/huggingface/sentence-transformers, base/model.py and base/modules.
#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"

#include <stdio.h>
#include <string.h>

// engine/embedding.h
enum {
    POOLING_MEAN = 1,
    POOLING_CLS = 2,
    POOLING_LAST = 3,
    POOLING_MAX = 101,
    POOLING_SQRT = 102,
    POOLING_WEIGHTED = 103
};

static enum status refuse(struct folder_embedding *embedding, const char *file, struct text what,
                          struct error *error)
{
    return folder_refuse(embedding->files, &embedding->refused, error, "%s: %.*s is not built", file,
                         (int)what.size, what.data);
}

static const struct value *find(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind != VALUE_NULL ? value : NULL;
}

static bool is_truth(const struct value *value, bool truth)
{
    return value && value->kind == VALUE_BOOL && value->boolean == truth;
}

// --- Pooling ---

static enum status add_mode(struct folder_embedding *embedding, const char *path, struct text shown,
                            struct text mode, struct error *error)
{
    static const struct {
        const char *names[2]; // as a value of pooling_mode; as a key with the value true
        uint32_t type;
    } modes[] = {{{"mean", "pooling_mode_mean_tokens"}, POOLING_MEAN},
                 {{"cls", "pooling_mode_cls_token"}, POOLING_CLS},
                 {{"lasttoken", "pooling_mode_lasttoken"}, POOLING_LAST},
                 {{"max", "pooling_mode_max_tokens"}, POOLING_MAX},
                 {{"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"}, POOLING_SQRT},
                 {{"weightedmean", "pooling_mode_weightedmean_tokens"}, POOLING_WEIGHTED}};
    struct text *refused = &embedding->pooling_refused;
    uint32_t type = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (text_equals_string(mode, modes[i].names[0]) || text_equals_string(mode, modes[i].names[1]))
            type = modes[i].type;
    if (!type)
        return folder_refuse(embedding->files, refused, error, "%s: %.*s is not built", path,
                             shown.size < 64 ? (int)shown.size : 64, shown.data);
    if (embedding->pooling_type)
        return folder_refuse(embedding->files, refused, error, "%s: more than one mode is not built", path);
    embedding->pooling_type = type;
    return STATUS_OK;
}

// Reads "pooling_mode": a name or a list of names.
static enum status read_named_modes(struct folder_embedding *embedding, const char *path,
                                    const struct value *modes, struct error *error)
{
    bool is_list = modes->kind == VALUE_ARRAY;
    size_t n_modes = is_list ? modes->array.n_items : 1;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_modes && status == STATUS_OK; i++) {
        const struct value *mode = is_list ? &modes->array.items[i] : modes;
        char shown[sizeof "pooling_mode " + VALUE_DESCRIPTION_BYTES] = "pooling_mode ";
        value_describe(mode, shown + strlen(shown));
        status = add_mode(embedding, path, text_from_string(shown),
                          mode->kind == VALUE_STRING ? mode->text : (struct text){0}, error);
    }
    return status;
}

// Before sentence-transformers 5.4 each pooling mode is a key of its own.
static enum status read_modes(struct folder_embedding *embedding, const char *path, const struct value *json,
                              struct error *error)
{
    const struct value *named = find(json, "pooling_mode");
    if (named)
        return read_named_modes(embedding, path, named, error);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json->object.n_members && status == STATUS_OK; i++) {
        const struct value_member *member = &json->object.members[i];
        bool is_mode = member->key.size > 13 && memcmp(member->key.data, "pooling_mode_", 13) == 0;
        if (is_mode && member->value.kind != VALUE_NULL && !is_truth(&member->value, false))
            status = add_mode(embedding, path, member->key,
                              is_truth(&member->value, true) ? member->key : (struct text){0}, error);
    }
    if (!embedding->pooling_type && !embedding->pooling_refused.data)
        embedding->pooling_type = POOLING_MEAN;
    return status;
}

static enum status read_pooling(struct folder_embedding *embedding, const char *path, struct error *error)
{
    struct value json;
    bool found;
    enum status status = folder_read_json(embedding->files, path, &json, &found, error);
    if (status == STATUS_OK && !found && embedding->has_path)
        return refuse(embedding, path, TEXT("a missing file"), error);
    if (status != STATUS_OK || !found)
        return status;
    embedding->leaves_prompt_out = is_truth(value_get(&json, "include_prompt"), false);
    status =
        folder_check_keys(embedding->files, "1_Pooling/config.json", path, &json, &embedding->refused, error);
    return status == STATUS_OK ? read_modes(embedding, path, &json, error) : status;
}

// --- Modules ---

static struct text last_name(struct text type)
{
    struct text name = type;
    for (size_t at = 0; at < type.size; at++)
        if (type.data[at] == '.')
            name = (struct text){type.data + at + 1, type.size - at - 1};
    return name;
}

// Writes a module's "PATH/config.json". False: the path is invalid.
static bool name_config(struct text path, char out[FOLDER_FILE_NAME_BYTES_MAX + 1])
{
    while (path.size && path.data[path.size - 1] == '/')
        path.size--;
    if (path.size + strlen("/config.json") > FOLDER_FILE_NAME_BYTES_MAX || memchr(path.data, 0, path.size) ||
        (path.size && path.data[0] == '/') || memmem(path.data, path.size, "..", 2))
        return false;
    snprintf(out, FOLDER_FILE_NAME_BYTES_MAX + 1, "%.*s%sconfig.json", (int)path.size, path.data,
             path.size ? "/" : "");
    return true;
}

static enum status read_normalize(struct folder_embedding *embedding, const char *path, struct error *error)
{
    struct value json;
    bool found;
    embedding->normalizes = true;
    enum status status = folder_read_json(embedding->files, path, &json, &found, error);
    if (status != STATUS_OK || !found)
        return status;
    return folder_check_keys(embedding->files, "2_Normalize/config.json", path, &json, &embedding->refused,
                             error);
}

// --- Linear layers ---

// A tensor of the layer as F32. *out has data NULL if it is absent.
static enum status read_matrix(struct folder_embedding *embedding, const struct safetensors *weights,
                               const char *from, const char *kind, struct tensor *out, struct error *error)
{
    size_t index = safetensors_find(weights, text_from_string(from));
    if (index == SIZE_MAX)
        return STATUS_OK;
    const struct safetensors_tensor *found = safetensors_at(weights, index);
    const struct tensor *tensor = &found->tensor;
    size_t n = (size_t)(tensor->dims[0] * tensor_n_rows(tensor));
    char name[32];
    int size = snprintf(name, sizeof name, "dense_%d.%s", MODEL_DENSE_FIRST + embedding->n_dense, kind);
    if (!found->readable)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "tensor %s: dtype %s can't be computed with", from, found->dtype);
    float *items = arena_allocate_array(embedding->files->arena, n, sizeof *items);
    char *copy = arena_copy(embedding->files->arena, name, (size_t)size);
    if (!items || !copy)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    tensor_traits(tensor->type)->dequantize(tensor->data, items, n);
    *out = *tensor;
    out->name = (struct text){copy, (size_t)size};
    out->type = TENSOR_F32;
    out->data = items;
    out->size_bytes = n * sizeof *items;
    return STATUS_OK;
}

static enum status read_dense_weights(struct folder_embedding *embedding, const char *path,
                                      struct folder_dense *dense, struct error *error)
{
    struct safetensors *weights;
    enum status status = safetensors_open(&weights, path, error);
    if (status != STATUS_OK)
        return status;
    status = read_matrix(embedding, weights, "linear.weight", "weight", &dense->weight, error);
    if (status == STATUS_OK)
        status = read_matrix(embedding, weights, "linear.bias", "bias", &dense->bias, error);
    if (status == STATUS_OK && (!dense->weight.data || dense->weight.n_dims != 2))
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "expected a matrix linear.weight");
    safetensors_close(weights);
    return status == STATUS_OK ? status : error_prefix(error, "%s", path);
}

// `path`: the module's folder; `config`: its config.json. The weights define the shape.
static enum status read_dense(struct folder_embedding *embedding, struct text path, const char *config,
                              struct error *error)
{
    static const char *const activations[][2] = {{"torch.nn.modules.linear.Identity", NULL},
                                                 {"torch.nn.modules.activation.Tanh", "tanh"}};
    char whole[FOLDER_PATH_BYTES_MAX + 1 + FOLDER_FILE_NAME_BYTES_MAX + 1];
    struct value json;
    bool found, known = false;
    enum status status = folder_read_json(embedding->files, config, &json, &found, error);
    if (status == STATUS_OK && !found)
        return refuse(embedding, config, TEXT("a missing file"), error);
    if (status == STATUS_OK)
        status = folder_check_keys(embedding->files, "2_Dense/config.json", config, &json,
                                   &embedding->refused, error);
    if (status != STATUS_OK)
        return status;
    if (embedding->n_dense == MODEL_DENSE_MAX)
        return refuse(embedding, "modules.json", TEXT("so many modules of type Dense"), error);
    struct folder_dense *dense = &embedding->dense[embedding->n_dense];
    const struct value *activation = find(&json, "activation_function");
    struct text name = activation && activation->kind == VALUE_STRING
                           ? activation->text
                           : TEXT("torch.nn.modules.activation.Tanh"); // the default
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (text_equals_string(name, activations[i][0])) {
            dense->activation = activations[i][1];
            known = true;
        }
    if (!known)
        return refuse(embedding, config, name, error);
    snprintf(whole, sizeof whole, "%s/%.*s", embedding->files->path, (int)path.size, path.data);
    status = read_dense_weights(embedding, whole, dense, error);
    embedding->n_dense += status == STATUS_OK;
    return status;
}

static enum status read_module(struct folder_embedding *embedding, const struct value *module, size_t index,
                               struct error *error)
{
    static const char file[] = "modules.json";
    const struct value *type = find(module, "type"), *path = find(module, "path");
    char config[FOLDER_FILE_NAME_BYTES_MAX + 1] = "1_Pooling/config.json";
    enum status status = folder_check_keys(embedding->files, file, file, module, &embedding->refused, error);
    if (status != STATUS_OK)
        return status;
    if (!type || type->kind != VALUE_STRING)
        return refuse(embedding, file, TEXT("a module without a type"), error);
    embedding->has_path = path != NULL;
    if (path && (path->kind != VALUE_STRING || !name_config(path->text, config)))
        return refuse(embedding, file, TEXT("such a path"), error);
    struct text name = last_name(type->text);
    if (text_equals_string(name, "Transformer") && index == 0)
        return path && path->text.size ? refuse(embedding, file, TEXT("a Transformer with a path"), error)
                                       : STATUS_OK;
    // A second pooling, or a pooling after other modules, would pool vectors instead of token states.
    if (text_equals_string(name, "Pooling") && index == 1)
        return read_pooling(embedding, config, error);
    if (text_equals_string(name, "Dense") && index > 1 && path && !embedding->normalizes)
        return read_dense(embedding, path->text, config, error);
    if (text_equals_string(name, "Normalize") && index > 1)
        return path ? read_normalize(embedding, config, error) : (embedding->normalizes = true, STATUS_OK);
    if (text_equals_string(name, "Dropout") && index > 1) // used in training only
        return STATUS_OK;
    return refuse(embedding, file, type->text, error);
}

static enum status read_modules(struct folder_embedding *embedding, struct error *error)
{
    static const char file[] = "modules.json";
    struct text content;
    struct value json;
    enum status status = folder_read_file(embedding->files, file, &content, &embedding->is_listed, error);
    if (status != STATUS_OK)
        return status;
    if (!embedding->is_listed)
        return read_pooling(embedding, "1_Pooling/config.json", error);
    if (json_decode_document(content, embedding->files->arena, &json, error) != STATUS_OK) {
        error->status = STATUS_REFUSE;
        return error_prefix(error, "%s/%s", embedding->files->path, file);
    }
    if (json.kind != VALUE_ARRAY || json.array.n_items < 2)
        return refuse(embedding, file, TEXT("a list of fewer than two modules"), error);
    for (size_t i = 0; status == STATUS_OK && i < json.array.n_items; i++)
        status = read_module(embedding, &json.array.items[i], i, error);
    return status;
}

// --- Texts ---

static enum status set_longest(struct folder_embedding *embedding, const char *file, const char *name,
                               const struct value *value, struct error *error)
{
    char described[VALUE_DESCRIPTION_BYTES];
    if (value->kind == VALUE_INTEGER && value->integer > 0) {
        if (value->integer <= INT32_MAX) // 10^30 means no limit
            embedding->n_tokens_max = (uint32_t)value->integer;
        return STATUS_OK;
    }
    if (value->kind == VALUE_FLOAT && value->number > INT32_MAX)
        return STATUS_OK;
    value_describe(value, described);
    return folder_refuse(embedding->files, &embedding->refused, error, "%s: %s %s is not built", file, name,
                         described);
}

// Reads the maximum number of tokens of a text: max_seq_length, else the tokenizer's model_max_length.
static enum status read_transformer(struct folder_embedding *embedding, struct error *error)
{
    static const char *const names[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                        "sentence_xlnet_config.json"};
    struct value json = {.kind = VALUE_NULL}, tokenizer;
    const char *file = names[0], *tokenizer_file = "tokenizer_config.json";
    bool found = false, has_tokenizer;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == STATUS_OK && !found; i++)
        status = folder_read_json(embedding->files, file = names[i], &json, &found, error);
    if (status == STATUS_OK && found)
        status = folder_check_keys(embedding->files, names[0], file, &json, &embedding->refused, error);
    if (status == STATUS_OK)
        status = folder_read_json(embedding->files, tokenizer_file, &tokenizer, &has_tokenizer, error);
    if (status != STATUS_OK)
        return status;
    const struct value *longest = find(&json, "max_seq_length"), *side = find(&tokenizer, "truncation_side");
    if (longest)
        status = set_longest(embedding, file, "max_seq_length", longest, error);
    else if (embedding->is_listed && find(&tokenizer, "model_max_length"))
        status = set_longest(embedding, tokenizer_file, "model_max_length",
                             find(&tokenizer, "model_max_length"), error);
    bool is_left = side && !(side->kind == VALUE_STRING && text_equals_string(side->text, "right"));
    if (status == STATUS_OK && embedding->n_tokens_max && is_left)
        status = refuse(embedding, tokenizer_file, TEXT("truncation_side other than right"), error);
    return status;
}

static enum status keep_prompts(struct folder_embedding *embedding, const struct value *prompts,
                                struct error *error)
{
    struct buffer text = {0};
    json_encode(prompts, &text);
    char *copy = text.failed ? NULL : arena_copy(embedding->files->arena, text.data, text.size);
    embedding->prompts = (struct text){copy, copy ? text.size : 0};
    buffer_finish(&text);
    return copy ? STATUS_OK : error_memory(error, STATUS_REFUSE, "a model's folder");
}

static enum status read_prompt(struct folder_embedding *embedding, struct error *error)
{
    static const char file[] = "config_sentence_transformers.json";
    struct value json;
    bool found;
    enum status status = folder_read_json(embedding->files, file, &json, &found, error);
    if (status == STATUS_OK && found)
        status = folder_check_keys(embedding->files, file, file, &json, &embedding->refused, error);
    const struct value *name = find(&json, "default_prompt_name"), *dimensions = find(&json, "truncate_dim");
    if (status == STATUS_OK && dimensions)
        status = folder_refuse(embedding->files, &embedding->dimensions_refused, error,
                               "%s: truncate_dim is not built", file);
    const struct value *prompts = find(&json, "prompts"), *prompt = NULL;
    if (status == STATUS_OK && prompts && prompts->kind == VALUE_OBJECT && prompts->object.n_members)
        status = keep_prompts(embedding, prompts, error);
    if (status != STATUS_OK || !name)
        return status;
    for (size_t i = 0; name->kind == VALUE_STRING && prompts && prompts->kind == VALUE_OBJECT &&
                       i < prompts->object.n_members;
         i++)
        if (text_equal(prompts->object.members[i].key, name->text))
            prompt = &prompts->object.members[i].value;
    if (!prompt || prompt->kind != VALUE_STRING)
        return refuse(embedding, file, TEXT("a default_prompt_name that is not among the prompts"), error);
    embedding->prompt = prompt->text;
    if (embedding->leaves_prompt_out && prompt->text.size)
        return refuse(embedding, file, TEXT("a prompt that pooling leaves out (include_prompt false)"),
                      error);
    return STATUS_OK;
}

enum status folder_read_embedding(struct folder_embedding *embedding, struct error *error)
{
    enum status status = read_modules(embedding, error);
    if (status == STATUS_OK)
        status = read_transformer(embedding, error);
    return status == STATUS_OK ? read_prompt(embedding, error) : status;
}

enum status folder_add_pooling(const struct folder_files *files, const char *family, struct gguf_writer *keys,
                               struct tensor dense[2 * MODEL_DENSE_MAX], int *n_dense, struct error *error)
{
    struct folder_embedding embedding = {.files = files};
    char key[128];
    enum status status = folder_read_embedding(&embedding, error);
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i < embedding.n_dense; i++) {
        const struct folder_dense *layer = &embedding.dense[i];
        dense[(*n_dense)++] = layer->weight;
        if (layer->bias.data)
            dense[(*n_dense)++] = layer->bias;
        snprintf(key, sizeof key, "%s.dense_%d_activation", family, MODEL_DENSE_FIRST + i);
        if (layer->activation)
            gguf_writer_text(keys, key, text_from_string(layer->activation));
    }
    if (embedding.refused.data)
        gguf_writer_text(keys, MODEL_FOLDER_NO_EMBEDDINGS, embedding.refused);
    if (embedding.pooling_refused.data)
        gguf_writer_text(keys, MODEL_FOLDER_NO_POOLING, embedding.pooling_refused);
    if (embedding.dimensions_refused.data)
        gguf_writer_text(keys, MODEL_FOLDER_NO_DIMENSIONS, embedding.dimensions_refused);
    if (embedding.prompt.size)
        gguf_writer_text(keys, MODEL_FOLDER_PROMPT, embedding.prompt);
    if (embedding.prompts.size)
        gguf_writer_text(keys, MODEL_FOLDER_PROMPTS, embedding.prompts);
    if (embedding.n_tokens_max)
        gguf_writer_u32(keys, MODEL_FOLDER_TOKENS_MAX, embedding.n_tokens_max);
    if (embedding.is_listed)
        gguf_writer_bool(keys, MODEL_FOLDER_NORMALIZES, embedding.normalizes);
    if (embedding.pooling_type) {
        snprintf(key, sizeof key, "%s.pooling_type", family);
        gguf_writer_u32(keys, key, embedding.pooling_type);
    }
    return STATUS_OK;
}
