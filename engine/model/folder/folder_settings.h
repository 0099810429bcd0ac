// Reading config.json's settings and writing keys: shared by folder_config.c, folder_layers.c and
// folder_rope.c.
#pragma once

#include "engine/model/family.h"
#include "engine/model/folder/folder_parts.h"

#include <stdio.h>
#include <string.h>

struct config {
    const struct value *json;
    const struct value *outer; // of a vision-language model; NULL: none
    struct value defaults;     // the model_type's
    struct value
        sizes; // of a language model beside towers, if its settings name none; null: no such defaults
    struct folder_config *out;
    struct gguf_writer *keys;
    struct arena *arena;
    struct error *error;
    enum status status; // the first fault is kept
};

static inline void refuse_setting(struct config *config, enum error_code code, const char *name,
                                  const struct value *value)
{
    char text[VALUE_DESCRIPTION_BYTES] = "missing";
    if (value)
        value_describe(value, text);
    if (config->status == STATUS_OK)
        config->status = error_set(config->error, STATUS_REFUSE, code,
                                   "\"%s\" is %s, which this version can't compute with", name, text);
}

// NULL if it is absent or null.
static inline const struct value *find_in(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind != VALUE_NULL ? value : NULL;
}

// The first of several names, separated by blanks, that is present.
static inline const struct value *find_first(const struct value *object, const char *names)
{
    char name[64];
    while (*names) {
        size_t size = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)size, names);
        const struct value *value = find_in(object, name);
        if (value)
            return value;
        names += size + (names[size] == ' ');
    }
    return NULL;
}

// The setting in config.json, else the model_type's default.
static inline const struct value *find_setting(const struct config *config, const char *names)
{
    const struct value *value = find_first(config->json, names);
    value = value ? value : find_first(&config->defaults, names);
    return value ? value : find_first(&config->sizes, names);
}

// The item of a list of equal integers, else the list.
static inline const struct value *find_common(const struct value *list)
{
    const struct value *items = list->array.items;
    for (size_t i = 0; i < list->array.n_items; i++)
        if (items[i].kind != VALUE_INTEGER || items[i].integer != items[0].integer)
            return list;
    return list->array.n_items ? items : list;
}

static inline bool is_model_type(const struct config *config, const char *model_type)
{
    return strcmp(config->out->family->model_type, model_type) == 0;
}

static inline int64_t read_integer(struct config *config, const char *names, int64_t otherwise)
{
    const struct value *value = find_setting(config, names);
    if (!value)
        return otherwise;
    if (value->kind == VALUE_ARRAY && value->array.n_items &&
        is_model_type(config, "ernie4_5_vl_moe_text")) // for texts, then for images
        value = value->array.items;
    if (value->kind == VALUE_ARRAY) // HunYuan: one for each layer, all equal
        value = find_common(value);
    if (value->kind != VALUE_INTEGER || value->integer < 0 || value->integer > INT32_MAX) {
        refuse_setting(config, ERROR_MODEL_FILE, names, value);
        return 0;
    }
    return value->integer;
}

static inline double number_in(struct config *config, const struct value *object, const char *name,
                               double otherwise)
{
    const struct value *value = find_in(object, name);
    if (!value)
        return otherwise;
    if (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT) {
        refuse_setting(config, ERROR_MODEL_FILE, name, value);
        return otherwise;
    }
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
}

static inline double read_number(struct config *config, const char *names, double otherwise)
{
    const struct value *value = find_setting(config, names);
    if (!value)
        return otherwise;
    if (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT) {
        refuse_setting(config, ERROR_MODEL_FILE, names, value);
        return otherwise;
    }
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
}

static inline bool read_truth(struct config *config, const char *name, bool otherwise)
{
    const struct value *value = find_setting(config, name);
    if (value && value->kind != VALUE_BOOL)
        refuse_setting(config, ERROR_MODEL_FILE, name, value);
    return value && value->kind == VALUE_BOOL ? value->boolean : otherwise;
}

static inline const char *format_key(const struct config *config, const char *suffix, char out[128])
{
    snprintf(out, 128, "%s.%s", config->out->family->name, suffix);
    return out;
}

static inline void put_integer(struct config *config, const char *suffix, int64_t value)
{
    char name[128];
    gguf_writer_u32(config->keys, format_key(config, suffix, name), (uint32_t)value);
}

static inline void put_number(struct config *config, const char *suffix, double value)
{
    char name[128];
    gguf_writer_f32(config->keys, format_key(config, suffix, name), (float)value);
}

static inline bool is_text(const struct value *value, const char *text)
{
    return value && value->kind == VALUE_STRING && text_equals_string(value->text, text);
}

static inline const struct family *family_of(const struct config *config)
{
    return family_find(text_from_string(config->out->family->name));
}

// folder_language.c: if *model_type (config.json's) names a model that also reads images or audio, selects the
// language model's settings in config->json and its model_type.
enum status folder_take_language(struct config *config, struct text *model_type) WARN_UNUSED;
// folder_recurrent.c.
// The number of layers whose kinds are listed; 0: none are.
int64_t folder_count_layers(const struct config *config);
// Whether one of the listed layers has experts.
bool folder_lists_experts(const struct config *config);
// Whether a key says for each layer how many key-value heads it has.
static inline bool heads_vary(const struct config *config)
{
    enum layer_kinds kinds = family_of(config)->layer_kinds;
    return kinds == LAYERS_BY_HEADS || kinds == LAYERS_SINGLE;
}
// The keys of recurrent layers, in families that have these.
void folder_put_recurrent(struct config *config);
// folder_index.c: the keys of sparse attention, in families that have it.
void folder_put_index(struct config *config);
// folder_layers.c: the keys of Cohere 2's mixtures; windows, if they are not listed.
void folder_put_cohere_experts(struct config *config);
void folder_put_cohere_windows(struct config *config);
// folder_hyper.c: the keys of hyper-connections and n-grams.
void folder_put_hyper(struct config *config);
// folder_deberta.c: the keys of disentangled attention and of a convolution, in families that have these.
void folder_put_disentangled(struct config *config);
// folder_rope.c: the keys rope.*, and the divisors of `out`.
void folder_read_rope(struct config *config);
// A layer's item of a list that may also have items for layers that predict further tokens; NULL: no such list.
const struct value *folder_layer_item(struct config *config, const char *names, int64_t layer);
// folder_layers.c: families whose layers differ (Gemma 3n and 4, EmbeddingGemma 2).
static inline bool layers_vary(const struct config *config)
{
    return family_of(config)->layers_vary;
}

// folder_heads.c: families whose layers differ in heads (MiMo-V2-Flash, Step 3.5, Laguna).
static inline bool heads_differ(const struct config *config)
{
    return family_of(config)->heads_vary;
}
// Whether a layer of such a family has a window.
bool folder_layer_slides(struct config *config, int64_t layer);
// Heads and windows of each layer, and limits of their experts' activations.
void folder_put_heads(struct config *config);

// Heads, MLPs and sharing of each layer: the keys whose value is an array. Sets shape.head_dim to the width
// of the heads of layers without a window, of which all must have the same.
void folder_put_layers(struct config *config);
