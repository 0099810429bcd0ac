// Reads a vocabulary from the keys of a GGUF file:
//   tokenizer.ggml.model   "llama": SentencePiece, merged by scores; "gpt2": byte-level BPE; "gemma4": BPE of
//                          characters, with U+2581 for blanks and byte tokens; "bert", "t5":
//                          vocabulary_gguf_pieces.c
//   tokenizer.ggml.pre     how byte-level BPE cuts text into words
//   tokenizer.ggml.tokens, scores, token_type, merges ("left right"), bos_token_id, eos_token_id, ...
// Missing keys have llama.cpp's defaults (src/llama-vocab.cpp), since its converters wrote most such files.
#include "engine/file/gguf.h"
#include "engine/tokenizer/vocabulary_gguf.h"
#include "schemas/value.h"

#include <string.h>

// Number of pieces of a folder's tokenizer.model (engine/model/folder/folder_sentencepiece.c). With this key
// the vocabulary behaves as in SentencePiece.
#define PIECES_KEY "tokenizer.huggingface.sentencepieces"

struct vocabulary_source {
    const struct gguf *gguf;
    struct vocabulary *vocabulary;
    struct error *error;
    bool is_gemma4;
};

static enum status refuse_model_file(struct vocabulary_source *source, const char *what)
{
    return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s", what);
}

static enum status out_of_memory(struct vocabulary_source *source)
{
    return error_memory(source->error, STATUS_REFUSE, "the vocabulary");
}

// Reads an array of `n_items` (0: any number) strings or numbers; *found false: absent.
static enum status read_array(struct vocabulary_source *source, const char *key, bool strings, size_t n_items,
                              struct gguf_array *array, bool *found)
{
    enum status status = gguf_array(source->gguf, key, array, found, source->error);
    if (status != STATUS_OK || !*found)
        return status;
    if ((array->kind == GGUF_STRING) != strings || array->kind == GGUF_BOOL)
        return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s: expected an array of %s",
                         key, strings ? "strings" : "numbers");
    if (n_items && array->n_items < n_items)
        return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s: %zu items for %zu tokens",
                         key, array->n_items, n_items);
    return STATUS_OK;
}

static enum status read_tokens(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct gguf_array array;
    bool found;
    enum status status = read_array(source, "tokenizer.ggml.tokens", true, 0, &array, &found);
    if (status != STATUS_OK)
        return status;
    if (!found || array.n_items == 0)
        return refuse_model_file(source, "key tokenizer.ggml.tokens: missing or empty");
    if (array.n_items > VOCABULARY_TOKENS_MAX)
        return error_set(source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "key tokenizer.ggml.tokens: %zu tokens, at most %d", array.n_items,
                         VOCABULARY_TOKENS_MAX);
    vocabulary->n_tokens = array.n_items;
    vocabulary->texts = arena_allocate_array(&vocabulary->arena, array.n_items, sizeof *vocabulary->texts);
    vocabulary->flags = arena_allocate_array(&vocabulary->arena, array.n_items, sizeof *vocabulary->flags);
    if (!vocabulary->texts || !vocabulary->flags)
        return out_of_memory(source);
    for (size_t i = 0; i < array.n_items; i++) {
        vocabulary->texts[i] = array.strings[i];
        vocabulary->flags[i] = TOKEN_NORMAL;
        if (array.strings[i].size > VOCABULARY_TOKEN_BYTES_MAX)
            return error_set(source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                             "token %zu has %zu bytes, at most %d", i, array.strings[i].size,
                             VOCABULARY_TOKEN_BYTES_MAX);
    }
    return STATUS_OK;
}

static enum status read_types(struct vocabulary_source *source)
{
    static const uint16_t flags_of[] = {
        [1] = TOKEN_NORMAL,       [2] = TOKEN_UNKNOWN, [3] = TOKEN_CONTROL,
        [4] = TOKEN_USER_DEFINED, [5] = TOKEN_UNUSED,  [6] = TOKEN_BYTE,
    };
    struct vocabulary *vocabulary = source->vocabulary;
    struct gguf_array array;
    bool found;
    enum status status =
        read_array(source, "tokenizer.ggml.token_type", false, vocabulary->n_tokens, &array, &found);
    for (size_t i = 0; status == STATUS_OK && found && i < vocabulary->n_tokens; i++) {
        int64_t type = gguf_array_integer(&array, i);
        vocabulary->flags[i] = type >= 1 && type <= 6 ? flags_of[type] : 0;
    }
    return status;
}

static enum status read_scores(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct gguf_array array;
    bool found;
    enum status status =
        read_array(source, "tokenizer.ggml.scores", false, vocabulary->n_tokens, &array, &found);
    if (status != STATUS_OK)
        return status;
    vocabulary->scores =
        arena_allocate_array(&vocabulary->arena, vocabulary->n_tokens, sizeof *vocabulary->scores);
    if (!vocabulary->scores)
        return out_of_memory(source);
    for (size_t i = 0; found && i < vocabulary->n_tokens; i++) {
        vocabulary->scores[i] = (float)gguf_array_number(&array, i);
        if (vocabulary->scores[i] != vocabulary->scores[i])
            return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "key tokenizer.ggml.scores: item %zu is not a number", i);
    }
    return STATUS_OK;
}

// "left right"; a leading blank is part of the left.
static enum status read_merges(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct gguf_array array;
    bool found;
    enum status status = read_array(source, "tokenizer.ggml.merges", true, 0, &array, &found);
    if (status != STATUS_OK)
        return status;
    if (!found)
        return refuse_model_file(source, "key tokenizer.ggml.merges: missing");
    if (array.n_items > VOCABULARY_MERGES_MAX)
        return error_set(source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "key tokenizer.ggml.merges: %zu merges, at most %d", array.n_items,
                         VOCABULARY_MERGES_MAX);
    vocabulary->n_merges = array.n_items;
    vocabulary->merges = arena_allocate_array(&vocabulary->arena, array.n_items, sizeof *vocabulary->merges);
    if (!vocabulary->merges)
        return out_of_memory(source);
    for (size_t i = 0; i < array.n_items; i++) {
        struct text text = array.strings[i];
        const char *blank = text.size > 2 ? memchr(text.data + 1, ' ', text.size - 1) : NULL;
        if (!blank || blank + 1 == text.data + text.size || text.size > 2 * VOCABULARY_TOKEN_BYTES_MAX + 1)
            return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "key tokenizer.ggml.merges: item %zu is not two symbols with a blank between",
                             i);
        size_t left = (size_t)(blank - text.data);
        vocabulary->merges[i].left = (struct text){text.data, left};
        vocabulary->merges[i].right = (struct text){blank + 1, text.size - left - 1};
    }
    return STATUS_OK;
}

// An id outside the vocabulary counts as absent; without the key a default in *id is kept, and checked as
// well.
static enum status read_id(struct vocabulary_source *source, const char *key, int32_t *id)
{
    uint32_t value;
    bool found = false;
    enum status status = gguf_u32(source->gguf, key, &value, &found, source->error);
    if (status == STATUS_OK && found && value < source->vocabulary->n_tokens)
        *id = (int32_t)value;
    if (*id >= 0 && (size_t)*id >= source->vocabulary->n_tokens)
        *id = -1;
    return status;
}

// A key decides its kind of end; kinds without a key are found by the tokens' text. If the eos token is known
// by its text to end a turn (Qwen's eos is <|im_end|>), the key decides the end of a turn instead of the end
// of the text.
static enum status read_ends(struct vocabulary_source *source)
{
    static const struct {
        const char *key;
        unsigned end; // the kind of end it decides; 0: only ends the generation
    } keys[] = {{"tokenizer.ggml.eos_token_id", END_OF_TEXT},    {"tokenizer.ggml.eot_token_id", END_OF_TURN},
                {"tokenizer.ggml.eom_token_id", END_OF_MESSAGE}, {"tokenizer.ggml.fim_pad_token_id", 0},
                {"tokenizer.ggml.fim_rep_token_id", 0},          {"tokenizer.ggml.fim_sep_token_id", 0}};
    struct vocabulary *vocabulary = source->vocabulary;
    uint16_t *flags = vocabulary->flags;
    int32_t ids[sizeof keys / sizeof *keys];
    unsigned decided = gguf_has(source->gguf, PIECES_KEY) ? END_ANY : 0; // a folder names all its ends
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        ids[i] = -1;
        enum status status = read_id(source, keys[i].key, &ids[i]);
        if (status != STATUS_OK)
            return status;
        if (ids[i] < 0 || keys[i].end == 0)
            continue;
        unsigned spelled = vocabulary_end_named(vocabulary->texts[ids[i]]);
        decided |= END_OF_PADDING | (keys[i].end == END_OF_TEXT && spelled ? spelled : keys[i].end);
    }
    vocabulary_flag_known(vocabulary, END_ANY & ~decided);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (ids[i] < 0)
            continue;
        bool is_control =
            vocabulary_end_named(vocabulary->texts[ids[i]]) && !(flags[ids[i]] & TOKEN_USER_DEFINED);
        flags[ids[i]] |= TOKEN_ENDS_GENERATION | (is_control ? TOKEN_CONTROL : 0);
    }
    if (vocabulary->ids.eos >= 0)
        flags[vocabulary->ids.eos] |= TOKEN_ENDS_GENERATION;
    return STATUS_OK;
}

// Flags the ends that a folder's files name in addition to eos.
static enum status read_folder_ends(struct vocabulary_source *source)
{
    static const char *const keys[] = {"tokenizer.huggingface.eos_token_ids",
                                       "tokenizer.huggingface.further_eos_token_ids"};
    struct vocabulary *vocabulary = source->vocabulary;
    struct text map = {0};
    struct value json;
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        const int32_t *ids = NULL;
        size_t n_ids = 0;
        status = vocabulary_read_ends(&vocabulary->arena, source->gguf, keys[i], &ids, &n_ids, source->error);
        vocabulary_flag_ends(vocabulary, ids, n_ids, i == 1);
    }
    if (status == STATUS_OK)
        status = gguf_text(source->gguf, "tokenizer.huggingface.special_tokens", &map, NULL, source->error);
    if (status != STATUS_OK || !map.size)
        return status;
    if (json_decode_document(map, &vocabulary->arena, &json, source->error) != STATUS_OK) {
        source->error->status = STATUS_REFUSE;
        return error_prefix(source->error, "special_tokens_map.json");
    }
    const struct value *eos = value_get(&json, "eos_token");
    eos = eos && eos->kind == VALUE_OBJECT ? value_get(eos, "content") : eos;
    for (size_t i = 0; eos && eos->kind == VALUE_STRING && i < vocabulary->n_tokens; i++)
        if (text_equal(vocabulary->texts[i], eos->text))
            vocabulary->flags[i] |= TOKEN_ENDS_GENERATION;
    return STATUS_OK;
}

static enum status read_ids(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", &vocabulary->ids.bos},
               {"tokenizer.ggml.eos_token_id", &vocabulary->ids.eos},
               {"tokenizer.ggml.unknown_token_id", &vocabulary->ids.unknown},
               {"tokenizer.ggml.padding_token_id", &vocabulary->ids.padding}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && status == STATUS_OK; i++)
        status = read_id(source, ids[i].key, ids[i].id);
    if (status == STATUS_OK)
        status = gguf_read_piece_ids(vocabulary, source->gguf, source->error);
    if (status == STATUS_OK)
        status = read_ends(source);
    return status == STATUS_OK ? read_folder_ends(source) : status;
}

// A file that enables bos or eos must name the token.
static enum status read_additions(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    static const char bos_key[] = "tokenizer.ggml.add_bos_token";
    static const char eos_key[] = "tokenizer.ggml.add_eos_token";
    enum status status = gguf_bool(source->gguf, bos_key, &vocabulary->rules.adds_bos, NULL, source->error);
    if (status == STATUS_OK)
        status = gguf_bool(source->gguf, eos_key, &vocabulary->rules.adds_eos, NULL, source->error);
    if (status == STATUS_OK)
        status = gguf_bool(source->gguf, "tokenizer.ggml.add_space_prefix", &vocabulary->rules.adds_space,
                           NULL, source->error);
    if (status != STATUS_OK)
        return status;
    if (vocabulary->rules.adds_bos && vocabulary->ids.bos < 0) {
        if (gguf_has(source->gguf, bos_key))
            return refuse_model_file(source,
                                     "key tokenizer.ggml.add_bos_token: true, but there is no bos_token_id");
        vocabulary->rules.adds_bos = false;
    }
    if (vocabulary->rules.adds_eos && vocabulary->ids.eos < 0)
        return refuse_model_file(source,
                                 "key tokenizer.ggml.add_eos_token: true, but there is no eos_token_id");
    return STATUS_OK;
}

// Phi-3's special tokens strip the white space after them (tokenizer_config.json: "rstrip"). GGUF has no key
// for this, so the model is recognized by its name.
static enum status flag_stripping(struct vocabulary_source *source)
{
    struct text name = {0};
    enum status status = gguf_text(source->gguf, "general.name", &name, NULL, source->error);
    char lower[256] = {0};
    for (size_t i = 0; i < name.size && i < sizeof lower - 1; i++)
        lower[i] = name.data[i] >= 'A' && name.data[i] <= 'Z' ? (char)(name.data[i] + 32) : name.data[i];
    if (status != STATUS_OK || !(strstr(lower, "phi-3") || strstr(lower, "phi3")))
        return status;
    for (size_t i = 0; i < source->vocabulary->n_tokens; i++) {
        struct text text = source->vocabulary->texts[i];
        uint16_t *flags = &source->vocabulary->flags[i];
        if (*flags & (TOKEN_CONTROL | TOKEN_USER_DEFINED | TOKEN_UNKNOWN) &&
            !text_equals_string(text, "<unk>") && !text_equals_string(text, "<s>") &&
            !text_equals_string(text, "<|endoftext|>"))
            *flags |= TOKEN_STRIPS_RIGHT;
    }
    return STATUS_OK;
}

static enum status flag_listed(struct vocabulary_source *source, const char *key, uint16_t flag)
{
    const int32_t *ids = NULL;
    size_t n_ids = 0;
    enum status status =
        vocabulary_read_ends(&source->vocabulary->arena, source->gguf, key, &ids, &n_ids, source->error);
    for (size_t i = 0; status == STATUS_OK && i < n_ids; i++)
        if (ids[i] >= 0 && (size_t)ids[i] < source->vocabulary->n_tokens)
            source->vocabulary->flags[ids[i]] |= flag;
    return status;
}

// SentencePiece matches user-defined pieces after blanks were replaced with U+2581, so no blank is inserted
// after such a piece.
static enum status read_pieces(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct token_rules *rules = &vocabulary->rules;
    uint32_t n_pieces = 0;
    bool found = false;
    enum status status = gguf_u32(source->gguf, PIECES_KEY, &n_pieces, &found, source->error);
    bool is_bpe = vocabulary->model == VOCABULARY_BPE;
    if (status == STATUS_OK && !is_bpe)
        status = gguf_read_pieces(vocabulary, source->gguf, found ? n_pieces : SIZE_MAX, source->error);
    if (status != STATUS_OK || !found)
        return status;
    rules->normalizes_blanks = is_bpe;
    vocabulary->decoder = (struct token_decoder){
        .is_given = true,
        .strips_first = rules->adds_space,
        .steps = {{.kind = DECODE_REPLACE, .from = TEXT("\xE2\x96\x81"), .to = TEXT(" ")}},
        .n_steps = 1};
    vocabulary->normalized =
        arena_allocate_array(&vocabulary->arena, vocabulary->n_tokens, sizeof *vocabulary->normalized);
    if (!vocabulary->normalized)
        return out_of_memory(source);
    for (size_t i = 0; is_bpe && i < n_pieces && i < vocabulary->n_tokens; i++)
        if (vocabulary->flags[i] & TOKEN_USER_DEFINED)
            vocabulary->normalized[i] = vocabulary->texts[i];
    status = gguf_bool(source->gguf, "tokenizer.huggingface.space_first_only", &rules->space_first_only, NULL,
                       source->error);
    bool falls_back = true;
    if (status == STATUS_OK)
        status =
            gguf_bool(source->gguf, "tokenizer.huggingface.byte_fallback", &falls_back, NULL, source->error);
    rules->no_byte_tokens = !falls_back;
    if (status == STATUS_OK)
        status = flag_listed(source, "tokenizer.huggingface.strips_left", TOKEN_STRIPS_LEFT);
    return status == STATUS_OK ? flag_listed(source, "tokenizer.huggingface.strips_right", TOKEN_STRIPS_RIGHT)
                               : status;
}

// Encoders with byte-level BPE: a file has no key for the tokens between a pair. RoBERTa and JinaBERT have two eos,
// ModernBERT one; other families are completed as decoders.
static enum status read_pair(struct vocabulary_source *source)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct text family = {0};
    enum status status = gguf_text(source->gguf, "general.architecture", &family, NULL, source->error);
    bool twice = text_equals_string(family, "bert") || text_equals_string(family, "jina-bert-v2");
    bool is_known = twice || text_equals_string(family, "modern-bert");
    if (status == STATUS_OK && is_known && vocabulary->rules.byte_level && vocabulary->rules.adds_bos &&
        vocabulary->rules.adds_eos)
        gguf_set_templates(vocabulary, twice, 0);
    return status;
}

static enum status open_splitter(struct vocabulary_source *source, const char *pre)
{
    struct text name = {0};
    enum status status = gguf_text(source->gguf, "tokenizer.ggml.pre", &name, NULL, source->error);
    if (status != STATUS_OK)
        return status;
    if (pre)
        name = text_from_string(pre);
    if (name.size == 0)
        name = TEXT("default");
    status = splitter_open(&source->vocabulary->splitter, name, source->error);
    if (status != STATUS_OK)
        return status;
    const struct splitter_traits *traits = splitter_traits(source->vocabulary->splitter);
    source->vocabulary->rules.ignores_merges = traits->ignores_merges;
    source->vocabulary->rules.adds_bos = traits->adds_bos;
    return STATUS_OK;
}

// Such files say too little: bos precedes every text, a run of line breaks that is a token is that token (no
// merge gives it), and the mark after a call of tools ends an answer although it is shown.
static void complete_gemma4(struct vocabulary *vocabulary)
{
    vocabulary->rules.adds_bos = vocabulary->ids.bos >= 0;
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        struct text text = vocabulary->texts[i];
        size_t n_breaks = 0;
        while (n_breaks < text.size && text.data[n_breaks] == '\n')
            n_breaks++;
        if (n_breaks && n_breaks == text.size && vocabulary->flags[i] == TOKEN_NORMAL)
            vocabulary->flags[i] = TOKEN_USER_DEFINED;
        if (text_equals_string(text, "<|tool_response>"))
            vocabulary->flags[i] |= TOKEN_ENDS_GENERATION;
    }
}

static enum status read_model(struct vocabulary_source *source, const char *pre)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct text model = {0};
    enum status status = gguf_text(source->gguf, "tokenizer.ggml.model", &model, NULL, source->error);
    if (status != STATUS_OK)
        return status;
    vocabulary->ids.bos = vocabulary->ids.eos = vocabulary->ids.unknown = vocabulary->ids.padding = -1;
    if (text_equals_string(model, "llama")) { // SentencePiece's own defaults
        vocabulary->ids.unknown = 0;
        vocabulary->ids.bos = 1;
        vocabulary->ids.eos = 2;
        vocabulary->rules.adds_bos = vocabulary->rules.adds_space = true;
        vocabulary->rules.fuses_unknown = gguf_has(source->gguf, PIECES_KEY);
        if (vocabulary->rules.fuses_unknown)
            vocabulary->ids.unknown = vocabulary->ids.bos = vocabulary->ids.eos = -1;
        return STATUS_OK;
    }
    if (text_equals_string(model, "gpt2")) {
        vocabulary->rules.byte_level = true;
        return open_splitter(source, pre);
    }
    source->is_gemma4 = text_equals_string(model, "gemma4");
    if (source->is_gemma4 || gguf_set_pieces(vocabulary, model))
        return STATUS_OK;
    return error_set(
        source->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
        "key tokenizer.ggml.model: unknown tokenizer \"%.*s\", expected llama, gpt2, gemma4, bert or t5",
        model.size < 100 ? (int)model.size : 100, model.data ? model.data : "");
}

enum status vocabulary_read_gguf(struct vocabulary *vocabulary, const struct gguf *gguf, const char *pre,
                                 struct error *error)
{
    struct vocabulary_source source = {.gguf = gguf, .vocabulary = vocabulary, .error = error};
    enum status status = read_model(&source, pre);
    if (status == STATUS_OK)
        status = read_tokens(&source);
    if (status == STATUS_OK)
        status = vocabulary->rules.byte_level || source.is_gemma4 ? read_merges(&source)
                 : vocabulary->model != VOCABULARY_WORD_PIECE     ? read_scores(&source)
                                                                  : STATUS_OK;
    if (status == STATUS_OK)
        status = read_types(&source);
    if (status == STATUS_OK)
        status = read_ids(&source);
    if (status == STATUS_OK)
        status = read_additions(&source);
    if (status == STATUS_OK)
        status = read_pieces(&source);
    if (status == STATUS_OK)
        status = read_pair(&source);
    if (status == STATUS_OK)
        status = flag_stripping(&source);
    if (status == STATUS_OK && source.is_gemma4)
        complete_gemma4(vocabulary);
    vocabulary->ids.unk_token = vocabulary->ids.unknown;
    return status;
}
