// The "normalizer" of tokenizer.json. Source: github.com/huggingface/tokenizers, tokenizers/src/normalizers.
#include "engine/tokenizer/vocabulary_json.h"
#include "schemas/base/base64.h"

#define BLANK "\xE2\x96\x81" // U+2581

static struct text string_of(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

static bool is_of_words(const struct json_source *source)
{
    return source->vocabulary->model != VOCABULARY_BPE;
}

static enum status add_step(struct json_source *source, struct normalizer_step step)
{
    struct normalizer *normalizer = &source->vocabulary->normalizer;
    if (source->vocabulary->rules.normalizes_blanks) // replacing blanks must be the last step
        return json_refuse(source, "normalizer", TEXT("another one after that of blanks"));
    if (normalizer->n_steps == NORMALIZER_STEPS_MAX)
        return error_set(source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tokenizer.json: more than %d steps of normalization", NORMALIZER_STEPS_MAX);
    normalizer->steps[normalizer->n_steps++] = step;
    return STATUS_OK;
}

static unsigned option(const struct value *normalizer, const char *name, bool otherwise, unsigned bit)
{
    return json_truth(normalizer, name, otherwise) ? bit : 0;
}

static enum status read_bert(struct json_source *source, const struct value *normalizer)
{
    unsigned lowercase = option(normalizer, "lowercase", true, BERT_LOWERCASE);
    unsigned options = lowercase | option(normalizer, "clean_text", true, BERT_CLEAN) |
                       option(normalizer, "handle_chinese_chars", true, BERT_CHINESE) |
                       option(normalizer, "strip_accents", lowercase, BERT_ACCENTS);
    return add_step(source, (struct normalizer_step){.kind = NORMALIZE_BERT, .options = options});
}

static enum status read_strip(struct json_source *source, const struct value *normalizer)
{
    unsigned options = option(normalizer, "strip_left", true, STRIP_LEFT) |
                       option(normalizer, "strip_right", true, STRIP_RIGHT);
    return add_step(source, (struct normalizer_step){.kind = NORMALIZE_STRIP, .options = options});
}

static enum status read_precompiled(struct json_source *source, const struct value *normalizer)
{
    struct normalizer_step step = {.kind = NORMALIZE_PRECOMPILED};
    struct buffer bytes = {0};
    struct text encoded = string_of(normalizer, "precompiled_charsmap");
    bool decodes = base64_decode(encoded, &bytes);
    step.from =
        (struct text){arena_copy(source->arena, bytes.data ? bytes.data : "", bytes.size), bytes.size};
    buffer_finish(&bytes);
    if (!decodes || encoded.size == 0)
        return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tokenizer.json: precompiled_charsmap is missing or no base64");
    if (!step.from.data)
        return json_out_of_memory(source);
    enum status status = charsmap_open(&step.charsmap, step.from, source->error);
    return status == STATUS_OK ? add_step(source, step) : error_prefix(source->error, "tokenizer.json");
}

static enum status add_expression_step(struct json_source *source, struct text expression, struct text to)
{
    struct normalizer_step step = {.kind = NORMALIZE_REPLACE_PATTERN, .from = expression, .to = to};
    enum status status = split_pattern_open(&step.pattern, expression, source->error);
    if (status != STATUS_OK)
        return error_prefix(source->error, "tokenizer.json: Replace");
    status = add_step(source, step);
    if (status != STATUS_OK)
        split_pattern_close(step.pattern);
    return status;
}

static enum status read_other(struct json_source *source, const struct value *normalizer)
{
    struct text type = json_type(normalizer);
    if (text_equals_string(type, "BertNormalizer"))
        return read_bert(source, normalizer);
    if (text_equals_string(type, "Strip"))
        return read_strip(source, normalizer);
    if (text_equals_string(type, "Precompiled"))
        return read_precompiled(source, normalizer);
    if (text_equals_string(type, "StripAccents"))
        return add_step(source, (struct normalizer_step){.kind = NORMALIZE_STRIP_ACCENTS});
    if (text_equals_string(type, "Nmt"))
        return add_step(source, (struct normalizer_step){.kind = NORMALIZE_NMT});
    return json_refuse(source, "normalizer", type);
}

// Replacing blanks with U+2581 is the preparation of such vocabularies anyway: only normalizes_blanks is set.
static enum status read_replace(struct json_source *source, const struct value *normalizer)
{
    const struct value *pattern = value_get(normalizer, "pattern");
    struct text from = pattern ? string_of(pattern, "String") : (struct text){0},
                to = string_of(normalizer, "content");
    struct text expression = pattern ? string_of(pattern, "Regex") : (struct text){0};
    if (expression.size)
        return add_expression_step(source, expression, to);
    if (from.size == 0)
        return json_refuse(source, "Replace pattern", from);
    if (!is_of_words(source) && text_equals_string(from, " ") && text_equals_string(to, BLANK)) {
        source->vocabulary->rules.normalizes_blanks = source->replaces_blanks = true;
        return STATUS_OK;
    }
    return add_step(source, (struct normalizer_step){.kind = NORMALIZE_REPLACE, .from = from, .to = to});
}

static enum status read_normalizer(struct json_source *source, const struct value *normalizer)
{
    static const struct {
        const char *name;
        enum normalizer_kind kind;
    } simple[] = {{"NFC", NORMALIZE_NFC},
                  {"NFD", NORMALIZE_NFD},
                  {"NFKC", NORMALIZE_NFKC},
                  {"NFKD", NORMALIZE_NFKD},
                  {"Lowercase", NORMALIZE_LOWERCASE}};
    struct text type = json_type(normalizer);
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (text_equals_string(type, simple[i].name))
            return add_step(source, (struct normalizer_step){.kind = simple[i].kind});
    if (text_equals_string(type, "Replace"))
        return read_replace(source, normalizer);
    if (!text_equals_string(type, "Prepend"))
        return read_other(source, normalizer);
    struct text prefix = string_of(normalizer, "prepend");
    if (is_of_words(source) || !text_equals_string(prefix, BLANK))
        return add_step(source, (struct normalizer_step){.kind = NORMALIZE_PREPEND, .to = prefix});
    source->vocabulary->rules.adds_space = source->vocabulary->rules.normalizes_blanks = true;
    return STATUS_OK;
}

enum status json_read_normalizer(struct json_source *source, const struct value *normalizer)
{
    if (!normalizer || normalizer->kind == VALUE_NULL)
        return STATUS_OK;
    const struct value *list = value_get(normalizer, "normalizers");
    bool is_list = text_equals_string(json_type(normalizer), "Sequence");
    enum status status = is_list ? STATUS_OK : read_normalizer(source, normalizer);
    for (size_t i = 0;
         is_list && list && list->kind == VALUE_ARRAY && i < list->array.n_items && status == STATUS_OK; i++)
        status = read_normalizer(source, &list->array.items[i]);
    if (status == STATUS_OK && source->vocabulary->rules.normalizes_blanks && !source->replaces_blanks)
        return json_refuse(source, "normalizer", TEXT("Prepend of U+2581, without Replace of blanks"));
    return status;
}
