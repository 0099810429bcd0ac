#include "batching/scoring.h"

#include "batching/property_scores.h"
#include "schemas/base/elementary.h"

#include <assert.h>
#include <string.h>

static const float BIAS = 1e30f; // beyond any logit

// ---- targets ----

// Refuses a choice whose bytes alone show that it is too long, before it is tokenized.
static enum status check_least_tokens(struct prompt *prompt, const struct prompt_environment *environment,
                                      struct text choice)
{
    int64_t most = environment->limits.n_context, n_prompt = (int64_t)prompt->tokens.n_ids - 1;
    if (n_prompt + (int64_t)choice.size <= most)
        return STATUS_OK; // a token has a byte at least
    int64_t least = n_prompt + tokenizer_least_tokens(environment->tokenizer, choice);
    return least <= most
               ? STATUS_OK
               : error_set(&prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                           "the model's context holds %lld tokens: the prompt and its longest choice "
                           "have at least %lld",
                           (long long)most, (long long)least);
}

// Appends the choice's tokens to branch_tokens, which has the tokens of all branches.
static enum status tokenize_choice(struct prompt *prompt, const struct prompt_environment *environment,
                                   struct text choice, struct sequence *branch)
{
    struct token_array *tokens = &prompt->branch_tokens;
    size_t first = tokens->n_ids;
    enum status status =
        tokenizer_encode(environment->tokenizer, choice, TOKENIZER_CONTINUES, tokens, &prompt->error);
    bool is_spelled = tokens->n_ids > first; // false if the vocabulary has no token for any of its bytes
    if (prompt->job->request.scores.include_end)
        token_array_add(tokens, tokenizer_eos(environment->tokenizer));
    if (tokens->failed)
        status = STATUS_RETRY;
    if (status != STATUS_OK && status != STATUS_REJECT)
        status = error_memory(&prompt->error, STATUS_RESTART, "tokenizing the choices");
    branch->scoring.n_targets = (int32_t)(tokens->n_ids - first);
    if (status == STATUS_OK && !is_spelled)
        status = error_set(&prompt->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                           "choice_logprobs: the model's vocabulary has no token for the choice \"%.*s\"",
                           (int)utf8_complete_prefix(choice.data, choice.size < 64 ? choice.size : 64),
                           choice.data);
    return status;
}

static enum status tokenize_choices(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    struct sequence *branches = prompt->sequences.items + request_n_sequences(request);
    if (request->scores.n_values > 0) {
        property_scores_wait(prompt);
        return STATUS_OK;
    }
    if (request->scores.include_end && tokenizer_eos(environment->tokenizer) < 0)
        return error_set(&prompt->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                         "choice_logprobs_include_end: the model has no token that ends an answer");
    for (int32_t i = 0; i < request_n_branches(request); i++) {
        enum status status = check_least_tokens(prompt, environment, request->constraint.choices[i]);
        if (status == STATUS_OK)
            status = tokenize_choice(prompt, environment, request->constraint.choices[i], &branches[i]);
        if (status != STATUS_OK)
            return status;
    }
    const int32_t *targets = prompt->branch_tokens.ids; // final address: nothing is appended from here on
    for (int32_t i = 0; i < request_n_branches(request); i++) {
        branches[i].scoring.only_scores = true;
        branches[i].scoring.targets = targets;
        branches[i].scoring.first_target = (int32_t)prompt->tokens.n_ids - 1;
        targets += branches[i].scoring.n_targets;
    }
    return STATUS_OK;
}

static enum status prepare_prompt(struct prompt *prompt, const struct prompt_environment *environment)
{
    struct sequence *first = &prompt->sequences.items[0];
    struct arena *arena = &prompt->job->arena;
    const struct sample_result none = {0};
    const struct token_logprob start = {prompt->tokens.ids[0], NAN};
    first->scoring.only_scores = prompt->job->request.stop.max_tokens == 0;
    first->scoring.targets = prompt->tokens.ids + 1;
    first->scoring.n_targets = (int32_t)prompt->tokens.n_ids - 1;
    prompt->logprobs = arena_allocate_array(arena, prompt->tokens.n_ids, sizeof *prompt->logprobs);
    if (prompt->logprobs &&
        logprob_entry_set(&prompt->logprobs[0], start, &none, environment->tokenizer, arena))
        return STATUS_OK;
    return error_memory(&prompt->error, STATUS_RESTART, "logprobs of the prompt");
}

static bool begins_with(struct text text, struct text start)
{
    return text.size >= start.size && (start.size == 0 || memcmp(text.data, start.data, start.size) == 0);
}

static struct text text_after(struct text text, size_t size)
{
    return (struct text){text.data + size, text.size - size};
}

// Returns the offset of a token in the rest of the prompt's text; SIZE_MAX: not found. Skips blanks before
// it, because a special token may have absorbed them. If the vocabulary puts a blank before the first word,
// the text does not have that blank; it is removed from `token`.
static size_t find_token(struct text rest, struct text *token)
{
    enum { BLANKS_MAX = 64 };
    struct text near = {rest.data, rest.size < BLANKS_MAX ? rest.size : BLANKS_MAX};
    size_t n_blanks = near.size - text_trim_start(near).size;
    struct text without = token->data[0] == ' ' ? text_after(*token, 1) : *token;
    if (begins_with(rest, *token))
        return 0;
    if (begins_with(text_after(rest, n_blanks), *token))
        return n_blanks;
    if (!begins_with(rest, without))
        return SIZE_MAX;
    *token = without;
    return 0;
}

// Sets the offsets of a text's tokens. A special token that is not in the text, such as an added bos, has
// length 0. Another token that is not in the text, because a normalizer changed it, has the length of its
// spelling.
static void place_in_text(struct prompt *prompt, const struct tokenizer *tokenizer, struct text text,
                          struct buffer *bytes)
{
    struct text rest = text;
    for (size_t i = 0; i < prompt->tokens.n_ids; i++) {
        bool is_control = tokenizer_is_control(tokenizer, prompt->tokens.ids[i]);
        bytes->size = 0;
        tokenizer_decode(tokenizer, prompt->tokens.ids[i], is_control, bytes);
        struct text token = {bytes->data, bytes->size};
        size_t found = token.size ? find_token(rest, &token) : 0;
        if (found != SIZE_MAX)
            rest = text_after(rest, found);
        prompt->logprobs[i].text_offset = (int32_t)(text.size - rest.size);
        if (found != SIZE_MAX || !is_control)
            rest = text_after(rest, token.size < rest.size ? token.size : rest.size);
    }
}

// Decodes the ids. The blank that a vocabulary puts before a first word is removed.
static void spell_ids(struct prompt *prompt, const struct tokenizer *tokenizer, struct buffer *bytes)
{
    size_t n_blanks = 0;
    for (size_t i = 0; i < prompt->tokens.n_ids; i++) {
        bool is_first = bytes->size == 0;
        if (prompt->logprobs)
            prompt->logprobs[i].text_offset = (int32_t)(bytes->size - n_blanks);
        tokenizer_decode(tokenizer, prompt->tokens.ids[i], false, bytes);
        if (is_first && bytes->size)
            n_blanks = tokenizer_strips_first_space(tokenizer) && bytes->data[0] == ' ';
    }
    if (n_blanks)
        memmove(bytes->data, bytes->data + 1, --bytes->size);
}

// Sets the echo: the prompt's text as given, or the text that its ids spell. Offsets are in bytes.
static enum status prepare_echo(struct prompt *prompt, const struct tokenizer *tokenizer)
{
    struct job *job = prompt->job;
    bool is_text = job->request.prompt.kind == PROMPT_TEXT;
    struct buffer bytes = {0};
    if (!is_text)
        spell_ids(prompt, tokenizer, &bytes);
    else if (prompt->logprobs)
        place_in_text(prompt, tokenizer, job->request.prompt.text, &bytes);
    struct text spelt = {bytes.size ? bytes.data : "", bytes.size};
    bool is_kept =
        !bytes.failed && job_set_text(job, &prompt->echo, is_text ? job->request.prompt.text : spelt);
    buffer_finish(&bytes);
    return is_kept ? STATUS_OK : error_memory(&prompt->error, STATUS_RESTART, "echoing the prompt");
}

enum status scoring_prepare(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    enum status status = STATUS_OK;
    if (prompt->tokens.n_ids == 0) // check_length refuses it
        return STATUS_OK;
    if (request_scores_prompt(request))
        status = prepare_prompt(prompt, environment);
    if (status == STATUS_OK && request_n_branches(request) > 0)
        status = tokenize_choices(prompt, environment);
    if (status == STATUS_OK && request->echo)
        status = prepare_echo(prompt, environment->tokenizer);
    return status;
}

int64_t scoring_positions(const struct prompt *prompt)
{
    int64_t most = 0;
    for (int32_t i = 0; i < prompt->sequences.n; i++) {
        int64_t n = (int64_t)prompt->sequences.items[i].scoring.first_target +
                    prompt->sequences.items[i].scoring.n_targets;
        most = n > most ? n : most;
    }
    return most;
}

// ---- outputs ----

static bool is_branch(const struct sequence *sequence)
{
    return sequence->choice >= (uint32_t)request_n_sequences(&sequence->prompt->job->request);
}

// Number of alternatives computed for a prompt token: the larger of the numbers that prompt_logprobs and the
// echo request. Each of the two outputs lists its own number.
static int32_t n_alternatives(const struct sequence *sequence)
{
    const struct request *request = &sequence->prompt->job->request;
    int32_t n_echoed = request->echo ? request->sampling.top_logprobs : 0;
    if (is_branch(sequence))
        return 0;
    return request->prompt_logprobs > n_echoed ? request->prompt_logprobs : n_echoed;
}

struct sample_request scoring_request(const struct sequence *sequence, struct scoring *scoring)
{
    assert(sequence->scoring.n_submitted < sequence->scoring.n_targets);
    scoring->bias = (struct logit_bias){sequence->scoring.targets[sequence->scoring.n_submitted], BIAS};
    scoring->sampling = (struct sampling){.top_p = 1.0f,
                                          .repetition_penalty = 1.0f,
                                          .logit_bias = &scoring->bias,
                                          .n_logit_bias = 1,
                                          .logprobs = true,
                                          .top_logprobs = n_alternatives(sequence)};
    return (struct sample_request){.sampling = &scoring->sampling, .scores = true};
}

void sequence_score(struct sequence *sequence, const struct sample_result *drawn,
                    const struct tokenizer *tokenizer)
{
    struct prompt *prompt = sequence->prompt;
    int32_t target = sequence->scoring.targets[sequence->scoring.n_scored];
    if (drawn->token < 0) {
        sequence_fail(sequence, STATUS_REJECT, ERROR_LOGITS_NAN, "the model's logits are not numbers");
        return;
    }
    // If another token is drawn, the target's logit is minus infinity.
    struct token_logprob scored = {target, drawn->token == target ? drawn->logprob : -INFINITY};
    sequence->scoring.logprob += (double)scored.logprob;
    sequence->scoring.n_scored++;
    if (!is_branch(sequence) && !logprob_entry_set(&prompt->logprobs[sequence->scoring.n_scored], scored,
                                                   drawn, tokenizer, &prompt->job->arena)) {
        sequence_fail(sequence, STATUS_RESTART, ERROR_OUT_OF_MEMORY, "logprobs of the prompt: out of memory");
        return;
    }
    if (sequence->scoring.n_scored == sequence->scoring.n_targets && sequence->scoring.only_scores)
        sequence->answer.finish_reason = sequence->scoring.ended ? sequence->scoring.ended : FINISH_LENGTH;
}

// ---- the result ----

// probability = exp(logprob) / sum of all exp(logprob). All are 0 if no choice is possible.
static void normalize_scores(struct choice_logprob *scores, int32_t n)
{
    double largest = -INFINITY, sum = 0.0;
    for (int32_t i = 0; i < n; i++)
        largest = scores[i].logprob > largest ? scores[i].logprob : largest;
    for (int32_t i = 0; i < n && largest > -INFINITY; i++)
        sum += elementary_exp(scores[i].logprob - largest);
    for (int32_t i = 0; i < n && largest > -INFINITY; i++)
        scores[i].probability = (float)(elementary_exp(scores[i].logprob - largest) / sum);
}

// The answer is the choice with the highest logprob, the first one if several are equal.
static void decide_answer(struct result *result)
{
    int32_t best = 0;
    for (int32_t i = 1; i < result->n_choice_logprobs; i++)
        if (result->choice_logprobs[i].logprob > result->choice_logprobs[best].logprob)
            best = i;
    result->choices[0].text = result->choice_logprobs[best].choice;
    result->choices[0].finish_reason = FINISH_STOP;
}

// Scores of the values of properties that the answer has, normalized for each property.
static bool put_property_scores(struct prompt *prompt)
{
    struct job *job = prompt->job;
    const struct request_scores *wanted = &job->request.scores;
    const struct sequence *branches = prompt->sequences.items + request_n_sequences(&job->request);
    struct choice_logprob *scores =
        arena_allocate_array(&job->arena, (size_t)wanted->n_values, sizeof *scores);
    int32_t n = 0, first = 0;
    if (!scores)
        return false;
    for (int32_t i = 0; i < wanted->n_values; i++) {
        bool is_first = i == 0 || !text_equal(wanted->values[i].property, wanted->values[i - 1].property);
        if (is_first) {
            normalize_scores(scores + first, n - first);
            first = n;
        }
        if (branches[i].scoring.n_targets > 0)
            scores[n++] = (struct choice_logprob){.choice = wanted->values[i].choice,
                                                  .logprob = branches[i].scoring.logprob};
    }
    normalize_scores(scores + first, n - first);
    job->result.choice_logprobs = scores;
    job->result.n_choice_logprobs = n;
    return true;
}

static bool put_choice_logprobs(struct prompt *prompt)
{
    struct job *job = prompt->job;
    const struct sequence *branches = prompt->sequences.items + request_n_sequences(&job->request);
    int32_t n = request_n_branches(&job->request);
    if (n == 0)
        return true;
    if (job->request.scores.n_values > 0)
        return put_property_scores(prompt);
    struct choice_logprob *scores = arena_allocate_array(&job->arena, (size_t)n, sizeof *scores);
    if (!scores)
        return false;
    for (int32_t i = 0; i < n; i++)
        scores[i] = (struct choice_logprob){.choice = job->request.constraint.choices[i],
                                            .logprob = branches[i].scoring.logprob};
    normalize_scores(scores, n);
    job->result.choice_logprobs = scores;
    job->result.n_choice_logprobs = n;
    if (job->request.scores.decide)
        decide_answer(&job->result);
    return true;
}

bool scoring_finish(struct prompt *prompt)
{
    struct result *result = &prompt->job->result;
    int32_t n_top = prompt->job->request.prompt_logprobs;
    if (n_top >= 0) {
        logprob_entries_limit(prompt->logprobs, prompt->tokens.n_ids, n_top);
        result->prompt_logprobs = prompt->logprobs;
        result->n_prompt_logprobs = (int32_t)prompt->tokens.n_ids;
    }
    return put_choice_logprobs(prompt);
}
