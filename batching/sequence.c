// The drawn tokens of a running sequence: text, logprobs, stop rules.
#include "batching/sequence.h"

#include <assert.h>
#include <stdio.h>
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

// ---- constraints ----

static bool is_mask_empty(const uint32_t *mask, int32_t n_words)
{
    uint32_t any = 0;
    for (int32_t i = 0; i < n_words; i++)
        any |= mask[i];
    return any == 0;
}

// A model without a token that ends answers ends them where the constraint leaves nothing else.
static enum status judge_dead_end(struct sequence *sequence)
{
    enum status status = matcher_may_end(&sequence->matcher, &sequence->is_complete, &sequence->matching);
    if (status != STATUS_OK || sequence->is_complete)
        return status;
    return error_set(&sequence->matching, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "the model has no token that continues the text");
}

void sequence_fill_mask(struct sequence *sequence, uint32_t *mask)
{
    const struct prompt *prompt = sequence->prompt;
    enum status status = STATUS_OK;
    if (!sequence->matcher.recognizer)
        status = matcher_init(&sequence->matcher, prompt->constraint->recognizer, &sequence->matching);
    if (status == STATUS_OK)
        status = matcher_mask(&sequence->matcher, mask, &sequence->matching);
    if (status == STATUS_OK && is_mask_empty(mask, prompt->n_mask_words))
        status = judge_dead_end(sequence);
    if (status != STATUS_OK || sequence->is_complete)
        memset(mask, 0xff, (size_t)prompt->n_mask_words * sizeof *mask); // the draw is discarded
}

static void fail_matching(struct sequence *sequence)
{
    const struct error *error = &sequence->matching;
    char text[ERROR_TEXT_BYTES];
    const struct prompt *prompt = sequence->prompt;
    const char *field = prompt->constraint ? prompt_constraint_field(prompt) : "bad_words";
    snprintf(text, sizeof text, "%.64s: %.300s", field, error->text);
    sequence_fail(sequence, error->status == STATUS_REJECT ? STATUS_REJECT : STATUS_RESTART, error->code,
                  text);
}

// The mask allowed the token, so the text goes on with it.
static bool match_token(struct sequence *sequence, int32_t token)
{
    bool accepted = true;
    if (matcher_accept_token(&sequence->matcher, (uint32_t)token, &accepted, &sequence->matching) !=
        STATUS_OK) {
        fail_matching(sequence);
        return false;
    }
    assert(accepted);
    return true;
}

void sequence_accept(struct sequence *sequence, const struct sample_result *drawn,
                     const struct tokenizer *tokenizer)
{
    const struct request *request = &sequence->prompt->job->request;
    if (drawn->token < 0) {
        sequence_fail(sequence, STATUS_REJECT, ERROR_LOGITS_NAN, "the model's logits are not numbers");
        return;
    }
    if (sequence->matching.status != STATUS_OK) {
        fail_matching(sequence);
        return;
    }
    if (sequence->is_complete) {
        sequence->finish_reason = FINISH_STOP;
        return;
    }
    bool stops = is_stop_token(request, drawn->token);
    bool ends = !request->ignore_eos && tokenizer_ends_generation(tokenizer, drawn->token);
    if (ends || (stops && !request->includes_stop)) {
        sequence->finish_reason = FINISH_STOP;
        sequence->n_end_tokens = 1;
        return;
    }
    if (sequence->prompt->constraint && !match_token(sequence, drawn->token))
        return;
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
    if (stops) {
        sequence->finish_reason = FINISH_STOP;
    } else if (stop != SIZE_MAX) {
        sequence->text.size = stop;
        sequence->finish_reason = FINISH_STOP;
    } else if (sequence->n_generated >= sequence->prompt->max_tokens) {
        sequence->finish_reason = FINISH_LENGTH;
    }
}
