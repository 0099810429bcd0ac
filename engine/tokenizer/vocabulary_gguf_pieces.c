// WordPiece and Unigram from a GGUF file, with llama.cpp's keys and defaults (src/llama-vocab.cpp):
//   "bert"  U+2581 is before the pieces that start a word, other pieces have no prefix;
//           tokenizer.ggml.cls_token_id, seperator_token_id, normalizer.lowercase (true), normalizer.strip_accents
//           (as lowercase), token_type_count
//   "t5"    SentencePiece's Unigram: tokenizer.ggml.scores, precompiled_charsmap (bytes), add_space_prefix,
//           remove_extra_whitespaces, escape_whitespaces (true), treat_whitespace_as_suffix
// Most files say neither lowercase nor strip_accents: their converters dropped both.
#include "engine/tokenizer/vocabulary_gguf.h"

#include "engine/file/gguf.h"
#include "engine/tokenizer/split_stage.h"

#include <math.h>
#include <stdlib.h>

enum { WORD_CHARACTERS_MAX = 100 };

bool gguf_set_pieces(struct vocabulary *vocabulary, struct text model)
{
    if (text_equals_string(model, "bert")) {
        vocabulary->model = VOCABULARY_WORD_PIECE;
        vocabulary->ids.unknown = 100;
        vocabulary->ids.bos = 101;
        vocabulary->ids.eos = 102;
        vocabulary->ids.padding = 0;
        vocabulary->rules.adds_bos = vocabulary->rules.adds_eos = true;
    } else if (text_equals_string(model, "t5")) {
        vocabulary->model = VOCABULARY_UNIGRAM;
        vocabulary->ids.unknown = 2;
        vocabulary->ids.eos = 1;
        vocabulary->ids.padding = 0;
        vocabulary->rules.adds_eos = true;
    }
    return vocabulary->model != VOCABULARY_BPE;
}

// An id of the vocabulary; *id is kept without such a key.
static enum status read_id(const struct vocabulary *vocabulary, const struct gguf *gguf, const char *key,
                           int32_t *id, struct error *error)
{
    uint32_t value;
    bool found = false;
    enum status status = gguf_u32(gguf, key, &value, &found, error);
    if (status == STATUS_OK && found && value < vocabulary->n_tokens)
        *id = (int32_t)value;
    return status;
}

enum status gguf_read_piece_ids(struct vocabulary *vocabulary, const struct gguf *gguf, struct error *error)
{
    enum status status = STATUS_OK;
    if (vocabulary->model != VOCABULARY_WORD_PIECE)
        return status;
    if (!gguf_has(gguf, "tokenizer.ggml.bos_token_id"))
        status = read_id(vocabulary, gguf, "tokenizer.ggml.cls_token_id", &vocabulary->ids.bos, error);
    return status == STATUS_OK
               ? read_id(vocabulary, gguf, "tokenizer.ggml.seperator_token_id", &vocabulary->ids.eos, error)
               : status;
}

static void add_item(struct token_template *template, int32_t text, int32_t token, int32_t type)
{
    template->items[template->n_items++] = (struct template_item){text, token, type};
}

void gguf_set_templates(struct vocabulary *vocabulary, bool twice, int32_t type)
{
    for (size_t n_texts = 1; n_texts <= 2; n_texts++) {
        struct token_template *template = &vocabulary->templates[n_texts - 1];
        if (vocabulary->rules.adds_bos)
            add_item(template, -1, vocabulary->ids.bos, 0);
        add_item(template, 0, -1, 0);
        if (vocabulary->rules.adds_eos)
            add_item(template, -1, vocabulary->ids.eos, 0);
        if (n_texts == 2 && twice)
            add_item(template, -1, vocabulary->ids.eos, 0);
        if (n_texts == 2)
            add_item(template, 1, -1, type);
        if (n_texts == 2 && vocabulary->rules.adds_eos)
            add_item(template, -1, vocabulary->ids.eos, type);
    }
}

// --- WordPiece ---

static enum status read_word_pieces(struct vocabulary *vocabulary, const struct gguf *gguf,
                                    struct error *error)
{
    const struct splitter_definition bert = {.n_stages = 1,
                                             .stages = {split_of_type(TEXT("BertPreTokenizer"), false)}};
    bool lowercase = true;
    uint32_t n_types = 2;
    enum status status = gguf_bool(gguf, "tokenizer.ggml.normalizer.lowercase", &lowercase, NULL, error);
    vocabulary->rules.assumes_case = !gguf_has(gguf, "tokenizer.ggml.normalizer.lowercase");
    bool accents = lowercase;
    if (status == STATUS_OK)
        status = gguf_bool(gguf, "tokenizer.ggml.normalizer.strip_accents", &accents, NULL, error);
    if (status == STATUS_OK)
        status = gguf_u32(gguf, "tokenizer.ggml.token_type_count", &n_types, NULL, error);
    if (status != STATUS_OK)
        return status;
    vocabulary->pieces.prefix = TEXT("\xE2\x96\x81");
    vocabulary->pieces.marks_starts = true;
    vocabulary->pieces.characters_max = WORD_CHARACTERS_MAX;
    vocabulary->normalizer.steps[0] =
        (struct normalizer_step){.kind = NORMALIZE_BERT,
                                 .options = (unsigned)BERT_CLEAN | BERT_CHINESE |
                                            (lowercase ? BERT_LOWERCASE : 0) | (accents ? BERT_ACCENTS : 0)};
    vocabulary->normalizer.n_steps = 1;
    gguf_set_templates(vocabulary, false, n_types > 1);
    return splitter_create(&vocabulary->splitter, &bert, "bert", error);
}

// --- Unigram ---

static enum status read_charsmap(const struct gguf *gguf, struct text *bytes, struct error *error)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    struct gguf_array array = {0};
    bool found = false;
    enum status status = gguf_array(gguf, key, &array, &found, error);
    if (status != STATUS_OK || !found)
        return status;
    if (array.kind != GGUF_U8 && array.kind != GGUF_I8)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s: expected an array of bytes", key);
    *bytes = (struct text){(const char *)array.data, array.n_items};
    return STATUS_OK;
}

// The user-defined pieces, which SentencePiece neither normalizes nor cuts.
static enum status keep_user_defined(const struct vocabulary *vocabulary, struct normalizer_step *step,
                                     struct error *error)
{
    step->kept = calloc(1, sizeof *step->kept);
    bool done = step->kept;
    for (size_t i = 0; done && i < vocabulary->n_tokens; i++)
        if (vocabulary->flags[i] & TOKEN_USER_DEFINED && vocabulary->flags[i] & TOKEN_OF_MODEL)
            done = special_add(step->kept, vocabulary->texts[i], (int32_t)i, false);
    return done ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the vocabulary");
}

static enum status read_scores(struct vocabulary *vocabulary, struct error *error)
{
    double *scores = arena_allocate_array(&vocabulary->arena, vocabulary->n_tokens, sizeof *scores);
    if (!scores)
        return error_memory(error, STATUS_REFUSE, "the vocabulary");
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        scores[i] = vocabulary->scores[i];
        if (!isfinite(scores[i]))
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "key tokenizer.ggml.scores: item %zu is not finite", i);
    }
    vocabulary->pieces.scores = scores;
    return STATUS_OK;
}

static enum status read_unigram(struct vocabulary *vocabulary, const struct gguf *gguf, struct error *error)
{
    struct normalizer_step *step = &vocabulary->normalizer.steps[0];
    *step = (struct normalizer_step){.kind = NORMALIZE_SENTENCEPIECE};
    vocabulary->normalizer.n_steps = 1;
    bool escapes = true;
    enum status status = gguf_bool(gguf, "tokenizer.ggml.remove_extra_whitespaces",
                                   &step->sentencepiece.removes_blanks, NULL, error);
    if (status == STATUS_OK)
        status = gguf_bool(gguf, "tokenizer.ggml.escape_whitespaces", &escapes, NULL, error);
    if (status == STATUS_OK)
        status = gguf_bool(gguf, "tokenizer.ggml.treat_whitespace_as_suffix",
                           &step->sentencepiece.blank_is_last, NULL, error);
    if (status == STATUS_OK)
        status = read_charsmap(gguf, &step->from, error);
    if (status == STATUS_OK)
        status = charsmap_open(&step->charsmap, step->from, error);
    if (status == STATUS_OK)
        status = read_scores(vocabulary, error);
    if (status == STATUS_OK)
        status = keep_user_defined(vocabulary, step, error);
    step->sentencepiece.keeps_blanks = !escapes;
    step->sentencepiece.adds_blank = vocabulary->rules.adds_space;
    vocabulary->pieces.is_sentencepiece = true;
    // XLM-R and its relatives have bos, and two eos between a pair; T5 has neither; DeBERTa has token types
    bool typed = false;
    if (status == STATUS_OK)
        status = gguf_bool(gguf, "tokenizer.huggingface.pair_types", &typed, NULL, error);
    gguf_set_templates(vocabulary, !typed && vocabulary->rules.adds_bos && vocabulary->rules.adds_eos, typed);
    return status;
}

enum status gguf_read_pieces(struct vocabulary *vocabulary, const struct gguf *gguf, size_t n_own,
                             struct error *error)
{
    int32_t unknown = vocabulary->ids.unknown;
    if (unknown < 0 || (size_t)unknown >= vocabulary->n_tokens)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "key tokenizer.ggml.unknown_token_id: missing, or not in the vocabulary");
    for (size_t i = 0; i < n_own && i < vocabulary->n_tokens; i++)
        vocabulary->flags[i] |= TOKEN_OF_MODEL;
    return (vocabulary->model == VOCABULARY_UNIGRAM ? read_unigram : read_word_pieces)(vocabulary, gguf,
                                                                                       error);
}
