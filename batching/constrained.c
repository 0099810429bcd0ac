#include "batching/constrained.h"

#include "batching/thinking.h"

#include "engine/grammar/rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- masks ----

static bool is_mask_empty(const uint32_t *mask, int32_t n_words)
{
    int32_t i = 0;
    while (i < n_words && mask[i] == 0)
        i++;
    return i == n_words;
}

// Called when the mask is empty. If the model has no end token, the answer ends where the constraint allows
// no other token.
static enum status judge_dead_end(struct sequence *sequence)
{
    enum status status = matcher_may_end(&sequence->constrained.matcher, &sequence->constrained.is_complete,
                                         &sequence->constrained.error);
    if (status != STATUS_OK || sequence->constrained.is_complete)
        return status;
    return error_set(&sequence->constrained.error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "the model has no token that continues the text");
}

static enum status start_matcher(struct sequence *sequence)
{
    return sequence->constrained.matcher.recognizer
               ? STATUS_OK
               : matcher_init(&sequence->constrained.matcher, sequence->prompt->rules.constraint->recognizer,
                              &sequence->constrained.error);
}

// Computes the mask of the answer's token n_generated, the next token that the matcher reads.
static enum status find_mask(struct sequence *sequence, int32_t n_generated, uint32_t *mask,
                             struct error *error)
{
    struct matcher *matcher = &sequence->constrained.matcher;
    const struct prompt *prompt = sequence->prompt;
    return prompt->job->request.constraint.closes
               ? matcher_mask_within(matcher, (uint32_t)(prompt->max_tokens - n_generated), mask, error)
               : matcher_mask(matcher, mask, error);
}

void constrained_fill_mask(struct sequence *sequence, uint32_t *mask)
{
    const struct prompt *prompt = sequence->prompt;
    enum status status = start_matcher(sequence);
    if (status == STATUS_OK)
        status = find_mask(sequence, sequence->answer.n_generated, mask, &sequence->constrained.error);
    if (status == STATUS_OK && is_mask_empty(mask, prompt->vocabulary.n_mask_words))
        status = judge_dead_end(sequence);
    if (status != STATUS_OK || sequence->constrained.is_complete)
        memset(mask, 0xff, (size_t)prompt->vocabulary.n_mask_words * sizeof *mask); // the draw is discarded
}

// ---- drawn tokens ----

static void fail_matching(struct sequence *sequence)
{
    const struct error *error = &sequence->constrained.error;
    char text[ERROR_TEXT_BYTES];
    const struct prompt *prompt = sequence->prompt;
    const char *field = prompt->rules.constraint ? prompt_constraint_field(prompt) : "bad_words";
    snprintf(text, sizeof text, "%.64s: %.300s", field, error->text);
    sequence_fail(sequence, error->status == STATUS_REJECT ? STATUS_REJECT : STATUS_RESTART, error->code,
                  text);
}

// Returns false if the sequence takes no further token, because its mask failed or nothing can follow; then
// finish_reason is set. Sequences without a constraint call it too.
static bool may_continue(struct sequence *sequence)
{
    if (sequence->constrained.error.status != STATUS_OK)
        fail_matching(sequence);
    else if (sequence->constrained.is_complete)
        sequence->answer.finish_reason = FINISH_STOP;
    return sequence->answer.finish_reason == FINISH_NONE;
}

// Advances the matcher by a drawn token, which the mask allowed. False: matching failed, finish_reason is
// set.
static bool match_token(struct sequence *sequence, int32_t token)
{
    bool accepted = true;
    if (matcher_accept_token(&sequence->constrained.matcher, (uint32_t)token, &accepted,
                             &sequence->constrained.error) != STATUS_OK) {
        fail_matching(sequence);
        return false;
    }
    assert(accepted);
    return true;
}

// Called when an answer has used up max_tokens. It ended by itself if nothing can follow. With
// close_at_max_tokens it ended by itself if it is complete.
static void judge_length(struct sequence *sequence)
{
    const struct constraint *constraint = &sequence->prompt->job->request.constraint;
    bool is_complete = false;
    if (sequence->answer.finish_reason != FINISH_LENGTH || constraint->kind == CONSTRAINT_NONE)
        return; // tool calls are judged where they are parsed
    enum status status =
        constraint->closes
            ? matcher_may_end(&sequence->constrained.matcher, &is_complete, &sequence->constrained.error)
            : matcher_must_end(&sequence->constrained.matcher, &is_complete, &sequence->constrained.error);
    if (status != STATUS_OK)
        fail_matching(sequence);
    else if (is_complete)
        sequence->answer.finish_reason = FINISH_STOP;
}

// ---- forced tokens ----

// Tokens of the forced bytes, and scratch memory to find them.
struct forcing {
    struct buffer bytes;
    struct token_array tokens, others;
    size_t n_common; // leading tokens that all tokenizations have in common
    int32_t likely;  // if n_common is 0: the first token of the forced bytes; -1: none
    bool is_cut;     // a special token follows, so a token boundary is certain at the end of the bytes
};

static void forcing_finish(struct forcing *forcing)
{
    buffer_finish(&forcing->bytes);
    token_array_finish(&forcing->tokens);
    token_array_finish(&forcing->others);
}

// Cuts the bytes at a special token, which is drawn instead: the tokenizer reads no bytes for it.
static void cut_at_special(struct forcing *forcing)
{
    const char *found =
        forcing->bytes.size ? memchr(forcing->bytes.data, SPECIAL_QUOTE, forcing->bytes.size) : NULL;
    forcing->is_cut = found != NULL;
    if (found)
        forcing->bytes.size = (size_t)(found - forcing->bytes.data);
}

static enum status tokenize_text(const struct tokenizer *tokenizer, struct text text,
                                 struct token_array *tokens, struct error *error)
{
    tokens->n_ids = 0;
    enum status status = tokenizer_encode(tokenizer, text, TOKENIZER_CONTINUES, tokens, error);
    if (status == STATUS_OK && tokens->failed)
        status = error_memory(error, STATUS_RETRY, "forced tokens");
    return status;
}

// Reduces n_common to the leading tokens that a tokenization of the first `size` bytes has too.
static enum status compare_up_to(struct forcing *forcing, size_t size, const struct tokenizer *tokenizer,
                                 struct error *error)
{
    enum status status =
        tokenize_text(tokenizer, (struct text){forcing->bytes.data, size}, &forcing->others, error);
    size_t n = 0;
    while (n < forcing->n_common && n < forcing->others.n_ids &&
           forcing->tokens.ids[n] == forcing->others.ids[n])
        n++;
    forcing->n_common = n;
    return status;
}

static enum status find_tokens(struct forcing *forcing, struct matcher *matcher,
                               const struct tokenizer *tokenizer, struct error *error)
{
    enum status status = matcher_forced_bytes(matcher, FORCED_BYTES_MAX, &forcing->bytes, error);
    cut_at_special(forcing);
    struct text bytes = {forcing->bytes.data, forcing->bytes.size};
    size_t place = bytes.size;
    if (status == STATUS_OK && !forcing->is_cut && bytes.size)
        status = matcher_safe_size(matcher, bytes, 0, &place, error);
    if (status == STATUS_OK)
        status = tokenize_text(tokenizer, bytes, &forcing->tokens, error);
    forcing->n_common = forcing->tokens.n_ids;
    while (status == STATUS_OK && place < bytes.size && forcing->n_common) {
        status = compare_up_to(forcing, place, tokenizer, error);
        if (status == STATUS_OK)
            status = matcher_safe_size(matcher, bytes, place + 1, &place, error);
    }
    forcing->likely = forcing->n_common == 0 && forcing->tokens.n_ids ? forcing->tokens.ids[0] : -1;
    return status;
}

// find_tokens with a cache by the constraint's state (forced_runs.h).
static enum status recall_tokens(struct forcing *forcing, struct sequence *sequence,
                                 const struct tokenizer *tokenizer, struct error *error)
{
    struct forced_runs *runs = &sequence->prompt->rules.constraint->forced;
    uint64_t generation;
    uint32_t state;
    enum status status = matcher_find_state(&sequence->constrained.matcher, &state, &generation, error);
    const struct forced_run *run = status == STATUS_OK ? forced_runs_find(runs, generation, state) : NULL;
    if (!run) {
        if (status == STATUS_OK)
            status = find_tokens(forcing, &sequence->constrained.matcher, tokenizer, error);
        if (status == STATUS_OK)
            status = matcher_find_state(&sequence->constrained.matcher, &state, &generation, error);
        if (status == STATUS_OK && generation == runs->generation)
            forced_runs_add(runs, state, (struct text){forcing->bytes.data, forcing->bytes.size},
                            forcing->tokens.ids, forcing->n_common, forcing->likely);
        return status;
    }
    buffer_add(&forcing->bytes, run->bytes.data, run->bytes.size);
    for (size_t i = 0; i < run->tokens.n_ids; i++)
        token_array_add(&forcing->tokens, run->tokens.ids[i]);
    forcing->n_common = forcing->tokens.n_ids;
    forcing->likely = run->likely;
    return forcing->bytes.failed || forcing->tokens.failed
               ? error_memory(error, STATUS_RETRY, "forced tokens")
               : STATUS_OK;
}

// True if the token spells the bytes at *at, which then moves past it. Some tokenizers change the text.
static bool token_spells(const struct tokenizer *tokenizer, int32_t token, struct text bytes, size_t *at)
{
    struct buffer spelt = {0};
    tokenizer_decode(tokenizer, token, false, &spelt);
    bool matches = !spelt.failed && spelt.size && spelt.size <= bytes.size - *at &&
                   memcmp(bytes.data + *at, spelt.data, spelt.size) == 0;
    *at += matches ? spelt.size : 0;
    buffer_finish(&spelt);
    return matches;
}

static bool append_forced(struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer)
{
    bool accepted = !sequence->prompt->rules.constraint;
    if (!accepted && matcher_accept_token(&sequence->constrained.matcher, (uint32_t)token, &accepted,
                                          &sequence->constrained.error) != STATUS_OK)
        fail_matching(sequence);
    if (!accepted)
        return false; // longer than the tokens in the vocabulary's trie
    bool has_top = sequence->prompt->job->request.sampling.top_logprobs > 0;
    struct sample_result forced = {.token = token, .n_top = has_top, .top = {{token, 0.0f}}};
    sequence->answer.n_drawn++;
    sequence->answer.n_forced++;
    sequence_append(sequence, &forced, tokenizer);
    if (sequence->prompt->rules.constraint)
        judge_length(sequence);
    return sequence->answer.finish_reason == FINISH_NONE;
}

// With close_at_max_tokens: removes forced tokens from the end until the answer can still close within
// max_tokens. The tokenizer may need more tokens for the same bytes than the limit assumed. Tries the longest
// run first: the answer may be complete at its end, although the cost in its middle is too high.
static enum status keep_closing(struct sequence *sequence, struct forcing *forcing,
                                const struct tokenizer *tokenizer)
{
    const struct prompt *prompt = sequence->prompt;
    for (; forcing->n_common; forcing->n_common--) {
        size_t n = forcing->n_common, at = 0;
        struct text bytes = {forcing->bytes.data, forcing->bytes.size};
        for (size_t i = 0; i < n; i++)
            if (!token_spells(tokenizer, forcing->tokens.ids[i], bytes, &at))
                break;
        uint32_t n_after;
        bytes.size = at;
        enum status status = matcher_tokens_after(&sequence->constrained.matcher, bytes, &n_after,
                                                  &sequence->constrained.error);
        if (status != STATUS_OK ||
            (uint64_t)sequence->answer.n_generated + n + n_after <= (uint64_t)prompt->max_tokens)
            return status;
    }
    return STATUS_OK;
}

// False: nothing more is forced, or the answer has ended.
static bool force_more(struct sequence *sequence, const struct tokenizer *tokenizer)
{
    struct forcing forcing = {0};
    size_t at = 0, n = 0;
    enum status status = recall_tokens(&forcing, sequence, tokenizer, &sequence->constrained.error);
    if (status == STATUS_OK && sequence->prompt->job->request.constraint.closes)
        status = keep_closing(sequence, &forcing, tokenizer);
    if (status != STATUS_OK) {
        fail_matching(sequence);
        forcing.n_common = 0;
    }
    for (; n < forcing.n_common; n++) {
        int32_t token = forcing.tokens.ids[n];
        if (sequence_stops_before(sequence, token, tokenizer) ||
            !token_spells(tokenizer, token, (struct text){forcing.bytes.data, forcing.bytes.size}, &at) ||
            !append_forced(sequence, token, tokenizer))
            break;
    }
    bool goes_on = n > 0 && n == forcing.n_common && sequence->answer.finish_reason == FINISH_NONE;
    forcing_finish(&forcing);
    return goes_on;
}

static void end_where_nothing_follows(struct sequence *sequence)
{
    bool must_end = false;
    if (matcher_must_end(&sequence->constrained.matcher, &must_end, &sequence->constrained.error) !=
        STATUS_OK)
        fail_matching(sequence);
    sequence->answer.n_end_tokens = must_end;
    sequence->answer.n_forced += must_end;
    if (must_end)
        sequence->answer.finish_reason = FINISH_STOP;
}

// *fits: the constraint allows the tokens, and with close_at_max_tokens they leave room for the shortest answer.
static enum status judge_closing(struct sequence *sequence, const struct token_array *tokens, bool *fits)
{
    struct matcher *matcher = &sequence->constrained.matcher;
    struct error *error = &sequence->constrained.error;
    uint32_t n_after = 0;
    *fits = true;
    if (!sequence->prompt->rules.constraint)
        return STATUS_OK;
    struct matcher_mark mark = matcher_set_mark(matcher);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < tokens->n_ids && *fits && status == STATUS_OK; i++)
        status = matcher_accept_token(matcher, (uint32_t)tokens->ids[i], fits, error);
    bool closes = sequence->prompt->job->request.constraint.closes;
    if (status == STATUS_OK && *fits && closes)
        status = matcher_tokens_to_end(matcher, &n_after, error);
    matcher_rewind(matcher, &mark);
    uint64_t n_needed = (uint64_t)sequence->answer.n_generated + tokens->n_ids + n_after;
    *fits = *fits && (!closes || n_needed <= (uint64_t)sequence->prompt->max_tokens);
    return status;
}

// Closes a thought that has used up its budget. False: no token is forced, or the answer has ended.
static bool close_thought(struct sequence *sequence, const struct tokenizer *tokenizer)
{
    struct token_array tokens = {0};
    struct error error;
    bool fits = false;
    size_t n = 0;
    if (!thinking_is_spent(sequence))
        return false;
    if (thinking_closing(sequence, tokenizer, &tokens, &error) != STATUS_OK)
        sequence_fail(sequence, STATUS_RESTART, error.code, error.text);
    else if (judge_closing(sequence, &tokens, &fits) != STATUS_OK)
        fail_matching(sequence);
    for (bool goes_on = true; fits && goes_on && n < tokens.n_ids; n++) {
        token_array_add(&sequence->thoughts.closing, sequence->answer.n_generated);
        goes_on = append_forced(sequence, tokens.ids[n], tokenizer);
    }
    if (sequence->thoughts.closing.failed)
        sequence_fail(sequence, STATUS_RESTART, ERROR_OUT_OF_MEMORY, "closing a thought: out of memory");
    token_array_finish(&tokens);
    return n > 0 && sequence->answer.finish_reason == FINISH_NONE;
}

// The request's limits on the vocabulary may forbid what the constraint forces.
static bool is_forced(const struct sequence *sequence)
{
    return sequence->prompt->rules.constraint && sequence->prompt->vocabulary.bad_words.n_ids == 0 &&
           !sequence->prompt->vocabulary.masks;
}

void constrained_force(struct sequence *sequence, const struct tokenizer *tokenizer)
{
    struct sequence_answer *answer = &sequence->answer;
    int32_t n_generated = answer->n_generated, n_pending = answer->n_drawn - n_generated;
    bool forces = is_forced(sequence);
    answer->n_drawn = n_generated;
    if (sequence->prompt->rules.constraint && start_matcher(sequence) != STATUS_OK)
        fail_matching(sequence);
    while (answer->finish_reason == FINISH_NONE &&
           (close_thought(sequence, tokenizer) || (forces && force_more(sequence, tokenizer))))
        continue;
    if (forces && answer->finish_reason == FINISH_NONE)
        end_where_nothing_follows(sequence);
    if (answer->n_generated == n_generated)
        answer->n_drawn += n_pending;
}

// ---- a draw ----

bool constrained_may_force(const struct sequence *sequence)
{
    return sequence->prompt->rules.constraint || thinking_has_budget(sequence);
}

void constrained_accept(struct sequence *sequence, const struct sample_result *drawn,
                        const struct tokenizer *tokenizer)
{
    if (drawn->token < 0) {
        sequence_fail(sequence, STATUS_REJECT, ERROR_LOGITS_NAN, "the model's logits are not numbers");
        return;
    }
    if (!may_continue(sequence))
        return;
    if (sequence_stops_before(sequence, drawn->token, tokenizer)) {
        sequence->answer.finish_reason = FINISH_STOP;
        sequence->answer.n_end_tokens = 1;
        return;
    }
    if (sequence->prompt->rules.constraint && !match_token(sequence, drawn->token))
        return;
    sequence_append(sequence, drawn, tokenizer);
    if (sequence->prompt->rules.constraint)
        judge_length(sequence);
    if (constrained_may_force(sequence) && sequence->answer.finish_reason == FINISH_NONE)
        constrained_force(sequence, tokenizer);
}

// ---- draft tokens ----

bool constrained_begin_draft(struct sequence *sequence, struct matcher_mark *mark)
{
    struct error error;
    struct matcher *matcher = &sequence->constrained.matcher;
    if (!matcher->recognizer &&
        matcher_init(matcher, sequence->prompt->rules.constraint->recognizer, &error) != STATUS_OK) {
        matcher_finish(matcher); // reported when the sequence's own mask is filled
        return false;
    }
    *mark = matcher_set_mark(matcher);
    return true;
}

void constrained_end_draft(struct sequence *sequence, const struct matcher_mark *mark)
{
    matcher_rewind(&sequence->constrained.matcher, mark);
}

bool constrained_draft_token(struct sequence *sequence, int32_t token)
{
    bool accepted = false;
    struct error error;
    return matcher_accept_token(&sequence->constrained.matcher, (uint32_t)token, &accepted, &error) ==
               STATUS_OK &&
           accepted;
}

bool constrained_draft_forced(struct sequence *sequence, const struct tokenizer *tokenizer,
                              struct token_array *tokens)
{
    struct forcing forcing = {0};
    struct error error;
    bool must_end = false;
    tokens->n_ids = 0;
    if (!is_forced(sequence))
        return true;
    enum status status = STATUS_OK;
    if (!sequence->prompt->job->request.constraint.closes) // a closing answer may force fewer tokens
        status = recall_tokens(&forcing, sequence, tokenizer, &error);
    for (size_t i = 0; status == STATUS_OK && i < forcing.n_common; i++) {
        if (!constrained_draft_token(sequence, forcing.tokens.ids[i]))
            break;
        token_array_add(tokens, forcing.tokens.ids[i]);
    }
    forcing_finish(&forcing);
    if (status == STATUS_OK)
        status = matcher_must_end(&sequence->constrained.matcher, &must_end, &error);
    return status == STATUS_OK && !must_end && !tokens->failed;
}

int32_t constrained_draft_likely(struct sequence *sequence, const struct tokenizer *tokenizer)
{
    struct forcing forcing = {.likely = -1};
    struct error error;
    bool is_found = is_forced(sequence) && recall_tokens(&forcing, sequence, tokenizer, &error) == STATUS_OK;
    int32_t likely = is_found ? forcing.likely : -1;
    forcing_finish(&forcing);
    return likely;
}

void constrained_fill_draft_mask(struct sequence *sequence, int32_t n_generated, uint32_t *mask)
{
    struct matcher_mark mark;
    struct error error;
    bool is_found = constrained_begin_draft(sequence, &mark);
    if (is_found) {
        for (int32_t i = sequence->answer.n_generated; i < n_generated && is_found; i++)
            is_found = constrained_draft_token(sequence, sequence->answer.generated[i]);
        is_found = is_found && find_mask(sequence, n_generated, mask, &error) == STATUS_OK &&
                   !is_mask_empty(mask, sequence->prompt->vocabulary.n_mask_words);
        constrained_end_draft(sequence, &mark);
    }
    if (!is_found)
        memset(mask, 0xff, (size_t)sequence->prompt->vocabulary.n_mask_words * sizeof *mask);
}

bool constrained_confirm_mask(struct sequence *sequence, const uint32_t *mask, uint32_t *own)
{
    constrained_fill_mask(sequence, own);
    return memcmp(own, mask, (size_t)sequence->prompt->vocabulary.n_mask_words * sizeof *mask) == 0;
}
