#include "consumer/command/grammar_check.h"

#include "engine/model/folder/model_folder.h"
#include "schemas/base/clock.h"

#include <stdlib.h>
#include <string.h>

// Collects the ends first, because the buffer moves while it grows.
static enum status read_tokens(struct grammar_vocabulary_of *of, size_t n, struct error *error)
{
    size_t *ends = calloc(n, sizeof *ends);
    of->tokens = calloc(n, sizeof *of->tokens);
    of->mask = calloc(grammar_mask_words(n), sizeof *of->mask);
    if (!ends || !of->tokens || !of->mask) {
        free(ends);
        return error_memory(error, STATUS_RETRY, "the vocabulary");
    }
    for (size_t id = 0; id < n; id++) {
        tokenizer_decode(of->tokenizer, (int32_t)id, false, &of->bytes);
        ends[id] = of->bytes.size;
    }
    for (size_t id = 0; id < n && !of->bytes.failed; id++) {
        size_t from = id ? ends[id - 1] : 0;
        of->tokens[id] = (struct text){of->bytes.data + from, ends[id] - from};
    }
    free(ends);
    return of->bytes.failed ? error_memory(error, STATUS_RETRY, "the vocabulary") : STATUS_OK;
}

enum status grammar_vocabulary_of_model(struct grammar_vocabulary_of *of, const char *model,
                                        struct error *error)
{
    struct gguf *gguf = NULL;
    enum status status = model_folder_open(&gguf, model, error);
    if (status == STATUS_OK)
        status = tokenizer_open(&of->tokenizer, gguf, NULL, error);
    size_t n = status == STATUS_OK ? (size_t)tokenizer_n_tokens(of->tokenizer) : 0, n_ends = 0;
    uint32_t *ends = n ? calloc(n, sizeof *ends) : NULL;
    if (status == STATUS_OK)
        status = ends ? read_tokens(of, n, error) : error_memory(error, STATUS_RETRY, "the vocabulary");
    for (size_t id = 0; id < n && ends; id++)
        if (tokenizer_ends_generation(of->tokenizer, (int32_t)id))
            ends[n_ends++] = (uint32_t)id;
    if (status == STATUS_OK)
        status = grammar_vocabulary_create(&of->vocabulary, of->tokens, n, ends, n_ends, error);
    free(ends);
    gguf_close(gguf);
    return status;
}

void grammar_vocabulary_of_finish(struct grammar_vocabulary_of *of)
{
    grammar_vocabulary_destroy(of->vocabulary);
    tokenizer_close(of->tokenizer);
    buffer_finish(&of->bytes);
    free(of->tokens);
    free(of->mask);
}

static void add_time(struct mask_times *times, int64_t ns)
{
    if (times->n == times->max) {
        size_t max = times->max ? 2 * times->max : 256;
        double *larger = realloc(times->us, max * sizeof *larger);
        if (!larger)
            return; // this time is not recorded
        times->us = larger;
        times->max = max;
    }
    times->us[times->n++] = (double)ns / 1000;
}

// Counts the token as forced if the text before it determines all of its bytes.
static enum status count_forced(struct matcher *matcher, struct text token, struct grammar_verdict *verdict,
                                struct error *error)
{
    struct buffer forced = {0};
    enum status status = matcher_forced_bytes(matcher, token.size, &forced, error);
    verdict->n_forced += status == STATUS_OK && token.size > 0 && forced.size >= token.size &&
                         memcmp(forced.data, token.data, token.size) == 0;
    buffer_finish(&forced);
    return status;
}

// *left: the text leaves the grammar within this token.
static enum status take_token(const struct grammar_vocabulary_of *of, struct matcher *matcher, uint32_t id,
                              struct text bytes, struct mask_times *times, struct grammar_verdict *verdict,
                              bool *left, struct error *error)
{
    enum status status = count_forced(matcher, bytes, verdict, error);
    if (status != STATUS_OK)
        return status;
    size_t n_accepted = 0;
    int64_t from = clock_thread_ns();
    status = matcher_mask(matcher, of->mask, error);
    bool allowed = of->mask[id / 32] >> id % 32 & 1;
    if (status == STATUS_OK)
        status = matcher_accept_bytes(matcher, bytes, &n_accepted, error);
    add_time(times, clock_thread_ns() - from);
    verdict->byte += n_accepted;
    *left = n_accepted < bytes.size;
    bool whole = bytes.size == of->tokens[id].size; // false: a first token without its blank
    if (status == STATUS_OK && whole && bytes.size && allowed == *left)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "token %u: its mask and its bytes disagree", id);
    return status;
}

enum status grammar_check(const struct grammar_vocabulary_of *of, struct recognizer *recognizer,
                          struct text text, struct mask_times *times, struct grammar_verdict *verdict,
                          struct error *error)
{
    struct token_array ids = {0};
    struct matcher matcher = {0};
    bool left = false, may_end = false;
    *verdict = (struct grammar_verdict){0};
    enum status status = tokenizer_encode(of->tokenizer, text, 0, &ids, error);
    if (status == STATUS_OK)
        status = matcher_init(&matcher, recognizer, error);
    for (size_t i = 0; status == STATUS_OK && !left && i < ids.n_ids; i++) {
        struct text bytes = of->tokens[ids.ids[i]];
        if (i == 0 && tokenizer_strips_first_space(of->tokenizer) && bytes.size && bytes.data[0] == ' ')
            bytes = (struct text){bytes.data + 1, bytes.size - 1};
        status = take_token(of, &matcher, (uint32_t)ids.ids[i], bytes, times, verdict, &left, error);
        verdict->n_tokens += status == STATUS_OK && !left;
    }
    if (status == STATUS_OK && !left)
        status = matcher_may_end(&matcher, &may_end, error);
    verdict->valid = status == STATUS_OK && !left && may_end;
    matcher_finish(&matcher);
    token_array_finish(&ids);
    return status;
}
