// The vocabulary: its tokens, sorted into tries, and data about them that every grammar uses.
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_tokens.h"

#include <string.h>

static int compare_tokens(const void *a, const void *b, void *context)
{
    const struct grammar_vocabulary *vocabulary = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    struct text left = vocabulary->tokens[x], right = vocabulary->tokens[y];
    size_t n = left.size < right.size ? left.size : right.size;
    int order = memcmp(left.data, right.data, n);
    if (order)
        return order;
    if (left.size != right.size)
        return left.size < right.size ? -1 : 1;
    return (x > y) - (x < y);
}

static bool is_matched(struct text token)
{
    const char *quote = token.size ? memchr(token.data, SPECIAL_QUOTE, token.size) : NULL;
    bool is_special = quote == token.data && token.size > 2 &&
                      memchr(token.data + 1, SPECIAL_QUOTE, token.size - 1) == token.data + token.size - 1;
    return token.size <= GRAMMAR_TOKEN_BYTES_MAX && (!quote || is_special);
}

static bool copy_tokens(struct grammar_vocabulary *vocabulary, const struct text *tokens)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < vocabulary->n_tokens; i++)
        n_bytes += tokens[i].size;
    vocabulary->bytes = malloc(n_bytes + 1);
    vocabulary->tokens = calloc(vocabulary->n_tokens + 1, sizeof *vocabulary->tokens);
    vocabulary->next_same = malloc((vocabulary->n_tokens + 1) * sizeof *vocabulary->next_same);
    if (!vocabulary->bytes || !vocabulary->tokens || !vocabulary->next_same)
        return false;
    char *at = vocabulary->bytes;
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        size_t size = is_matched(tokens[i]) ? tokens[i].size : 0;
        if (size)
            memcpy(at, tokens[i].data, size);
        vocabulary->tokens[i] = (struct text){at, size};
        vocabulary->next_same[i] = NO_TOKEN;
        at += size;
        if (size > vocabulary->depth_max)
            vocabulary->depth_max = (unsigned)size;
    }
    return true;
}

static bool build_trie(struct grammar_vocabulary *vocabulary)
{
    uint32_t *ids = malloc((vocabulary->n_tokens + 1) * sizeof *ids);
    if (!ids)
        return false;
    size_t n = 0, n_not_inside = 0;
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++)
        if (vocabulary->tokens[id].size)
            ids[n++] = id;
    qsort_r(ids, n, sizeof *ids, compare_tokens, vocabulary);
    bool whole = trie_build(vocabulary, ids, n, &vocabulary->all);
    whole = whole && string_tokens_create(&vocabulary->strings, vocabulary);
    whole = whole && string_tokens_divide(vocabulary->strings, vocabulary, ids, n);
    for (size_t i = 0; i < n && whole; i++)
        if (!(vocabulary->strings->all[ids[i] / 32] >> ids[i] % 32 & 1))
            ids[n_not_inside++] = ids[i];
    whole = whole && trie_build(vocabulary, ids, n_not_inside, &vocabulary->not_inside);
    free(ids);
    return whole;
}

enum status grammar_vocabulary_create(struct grammar_vocabulary **out, const struct text *tokens,
                                      size_t n_tokens, const uint32_t *ends, size_t n_ends,
                                      struct error *error)
{
    struct grammar_vocabulary *vocabulary = *out = calloc(1, sizeof *vocabulary);
    bool whole = vocabulary;
    if (whole) {
        vocabulary->n_tokens = n_tokens;
        vocabulary->ends = calloc(n_ends + 1, sizeof *ends);
        whole = vocabulary->ends && copy_tokens(vocabulary, tokens) && build_trie(vocabulary);
    }
    if (!whole) {
        grammar_vocabulary_destroy(vocabulary);
        *out = NULL;
        return error_memory(error, STATUS_RETRY, "a vocabulary of %zu tokens", n_tokens);
    }
    for (size_t i = 0; i < n_ends; i++)
        if (ends[i] < n_tokens)
            vocabulary->ends[vocabulary->n_ends++] = ends[i];
    return STATUS_OK;
}

void grammar_special_token(struct text name, struct buffer *out)
{
    buffer_add_byte(out, (char)SPECIAL_QUOTE);
    buffer_add_text(out, name);
    buffer_add_byte(out, (char)SPECIAL_QUOTE);
}

void grammar_vocabulary_destroy(struct grammar_vocabulary *vocabulary)
{
    if (!vocabulary)
        return;
    free(vocabulary->tokens);
    free(vocabulary->bytes);
    free(vocabulary->next_same);
    free(vocabulary->ends);
    string_tokens_destroy(vocabulary->strings);
    free(vocabulary->all.nodes);
    free(vocabulary->not_inside.nodes);
    free(vocabulary);
}
