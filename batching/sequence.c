// The drawn tokens of a running sequence: text, logprobs, stop rules.
#include "batching/constrained.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int32_t sequence_n_tokens(const struct sequence *sequence)
{
    return sequence->only_scores ? sequence->first_target + sequence->n_targets
                                 : (int32_t)sequence->prompt->tokens.n_ids + sequence->n_drawn;
}

int32_t sequence_token(const struct sequence *sequence, int32_t position)
{
    int32_t n_prompt = (int32_t)sequence->prompt->tokens.n_ids;
    assert(position >= 0 && position < sequence_n_tokens(sequence));
    if (position < n_prompt)
        return sequence->prompt->tokens.ids[position];
    if (sequence->only_scores)
        return sequence->targets[position - sequence->first_target - 1];
    return position - n_prompt < sequence->n_generated ? sequence->generated[position - n_prompt]
                                                       : -1 - sequence->output;
}

bool sequence_ends(const struct sequence *sequence)
{
    if (sequence->only_scores)
        return sequence->n_submitted == sequence->n_targets;
    return sequence->n_drawn > sequence->n_generated && sequence->n_drawn >= sequence->prompt->max_tokens;
}

void sequence_fail(struct sequence *sequence, enum status status, enum error_code code, const char *text)
{
    sequence->finish_reason = FINISH_ERROR;
    if (sequence->prompt->error.status == STATUS_OK)
        (void)error_set(&sequence->prompt->error, status, code, "%s", text);
}

static bool reserve_generated(struct sequence *sequence)
{
    if (sequence->n_generated < sequence->generated_capacity)
        return true;
    int32_t capacity = sequence->generated_capacity ? sequence->generated_capacity * 2 : 32;
    int32_t *generated = realloc(sequence->generated, (size_t)capacity * sizeof *generated);
    if (!generated)
        return false;
    sequence->generated = generated;
    if (sequence->prompt->job->request.sampling.logprobs) {
        struct logprob_entry *logprobs = realloc(sequence->logprobs, (size_t)capacity * sizeof *logprobs);
        if (!logprobs)
            return false;
        sequence->logprobs = logprobs;
    }
    sequence->generated_capacity = capacity;
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
    struct logprob_entry *entry = &sequence->logprobs[sequence->n_generated];
    struct token_logprob chosen = {drawn->token, drawn->logprob};
    entry->text_offset = (int32_t)sequence->text.size;
    return logprob_entry_set(entry, chosen, drawn, tokenizer, &sequence->prompt->job->arena);
}

// The text's size without the earliest stop string that ends after `from`, the length of the text at the last
// search, or with it where the request includes it; SIZE_MAX: there is none. A match may begin before `from`.
static size_t find_stop(const struct request *request, const struct buffer *text, size_t from)
{
    size_t earliest = SIZE_MAX, size = SIZE_MAX;
    for (int32_t i = 0; i < request->n_stop; i++) {
        struct text stop = request->stop[i];
        size_t start = from + 1 > stop.size ? from + 1 - stop.size : 0;
        if (start > text->size)
            continue;
        const char *found = memmem(text->data + start, text->size - start, stop.data, stop.size);
        if (!found || (size_t)(found - text->data) >= earliest)
            continue;
        earliest = (size_t)(found - text->data);
        size = earliest + (request->includes_stop ? stop.size : 0);
    }
    return size;
}

static bool is_stop_token(const struct request *request, int32_t token)
{
    for (int32_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token)
            return true;
    return false;
}

const uint32_t *sequence_allowed(const struct sequence *sequence)
{
    const struct prompt *prompt = sequence->prompt;
    bool is_early = sequence->n_drawn < prompt->job->request.min_tokens;
    return prompt->masks ? prompt->masks + (is_early ? prompt->n_mask_words : 0) : NULL;
}

void sequence_append(struct sequence *sequence, const struct sample_result *drawn,
                     const struct tokenizer *tokenizer)
{
    const struct request *request = &sequence->prompt->job->request;
    size_t size_before = sequence->text.size;
    if (!reserve_generated(sequence) ||
        (request->sampling.logprobs && !add_logprobs(sequence, drawn, tokenizer))) {
        sequence_fail(sequence, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                      "keeping the generated tokens: out of memory");
        return;
    }
    sequence->generated[sequence->n_generated++] = drawn->token;
    tokenizer_decode(tokenizer, drawn->token, false, &sequence->text);
    if (sequence->text.failed) {
        sequence_fail(sequence, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                      "keeping the generated text: out of memory");
        return;
    }
    size_t stop = sequence->n_generated > request->min_tokens
                      ? find_stop(request, &sequence->text, size_before)
                      : SIZE_MAX;
    if (is_stop_token(request, drawn->token)) {
        sequence->finish_reason = FINISH_STOP;
    } else if (stop != SIZE_MAX) {
        sequence->text.size = stop;
        sequence->finish_reason = FINISH_STOP;
    } else if (sequence->n_generated >= sequence->prompt->max_tokens) {
        sequence->finish_reason = FINISH_LENGTH;
    }
}

bool sequence_stops_before(const struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer)
{
    const struct request *request = &sequence->prompt->job->request;
    return (!request->ignore_eos && tokenizer_ends_generation(tokenizer, token)) ||
           (!request->includes_stop && is_stop_token(request, token));
}

void sequence_accept(struct sequence *sequence, const struct sample_result *drawn,
                     const struct tokenizer *tokenizer)
{
    if (drawn->token < 0) {
        sequence_fail(sequence, STATUS_REJECT, ERROR_LOGITS_NAN, "the model's logits are not numbers");
        return;
    }
    if (!constrained_check(sequence))
        return;
    if (sequence_stops_before(sequence, drawn->token, tokenizer)) {
        sequence->finish_reason = FINISH_STOP;
        sequence->n_end_tokens = 1;
        return;
    }
    if (sequence->prompt->constraint && !constrained_match(sequence, drawn->token))
        return;
    sequence_append(sequence, drawn, tokenizer);
    if (sequence->prompt->constraint)
        constrained_judge_length(sequence);
    if (sequence->prompt->constraint && sequence->finish_reason == FINISH_NONE)
        constrained_force(sequence, tokenizer);
}
