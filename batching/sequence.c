// The drawn tokens of a running sequence: text, logprobs, stop rules.
#include "batching/sequence.h"

#include "batching/thinking.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int32_t sequence_n_tokens(const struct sequence *sequence)
{
    return sequence->scoring.only_scores ? sequence->scoring.first_target + sequence->scoring.n_targets
                                         : (int32_t)sequence->prompt->tokens.n_ids + sequence->answer.n_drawn;
}

int32_t sequence_token(const struct sequence *sequence, int32_t position)
{
    int32_t n_prompt = (int32_t)sequence->prompt->tokens.n_ids;
    assert(position >= 0 && position < sequence_n_tokens(sequence));
    if (position < n_prompt)
        return sequence->prompt->tokens.ids[position];
    if (sequence->scoring.only_scores)
        return sequence->scoring.targets[position - sequence->scoring.first_target - 1];
    return position - n_prompt < sequence->answer.n_generated
               ? sequence->answer.generated[position - n_prompt]
               : -1 - sequence->answer.output;
}

bool sequence_ends(const struct sequence *sequence)
{
    if (sequence->scoring.only_scores)
        return sequence->scoring.n_submitted == sequence->scoring.n_targets;
    return sequence->answer.n_drawn > sequence->answer.n_generated &&
           sequence->answer.n_drawn >= sequence->prompt->max_tokens;
}

void sequence_fail(struct sequence *sequence, enum status status, enum error_code code, const char *text)
{
    sequence->answer.finish_reason = FINISH_ERROR;
    if (sequence->prompt->error.status == STATUS_OK)
        (void)error_set(&sequence->prompt->error, status, code, "%s", text);
}

bool sequence_reserve(struct sequence *sequence, int32_t n)
{
    int32_t capacity = sequence->answer.generated_capacity;
    if (n <= capacity - sequence->answer.n_generated)
        return true;
    capacity = capacity ? capacity * 2 : 32;
    if (capacity - sequence->answer.n_generated < n)
        capacity = sequence->answer.n_generated + n;
    int32_t *generated = realloc(sequence->answer.generated, (size_t)capacity * sizeof *generated);
    if (!generated)
        return false;
    sequence->answer.generated = generated;
    if (sequence->prompt->job->request.sampling.logprobs) {
        struct logprob_entry *logprobs =
            realloc(sequence->answer.logprobs, (size_t)capacity * sizeof *logprobs);
        if (!logprobs)
            return false;
        sequence->answer.logprobs = logprobs;
    }
    sequence->answer.generated_capacity = capacity;
    return true;
}

static bool token_bytes(struct arena *arena, const struct tokenizer *tokenizer, int32_t token,
                        struct text *bytes)
{
    struct buffer buffer = {0};
    tokenizer_decode(tokenizer, token, true, &buffer);
    char *copy = arena_copy(arena, buffer.data, buffer.size);
    *bytes = (struct text){copy, buffer.size};
    bool complete = copy && !buffer.failed;
    buffer_finish(&buffer);
    return complete;
}

bool logprob_entry_set(struct logprob_entry *entry, struct token_logprob chosen,
                       const struct sample_result *drawn, const struct tokenizer *tokenizer,
                       struct arena *arena)
{
    *entry =
        (struct logprob_entry){.chosen = chosen, .n_top = drawn->n_top, .text_offset = entry->text_offset};
    if (!token_bytes(arena, tokenizer, chosen.token, &entry->chosen_bytes))
        return false;
    if (drawn->n_top == 0)
        return true;
    entry->top = arena_allocate_array(arena, (size_t)drawn->n_top, sizeof *entry->top);
    entry->top_bytes = arena_allocate_array(arena, (size_t)drawn->n_top, sizeof *entry->top_bytes);
    if (!entry->top || !entry->top_bytes)
        return false;
    for (int32_t i = 0; i < drawn->n_top; i++) {
        entry->top[i] = drawn->top[i];
        if (!token_bytes(arena, tokenizer, drawn->top[i].token, &entry->top_bytes[i]))
            return false;
    }
    return true;
}

void logprob_entries_limit(struct logprob_entry *entries, size_t n, int32_t n_top)
{
    for (size_t i = 0; i < n; i++)
        entries[i].n_top = entries[i].n_top < n_top ? entries[i].n_top : n_top;
}

static bool add_logprobs(struct sequence *sequence, const struct sample_result *drawn,
                         const struct tokenizer *tokenizer)
{
    struct logprob_entry *entry = &sequence->answer.logprobs[sequence->answer.n_generated];
    struct token_logprob chosen = {drawn->token, drawn->logprob};
    entry->text_offset = (int32_t)sequence->answer.text.size;
    return logprob_entry_set(entry, chosen, drawn, tokenizer, &sequence->prompt->job->arena);
}

// Searches for the earliest stop string that ends after `from`, the text's length at the last search; a match
// may begin before `from`. Returns the text's size without the stop string, or with it if the request
// includes it. SIZE_MAX: none.
static size_t find_stop(const struct request *request, const struct buffer *text, size_t from)
{
    size_t earliest = SIZE_MAX, size = SIZE_MAX;
    for (int32_t i = 0; i < request->stop.n_strings; i++) {
        struct text stop = request->stop.strings[i];
        size_t start = from + 1 > stop.size ? from + 1 - stop.size : 0;
        if (start > text->size)
            continue;
        const char *found = memmem(text->data + start, text->size - start, stop.data, stop.size);
        if (!found || (size_t)(found - text->data) >= earliest)
            continue;
        earliest = (size_t)(found - text->data);
        size = earliest + (request->stop.is_included ? stop.size : 0);
    }
    return size;
}

// The size of the longest end of the text that is the beginning of the stop string.
static size_t begun_size(struct text stop, const struct buffer *text)
{
    size_t n = stop.size - 1 < text->size ? stop.size - 1 : text->size;
    while (n > 0 && memcmp(text->data + text->size - n, stop.data, n) != 0)
        n--;
    return n;
}

size_t sequence_settled_size(const struct sequence *sequence)
{
    const struct request *request = &sequence->prompt->job->request;
    const struct buffer *text = &sequence->answer.text;
    size_t n_begun = 0;
    for (int32_t i = 0; i < request->stop.n_strings; i++) {
        size_t n = begun_size(request->stop.strings[i], text);
        n_begun = n > n_begun ? n : n_begun;
    }
    return utf8_complete_prefix(text->data, text->size - n_begun);
}

static bool is_stop_token(const struct request *request, int32_t token)
{
    for (int32_t i = 0; i < request->stop.n_tokens; i++)
        if (request->stop.tokens[i] == token)
            return true;
    return false;
}

const uint32_t *sequence_allowed(const struct sequence *sequence, int32_t index)
{
    const struct prompt *prompt = sequence->prompt;
    bool is_early = index < prompt->job->request.stop.min_tokens;
    return prompt->vocabulary.masks
               ? prompt->vocabulary.masks + (is_early ? prompt->vocabulary.n_mask_words : 0)
               : prompt->vocabulary.sampled;
}

void sequence_append(struct sequence *sequence, const struct sample_result *drawn,
                     const struct tokenizer *tokenizer)
{
    const struct request *request = &sequence->prompt->job->request;
    size_t size_before = sequence->answer.text.size;
    if (!sequence_reserve(sequence, 1) ||
        (request->sampling.logprobs && !add_logprobs(sequence, drawn, tokenizer))) {
        sequence_fail(sequence, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                      "keeping the generated tokens: out of memory");
        return;
    }
    sequence->answer.generated[sequence->answer.n_generated++] = drawn->token;
    tokenizer_decode(tokenizer, drawn->token, false, &sequence->answer.text);
    thinking_note_token(sequence, drawn->token, tokenizer);
    if (sequence->answer.text.failed || sequence->thoughts.scan.text.failed) {
        sequence_fail(sequence, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                      "keeping the generated text: out of memory");
        return;
    }
    size_t stop = sequence->answer.n_generated > request->stop.min_tokens
                      ? find_stop(request, &sequence->answer.text, size_before)
                      : SIZE_MAX;
    if (is_stop_token(request, drawn->token)) {
        sequence->answer.finish_reason = FINISH_STOP;
    } else if (stop != SIZE_MAX) {
        sequence->answer.text.size = stop;
        sequence->answer.finish_reason = FINISH_STOP;
    } else if (sequence->answer.n_generated >= sequence->prompt->max_tokens) {
        sequence->answer.finish_reason = FINISH_LENGTH;
    }
}

bool sequence_stops_before(const struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer)
{
    const struct request *request = &sequence->prompt->job->request;
    return (!request->stop.ignore_eos && tokenizer_ends_generation(tokenizer, token)) ||
           (!request->stop.is_included && is_stop_token(request, token));
}
