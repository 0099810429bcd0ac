// The parts of a folder around the tokens: tokenizer.json and tokenizer_config.json as they are, the chat
// templates, and of generation_config.json the tokens that end an answer and the sampling defaults. Where
// several files have a template, transformers' order holds (tokenization_utils_base.py):
//   chat_template.jinja, with additional_chat_templates/tool_use.jinja beside it;
//   "chat_template" of tokenizer_config.json: a text, or a list of {"name", "template"};
//   chat_template.json, a processor's, where the tokenizer has none.
#include "engine/model/model_folder_parts.h"

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

static void add_ends(const struct value *generation, const struct value *config, struct gguf_writer *keys)
{
    enum { ENDS_MAX = 64 };
    int32_t ids[ENDS_MAX];
    size_t n_ids = 0;
    const struct value *ends = value_get(generation, "eos_token_id");
    // a model of images and text has both
    const struct value *const configs[] = {config, value_get(config, "text_config")};
    for (int i = 0; i < 2 && configs[i] && (!ends || ends->kind == VALUE_NULL); i++)
        ends = value_get(configs[i], "eos_token_id");
    size_t n_items = ends && ends->kind == VALUE_ARRAY ? ends->array.n_items : ends ? 1 : 0;
    for (size_t i = 0; i < n_items && n_ids < ENDS_MAX; i++) {
        const struct value *item = ends->kind == VALUE_ARRAY ? &ends->array.items[i] : ends;
        if (item->kind == VALUE_INTEGER && item->integer >= 0 && item->integer <= INT32_MAX)
            ids[n_ids++] = (int32_t)item->integer;
    }
    if (n_ids)
        gguf_writer_i32s(keys, "tokenizer.huggingface.eos_token_ids", ids, n_ids);
}

// The names of generation_config.json, and those under which GGUF files have the same (llama.cpp's converter
// copies them).
static enum status add_sampling(const struct value *generation, struct gguf_writer *keys, struct error *error)
{
    static const char *const names[][2] = {
        {"temperature", "general.sampling.temp"},
        {"top_k", "general.sampling.top_k"},
        {"top_p", "general.sampling.top_p"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"},
        {"max_new_tokens", "general.sampling.max_new_tokens"}, // no key of llama.cpp's
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

enum status folder_add_tokenizer(const struct folder_files *files, const struct value *config,
                                 struct gguf_writer *keys, struct error *error)
{
    struct text tokenizer, settings;
    struct value tokenizer_config, generation;
    bool found, has_settings;
    enum status status = folder_read_file(files, "tokenizer.json", &tokenizer, &found, error);
    if (status == STATUS_OK && found)
        gguf_writer_text(keys, "tokenizer.huggingface.json", tokenizer);
    if (status == STATUS_OK)
        status = folder_read_json(files, "tokenizer_config.json", &tokenizer_config, &has_settings, error);
    if (status == STATUS_OK && has_settings)
        status = folder_read_file(files, "tokenizer_config.json", &settings, &has_settings, error);
    if (status == STATUS_OK && has_settings)
        gguf_writer_text(keys, "tokenizer.huggingface.config", settings);
    if (status == STATUS_OK)
        status = add_templates(files, &tokenizer_config, keys, error);
    if (status == STATUS_OK)
        status = folder_read_json(files, "generation_config.json", &generation, &found, error);
    if (status != STATUS_OK)
        return status;
    add_ends(&generation, config, keys);
    return add_sampling(&generation, keys, error);
}
