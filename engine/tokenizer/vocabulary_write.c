// Writes a Hugging Face vocabulary as the keys tokenizer.ggml.*, by which other engines read GGUF files.
// Keys: github.com/ggml-org/ggml, docs/gguf.md; token types and names of split patterns:
// github.com/ggml-org/llama.cpp.
#include "engine/file/gguf.h"
#include "engine/file/gguf_write.h"
#include "engine/tokenizer/split_stage.h"
#include "engine/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#define NO_FALLBACK TEXT("byte_fallback false of the tokenizer")

static int32_t kind_of(unsigned flags)
{
    static const struct {
        enum token_flag flag;
        int32_t kind;
    } kinds[] = {
        {TOKEN_UNKNOWN, 2}, {TOKEN_CONTROL, 3}, {TOKEN_USER_DEFINED, 4}, {TOKEN_UNUSED, 5}, {TOKEN_BYTE, 6}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (flags & kinds[i].flag)
            return kinds[i].kind;
    return 1;
}

static bool out_of_memory(struct error *error)
{
    error_memory(error, STATUS_REFUSE, "the vocabulary");
    return false;
}

static bool write_tokens(const struct vocabulary *vocabulary, struct gguf_writer *keys, struct error *error)
{
    int32_t *kinds = calloc(vocabulary->n_tokens, sizeof *kinds);
    if (!kinds)
        return out_of_memory(error);
    for (size_t i = 0; i < vocabulary->n_tokens; i++)
        kinds[i] = (int32_t)i == vocabulary->ids.unknown && !vocabulary->rules.byte_level
                       ? 2
                       : kind_of(vocabulary->flags[i]);
    gguf_writer_texts(keys, "tokenizer.ggml.tokens", vocabulary->texts, vocabulary->n_tokens);
    gguf_writer_i32s(keys, "tokenizer.ggml.token_type", kinds, vocabulary->n_tokens);
    free(kinds);
    return true;
}

static bool write_merges(const struct vocabulary *vocabulary, struct gguf_writer *keys, struct error *error)
{
    struct arena arena = {0};
    struct text *merges = arena_allocate_array(&arena, vocabulary->n_merges + 1, sizeof *merges);
    for (size_t i = 0; merges && i < vocabulary->n_merges; i++) {
        const struct vocabulary_merge *merge = &vocabulary->merges[i];
        size_t size = merge->left.size + 1 + merge->right.size;
        char *joined = arena_allocate(&arena, size);
        if (!joined) {
            merges = NULL;
            break;
        }
        memcpy(joined, merge->left.data, merge->left.size);
        joined[merge->left.size] = ' ';
        memcpy(joined + merge->left.size + 1, merge->right.data, merge->right.size);
        merges[i] = (struct text){joined, size};
    }
    if (merges)
        gguf_writer_texts(keys, "tokenizer.ggml.merges", merges, vocabulary->n_merges);
    arena_finish(&arena);
    return merges || out_of_memory(error);
}

struct named {
    struct text text;
    size_t id;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *left = a, *right = b;
    size_t size = left->text.size < right->text.size ? left->text.size : right->text.size;
    int order = memcmp(left->text.data, right->text.data, size);
    return order ? order : (left->text.size > right->text.size) - (left->text.size < right->text.size);
}

// SentencePiece merges the pair whose concatenation has the highest score. A token's score is minus the rank
// of the first merge that gives it; such merge lists were originally derived from a SentencePiece model's
// scores.
static bool write_scores(const struct vocabulary *vocabulary, struct gguf_writer *keys, struct error *error)
{
    struct named *tokens = calloc(vocabulary->n_tokens, sizeof *tokens);
    float *scores = calloc(vocabulary->n_tokens, sizeof *scores);
    bool done = tokens && scores;
    for (size_t i = 0; done && i < vocabulary->n_tokens; i++)
        tokens[i] = (struct named){vocabulary->texts[i], i};
    if (done)
        qsort(tokens, vocabulary->n_tokens, sizeof *tokens, compare_named);
    for (size_t i = vocabulary->n_merges; done && i-- > 0;) {
        const struct vocabulary_merge *merge = &vocabulary->merges[i];
        char joined[2 * VOCABULARY_TOKEN_BYTES_MAX];
        memcpy(joined, merge->left.data, merge->left.size);
        memcpy(joined + merge->left.size, merge->right.data, merge->right.size);
        struct named wanted = {{joined, merge->left.size + merge->right.size}, 0};
        const struct named *found =
            bsearch(&wanted, tokens, vocabulary->n_tokens, sizeof *tokens, compare_named);
        if (found)
            scores[found->id] = -(float)(i + 1);
    }
    if (done)
        gguf_writer_f32s(keys, "tokenizer.ggml.scores", scores, vocabulary->n_tokens);
    free(tokens);
    free(scores);
    return done || out_of_memory(error);
}

static void write_id(struct gguf_writer *keys, const char *key, int32_t id)
{
    if (id >= 0)
        gguf_writer_u32(keys, key, (uint32_t)id);
}

static bool write_all(const struct vocabulary *vocabulary, struct gguf_writer *keys, struct error *error)
{
    gguf_writer_text(keys, "tokenizer.ggml.model",
                     vocabulary->rules.byte_level ? TEXT("gpt2") : TEXT("llama"));
    if (vocabulary->rules.byte_level)
        gguf_writer_text(keys, "tokenizer.ggml.pre",
                         text_from_string(splitter_traits(vocabulary->splitter)->name));
    else
        gguf_writer_text(keys, "tokenizer.ggml.pre", TEXT("default"));
    if (!write_tokens(vocabulary, keys, error) ||
        !(vocabulary->rules.byte_level ? write_merges : write_scores)(vocabulary, keys, error))
        return false;
    write_id(keys, "tokenizer.ggml.bos_token_id", vocabulary->ids.bos);
    write_id(keys, "tokenizer.ggml.eos_token_id", vocabulary->ids.eos);
    write_id(keys, "tokenizer.ggml.unknown_token_id", vocabulary->ids.unknown);
    write_id(keys, "tokenizer.ggml.padding_token_id", vocabulary->ids.padding);
    gguf_writer_bool(keys, "tokenizer.ggml.add_bos_token", vocabulary->rules.adds_bos);
    gguf_writer_bool(keys, "tokenizer.ggml.add_eos_token", vocabulary->rules.adds_eos);
    gguf_writer_bool(keys, "tokenizer.ggml.add_space_prefix", vocabulary->rules.adds_space);
    return true;
}

// A setting without a key: other engines fall back to byte tokens by their names, and normalize nothing.
static struct text ignored_setting(const struct vocabulary *vocabulary)
{
    bool has_byte_tokens = false;
    for (size_t i = 0; i < vocabulary->n_tokens && !has_byte_tokens; i++)
        has_byte_tokens = vocabulary_is_byte_token(vocabulary->texts[i]);
    if (!vocabulary->rules.byte_level && vocabulary->rules.no_byte_tokens && has_byte_tokens)
        return NO_FALLBACK;
    return vocabulary->normalizer.n_steps ? TEXT("the normalizer of tokenizer.json") : (struct text){0};
}

enum status vocabulary_write_ggml(const struct gguf *gguf, struct gguf_writer *keys,
                                  struct vocabulary_gaps *gaps, struct error *error)
{
    struct vocabulary vocabulary = {0};
    *gaps = (struct vocabulary_gaps){0};
    if (gguf_has(gguf, "tokenizer.huggingface.tekken"))
        gaps->unknown = TEXT("the ranks of tekken.json");
    if (gguf_has(gguf, "tokenizer.huggingface.byte_fallback")) // tokenizer.model
        gaps->ignored = NO_FALLBACK;
    if (!gguf_has(gguf, "tokenizer.huggingface.json") || gguf_has(gguf, "tokenizer.ggml.model"))
        return STATUS_OK;
    enum status status = vocabulary_read_json(&vocabulary, gguf, NULL, error);
    const char *name = vocabulary.splitter ? splitter_traits(vocabulary.splitter)->name : "default";
    const char *known;
    if (status == STATUS_OK && vocabulary.model != VOCABULARY_BPE)
        gaps->unknown = vocabulary.model == VOCABULARY_UNIGRAM ? TEXT("Unigram of tokenizer.json")
                                                               : TEXT("WordPiece of tokenizer.json");
    else if (status == STATUS_OK && !splitter_definition_named(text_from_string(name), &known))
        gaps->unknown = TEXT("the split pattern of tokenizer.json");
    else if (status == STATUS_OK && write_all(&vocabulary, keys, error))
        gaps->ignored = ignored_setting(&vocabulary);
    else if (status == STATUS_OK)
        status = error->status;
    vocabulary_finish(&vocabulary);
    return status;
}
