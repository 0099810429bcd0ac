// Converts vocab.json and merges.txt, in which GPT-2's and Qwen2's tokenizers were saved before
// tokenizer.json existed, to the text of a tokenizer.json. The tokenizer class decides how text is split
// (tokenization_gpt2.py and tokenization_qwen2.py of github.com/huggingface/transformers).
#include "engine/model/folder/folder_parts.h"

#include <stdlib.h>
#include <string.h>

#define QWEN2                                                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"      \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

struct tokenizer_class {
    const char *name, *model_types; // class name, with or without "Fast"; model_types that use it
    const char *expression;         // split pattern; NULL: GPT-2's
    bool composes;                  // normalizes to NFC
};

static const struct tokenizer_class classes[] = {
    {"GPT2Tokenizer", "gpt2", NULL, false},
    {"CodeGenTokenizer", "codegen phi", NULL, false},
    {"Qwen2Tokenizer", "qwen2 qwen2_moe qwen3 qwen3_moe", QWEN2, true},
};

static bool is_listed(struct text name, const char *list)
{
    while (*list) {
        size_t size = strcspn(list, " ");
        if (name.size == size && memcmp(name.data, list, size) == 0)
            return true;
        list += size + (list[size] == ' ');
    }
    return false;
}

static struct text string_of(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    if (value && value->kind == VALUE_OBJECT)
        value = value_get(value, "content");
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

static bool is_truth(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_BOOL && value->boolean;
}

// The class named by the configuration, else the model_type's class.
static const struct tokenizer_class *find_class(const struct value *config,
                                                const struct value *tokenizer_config)
{
    struct text name = string_of(tokenizer_config, "tokenizer_class"), type = string_of(config, "model_type");
    if (name.size > 4 && memcmp(name.data + name.size - 4, "Fast", 4) == 0)
        name.size -= 4;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (name.size ? text_equals_string(name, classes[i].name) : is_listed(type, classes[i].model_types))
            return &classes[i];
    return NULL;
}

// --- Added tokens ---

struct composing {
    const struct folder_files *files;
    const struct value *vocab, *tokenizer_config, *special_tokens;
    struct buffer *out;
    struct error *error;
    size_t n_added;
};

static void put_flag(struct composing *composing, const char *name, bool value)
{
    buffer_add_format(composing->out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void put_added(struct composing *composing, int64_t id, struct text content, const struct value *flags,
                      bool special)
{
    buffer_add_format(composing->out, "%s{\"id\":%lld,\"content\":", composing->n_added++ ? "," : "",
                      (long long)id);
    json_encode_string(content, composing->out);
    put_flag(composing, "special", special);
    for (int i = 0; flags && i < 4; i++) {
        static const char *const names[] = {"single_word", "lstrip", "rstrip", "normalized"};
        put_flag(composing, names[i], is_truth(flags, names[i]));
    }
    buffer_add_string(composing->out, "}");
}

static const struct value *described(const struct composing *composing)
{
    const struct value *tokens = value_get(composing->tokenizer_config, "added_tokens_decoder");
    return tokens && tokens->kind == VALUE_OBJECT ? tokens : NULL;
}

static bool is_described(const struct composing *composing, struct text content)
{
    const struct value *tokens = described(composing);
    for (size_t i = 0; tokens && i < tokens->object.n_members; i++)
        if (text_equal(string_of(&tokens->object.members[i].value, "content"), content))
            return true;
    return false;
}

static enum status put_described(struct composing *composing)
{
    const struct value *tokens = described(composing);
    for (size_t i = 0; tokens && i < tokens->object.n_members; i++) {
        const struct value_member *member = &tokens->object.members[i];
        char digits[16] = "", *end = digits;
        if (member->key.size < sizeof digits)
            memcpy(digits, member->key.data, member->key.size);
        long id = strtol(digits, &end, 10);
        if (end == digits || *end || id < 0)
            return error_set(composing->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "%s/tokenizer_config.json: added_tokens_decoder: expected ids, got \"%s\"",
                             composing->files->path, digits);
        put_added(composing, id, string_of(&member->value, "content"), &member->value,
                  is_truth(&member->value, "special"));
    }
    return STATUS_OK;
}

static const char *const special_names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
enum { N_SPECIAL_NAMES = sizeof special_names / sizeof *special_names };

static bool is_special(const struct composing *composing, struct text content)
{
    for (size_t i = 0; i < N_SPECIAL_NAMES; i++)
        if (text_equal(string_of(composing->tokenizer_config, special_names[i]), content) ||
            text_equal(string_of(composing->special_tokens, special_names[i]), content))
            return true;
    const struct value *const lists[] = {value_get(composing->tokenizer_config, "additional_special_tokens"),
                                         value_get(composing->special_tokens, "additional_special_tokens")};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; lists[l] && lists[l]->kind == VALUE_ARRAY && i < lists[l]->array.n_items; i++) {
            const struct value *item = &lists[l]->array.items[i];
            struct text text = item->kind == VALUE_STRING ? item->text : string_of(item, "content");
            if (text_equal(text, content))
                return true;
        }
    return false;
}

// Adds the tokens of added_tokens.json, and the special tokens of the vocabulary: named ones, and GPT-2's
// default.
static enum status put_listed(struct composing *composing)
{
    struct value tokens;
    bool found;
    enum status status =
        folder_read_json(composing->files, "added_tokens.json", &tokens, &found, composing->error);
    for (size_t i = 0; status == STATUS_OK && found && i < tokens.object.n_members; i++) {
        const struct value_member *member = &tokens.object.members[i];
        if (member->value.kind == VALUE_INTEGER && !is_described(composing, member->key))
            put_added(composing, member->value.integer, member->key, NULL,
                      is_special(composing, member->key));
    }
    for (size_t i = 0; status == STATUS_OK && i < composing->vocab->object.n_members; i++) {
        const struct value_member *member = &composing->vocab->object.members[i];
        bool is_default = text_equals_string(member->key, "<|endoftext|>");
        if (member->value.kind == VALUE_INTEGER && !is_described(composing, member->key) &&
            (is_default || is_special(composing, member->key)))
            put_added(composing, member->value.integer, member->key, NULL, true);
    }
    return status;
}

// --- Merges ---

// One pair per line; the first line may be "#version: 0.2".
static enum status put_merges(struct composing *composing, struct text merges)
{
    size_t line = 0, n_merges = 0;
    while (merges.size) {
        const char *end = memchr(merges.data, '\n', merges.size);
        struct text pair = {merges.data, end ? (size_t)(end - merges.data) : merges.size};
        size_t taken = pair.size + (end != NULL);
        merges = (struct text){merges.data + taken, merges.size - taken};
        line++;
        if (pair.size && pair.data[pair.size - 1] == '\r')
            pair.size--;
        bool is_version = line == 1 && pair.size >= 8 && memcmp(pair.data, "#version", 8) == 0;
        if (pair.size == 0 || is_version)
            continue;
        if (!memchr(pair.data, ' ', pair.size) || !utf8_valid(pair.data, pair.size))
            return error_set(composing->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "%s/merges.txt: line %zu: expected two symbols with a blank between",
                             composing->files->path, line);
        buffer_add_string(composing->out, n_merges ? "," : "");
        json_encode_string(pair, composing->out);
        n_merges++;
    }
    if (!n_merges)
        return error_set(composing->error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s/merges.txt: no merges",
                         composing->files->path);
    return STATUS_OK;
}

// --- The text ---

static enum status put_tokenizer(struct composing *composing, const struct tokenizer_class *class,
                                 struct text vocab, struct text merges)
{
    const char *blank = is_truth(composing->tokenizer_config, "add_prefix_space") ? "true" : "false";
    buffer_add_string(composing->out, "{\"version\":\"1.0\",\"added_tokens\":[");
    enum status status = put_described(composing);
    if (status == STATUS_OK)
        status = put_listed(composing);
    buffer_add_format(composing->out, "],\"normalizer\":%s,\"pre_tokenizer\":",
                      class->composes ? "{\"type\":\"NFC\"}" : "null");
    if (class->expression) {
        buffer_add_string(composing->out,
                          "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                          "{\"Regex\":");
        json_encode_string(text_from_string(class->expression), composing->out);
        buffer_add_format(composing->out,
                          "},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
                          "\"add_prefix_space\":%s,\"use_regex\":false}]}",
                          blank);
    } else
        buffer_add_format(composing->out,
                          "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":true}", blank);
    buffer_add_string(composing->out,
                      ",\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":");
    buffer_add_text(composing->out, vocab);
    buffer_add_string(composing->out, ",\"merges\":[");
    if (status == STATUS_OK)
        status = put_merges(composing, merges);
    buffer_add_string(composing->out, "]}}");
    return status;
}

static enum status refuse_class(const struct folder_files *files, const struct value *config,
                                const struct value *tokenizer_config, struct error *error)
{
    struct text name = string_of(tokenizer_config, "tokenizer_class"), type = string_of(config, "model_type");
    struct text shown = name.size ? name : type;
    return error_set(
        error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
        "%s: vocab.json and merges.txt of %s \"%.*s\": expected GPT2Tokenizer, CodeGenTokenizer or "
        "Qwen2Tokenizer; others need tokenizer.json",
        files->path, name.size ? "tokenizer_class" : "model_type", shown.size < 64 ? (int)shown.size : 64,
        shown.data ? shown.data : "");
}

enum status folder_make_tokenizer(const struct folder_files *files, const struct value *config,
                                  const struct value *tokenizer_config, struct text *tokenizer, bool *found,
                                  struct error *error)
{
    struct text vocab, merges;
    struct value tokens, special_tokens;
    bool has_merges, has_map;
    enum status status = folder_read_json(files, "vocab.json", &tokens, found, error);
    if (status == STATUS_OK && *found)
        status = folder_read_file(files, "vocab.json", &vocab, found, error);
    if (status == STATUS_OK && *found) {
        status = folder_read_file(files, "merges.txt", &merges, &has_merges, error);
        *found = has_merges;
    }
    if (status == STATUS_OK && *found)
        status = folder_read_json(files, "special_tokens_map.json", &special_tokens, &has_map, error);
    if (status != STATUS_OK || !*found)
        return status;
    const struct tokenizer_class *class = find_class(config, tokenizer_config);
    if (!class)
        return refuse_class(files, config, tokenizer_config, error);
    struct buffer out = {0};
    struct composing composing = {.files = files,
                                  .vocab = &tokens,
                                  .tokenizer_config = tokenizer_config,
                                  .special_tokens = &special_tokens,
                                  .out = &out,
                                  .error = error};
    status = put_tokenizer(&composing, class, vocab, merges);
    if (status == STATUS_OK) {
        char *copy = out.failed ? NULL : arena_copy(files->arena, out.data, out.size);
        *tokenizer = (struct text){copy, out.size};
        if (!copy)
            status = error_memory(error, STATUS_REFUSE, "a model's folder");
    }
    buffer_finish(&out);
    return status;
}
