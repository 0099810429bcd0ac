// The vocabulary of constraints: a trie of the tokenizer's texts. Thread: one of constraint_threads.h.
#include "batching/constraint.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int order = n ? memcmp(x->data, y->data, n) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

bool constraint_cache_is_special(const void *context, struct text name)
{
    const struct constraint_cache *cache = context;
    return cache->n_specials &&
           bsearch(&name, cache->specials, cache->n_specials, sizeof *cache->specials, compare_names);
}

static bool collect_specials(struct constraint_cache *cache)
{
    size_t n = 0;
    for (int32_t id = 0; id < cache->n_vocab; id++)
        n += tokenizer_is_control(cache->tokenizer, id);
    cache->specials = calloc(n + 1, sizeof *cache->specials);
    for (int32_t id = 0; id < cache->n_vocab && cache->specials; id++)
        if (tokenizer_is_control(cache->tokenizer, id))
            cache->specials[cache->n_specials++] = tokenizer_token_text(cache->tokenizer, id);
    if (n && cache->specials)
        qsort(cache->specials, n, sizeof *cache->specials, compare_names);
    return cache->specials != NULL;
}

static bool is_suppressed(const struct tokenizer *tokenizer, int32_t token)
{
    size_t n;
    const int32_t *ids = tokenizer_suppressed(tokenizer, &n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] == token)
            return true;
    return false;
}

// Tokens that the model must not sample have no text: no constraint allows them.
void constraint_vocabulary_make(struct constraint_cache *cache)
{
    struct error *error = &cache->making.error;
    size_t n = (size_t)cache->n_vocab, n_ends = 0;
    struct text *tokens = calloc(n, sizeof *tokens);
    size_t *starts = calloc(n + 1, sizeof *starts);
    uint32_t *ends = calloc(n, sizeof *ends);
    struct buffer bytes = {0};
    for (size_t i = 0; i < n && starts && ends; i++) {
        starts[i + 1] = bytes.size;
        if (is_suppressed(cache->tokenizer, (int32_t)i))
            continue;
        if (tokenizer_is_control(cache->tokenizer, (int32_t)i))
            grammar_special_token(tokenizer_token_text(cache->tokenizer, (int32_t)i), &bytes);
        else
            tokenizer_decode(cache->tokenizer, (int32_t)i, false, &bytes);
        starts[i + 1] = bytes.size;
        if (tokenizer_ends_generation(cache->tokenizer, (int32_t)i))
            ends[n_ends++] = (uint32_t)i;
    }
    for (size_t i = 0; i < n && tokens && starts; i++)
        tokens[i] = (struct text){bytes.data + starts[i], starts[i + 1] - starts[i]};
    enum status status = tokens && starts && ends && !bytes.failed && collect_specials(cache)
                             ? grammar_vocabulary_create(&cache->vocabulary, tokens, n, ends, n_ends, error)
                             : error_memory(error, STATUS_RETRY, "the vocabulary of constraints");
    buffer_finish(&bytes);
    free(ends);
    free(starts);
    free(tokens);
    if (status != STATUS_OK)
        constraint_vocabulary_finish(cache);
}

void constraint_vocabulary_finish(struct constraint_cache *cache)
{
    grammar_vocabulary_destroy(cache->vocabulary);
    free(cache->specials);
    cache->vocabulary = NULL;
    cache->specials = NULL;
    cache->n_specials = 0;
}
