// Reads a vocabulary from Mistral's tekken.json: byte-level BPE by ranks, as tiktoken computes it.
//   {"config": {"pattern": "...", "default_vocab_size": 131072, "default_num_special_tokens": 1000},
//    "vocab": [{"rank": 0, "token_bytes": "AA==", "token_str": "\u0000"}, ...],
//    "special_tokens": [{"rank": 0, "token_str": "<unk>", "is_control": true}, ...]}
// Ids: the special tokens first, then the vocabulary. A pair is merged if its concatenation is a token, the
// lowest rank first. Source: github.com/mistralai/mistral-common, tokens/tokenizers/tekken.py.
#include "engine/file/gguf.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/vocabulary_json.h"
#include "schemas/base/base64.h"

#include <stdio.h>
#include <string.h>

// The special tokens of files without "special_tokens", up to version v7.
static const char *const older_special_tokens[] = {"<unk>",
                                                   "<s>",
                                                   "</s>",
                                                   "[INST]",
                                                   "[/INST]",
                                                   "[AVAILABLE_TOOLS]",
                                                   "[/AVAILABLE_TOOLS]",
                                                   "[TOOL_RESULTS]",
                                                   "[/TOOL_RESULTS]",
                                                   "[TOOL_CALLS]",
                                                   "[IMG]",
                                                   "<pad>",
                                                   "[IMG_BREAK]",
                                                   "[IMG_END]",
                                                   "[PREFIX]",
                                                   "[MIDDLE]",
                                                   "[SUFFIX]",
                                                   "[SYSTEM_PROMPT]",
                                                   "[/SYSTEM_PROMPT]",
                                                   "[TOOL_CONTENT]"};

static enum status refuse(struct json_source *source, const char *what)
{
    return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tekken.json: %s", what);
}

static int64_t integer_in(const struct value *object, const char *name)
{
    const struct value *value = object ? value_get(object, name) : NULL;
    return value && value->kind == VALUE_INTEGER ? value->integer : -1;
}

static struct text text_in(const struct value *object, const char *name)
{
    const struct value *value = object ? value_get(object, name) : NULL;
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

// --- Tokens ---

static enum status set_special(struct json_source *source, int64_t id, struct text text)
{
    source->vocabulary->texts[id] = text;
    source->vocabulary->flags[id] = TOKEN_CONTROL;
    return STATUS_OK;
}

static enum status name_special(struct json_source *source, int64_t id)
{
    char name[32];
    int size = snprintf(name, sizeof name, "<SPECIAL_%lld>", (long long)id);
    char *copy = arena_copy(source->arena, name, (size_t)size);
    return copy ? set_special(source, id, (struct text){copy, (size_t)size}) : json_out_of_memory(source);
}

static enum status read_special(struct json_source *source, const struct value *root, int64_t n_special)
{
    enum { N_OLDER = sizeof older_special_tokens / sizeof *older_special_tokens };
    const struct value *list = value_get(root, "special_tokens");
    bool is_given = list && list->kind == VALUE_ARRAY;
    size_t n = is_given ? list->array.n_items : N_OLDER;
    enum status status = STATUS_OK;
    if ((int64_t)n > n_special)
        return refuse(source, "more special tokens than default_num_special_tokens");
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct value *item = is_given ? &list->array.items[i] : NULL;
        struct text text = is_given ? text_in(item, "token_str") : text_from_string(older_special_tokens[i]);
        int64_t id = is_given ? integer_in(item, "rank") : (int64_t)i;
        if (id < 0 || id >= n_special || text.size == 0 || text.size > VOCABULARY_TOKEN_BYTES_MAX ||
            source->vocabulary->texts[id].data)
            return refuse(source,
                          "special_tokens: expected a \"rank\" and a \"token_str\" of its own for each");
        status = set_special(source, id, text);
    }
    for (int64_t id = 0; id < n_special && status == STATUS_OK; id++)
        if (!source->vocabulary->texts[id].data)
            status = name_special(source, id);
    return status;
}

// Writes the bytes in GPT-2's byte alphabet.
static enum status set_token(struct json_source *source, int64_t id, struct text bytes)
{
    char *text = arena_allocate(source->arena, 2 * bytes.size + 1);
    size_t size = 0;
    if (!text)
        return json_out_of_memory(source);
    for (size_t i = 0; i < bytes.size; i++)
        size += utf8_encode(byte_alphabet_character((unsigned char)bytes.data[i]), text + size);
    source->vocabulary->texts[id] = (struct text){text, size};
    source->vocabulary->flags[id] = TOKEN_NORMAL;
    return STATUS_OK;
}

static enum status read_tokens(struct json_source *source, const struct value *list, int64_t n_special)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct buffer bytes = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i + (size_t)n_special < vocabulary->n_tokens && status == STATUS_OK; i++) {
        const struct value *item = &list->array.items[i];
        buffer_clear(&bytes);
        bool is_valid = integer_in(item, "rank") == (int64_t)i &&
                        base64_decode(text_in(item, "token_bytes"), &bytes) && bytes.size > 0 &&
                        2 * bytes.size <= VOCABULARY_TOKEN_BYTES_MAX;
        if (bytes.failed)
            status = json_out_of_memory(source);
        else if (!is_valid || (i < 256 && (bytes.size != 1 || (unsigned char)bytes.data[0] != i)))
            status =
                error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                          "tekken.json: vocab: item %zu: expected that rank and its bytes, the first 256 of "
                          "one byte each",
                          i);
        else
            status = set_token(source, n_special + (int64_t)i, (struct text){bytes.data, bytes.size});
        vocabulary->scores[n_special + (int64_t)i] = -(float)i; // exact for i below 2^24
    }
    buffer_finish(&bytes);
    return status;
}

// --- Splitter, settings ---

// The pattern becomes a Split pre-tokenizer of tokenizer.json.
static enum status open_splitter(struct json_source *source, struct text pattern, const char *pre)
{
    struct buffer json = {0};
    struct value pre_tokenizer;
    buffer_add_string(
        &json, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":");
    json_encode_string(pattern, &json);
    buffer_add_string(&json,
                      "},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                      "\"use_regex\":false}]}");
    char *copy = json.failed ? NULL : arena_copy(source->arena, json.data, json.size);
    size_t size = json.size;
    buffer_finish(&json);
    if (!copy)
        return json_out_of_memory(source);
    enum status status = json_decode((struct text){copy, size}, source->arena, &pre_tokenizer, source->error);
    return status == STATUS_OK ? json_read_pre_tokenizer(source, &pre_tokenizer, pre) : status;
}

static int32_t find_special(const struct vocabulary *vocabulary, int64_t n_special, const char *text)
{
    for (int32_t id = 0; id < n_special; id++)
        if (text_equals_string(vocabulary->texts[id], text))
            return id;
    return -1;
}

static void set_ids(struct json_source *source, const struct vocabulary_json *files, int64_t n_special)
{
    struct vocabulary *vocabulary = source->vocabulary;
    vocabulary->ids.unknown = -1; // every byte is a token
    vocabulary->ids.unk_token = find_special(vocabulary, n_special, "<unk>");
    vocabulary->ids.bos = find_special(vocabulary, n_special, "<s>");
    vocabulary->ids.eos = find_special(vocabulary, n_special, "</s>");
    vocabulary->ids.padding = find_special(vocabulary, n_special, "<pad>");
    vocabulary->rules.adds_bos =
        vocabulary->ids.bos >= 0 && json_truth(&source->config, "add_bos_token", true);
    vocabulary->rules.adds_eos =
        vocabulary->ids.eos >= 0 && json_truth(&source->config, "add_eos_token", false);
    vocabulary_flag_known(vocabulary, 0);
    vocabulary_flag_ends(vocabulary, &vocabulary->ids.eos, 1, false);
    vocabulary_flag_ends(vocabulary, files->ends, files->n_ends, false);
    vocabulary_flag_ends(vocabulary, files->control_ends, files->n_control_ends, true);
}

enum status vocabulary_parse_tekken(struct vocabulary *vocabulary, const struct vocabulary_json *files,
                                    struct error *error)
{
    struct json_source source = {.vocabulary = vocabulary, .arena = &vocabulary->arena, .error = error};
    struct value root;
    enum status status = json_parse_file(&source, "tekken.json", files->tokenizer, &root);
    if (status == STATUS_OK)
        status = json_parse_file(&source, "tokenizer_config.json", files->config, &source.config);
    if (status != STATUS_OK)
        return status;
    const struct value *config = value_get(&root, "config"), *list = value_get(&root, "vocab");
    int64_t n_tokens = integer_in(config, "default_vocab_size"),
            n_special = integer_in(config, "default_num_special_tokens");
    size_t n_listed = list && list->kind == VALUE_ARRAY ? list->array.n_items : 0;
    struct text pattern = text_in(config, "pattern");
    if (n_special < 1 || n_tokens - n_special < 256 || n_tokens > VOCABULARY_TOKENS_MAX ||
        n_tokens - n_special > (int64_t)n_listed || pattern.size == 0)
        return refuse(&source, "expected \"config\" with pattern, default_vocab_size and "
                               "default_num_special_tokens, and a \"vocab\" of as many tokens");
    vocabulary->n_tokens = (size_t)n_tokens;
    vocabulary->texts = arena_allocate_array(source.arena, vocabulary->n_tokens, sizeof *vocabulary->texts);
    vocabulary->flags = arena_allocate_array(source.arena, vocabulary->n_tokens, sizeof *vocabulary->flags);
    vocabulary->scores = arena_allocate_array(source.arena, vocabulary->n_tokens, sizeof *vocabulary->scores);
    if (!vocabulary->texts || !vocabulary->flags || !vocabulary->scores)
        return json_out_of_memory(&source);
    vocabulary->rules.ignores_merges = vocabulary->rules.controls_apart = true;
    status = read_special(&source, &root, n_special);
    if (status == STATUS_OK)
        status = read_tokens(&source, list, n_special);
    if (status == STATUS_OK)
        status = open_splitter(&source, pattern, files->pre);
    if (status == STATUS_OK)
        set_ids(&source, files, n_special);
    return status;
}
