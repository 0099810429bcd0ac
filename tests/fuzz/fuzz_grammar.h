// Shared code of the grammars' fuzz targets. Input: the source, then perhaps a NUL byte and a text. Whatever
// they are: the same result twice, errors of one line, masks that agree with tokens tried one by one, no
// allowed byte that leads nowhere, an end within the tokens that are said to be enough.
#pragma once

#include "engine/grammar/grammar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/matcher_copy.h"

#include <stdlib.h>
#include <string.h>

typedef enum status grammar_compile_function(struct grammar **, struct text, const struct grammar_limits *,
                                             struct error *);

enum { FUZZ_TOKENS = 16, FUZZ_TEXT_MAX = 32 };

static inline void fuzz_check_error(const struct error *error)
{
    fuzz_check(error->status == STATUS_REJECT && error->code > ERROR_NONE && error->code < ERROR_CODE_COUNT);
    fuzz_check(error->text[0] && utf8_valid(error->text, strlen(error->text)) && !strchr(error->text, '\n'));
}

// Small limits: a fuzzer looks for faults, not for time.
static inline struct grammar_limits fuzz_limits(void)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_NODES] = 20000;
    limits.values[GRAMMAR_LIMIT_WORK] = 100000;
    limits.values[GRAMMAR_LIMIT_SEARCH] = 500;
    limits.values[GRAMMAR_LIMIT_STATE_ITEMS] = 500;
    limits.values[GRAMMAR_LIMIT_STATE_TERMS] = 500;
    limits.values[GRAMMAR_LIMIT_MASK_SETS] = 500;
    limits.values[GRAMMAR_LIMIT_FIRST_WORK] = 40000;
    limits.values[GRAMMAR_LIMIT_MASK_WORK] = 20000;
    return limits;
}

static inline void fuzz_check_mask(struct matcher *matcher)
{
    uint32_t mask = 0;
    struct error error = {0};
    if (matcher_mask(matcher, &mask, &error) != STATUS_OK) {
        fuzz_check_error(&error);
        return;
    }
    for (uint32_t token = 0; token < FUZZ_TOKENS; token++) {
        struct matcher copy;
        bool accepted;
        fuzz_check(matcher_copy(&copy, matcher));
        enum status status = matcher_accept_token(&copy, token, &accepted, &error);
        fuzz_check(status == STATUS_OK && accepted == (mask >> token & 1));
        matcher_finish(&copy);
    }
}

// With just enough tokens left one may follow, or the end, and behind each there are enough.
static inline void fuzz_check_closing(struct matcher *matcher)
{
    uint32_t mask = 0, n_left;
    struct error error = {0};
    if (matcher_tokens_to_end(matcher, &n_left, &error) != STATUS_OK) {
        fuzz_check_error(&error);
        return;
    }
    if (n_left == UINT32_MAX)
        return;
    bool may_end;
    fuzz_check(matcher_may_end(matcher, &may_end, &error) == STATUS_OK && may_end == (n_left == 0));
    if (matcher_mask_within(matcher, n_left, &mask, &error) != STATUS_OK) {
        fuzz_check_error(&error);
        return;
    }
    fuzz_check(n_left == 0 || mask);
    for (uint32_t token = 2; token < FUZZ_TOKENS;
         token++) { // neither of the empty ones, of which one is the end
        struct matcher copy;
        bool accepted;
        uint32_t n_left_after;
        if (n_left == 0 || !(mask >> token & 1))
            continue;
        fuzz_check(matcher_copy(&copy, matcher));
        fuzz_check(matcher_accept_token(&copy, token, &accepted, &error) == STATUS_OK && accepted);
        if (matcher_tokens_to_end(&copy, &n_left_after, &error) == STATUS_OK)
            fuzz_check(n_left_after < n_left);
        matcher_finish(&copy);
    }
}

// Reads the text byte by byte as far as it fits; returns how far, or -1 at a limit.
static inline int fuzz_match(struct recognizer *recognizer, struct text text, bool masks)
{
    struct matcher matcher;
    struct error error = {0};
    size_t n_accepted = 1;
    int n = 0;
    enum status status = matcher_init(&matcher, recognizer, &error);
    for (size_t i = 0; status == STATUS_OK && n_accepted == 1 && i < text.size && i < FUZZ_TEXT_MAX; i++) {
        if (masks) {
            fuzz_check_mask(&matcher);
            fuzz_check_closing(&matcher);
        }
        status = matcher_accept_bytes(&matcher, (struct text){text.data + i, 1}, &n_accepted, &error);
        n += status == STATUS_OK && n_accepted == 1;
    }
    if (status != STATUS_OK)
        fuzz_check_error(&error);
    matcher_finish(&matcher);
    return status == STATUS_OK ? n : -1;
}

static inline void fuzz_recognize(const struct grammar *grammar, struct text text)
{
    static const char tokens[FUZZ_TOKENS][4] = {"",     "",     "a", "b",  " ",  "\"", "\\",       "ab",
                                                "\xC3", "\xA9", "0", "\n", "aa", "/*", "\xE2\x82", "x1"};
    struct text texts[FUZZ_TOKENS];
    struct grammar_vocabulary *vocabulary;
    struct recognizer *recognizer;
    struct error error = {0};
    for (int i = 0; i < FUZZ_TOKENS; i++)
        texts[i] = text_from_string(tokens[i]);
    fuzz_check(grammar_vocabulary_create(&vocabulary, texts, FUZZ_TOKENS, &(uint32_t){1}, 1, &error) ==
               STATUS_OK);
    if (recognizer_create(&recognizer, grammar, vocabulary, &error) == STATUS_OK) {
        int first = fuzz_match(recognizer, text, false);
        fuzz_check(fuzz_match(recognizer, text, true) == first); // whatever was asked meanwhile
        recognizer_destroy(recognizer);
    } else {
        fuzz_check_error(&error);
    }
    grammar_vocabulary_destroy(vocabulary);
}

static inline int fuzz_grammar(grammar_compile_function *compile, const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    struct text source = {(const char *)data, end ? (size_t)(end - data) : size}, text = {0};
    if (end)
        text = (struct text){(const char *)end + 1, size - source.size - 1};
    struct grammar_limits limits = fuzz_limits();
    struct grammar *grammar, *again;
    struct error error = {0}, again_error = {0};
    enum status status = compile(&grammar, source, &limits, &error);
    fuzz_check(compile(&again, source, &limits, &again_error) == status);
    if (status == STATUS_OK) {
        fuzz_recognize(grammar, text);
    } else {
        fuzz_check_error(&error);
        fuzz_check(strcmp(error.text, again_error.text) == 0 && !grammar);
    }
    grammar_destroy(grammar);
    grammar_destroy(again);
    return 0;
}
