// The "post_processor" of tokenizer.json: the tokens around one text or a pair, and the types of tokens.
// Source: github.com/huggingface/tokenizers, tokenizers/src/processors.
#include "engine/tokenizer/vocabulary_json.h"

static enum status refuse_processor(struct json_source *source, struct text type, const char *what)
{
    return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tokenizer.json: %.*s: %s",
                     (int)type.size, type.data, what);
}

static enum status add_item(struct json_source *source, struct text type, size_t n_texts,
                            struct template_item item)
{
    struct token_template *template = &source->vocabulary->templates[n_texts - 1];
    if (template->n_items == TEMPLATE_ITEMS_MAX)
        return refuse_processor(source, type, "more than 32 texts and tokens");
    bool is_token = item.text < 0;
    if (is_token && (item.token < 0 || (size_t)item.token >= source->vocabulary->n_tokens))
        return refuse_processor(source, type, "a token is not of the vocabulary");
    for (size_t i = 0; i < template->n_items && !is_token; i++)
        if (template->items[i].text == item.text)
            return refuse_processor(source, type, "a text is twice in the template");
    template->items[template->n_items++] = item;
    return STATUS_OK;
}

// --- TemplateProcessing ---

static int32_t integer_of(const struct value *value)
{
    return value && value->kind == VALUE_INTEGER && value->integer >= 0 && value->integer <= INT32_MAX
               ? (int32_t)value->integer
               : -1;
}

// The ids of the named token: of "special_tokens", else the vocabulary's.
static enum status add_special(struct json_source *source, const struct value *processor, size_t n_texts,
                               struct text name, int32_t type)
{
    const struct value *specials = value_get(processor, "special_tokens");
    const struct value *ids = NULL;
    for (size_t i = 0; specials && specials->kind == VALUE_OBJECT && i < specials->object.n_members; i++)
        if (text_equal(specials->object.members[i].key, name))
            ids = value_get(&specials->object.members[i].value, "ids");
    if (!ids || ids->kind != VALUE_ARRAY)
        return add_item(source, json_type(processor), n_texts,
                        (struct template_item){-1, json_id_of(source->vocabulary, name), type});
    enum status status = STATUS_OK;
    for (size_t i = 0; i < ids->array.n_items && status == STATUS_OK; i++)
        status = add_item(source, json_type(processor), n_texts,
                          (struct template_item){-1, integer_of(&ids->array.items[i]), type});
    return status;
}

// {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", "type_id": 0}}
static enum status read_piece(struct json_source *source, const struct value *processor, size_t n_texts,
                              const struct value *piece)
{
    const struct value *special = value_get(piece, "SpecialToken");
    const struct value *of = special ? special : value_get(piece, "Sequence");
    const struct value *id = of ? value_get(of, "id") : NULL;
    const struct value *type_id = of ? value_get(of, "type_id") : NULL;
    int32_t type = type_id ? integer_of(type_id) : 0;
    if (!id || id->kind != VALUE_STRING || type < 0 || type > TEMPLATE_TYPE_MAX)
        return refuse_processor(source, json_type(processor),
                                "expected texts and tokens with an id and a type_id of at most 255");
    if (special)
        return add_special(source, processor, n_texts, id->text, type);
    bool is_second = text_equals_string(id->text, "B");
    if (!is_second && !text_equals_string(id->text, "A"))
        return refuse_processor(source, json_type(processor), "expected the texts A and B");
    return add_item(source, json_type(processor), n_texts, (struct template_item){is_second, -1, type});
}

static enum status read_template(struct json_source *source, const struct value *processor, const char *name,
                                 size_t n_texts)
{
    const struct value *pieces = value_get(processor, name);
    enum status status = STATUS_OK;
    size_t texts[2] = {0};
    if (!pieces && n_texts == 2)
        return STATUS_OK;
    if (!pieces || pieces->kind != VALUE_ARRAY)
        return refuse_processor(source, json_type(processor),
                                "\"single\" or \"pair\" is missing or no array");
    for (size_t i = 0; i < pieces->array.n_items && status == STATUS_OK; i++)
        status = read_piece(source, processor, n_texts, &pieces->array.items[i]);
    const struct token_template *template = &source->vocabulary->templates[n_texts - 1];
    for (size_t i = 0; i < template->n_items; i++)
        if (template->items[i].text >= 0)
            texts[template->items[i].text]++;
    if (status == STATUS_OK && (!texts[0] || texts[1] != n_texts - 1))
        return refuse_processor(source, json_type(processor),
                                "expected the text A in \"single\", A and B in \"pair\"");
    return status;
}

// --- BertProcessing, RobertaProcessing ---

// [text, id]
static int32_t token_of(const struct value *processor, const char *name)
{
    const struct value *token = value_get(processor, name);
    bool is_pair = token && token->kind == VALUE_ARRAY && token->array.n_items == 2;
    return is_pair ? integer_of(&token->array.items[1]) : -1;
}

// BertProcessing: cls A sep, cls A sep B sep, B and its sep of type 1. RobertaProcessing: sep also before B, all
// of type 0.
static enum status read_cls_sep(struct json_source *source, const struct value *processor, bool is_roberta)
{
    struct template_item cls = {-1, token_of(processor, "cls"), 0}, sep = {-1, token_of(processor, "sep"), 0};
    enum status status = STATUS_OK;
    for (size_t n_texts = 1; n_texts <= 2 && status == STATUS_OK; n_texts++) {
        const struct template_item first[] = {cls, {0, -1, 0}, sep};
        struct template_item second[] = {sep, {1, -1, !is_roberta}, {-1, sep.token, !is_roberta}};
        for (size_t i = 0; i < 3 && status == STATUS_OK; i++)
            status = add_item(source, json_type(processor), n_texts, first[i]);
        for (size_t i = is_roberta ? 0 : 1; n_texts == 2 && i < 3 && status == STATUS_OK; i++)
            status = add_item(source, json_type(processor), n_texts, second[i]);
    }
    return status;
}

// --- The post-processor ---

static enum status read_processor(struct json_source *source, const struct value *processor, bool is_nested)
{
    struct text type = json_type(processor);
    bool is_roberta = text_equals_string(type, "RobertaProcessing");
    bool is_template = text_equals_string(type, "TemplateProcessing");
    enum status status = STATUS_OK;
    if (type.size == 0 || text_equals_string(type, "ByteLevel"))
        return STATUS_OK;
    if (is_template || is_roberta || text_equals_string(type, "BertProcessing")) {
        if (source->vocabulary->templates[0].n_items)
            return refuse_processor(source, type, "after another one that adds tokens: not built");
        if (!is_template)
            return read_cls_sep(source, processor, is_roberta);
        status = read_template(source, processor, "single", 1);
        return status == STATUS_OK ? read_template(source, processor, "pair", 2) : status;
    }
    const struct value *list = value_get(processor, "processors");
    if (!text_equals_string(type, "Sequence") || !list || list->kind != VALUE_ARRAY)
        return json_refuse(source, "post-processor", type);
    if (is_nested)
        return refuse_processor(source, type, "post-processors within others: not built");
    for (size_t i = 0; i < list->array.n_items && status == STATUS_OK; i++)
        status = read_processor(source, &list->array.items[i], true);
    return status;
}

enum status json_read_processor(struct json_source *source, const struct value *processor)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct token_template *single = &vocabulary->templates[0];
    enum status status = processor ? read_processor(source, processor, false) : STATUS_OK;
    if (status != STATUS_OK || single->n_items == 0)
        return status;
    const struct template_item *first = single->items, *last = single->items + single->n_items - 1;
    vocabulary->rules.adds_bos = first->text < 0;
    vocabulary->rules.adds_eos = last->text < 0;
    if (vocabulary->rules.adds_bos)
        vocabulary->ids.bos = first->token;
    if (vocabulary->rules.adds_eos)
        vocabulary->ids.eos = last->token;
    return STATUS_OK;
}
