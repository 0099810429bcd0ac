// The tokenizer files of a folder: tokenizer.json (or one of its substitutes), tokenizer_config.json, the
// chat templates, and from generation_config.json the end tokens and the sampling defaults. If several files
// contain a template, transformers' order of precedence applies (tokenization_utils_base.py):
//   chat_template.jinja, with additional_chat_templates/tool_use.jinja beside it;
//   "chat_template" of tokenizer_config.json: a text, or a list of {"name", "template"};
//   chat_template.json, a processor's, if the tokenizer has no template.
#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"

#define DEFAULT_KEY  "tokenizer.chat_template"
#define TOOL_USE_KEY "tokenizer.chat_template.tool_use"

struct templates {
    struct text usual, tool_use; // empty: none
};

static void take_template(struct templates *templates, const struct value *name, const struct value *text)
{
    if (!name || !text || name->kind != VALUE_STRING || text->kind != VALUE_STRING)
        return;
    if (text_equals_string(name->text, "default"))
        templates->usual = text->text;
    else if (text_equals_string(name->text, "tool_use"))
        templates->tool_use = text->text;
}

static struct templates templates_of(const struct value *config)
{
    struct templates templates = {0};
    const struct value *template = value_get(config, "chat_template");
    if (!template)
        return templates;
    if (template->kind == VALUE_STRING)
        templates.usual = template->text;
    for (size_t i = 0; template->kind == VALUE_ARRAY && i < template->array.n_items; i++)
        take_template(&templates, value_get(&template->array.items[i], "name"),
                      value_get(&template->array.items[i], "template"));
    return templates;
}

static enum status add_templates(const struct folder_files *files, const struct value *tokenizer_config,
                                 struct gguf_writer *keys, struct error *error)
{
    struct templates templates = {0};
    struct value processor;
    bool found, has_processor = false;
    enum status status = folder_read_file(files, "chat_template.jinja", &templates.usual, &found, error);
    if (status == STATUS_OK)
        status = folder_read_file(files, "additional_chat_templates/tool_use.jinja", &templates.tool_use,
                                  &found, error);
    if (status == STATUS_OK && !templates.usual.size && !templates.tool_use.size)
        templates = templates_of(tokenizer_config);
    bool none = !templates.usual.size && !templates.tool_use.size;
    if (status == STATUS_OK && none)
        status = folder_read_json(files, "chat_template.json", &processor, &has_processor, error);
    if (status != STATUS_OK)
        return status;
    if (has_processor)
        templates = templates_of(&processor);
    if (templates.usual.size)
        gguf_writer_text(keys, DEFAULT_KEY, templates.usual);
    if (templates.tool_use.size)
        gguf_writer_text(keys, TOOL_USE_KEY, templates.tool_use);
    return STATUS_OK;
}

// --- Ends ---

enum { ENDS_MAX = 64 };

struct ends {
    int32_t ids[ENDS_MAX];
    size_t n_ids;
};

static void add_end(struct ends *ends, const struct value *id)
{
    if (id->kind != VALUE_INTEGER || id->integer < 0 || id->integer > INT32_MAX || ends->n_ids == ENDS_MAX)
        return;
    for (size_t i = 0; i < ends->n_ids; i++)
        if (ends->ids[i] == id->integer)
            return;
    ends->ids[ends->n_ids++] = (int32_t)id->integer;
}

// Adds an id or a list of ids.
static void add_ids(struct ends *ends, const struct value *ids)
{
    if (ids && ids->kind != VALUE_ARRAY)
        add_end(ends, ids);
    for (size_t i = 0; ids && ids->kind == VALUE_ARRAY && i < ids->array.n_items; i++)
        add_end(ends, &ids->array.items[i]);
}

// The end tokens: generation_config.json's, else config.json's, else its text_config's (vision-language
// models). The first of the three that names any decides. Ids named only by a later one may be leftovers
// of another vocabulary (such as text_config's default of 2): they end an answer only if they are control
// tokens.
static void add_ends(const struct value *generation, const struct value *config, struct gguf_writer *keys)
{
    const struct value *part = value_get(config, "text_config");
    const struct value *const named[] = {value_get(generation, "eos_token_id"),
                                         value_get(config, "eos_token_id"),
                                         part ? value_get(part, "eos_token_id") : NULL};
    struct ends ends = {0}, further = {0};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        add_ids(ends.n_ids ? &further : &ends, named[i]);
    size_t n_known = ends.n_ids;
    for (size_t i = 0; i < further.n_ids; i++)
        add_end(&ends, &(struct value){.kind = VALUE_INTEGER, .integer = further.ids[i]});
    if (n_known)
        gguf_writer_i32s(keys, "tokenizer.huggingface.eos_token_ids", ends.ids, n_known);
    if (ends.n_ids > n_known)
        gguf_writer_i32s(keys, "tokenizer.huggingface.further_eos_token_ids", ends.ids + n_known,
                         ends.n_ids - n_known);
}

static struct text token_of(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    if (value && value->kind == VALUE_OBJECT)
        value = value_get(value, "content");
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

// Adds special_tokens_map.json, if it names tokens that tokenizer_config.json does not.
static enum status add_special_tokens(const struct folder_files *files, const struct value *tokenizer_config,
                                      struct gguf_writer *keys, struct error *error)
{
    static const char file[] = "special_tokens_map.json", *const names[] = {"bos_token", "eos_token",
                                                                            "unk_token", "pad_token"};
    struct text content, refused = {0};
    struct value map;
    bool found, differs = false;
    enum status status = folder_read_json(files, file, &map, &found, error);
    if (status == STATUS_OK && found)
        status = folder_read_file(files, file, &content, &found, error);
    if (status == STATUS_OK && found)
        status = folder_check_keys(files, file, file, &map, &refused, error);
    for (size_t i = 0; status == STATUS_OK && found && i < sizeof names / sizeof *names; i++) {
        struct text token = token_of(&map, names[i]);
        differs = differs || (token.size && !text_equal(token, token_of(tokenizer_config, names[i])));
    }
    if (status == STATUS_OK && differs)
        gguf_writer_text(keys, "tokenizer.huggingface.special_tokens", content);
    return status;
}

// --- Sampling ---

// Names in generation_config.json, and in GGUF files (llama.cpp's converter copies the values).
static enum status add_sampling(const struct value *generation, struct gguf_writer *keys, struct error *error)
{
    static const char *const names[][2] = {
        {"temperature", "general.sampling.temp"},
        {"top_k", "general.sampling.top_k"},
        {"top_p", "general.sampling.top_p"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"},
        {"max_new_tokens", "general.sampling.max_new_tokens"}, // llama.cpp has no such key
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct value *value = value_get(generation, names[i][0]);
        if (!value || value->kind == VALUE_NULL)
            continue;
        if (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT) {
            char description[VALUE_DESCRIPTION_BYTES];
            value_describe(value, description);
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "generation_config.json: %s: expected a number, got %s", names[i][0],
                             description);
        }
        double number = value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
        gguf_writer_f32(keys, names[i][1], (float)number);
    }
    return STATUS_OK;
}

// Tokens that are never sampled: a key of llama.cpp.
static enum status add_suppressed(const struct folder_files *files, const struct value *generation,
                                  struct gguf_writer *keys, struct error *error)
{
    const struct value *list = value_get(generation, "suppress_tokens");
    if (!list || list->kind == VALUE_NULL)
        return STATUS_OK;
    size_t n_ids = list->kind == VALUE_ARRAY ? list->array.n_items : 0;
    int32_t *ids = arena_allocate_array(files->arena, n_ids + 1, sizeof *ids);
    bool fits = list->kind == VALUE_ARRAY;
    for (size_t i = 0; ids && fits && i < n_ids; i++) {
        const struct value *id = &list->array.items[i];
        fits = id->kind == VALUE_INTEGER && id->integer >= 0 && id->integer <= INT32_MAX;
        ids[i] = fits ? (int32_t)id->integer : 0;
    }
    if (!ids)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    if (!fits) {
        char description[VALUE_DESCRIPTION_BYTES];
        value_describe(list, description);
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "generation_config.json: suppress_tokens: expected a list of token ids, got %s",
                         description);
    }
    if (n_ids)
        gguf_writer_i32s(keys, "tokenizer.ggml.suppress_tokens", ids, n_ids);
    return STATUS_OK;
}

static enum status add_generation(const struct folder_files *files, const struct value *config,
                                  struct gguf_writer *keys, struct error *error)
{
    static const char file[] = "generation_config.json";
    struct value generation;
    struct text refused = {0};
    bool found;
    enum status status = folder_read_json(files, file, &generation, &found, error);
    if (status == STATUS_OK && found)
        status = folder_check_keys(files, file, file, &generation, &refused, error);
    if (status != STATUS_OK)
        return status;
    if (refused.data)
        gguf_writer_text(keys, MODEL_FOLDER_NO_SAMPLING, refused);
    add_ends(&generation, config, keys);
    status = add_suppressed(files, &generation, keys, error);
    return status == STATUS_OK ? add_sampling(&generation, keys, error) : status;
}

static enum status read_tokenizer_config(const struct folder_files *files, struct value *config,
                                         struct gguf_writer *keys, struct error *error)
{
    static const char file[] = "tokenizer_config.json";
    struct text settings, refused = {0};
    bool found;
    enum status status = folder_read_json(files, file, config, &found, error);
    if (status == STATUS_OK && found)
        status = folder_check_keys(files, file, file, config, &refused, error);
    if (status == STATUS_OK && refused.data)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s/%.*s", files->path, (int)refused.size,
                         refused.data);
    if (status == STATUS_OK && found)
        status = folder_read_file(files, file, &settings, &found, error);
    if (status == STATUS_OK && found)
        gguf_writer_text(keys, "tokenizer.huggingface.config", settings);
    return status;
}

// Adds tokenizer.json, else the first existing substitute. Without any the keys are absent, and
// tokenizer_open reports it.
static enum status add_vocabulary(const struct folder_files *files, const struct value *config,
                                  const struct value *tokenizer_config, struct gguf_writer *keys,
                                  struct error *error)
{
    static const char json_key[] = "tokenizer.huggingface.json";
    struct text content;
    bool found;
    enum status status = folder_read_file(files, "tokenizer.json", &content, &found, error);
    if (status == STATUS_OK && found)
        gguf_writer_text(keys, json_key, content);
    if (status != STATUS_OK || found)
        return status;
    static const char *const pieces[] = {"tokenizer.model", "spiece.model", "spm.model"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces && status == STATUS_OK; i++) {
        status = folder_read_file(files, pieces[i], &content, &found, error);
        if (status == STATUS_OK && found)
            return folder_add_sentencepiece(files, pieces[i], content, tokenizer_config, keys, error);
    }
    if (status == STATUS_OK)
        status = folder_make_tokenizer(files, config, tokenizer_config, &content, &found, error);
    if (status == STATUS_OK && found)
        gguf_writer_text(keys, json_key, content);
    if (status != STATUS_OK || found)
        return status;
    status = folder_read_file(files, "tekken.json", &content, &found, error);
    if (status == STATUS_OK && found)
        gguf_writer_text(keys, "tokenizer.huggingface.tekken", content);
    if (status != STATUS_OK || found)
        return status;
    status = folder_read_file(files, "tiktoken.model", &content, &found, error);
    if (status == STATUS_OK && found)
        status = error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                           "%s/tiktoken.model: its split pattern is in the model's Python code: not built; a "
                           "tokenizer.json is needed",
                           files->path);
    return status;
}

enum status folder_add_tokenizer(const struct folder_files *files, const struct value *config,
                                 struct gguf_writer *keys, struct error *error)
{
    struct value tokenizer_config;
    enum status status = read_tokenizer_config(files, &tokenizer_config, keys, error);
    if (status == STATUS_OK)
        status = add_vocabulary(files, config, &tokenizer_config, keys, error);
    if (status == STATUS_OK)
        status = add_special_tokens(files, &tokenizer_config, keys, error);
    if (status == STATUS_OK)
        status = add_templates(files, &tokenizer_config, keys, error);
    return status == STATUS_OK ? add_generation(files, config, keys, error) : status;
}
