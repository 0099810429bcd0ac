#include "batching/bad_words.h"

#include <string.h>

// prompt->bad_words holds each word's number of tokens, then its tokens.
static enum status add_word(struct prompt *prompt, const struct tokenizer *tokenizer, struct text word)
{
    struct token_array *words = &prompt->vocabulary.bad_words;
    size_t length = words->n_ids;
    token_array_add(words, 0);
    if (words->failed)
        return STATUS_RETRY;
    enum status status = tokenizer_encode(tokenizer, word, TOKENIZER_CONTINUES, words, &prompt->error);
    if (status != STATUS_OK)
        return status;
    words->ids[length] = (int32_t)(words->n_ids - length - 1);
    return STATUS_OK;
}

static enum status add_both(struct prompt *prompt, const struct tokenizer *tokenizer, struct text word)
{
    struct buffer blank = {0};
    word = text_trim_start(word);
    buffer_add_byte(&blank, ' ');
    buffer_add_text(&blank, word);
    size_t length = prompt->vocabulary.bad_words.n_ids;
    enum status status = blank.failed ? STATUS_RETRY : add_word(prompt, tokenizer, word);
    // Also forbids the word with a leading blank, unless the vocabulary cannot spell the word: then the
    // second sequence would forbid the blank alone.
    if (status == STATUS_OK && (word.size == 0 || prompt->vocabulary.bad_words.ids[length] > 0))
        status = add_word(prompt, tokenizer, (struct text){blank.data, blank.size});
    buffer_finish(&blank);
    return status;
}

enum status bad_words_prepare(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    for (int32_t i = 0; i < request->vocabulary.n_bad_words; i++) {
        enum status status = add_both(prompt, environment->tokenizer, request->vocabulary.bad_words[i]);
        if (status == STATUS_REJECT)
            return status;
        if (status != STATUS_OK)
            return error_memory(&prompt->error, STATUS_RESTART, "tokenizing the bad words");
    }
    if (request->vocabulary.n_bad_words)
        prompt->vocabulary.n_mask_words = token_mask_words(environment->limits.n_vocab);
    return STATUS_OK;
}

static bool ends_with(const struct sequence *sequence, const int32_t *tokens, int32_t n)
{
    const int32_t *end = sequence->answer.generated + sequence->answer.n_generated;
    return n == 0 ||
           (sequence->answer.n_generated >= n && memcmp(end - n, tokens, (size_t)n * sizeof *tokens) == 0);
}

void bad_words_fill_mask(struct sequence *sequence, const uint32_t *base, uint32_t *mask)
{
    const struct prompt *prompt = sequence->prompt;
    size_t mask_bytes = (size_t)prompt->vocabulary.n_mask_words * sizeof *mask, n;
    if (base)
        memcpy(mask, base, mask_bytes);
    else
        memset(mask, 0xff, mask_bytes);
    for (size_t i = 0; i < prompt->vocabulary.bad_words.n_ids; i += n + 1) {
        const int32_t *word = prompt->vocabulary.bad_words.ids + i + 1;
        n = (size_t)word[-1];
        if (n > 0 && ends_with(sequence, word, (int32_t)n - 1))
            mask[word[n - 1] / 32] &= ~(UINT32_C(1) << word[n - 1] % 32);
    }
    uint32_t any = 0;
    for (int32_t i = 0; i < prompt->vocabulary.n_mask_words; i++)
        any |= mask[i];
    if (any)
        return;
    (void)error_set(&sequence->constrained.error, STATUS_REJECT, ERROR_INVALID_FIELD,
                    "none of the allowed tokens is left to go on with");
    memset(mask, 0xff, mask_bytes); // the draw is discarded
}
