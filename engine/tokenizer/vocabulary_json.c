// Reads a vocabulary from tokenizer.json: byte-level BPE, and BPE of characters with U+2581 for blanks and
// byte tokens. tokenizer_config.json, where it names them, decides bos, eos and whether they are added.
#include "engine/tokenizer/vocabulary_json.h"

#include "engine/file/gguf.h"
#include "engine/tokenizer/token_map.h"

#include <stdio.h>
#include <string.h>

static enum status refuse_source(struct json_source *source, const char *what)
{
    return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tokenizer.json: %s", what);
}

// --- Tokens ---

static bool is_id(const struct value *id)
{
    return id && id->kind == VALUE_INTEGER && id->integer >= 0 && id->integer < VOCABULARY_TOKENS_MAX;
}

// An entry of "vocab": "text": id, or, in order of the ids, ["text", score].
struct listed_token {
    struct text text;
    int64_t id; // -1: none
};

static size_t n_listed(const struct value *vocab)
{
    return vocab->kind == VALUE_OBJECT ? vocab->object.n_members : vocab->array.n_items;
}

static struct listed_token listed_token(const struct value *vocab, size_t i)
{
    if (vocab->kind == VALUE_OBJECT) {
        const struct value_member *member = &vocab->object.members[i];
        return (struct listed_token){member->key, is_id(&member->value) ? member->value.integer : -1};
    }
    const struct value *item = &vocab->array.items[i];
    bool is_pair = item->kind == VALUE_ARRAY && item->array.n_items == 2 && i < VOCABULARY_TOKENS_MAX &&
                   item->array.items[0].kind == VALUE_STRING;
    return is_pair ? (struct listed_token){item->array.items[0].text, (int64_t)i}
                   : (struct listed_token){{0}, -1};
}

static enum status find_size(struct json_source *source, const struct value *vocab, const struct value *added)
{
    int64_t last = -1;
    for (size_t i = 0; i < n_listed(vocab); i++) {
        int64_t id = listed_token(vocab, i).id;
        if (id < 0)
            return refuse_source(source,
                                 vocab->kind == VALUE_OBJECT
                                     ? "model.vocab: an id is no whole number below 2^20"
                                     : "model.vocab: an item is no text with its score, or beyond 2^20");
        last = id > last ? id : last;
    }
    for (size_t i = 0; added && i < added->array.n_items; i++) {
        const struct value *id = value_get(&added->array.items[i], "id");
        if (!is_id(id))
            return refuse_source(source, "added_tokens: an id is no whole number below 2^20");
        last = id->integer > last ? id->integer : last;
    }
    if (last < 0)
        return refuse_source(source, "model.vocab is empty");
    source->vocabulary->n_tokens = (size_t)last + 1;
    return STATUS_OK;
}

static enum status set_token(struct json_source *source, int64_t id, struct text text, unsigned flags)
{
    if (text.size > VOCABULARY_TOKEN_BYTES_MAX)
        return error_set(source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "token %lld has %zu bytes, at most %d", (long long)id, text.size,
                         VOCABULARY_TOKEN_BYTES_MAX);
    source->vocabulary->texts[id] = text;
    flags |= source->vocabulary->flags[id] & TOKEN_OF_MODEL;
    source->vocabulary->flags[id] = (uint16_t)flags;
    return STATUS_OK;
}

static enum status add_added(struct json_source *source, const struct value *token)
{
    const struct value *content = value_get(token, "content");
    int64_t id = value_get(token, "id")->integer;
    if (!content || content->kind != VALUE_STRING)
        return refuse_source(source, "added_tokens: \"content\" is missing or no string");
    if (json_truth(token, "single_word", false))
        return json_refuse(source, "single_word of added token", content->text);
    unsigned flags = json_truth(token, "special", false) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    flags |= json_truth(token, "lstrip", false) ? TOKEN_STRIPS_LEFT : 0;
    flags |= json_truth(token, "rstrip", false) ? TOKEN_STRIPS_RIGHT : 0;
    return set_token(source, id, content->text, flags);
}

// An added token that is in model.vocab too must have its id there: tokenizers takes that one.
static enum status check_added(struct json_source *source, const struct value *added)
{
    const struct vocabulary *vocabulary = source->vocabulary;
    struct token_map map = {0};
    bool has_memory = token_map_reserve(&map, vocabulary->n_tokens);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < vocabulary->n_tokens && has_memory; i++) {
        // the library finds the last of Unigram's tokens with the same text
        size_t id = vocabulary->model == VOCABULARY_UNIGRAM ? vocabulary->n_tokens - 1 - i : i;
        has_memory = !vocabulary->texts[id].data || token_map_add(&map, vocabulary->texts, (int32_t)id);
    }
    for (size_t i = 0; has_memory && added && i < added->array.n_items && status == STATUS_OK; i++) {
        const struct value *content = value_get(&added->array.items[i], "content");
        int64_t id = value_get(&added->array.items[i], "id")->integer;
        int32_t in_vocab = content && content->kind == VALUE_STRING
                               ? token_map_find(&map, vocabulary->texts, content->text)
                               : -1;
        if (in_vocab >= 0 && in_vocab != id)
            status = error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                               "tokenizer.json: added token \"%.*s\" has id %lld, and %d in model.vocab",
                               content->text.size < 100 ? (int)content->text.size : 100, content->text.data,
                               (long long)id, in_vocab);
    }
    token_map_finish(&map);
    return has_memory ? status : json_out_of_memory(source);
}

// Gives a name to ids without a token, so that every id has one.
static enum status fill_holes(struct json_source *source)
{
    for (size_t i = 0; i < source->vocabulary->n_tokens; i++) {
        if (source->vocabulary->texts[i].data)
            continue;
        char name[32];
        int size = snprintf(name, sizeof name, "[PAD%zu]", i);
        char *copy = arena_copy(source->arena, name, (size_t)size);
        if (!copy)
            return json_out_of_memory(source);
        source->vocabulary->texts[i] = (struct text){copy, (size_t)size};
        source->vocabulary->flags[i] = TOKEN_UNUSED;
    }
    return STATUS_OK;
}

static enum status read_tokens(struct json_source *source, const struct value *root,
                               const struct value *model)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct value *vocab = value_get(model, "vocab"), *added = value_get(root, "added_tokens");
    enum value_kind kind = vocabulary->model == VOCABULARY_UNIGRAM ? VALUE_ARRAY : VALUE_OBJECT;
    if (!vocab || vocab->kind != kind)
        return refuse_source(source, kind == VALUE_ARRAY ? "model.vocab is missing or no array"
                                                         : "model.vocab is missing or no object");
    added = added && added->kind == VALUE_ARRAY ? added : NULL;
    enum status status = find_size(source, vocab, added);
    if (status != STATUS_OK)
        return status;
    vocabulary->texts = arena_allocate_array(source->arena, vocabulary->n_tokens, sizeof *vocabulary->texts);
    vocabulary->flags = arena_allocate_array(source->arena, vocabulary->n_tokens, sizeof *vocabulary->flags);
    if (!vocabulary->texts || !vocabulary->flags)
        return json_out_of_memory(source);
    bool bytes = json_truth(model, "byte_fallback", false);
    for (size_t i = 0; i < n_listed(vocab) && status == STATUS_OK; i++) {
        struct listed_token token = listed_token(vocab, i);
        if (vocabulary->texts[token.id].data)
            return refuse_source(source, "model.vocab: two tokens have the same id");
        status = set_token(source, token.id, token.text,
                           (bytes && vocabulary_is_byte_token(token.text) ? TOKEN_BYTE : TOKEN_NORMAL) |
                               TOKEN_OF_MODEL);
    }
    if (status == STATUS_OK && added)
        status = check_added(source, added);
    for (size_t i = 0; added && i < added->array.n_items && status == STATUS_OK; i++)
        status = add_added(source, &added->array.items[i]);
    return status == STATUS_OK ? fill_holes(source) : status;
}

// --- Merges ---

// "left right", or ["left", "right"].
static bool read_merge(const struct value *item, struct vocabulary_merge *merge)
{
    if (item->kind == VALUE_STRING) {
        const char *blank =
            item->text.size > 2 ? memchr(item->text.data + 1, ' ', item->text.size - 1) : NULL;
        if (!blank)
            return false;
        merge->left = (struct text){item->text.data, (size_t)(blank - item->text.data)};
        merge->right = (struct text){blank + 1, item->text.size - merge->left.size - 1};
    } else {
        if (item->kind != VALUE_ARRAY || item->array.n_items != 2 ||
            item->array.items[0].kind != VALUE_STRING || item->array.items[1].kind != VALUE_STRING)
            return false;
        merge->left = item->array.items[0].text;
        merge->right = item->array.items[1].text;
    }
    return merge->left.size && merge->right.size && merge->left.size <= VOCABULARY_TOKEN_BYTES_MAX &&
           merge->right.size <= VOCABULARY_TOKEN_BYTES_MAX;
}

static enum status read_merges(struct json_source *source, const struct value *model)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct value *merges = value_get(model, "merges");
    if (!merges || merges->kind != VALUE_ARRAY)
        return refuse_source(source, "model.merges is missing or no array");
    if (merges->array.n_items > VOCABULARY_MERGES_MAX)
        return error_set(source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tokenizer.json: %zu merges, at most %d", merges->array.n_items,
                         VOCABULARY_MERGES_MAX);
    vocabulary->n_merges = merges->array.n_items;
    vocabulary->merges =
        arena_allocate_array(source->arena, vocabulary->n_merges + 1, sizeof *vocabulary->merges);
    if (!vocabulary->merges)
        return json_out_of_memory(source);
    for (size_t i = 0; i < vocabulary->n_merges; i++)
        if (!read_merge(&merges->array.items[i], &vocabulary->merges[i]))
            return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "tokenizer.json: model.merges: item %zu is not two symbols", i);
    return STATUS_OK;
}

// --- The model ---

static bool is_set(const struct value *value)
{
    return value && value->kind != VALUE_NULL && !(value->kind == VALUE_STRING && value->text.size == 0) &&
           !(value->kind == VALUE_FLOAT && value->number == 0.0);
}

// "truncation" and "padding" are allowed and ignored: in transformers the caller enables them for each call;
// sheaf never does.
static enum status check_keys(struct json_source *source, const struct value *root)
{
    static const char *const known[] = {"version",        "truncation", "padding",
                                        "added_tokens",   "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder",    "model"};
    for (size_t i = 0; root->kind == VALUE_OBJECT && i < root->object.n_members; i++) {
        bool is_known = root->object.members[i].value.kind == VALUE_NULL;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            is_known = is_known || text_equals_string(root->object.members[i].key, known[k]);
        if (!is_known)
            return json_refuse(source, "key", root->object.members[i].key);
    }
    return STATUS_OK;
}

// Old files name no type.
static enum vocabulary_model model_of(const struct value *model, struct text type)
{
    const struct value *vocab = value_get(model, "vocab");
    bool has_limit = value_get(model, "max_input_chars_per_word") && !value_get(model, "merges");
    if (type.size ? text_equals_string(type, "Unigram") : vocab && vocab->kind == VALUE_ARRAY)
        return VOCABULARY_UNIGRAM;
    return (type.size ? text_equals_string(type, "WordPiece") : has_limit) ? VOCABULARY_WORD_PIECE
                                                                           : VOCABULARY_BPE;
}

static enum status check_model(struct json_source *source, const struct value *model)
{
    static const char *const unknown[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    struct text type = json_type(model);
    if (model->kind != VALUE_OBJECT)
        return refuse_source(source, "\"model\" is missing or no object");
    source->vocabulary->model = model_of(model, type);
    if (source->vocabulary->model != VOCABULARY_BPE)
        return STATUS_OK;
    if (type.size && !text_equals_string(type, "BPE"))
        return json_refuse(source, "model", type);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (is_set(value_get(model, unknown[i])))
            return json_refuse(source, "setting of the model", text_from_string(unknown[i]));
    source->vocabulary->rules.ignores_merges = json_truth(model, "ignore_merges", false);
    source->vocabulary->rules.no_byte_tokens = !json_truth(model, "byte_fallback", false);
    source->vocabulary->rules.merges_are_tokens = true;
    source->vocabulary->rules.fuses_unknown = json_truth(model, "fuse_unk", false);
    return STATUS_OK;
}

// A token's text: a string, or an object with "content".
static struct text token_of(const struct value *object, const char *name)
{
    const struct value *value = object ? value_get(object, name) : NULL;
    if (value && value->kind == VALUE_OBJECT)
        value = value_get(value, "content");
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

// tokenizer_config.json's token, else special_tokens_map.json's.
static int32_t named_token(const struct json_source *source, const char *name)
{
    bool is_named = value_get(&source->config, name);
    return json_id_of(source->vocabulary,
                      token_of(is_named ? &source->config : &source->special_tokens, name));
}

// Whether transformers gives the model no token_type_ids: by "model_input_names", else by the class. The class
// PreTrainedTokenizerFast gives them in version 4, in which such folders were written. AlbertTokenizer gives them in
// version 4, but not in version 5, whose files have "backend".
static bool has_one_type(const struct value *config)
{
    static const char *const classes[] = {"TokenizersBackend", "DistilBertTokenizer",
                                          "DistilBertTokenizerFast", "MPNetTokenizer", "MPNetTokenizerFast"};
    const struct value *names = value_get(config, "model_input_names");
    const struct value *class = value_get(config, "tokenizer_class");
    for (size_t i = 0; names && names->kind == VALUE_ARRAY && i < names->array.n_items; i++) {
        const struct value *name = &names->array.items[i];
        if (name->kind == VALUE_STRING && text_equals_string(name->text, "token_type_ids"))
            return false;
    }
    if (names && names->kind == VALUE_ARRAY)
        return true;
    for (size_t i = 0; class && class->kind == VALUE_STRING && i < sizeof classes / sizeof *classes; i++)
        if (text_equals_string(class->text, classes[i]))
            return true;
    return class && class->kind == VALUE_STRING && text_equals_string(class->text, "AlbertTokenizer") &&
           value_get(config, "backend");
}

static enum status read_settings(struct json_source *source, const struct value *root)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct value *config = &source->config;
    const struct value *model = value_get(root, "model"), *processor = value_get(root, "post_processor");
    if (vocabulary->model == VOCABULARY_BPE)
        vocabulary->ids.unknown = json_id_of(vocabulary, token_of(model, "unk_token"));
    // As transformers: templates see the configuration's unk_token, which may be null; encoding uses the
    // model's.
    bool is_named = value_get(config, "unk_token") || value_get(&source->special_tokens, "unk_token");
    vocabulary->ids.unk_token = is_named ? named_token(source, "unk_token") : vocabulary->ids.unknown;
    vocabulary->ids.bos = named_token(source, "bos_token");
    vocabulary->ids.eos = named_token(source, "eos_token");
    vocabulary->ids.padding = named_token(source, "pad_token");
    int32_t eos = vocabulary->ids.eos;
    enum status status = json_read_processor(source, processor);
    if (status != STATUS_OK)
        return status;
    if (!vocabulary->rules.adds_eos) // then eos is the configuration's, not the template's
        vocabulary->ids.eos = eos;
    else if (eos >= 0) // the post-processor may append another token; eos_token still ends answers
        vocabulary->flags[eos] |= TOKEN_ENDS_GENERATION;
    bool bos = json_truth(config, "add_bos_token", vocabulary->rules.adds_bos) && vocabulary->ids.bos >= 0;
    bool eos_too =
        json_truth(config, "add_eos_token", vocabulary->rules.adds_eos) && vocabulary->ids.eos >= 0;
    if (bos != vocabulary->rules.adds_bos || eos_too != vocabulary->rules.adds_eos) // the rules decide
        vocabulary->templates[0].n_items = vocabulary->templates[1].n_items = 0;
    vocabulary->rules.adds_bos = bos;
    vocabulary->rules.adds_eos = eos_too;
    vocabulary->rules.one_type = has_one_type(config);
    return STATUS_OK;
}

static enum status read_root(struct json_source *source, const struct value *root, const char *pre)
{
    static const struct value none = {.kind = VALUE_NULL};
    const struct value *model = value_get(root, "model");
    model = model ? model : &none;
    enum status status = check_keys(source, root);
    if (status == STATUS_OK)
        status = check_model(source, model);
    if (status == STATUS_OK)
        status = read_tokens(source, root, model);
    if (status == STATUS_OK)
        status = source->vocabulary->model == VOCABULARY_BPE ? read_merges(source, model)
                                                             : json_read_pieces(source, model);
    if (status == STATUS_OK)
        status = json_read_normalizer(source, value_get(root, "normalizer"));
    if (status == STATUS_OK)
        status = json_read_pre_tokenizer(source, value_get(root, "pre_tokenizer"), pre);
    if (status == STATUS_OK)
        status = json_read_decoder(source, value_get(root, "decoder"));
    if (status == STATUS_OK)
        status = json_read_normalized(source, value_get(root, "added_tokens"));
    return status == STATUS_OK ? read_settings(source, root) : status;
}

// As vLLM: eos of tokenizer_config.json and the list of generation_config.json; also eos of
// special_tokens_map.json. Without any of these: the tokens known by their text.
static void flag_ends(struct json_source *source, const struct vocabulary_json *json)
{
    struct vocabulary *vocabulary = source->vocabulary;
    int32_t mapped = json_id_of(vocabulary, token_of(&source->special_tokens, "eos_token"));
    bool is_named = json->n_ends || vocabulary->ids.eos >= 0 || mapped >= 0;
    vocabulary_flag_known(vocabulary, is_named ? 0 : END_ANY);
    if (vocabulary->ids.eos >= 0)
        vocabulary->flags[vocabulary->ids.eos] |= TOKEN_ENDS_GENERATION;
    if (mapped >= 0)
        vocabulary->flags[mapped] |= TOKEN_ENDS_GENERATION;
    vocabulary_flag_ends(vocabulary, json->ends, json->n_ends, false);
    vocabulary_flag_ends(vocabulary, json->control_ends, json->n_control_ends, true);
}

enum status vocabulary_parse_json(struct vocabulary *vocabulary, const struct vocabulary_json *json,
                                  struct error *error)
{
    struct json_source source = {.vocabulary = vocabulary, .arena = &vocabulary->arena, .error = error};
    struct value root;
    vocabulary->ids.bos = vocabulary->ids.eos = vocabulary->ids.unknown = -1;
    vocabulary->ids.unk_token = vocabulary->ids.padding = -1;
    enum status status = json_parse_file(&source, "tokenizer.json", json->tokenizer, &root);
    if (status == STATUS_OK)
        status = json_parse_file(&source, "tokenizer_config.json", json->config, &source.config);
    if (status == STATUS_OK)
        status =
            json_parse_file(&source, "special_tokens_map.json", json->special_tokens, &source.special_tokens);
    if (status == STATUS_OK)
        status = read_root(&source, &root, json->pre);
    if (status == STATUS_OK)
        flag_ends(&source, json);
    return status;
}

enum status vocabulary_read_json(struct vocabulary *vocabulary, const struct gguf *gguf, const char *pre,
                                 struct error *error)
{
    bool is_tekken = !gguf_has(gguf, "tokenizer.huggingface.json");
    struct vocabulary_json json = {.pre = pre};
    enum status status =
        gguf_text(gguf, is_tekken ? "tokenizer.huggingface.tekken" : "tokenizer.huggingface.json",
                  &json.tokenizer, NULL, error);
    if (status == STATUS_OK)
        status = gguf_text(gguf, "tokenizer.huggingface.config", &json.config, NULL, error);
    if (status == STATUS_OK)
        status = gguf_text(gguf, "tokenizer.huggingface.special_tokens", &json.special_tokens, NULL, error);
    if (status == STATUS_OK)
        status = vocabulary_read_ends(&vocabulary->arena, gguf, "tokenizer.huggingface.eos_token_ids",
                                      &json.ends, &json.n_ends, error);
    if (status == STATUS_OK)
        status = vocabulary_read_ends(&vocabulary->arena, gguf, "tokenizer.huggingface.further_eos_token_ids",
                                      &json.control_ends, &json.n_control_ends, error);
    if (status != STATUS_OK)
        return status;
    return (is_tekken ? vocabulary_parse_tekken : vocabulary_parse_json)(vocabulary, &json, error);
}
