// Adapters in PEFT's folders.
#include "engine/model/adapter_parts.h"

#include "engine/model/family.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/base/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONFIG  "adapter_config.json"
#define WEIGHTS "adapter_model.safetensors"
static const char prefix[] = "base_model.model.", down_ending[] = ".lora_A.weight",
                  up_ending[] = ".lora_B.weight";

struct adapter_folder {
    struct model *model;
    struct adapter_file *file;
    const char *path;
    struct arena arena;
    struct error *error;
    double alpha;
    int64_t rank;
    bool by_root; // use_rslora
    const struct value *rank_pattern, *alpha_pattern;
    const struct folder_family *family; // whose names the adapter has
};

// --- adapter_config.json ---

// Keys that are read, and keys that results do not depend on: of training, and of what the tensors say. Blanks surround
// each name.
static const char known_keys[] =
    " peft_type r lora_alpha use_rslora rank_pattern alpha_pattern bias init_lora_weights"
    " base_model_name_or_path revision inference_mode task_type auto_mapping peft_version target_modules "
    "exclude_modules lora_dropout fan_in_fan_out layers_to_transform layers_pattern loftq_config eva_config "
    "corda_config lora_ga_config megatron_config megatron_core qalora_group_size ensure_weight_tying "
    "runtime_config ";
// Keys that change the computation, unless their value is null, false or empty.
static const char refused_keys[] =
    " use_dora lora_bias modules_to_save layer_replication trainable_token_indices target_parameters use_qalora "
    "alora_invocation_tokens invocation_string arrow_config use_bdlora monteclora_config velora_config kasa_config ";

static bool is_listed(const char *list, struct text key)
{
    char word[96];
    int size = snprintf(word, sizeof word, " %.*s ", key.size < 90 ? (int)key.size : 90, key.data);
    return size < (int)sizeof word && strstr(list, word) != NULL;
}

static bool is_empty(const struct value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
        return true;
    case VALUE_BOOL:
        return !value->boolean;
    case VALUE_STRING:
        return value->text.size == 0;
    case VALUE_ARRAY:
        return value->array.n_items == 0;
    case VALUE_OBJECT:
        return value->object.n_members == 0;
    default:
        return false;
    }
}

static enum status refuse_setting(struct adapter_folder *folder, const char *key, const struct value *value)
{
    char text[VALUE_DESCRIPTION_BYTES];
    value_describe(value, text);
    return error_set(folder->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, CONFIG ": %s %s is not built", key,
                     text);
}

static enum status check_keys(struct adapter_folder *folder, const struct value *config,
                              struct buffer *unknown)
{
    for (size_t i = 0; i < config->object.n_members; i++) {
        struct text key = config->object.members[i].key;
        const struct value *value = &config->object.members[i].value;
        if (is_empty(value) || is_listed(known_keys, key))
            continue;
        if (is_listed(refused_keys, key)) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)key.size, key.data);
            return refuse_setting(folder, name, value);
        }
        buffer_add_format(unknown, "%s%.*s", unknown->size ? ", " : "", key.size < 64 ? (int)key.size : 64,
                          key.data);
    }
    return STATUS_OK;
}

// Initializations of A and B alone. Others change the base model's weights too (PiSSA, OLoRA, CorDA, LoftQ), so that
// the adapter belongs to other weights than the model's, or are variants of LoRA.
static bool is_plain_start(const struct value *value)
{
    static const char *const names[] = {"gaussian", "eva", "orthogonal"};
    if (!value || is_empty(value) || value->kind == VALUE_BOOL)
        return true;
    for (size_t i = 0; value->kind == VALUE_STRING && i < sizeof names / sizeof *names; i++)
        if (value->text.size == strlen(names[i]) &&
            strncasecmp(value->text.data, names[i], value->text.size) == 0)
            return true;
    return false;
}

static bool read_number(const struct value *value, double *number)
{
    if (value && value->kind == VALUE_INTEGER)
        *number = (double)value->integer;
    else if (value && value->kind == VALUE_FLOAT)
        *number = value->number;
    else
        return false;
    return isfinite(*number);
}

static enum status expect(struct adapter_folder *folder, const char *key, const char *expected,
                          const struct value *value)
{
    char text[VALUE_DESCRIPTION_BYTES] = "none";
    if (value)
        value_describe(value, text);
    return error_set(folder->error, STATUS_REFUSE, ERROR_MODEL_FILE, CONFIG ": %s: expected %s, got %s", key,
                     expected, text);
}

static bool is_object_or_empty(const struct value *value)
{
    return !value || value->kind == VALUE_OBJECT || is_empty(value);
}

static enum status read_config(struct adapter_folder *folder, const struct value *config,
                               struct buffer *unknown)
{
    const struct value *type = value_get(config, "peft_type"), *bias = value_get(config, "bias"),
                       *init = value_get(config, "init_lora_weights"),
                       *by_root = value_get(config, "use_rslora"), *rank = value_get(config, "r");
    if (!type || type->kind != VALUE_STRING || !text_equals_string(type->text, "LORA"))
        return expect(folder, "peft_type", "\"LORA\"", type);
    if (bias && !is_empty(bias) && (bias->kind != VALUE_STRING || !text_equals_string(bias->text, "none")))
        return refuse_setting(folder, "bias", bias);
    if (!is_plain_start(init))
        return refuse_setting(folder, "init_lora_weights", init);
    if (!rank || !value_whole_number(rank, &folder->rank) || folder->rank < 1)
        return expect(folder, "r", "a number from 1", rank);
    if (!read_number(value_get(config, "lora_alpha"), &folder->alpha))
        return expect(folder, "lora_alpha", "a number", value_get(config, "lora_alpha"));
    if (by_root && by_root->kind != VALUE_BOOL && by_root->kind != VALUE_NULL)
        return expect(folder, "use_rslora", "true or false", by_root);
    folder->by_root = by_root && by_root->kind == VALUE_BOOL && by_root->boolean;
    folder->rank_pattern = value_get(config, "rank_pattern");
    folder->alpha_pattern = value_get(config, "alpha_pattern");
    if (!is_object_or_empty(folder->rank_pattern))
        return expect(folder, "rank_pattern", "an object", folder->rank_pattern);
    if (!is_object_or_empty(folder->alpha_pattern))
        return expect(folder, "alpha_pattern", "an object", folder->alpha_pattern);
    return check_keys(folder, config, unknown);
}

// --- Scales ---

// PEFT's patterns are regular expressions for the end of a module's name, after a dot or as the whole name. Those of
// letters, digits, '_' and '.' are names here; others are refused.
static enum status find_pattern(struct adapter_folder *folder, const char *key, const struct value *patterns,
                                struct text module, const struct value **found)
{
    *found = NULL;
    for (size_t i = 0; patterns && patterns->kind == VALUE_OBJECT && i < patterns->object.n_members; i++) {
        struct text pattern = patterns->object.members[i].key;
        const struct value *value = &patterns->object.members[i].value;
        if (pattern.size && pattern.data[0] == '^') // the module's whole name
            pattern = (struct text){pattern.data + 1, pattern.size - 1};
        bool is_whole = pattern.data != patterns->object.members[i].key.data;
        for (size_t at = 0; at < pattern.size; at++) {
            char byte = pattern.data[at];
            bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                            (byte >= '0' && byte <= '9') || byte == '_' || byte == '.';
            if (!is_plain)
                return error_set(folder->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                                 CONFIG ": %s: expected names of modules, got the pattern \"%.*s\"", key,
                                 pattern.size < 64 ? (int)pattern.size : 64, pattern.data);
        }
        if (!pattern.size || pattern.size > module.size ||
            memcmp(module.data + module.size - pattern.size, pattern.data, pattern.size) != 0)
            continue;
        size_t before = module.size - pattern.size;
        if (before == 0 || (!is_whole && module.data[before - 1] == '.')) {
            *found = value; // the first that matches, as in PEFT
            return STATUS_OK;
        }
    }
    return STATUS_OK;
}

// s of a module whose A has `rank` rows.
static enum status read_scale(struct adapter_folder *folder, struct text module, uint64_t rank, double *scale)
{
    const struct value *own_rank, *own_alpha;
    double alpha = folder->alpha;
    int64_t expected = folder->rank;
    enum status status = find_pattern(folder, "rank_pattern", folder->rank_pattern, module, &own_rank);
    if (status == STATUS_OK)
        status = find_pattern(folder, "alpha_pattern", folder->alpha_pattern, module, &own_alpha);
    if (status != STATUS_OK)
        return status;
    if (own_rank && !value_whole_number(own_rank, &expected))
        return expect(folder, "rank_pattern", "whole numbers", own_rank);
    if (own_alpha && !read_number(own_alpha, &alpha))
        return expect(folder, "alpha_pattern", "numbers", own_alpha);
    if (expected < 1 || (uint64_t)expected != rank)
        return error_set(folder->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%.*s: " CONFIG " says rank %lld, the tensor has %llu",
                         module.size < 128 ? (int)module.size : 128, module.data, (long long)expected,
                         (unsigned long long)rank);
    *scale = alpha / (folder->by_root ? sqrt((double)rank) : (double)rank);
    return STATUS_OK;
}

// --- Names ---

static bool ends_with(struct text name, const char *ending)
{
    size_t size = strlen(ending);
    return name.size > size && memcmp(name.data + name.size - size, ending, size) == 0;
}

static bool begins_with(struct text name, const char *start)
{
    return name.size > strlen(start) && memcmp(name.data, start, strlen(start)) == 0;
}

// Whether a module has the rule's name; *layer is the number in place of its '*', or LAYER_OUTPUT.
static bool has_name(const char *rule, struct text module, int32_t *layer)
{
    const char *star = strchr(rule, '*');
    size_t before = star ? (size_t)(star - rule) : strlen(rule);
    *layer = LAYER_OUTPUT;
    if (module.size < before || memcmp(module.data, rule, before) != 0)
        return false;
    if (!star)
        return module.size == before;
    size_t at = before;
    int32_t number = 0;
    for (; at < module.size && module.data[at] >= '0' && module.data[at] <= '9' && number <= MODEL_LAYERS_MAX;
         at++)
        number = 10 * number + (module.data[at] - '0');
    *layer = number;
    return at > before && module.size - at == strlen(star + 1) &&
           memcmp(module.data + at, star + 1, module.size - at) == 0;
}

// The same for a language model beside towers, whose prefix replaces "model.", and for a model without its head, whose
// modules lack it.
static bool is_named(const char *rule, struct text module, int32_t *layer)
{
    static const char *const prefixes[] = {"model.language_model.", "language_model.model.",
                                           "model.text_model.", "thinker.model.", "language_model."};
    if (*rule == '=' || strchr(rule, '{'))
        return false;
    if (has_name(rule, module, layer))
        return true;
    const bool is_inner = strncmp(rule, "model.", strlen("model.")) == 0;
    const char *inner = is_inner ? rule + strlen("model.") : rule;
    if (is_inner && has_name(inner, module, layer))
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins_with(module, prefixes[i]) &&
            has_name(inner,
                     (struct text){module.data + strlen(prefixes[i]), module.size - strlen(prefixes[i])},
                     layer))
            return true;
    return false;
}

static const struct folder_rule *find_rule(const struct folder_family *family, struct text module,
                                           int32_t *layer)
{
    const struct folder_rule *lists[] = {family->layers, family->globals};
    for (int i = 0; i < 2; i++)
        for (const struct folder_rule *rule = lists[i]; rule->from; rule++)
            if (is_named(rule->from, module, layer)) {
                if (i == 0 && *layer == LAYER_OUTPUT) // a layer in place of all (ALBERT)
                    *layer = 0;
                return rule;
            }
    // GPT-NeoX's output matrix is embed_out in folders, and lm_head in transformers 5.
    return text_equals_string(module, "lm_head") ? find_rule(family, TEXT("embed_out"), layer) : NULL;
}

// "base_model.model.X.lora_A.weight" -> "X". False: no such name.
static bool take_module(struct text name, const char *ending, struct text *module)
{
    size_t first = sizeof prefix - 1, last = strlen(ending);
    if (!begins_with(name, prefix) || name.size <= first + last ||
        memcmp(name.data + name.size - last, ending, last) != 0)
        return false;
    *module = (struct text){name.data + first, name.size - first - last};
    return true;
}

// A pooler that the model does not have, which all-linear adapts too: no result depends on it.
static bool is_unused_pooler(const struct model *model, struct text module)
{
    static const char *const names[] = {"pooler.dense", "bert.pooler.dense", "roberta.pooler.dense",
                                        "mpnet.pooler.dense", "new.pooler.dense"};
    if (!model->family->bidirectional || model->classifier.output.data)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_equals_string(module, names[i]))
            return true;
    return false;
}

static bool names_all(const struct folder_family *family, const struct adapter_folder *folder)
{
    const struct safetensors *weights = folder->file->weights;
    struct text module;
    int32_t layer;
    for (size_t i = 0; i < safetensors_n_tensors(weights); i++)
        if (take_module(safetensors_at(weights, i)->tensor.name, down_ending, &module) &&
            !is_unused_pooler(folder->model, module) && !find_rule(family, module, &layer))
            return false;
    return true;
}

// The family whose folders have the adapter's names: the base folder's own, or of the model's family in GGUF the first
// one with all names. Model types of one family with the same names have the same order of rows, except helium, which a
// GGUF file of another program does not tell from llama.
static enum status choose_family(struct adapter_folder *folder)
{
    struct text own = {0};
    enum status status = gguf_text(folder->model->gguf, MODEL_FOLDER_MODEL_TYPE, &own, NULL, folder->error);
    const struct folder_family *first = own.size ? folder_family_find(own) : NULL;
    folder->family = first;
    const char *name;
    for (size_t i = 0; !own.size && !folder->family && (name = folder_family_name_at(i)); i++) {
        const struct folder_family *family = folder_family_find(text_from_string(name));
        if (strcmp(family->name, folder->model->family->name) != 0)
            continue;
        first = first ? first : family;
        if (names_all(family, folder))
            folder->family = family;
    }
    folder->family = folder->family ? folder->family : first;
    if (status == STATUS_OK && !folder->family)
        status = error_set(folder->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                           "family %s has no folders whose names an adapter could have",
                           folder->model->family->name);
    return status;
}

// --- Tensors ---

// A linear layer of GPT-2's kind stores its weights transposed, but not its adapter.
static bool read_form(enum folder_form form, enum folder_form *out)
{
    *out = form == FORM_TRANSPOSED ? FORM_AS_IS : form;
    return *out == FORM_AS_IS || (form >= FORM_ROWS_Q && form <= FORM_ROWS_BY_GROUP_PAIRED);
}

static enum status refuse_tensor(struct adapter_folder *folder, struct text name, const char *why)
{
    return error_set(folder->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "tensor %.*s: %s",
                     name.size < 160 ? (int)name.size : 160, name.data, why);
}

static enum status add_tensor(struct adapter_folder *folder, const struct safetensors_tensor *down,
                              struct text module)
{
    const struct safetensors *weights = folder->file->weights;
    struct text name = down->tensor.name;
    char *copy = arena_copy(&folder->arena, name.data, name.size), target[64];
    if (!copy)
        return error_memory(folder->error, STATUS_REFUSE, "an adapter");
    memcpy(copy + name.size - (sizeof up_ending - 1), up_ending, sizeof up_ending - 1);
    size_t index = safetensors_find(weights, (struct text){copy, name.size});
    if (index == SIZE_MAX)
        return refuse_tensor(folder, name, "has no lora_B");
    const struct safetensors_tensor *up = safetensors_at(weights, index);
    if (!down->readable || !up->readable)
        return refuse_tensor(folder, name, "expected F32, F16 or BF16");
    int32_t layer;
    const struct folder_rule *rule = find_rule(folder->family, module, &layer);
    struct adapter_pair pair = {.down = &down->tensor, .up = &up->tensor};
    if (!rule || !read_form(rule->form, &pair.form))
        return refuse_tensor(
            folder, name,
            "no matrix of the model that can be adapted has this name (adapted are attention, "
            "MLPs that are no experts, routers and lm_head)");
    int size = layer == LAYER_OUTPUT ? snprintf(target, sizeof target, "%s.weight", rule->to)
                                     : snprintf(target, sizeof target, "blk.%d.%s.weight", layer, rule->to);
    pair.target = (struct text){target, (size_t)size};
    double scale = 0.0;
    enum status status = read_scale(folder, module, down->tensor.dims[1], &scale);
    folder->file->settings_hash =
        hash_bytes(&scale, sizeof scale, hash_bytes(name.data, name.size, folder->file->settings_hash));
    pair.scale = folder->file->scale * scale;
    return status == STATUS_OK ? adapter_add_pair(folder->model, &pair, folder->error) : status;
}

// Copies of the base model's output matrix and its bias, which PEFT stores when that matrix is adapted.
static bool is_base_layer(struct text name)
{
    return ends_with(name, ".base_layer.weight") || ends_with(name, ".base_layer.bias");
}

static enum status add_tensors(struct adapter_folder *folder)
{
    const struct safetensors *weights = folder->file->weights;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < safetensors_n_tensors(weights) && status == STATUS_OK; i++) {
        const struct safetensors_tensor *tensor = safetensors_at(weights, i);
        struct text name = tensor->tensor.name, module;
        if (take_module(name, down_ending, &module)) {
            if (!is_unused_pooler(folder->model, module))
                status = add_tensor(folder, tensor, module);
        } else if (take_module(name, up_ending, &module)) {
            char *down = arena_copy(&folder->arena, name.data, name.size);
            if (!down)
                return error_memory(folder->error, STATUS_REFUSE, "an adapter");
            memcpy(down + name.size - (sizeof down_ending - 1), down_ending, sizeof down_ending - 1);
            if (safetensors_find(weights, (struct text){down, name.size}) == SIZE_MAX)
                status = refuse_tensor(folder, name, "has no lora_A");
        } else if (!is_base_layer(name)) {
            status = refuse_tensor(folder, name,
                                   "expected names base_model.model.MODULE.lora_A.weight and lora_B.weight");
        }
    }
    return status;
}

static enum status open_folder(struct adapter_folder *folder, struct buffer *unknown)
{
    struct folder_files files = {.path = folder->path, .arena = &folder->arena};
    struct value config;
    bool found;
    char weights[FOLDER_PATH_BYTES_MAX + sizeof WEIGHTS + 1];
    enum status status = folder_read_json(&files, CONFIG, &config, &found, folder->error);
    if (status == STATUS_OK && !found)
        status = error_set(folder->error, STATUS_REFUSE, ERROR_FILE, "a folder without " CONFIG);
    if (status == STATUS_OK)
        status = read_config(folder, &config, unknown);
    snprintf(weights, sizeof weights, "%s/" WEIGHTS, folder->path);
    if (status == STATUS_OK)
        status = safetensors_open(&folder->file->weights, weights, folder->error);
    if (status == STATUS_OK)
        status = choose_family(folder);
    return status == STATUS_OK ? add_tensors(folder) : status;
}

enum status adapter_open_folder(struct model *model, struct adapter_file *file, const char *path,
                                struct buffer *unknown, struct error *error)
{
    struct adapter_folder folder = {.model = model, .file = file, .path = path, .error = error};
    enum status status = open_folder(&folder, unknown);
    arena_finish(&folder.arena);
    return status;
}
