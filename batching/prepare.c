// Prepares a prompt: renders the chat template, tokenizes, checks the length.
#include "batching/bad_words.h"
#include "batching/chat.h"
#include "batching/scoring.h"
#include "batching/speculation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct prompt *prompt_create(struct job *job)
{
    struct prompt *prompt = calloc(1, sizeof *prompt);
    int32_t n = request_n_sequences(&job->request) + request_n_branches(&job->request);
    struct sequence *sequences = calloc((size_t)n, sizeof *sequences);
    if (!prompt || !sequences) {
        free(prompt);
        free(sequences);
        return NULL;
    }
    prompt->job = job;
    prompt->sequences.items = sequences;
    prompt->sequences.n = n;
    for (int32_t i = 0; i < n; i++)
        sequences[i] = (struct sequence){.prompt = prompt, .choice = (uint32_t)i};
    return prompt;
}

void prompt_destroy(struct prompt *prompt)
{
    if (!prompt)
        return;
    for (int32_t i = 0; i < prompt->sequences.n; i++) {
        free(prompt->sequences.items[i].cache.pages);
        free(prompt->sequences.items[i].answer.generated);
        free(prompt->sequences.items[i].answer.logprobs);
        matcher_finish(&prompt->sequences.items[i].constrained.matcher);
        buffer_finish(&prompt->sequences.items[i].answer.text);
        buffer_finish(&prompt->sequences.items[i].report.spelled);
        buffer_finish(&prompt->sequences.items[i].report.reasoning);
        buffer_finish(&prompt->sequences.items[i].thoughts.scan.text);
        token_array_finish(&prompt->sequences.items[i].thoughts.closing);
        sequence_draft_destroy(prompt->sequences.items[i].draft);
    }
    token_array_finish(&prompt->tokens);
    token_array_finish(&prompt->branch_tokens);
    token_array_finish(&prompt->vocabulary.bad_words);
    free(prompt->sequences.items);
    free(prompt->vocabulary.masks);
    free(prompt);
}

// Refuses a prompt whose bytes alone show that it is too long, before it is tokenized. A text without word
// boundaries costs the tokenizer seconds, and tens of bytes of memory per byte of text.
static enum status check_least_tokens(struct prompt *prompt, const struct prompt_environment *environment,
                                      struct text text)
{
    int64_t most = environment->limits.n_context;
    if (text.size <= (size_t)(most < JOB_TOKENS_MAX ? most : JOB_TOKENS_MAX))
        return STATUS_OK; // a token has a byte at least
    int64_t least = tokenizer_least_tokens(environment->tokenizer, text);
    if (least > JOB_TOKENS_MAX)
        return error_set(&prompt->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "the prompt has at least %lld tokens, more than the limit of %d", (long long)least,
                         JOB_TOKENS_MAX);
    if (least > most)
        return error_set(
            &prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
            "the model's context holds %lld tokens: the prompt has at least %lld, which leaves no "
            "room for an answer",
            (long long)most, (long long)least);
    return STATUS_OK;
}

// Adds special tokens if the job requests them; control tokens within `content` are encoded as text. A text
// that begins with bos gets no second bos, unlike in vLLM and transformers: no model was trained on two.
static enum status tokenize_text(struct prompt *prompt, const struct prompt_environment *environment,
                                 struct text text, const struct text_spans *content)
{
    struct job *job = prompt->job;
    struct token_array *tokens = &prompt->tokens;
    const struct tokenizer *tokenizer = environment->tokenizer;
    unsigned flags =
        TOKENIZER_PARSE_SPECIAL | (job->request.prompt.add_special_tokens ? TOKENIZER_ADD_SPECIAL : 0);
    enum status status = check_least_tokens(prompt, environment, text);
    if (status == STATUS_OK)
        status = tokenizer_encode_around(tokenizer, text, content, flags, tokens, &prompt->error);
    if (status != STATUS_OK || !job->request.prompt.add_special_tokens || !tokenizer_adds_bos(tokenizer) ||
        tokens->n_ids < 2 || tokens->ids[1] != tokenizer_bos(tokenizer))
        return status;
    memmove(tokens->ids, tokens->ids + 1, --tokens->n_ids * sizeof *tokens->ids);
    struct text bos = tokenizer_token_text(tokenizer, tokenizer_bos(tokenizer));
    if (!job_warn(job, "the prompt begins with %.*s: no second one is added",
                  bos.size < 64 ? (int)bos.size : 64, bos.data))
        return error_memory(&prompt->error, STATUS_RESTART, "a warning");
    return STATUS_OK;
}

static struct template_environment describe_environment(const struct prompt_environment *environment,
                                                        const struct job *job)
{
    const struct tokenizer *tokenizer = environment->tokenizer;
    return (struct template_environment){
        .bos_token = tokenizer_token_text(tokenizer, tokenizer_bos(tokenizer)),
        .eos_token = tokenizer_token_text(tokenizer, tokenizer_eos(tokenizer)),
        .pad_token = tokenizer_token_text(tokenizer, tokenizer_padding(tokenizer)),
        .unk_token = tokenizer_token_text(tokenizer, tokenizer_unk_token(tokenizer)),
        .now_s = job_submitted_s(job)};
}

// As in transformers: requests with tools, even an empty list, use the template named "tool_use".
static enum status choose_template(struct prompt *prompt, const struct prompt_environment *environment,
                                   const struct template **template)
{
    const struct request *request = &prompt->job->request;
    const struct value *tools = value_get(&request->prompt.variables, "tools");
    bool has_tools = tools && tools->kind != VALUE_NULL;
    *template = has_tools ? environment->tool_template : environment->chat_template;
    prompt->rules.format = has_tools ? environment->tool_format : environment->chat_format;
    if (*template)
        return STATUS_OK;
    return error_set(&prompt->error, STATUS_REJECT, ERROR_TEMPLATE,
                     "messages: the model has no chat template%s; send a prompt, or give the "
                     "worker one with --chat-template",
                     has_tools ? " for tools" : "");
}

static enum status tokenize_messages(struct prompt *prompt, const struct prompt_environment *environment)
{
    struct error *error = &prompt->error;
    const struct request *request = &prompt->job->request;
    const struct template *template;
    enum status status = choose_template(prompt, environment, &template);
    if (status != STATUS_OK)
        return status;
    struct text_spans content = {0}; // spans in which control tokens are encoded as text; empty: none
    struct template_environment variables = describe_environment(environment, prompt->job);
    prompt_complete(prompt->job, environment->reasoning_effort, false);
    variables.content = environment->special_in_content ? NULL : &content;
    struct buffer rendered = {0};
    status = chat_render(prompt->job, template, &variables, &prompt->rules.format, &rendered, error);
    struct text text = {rendered.data, rendered.size};
    prompt->rules.thinking = thinking_state_of(&prompt->rules.format, text);
    if (request->prompt.continues_message && prompt->rules.thinking == THINKING_POSSIBLE)
        prompt->rules.thinking = THINKING_CLOSED; // the answer has begun
    if (status == STATUS_OK)
        status = tokenize_text(prompt, environment, text, &content);
    text_spans_finish(&content);
    buffer_finish(&rendered);
    return status;
}

static enum status copy_tokens(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    for (int32_t i = 0; i < request->prompt.n_tokens; i++) {
        int32_t id = request->prompt.tokens[i];
        if (id < 0 || id >= environment->limits.n_vocab)
            return error_set(&prompt->error, STATUS_REJECT, ERROR_TOKEN_RANGE,
                             "%s[%d]: expected an id from 0 to %d, got %d",
                             request->prompt.tokens_field ? request->prompt.tokens_field : "tokens", i,
                             environment->limits.n_vocab - 1, id);
        token_array_add(&prompt->tokens, id);
    }
    return STATUS_OK;
}

static enum status tokenize_prompt(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    switch (request->prompt.kind) {
    case PROMPT_MESSAGES:
        return tokenize_messages(prompt, environment);
    case PROMPT_TOKENS:
        return copy_tokens(prompt, environment);
    case PROMPT_TEXT:
        return tokenize_text(prompt, environment, request->prompt.text, NULL);
    }
    assert(!"prompt kind");
    return STATUS_REJECT;
}

// ---- tokens that may be drawn ----

static enum status check_token_ids(struct prompt *prompt, const char *name, const int32_t *tokens,
                                   int32_t n_tokens, int32_t n_vocab)
{
    for (int32_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return error_set(&prompt->error, STATUS_REJECT, ERROR_TOKEN_RANGE,
                             "%s: expected token ids from 0 to %d, got %d", name, n_vocab - 1, tokens[i]);
    return STATUS_OK;
}

static void forbid_token(uint32_t *mask, int32_t token)
{
    mask[token / 32] &= ~(UINT32_C(1) << token % 32);
}

enum status prompt_mask_sampled(uint32_t **mask, const struct tokenizer *tokenizer, int32_t n_vocab,
                                struct error *error)
{
    size_t n_ids = 0, n_words = (size_t)token_mask_words(n_vocab);
    const int32_t *ids = tokenizer_suppressed(tokenizer, &n_ids);
    *mask = NULL;
    if (n_ids == 0)
        return STATUS_OK;
    *mask = malloc(n_words * sizeof **mask);
    if (!*mask)
        return error_memory(error, STATUS_REFUSE, "a mask of %d tokens", n_vocab);
    memset(*mask, 0xff, n_words * sizeof **mask);
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] >= 0 && ids[i] < n_vocab)
            forbid_token(*mask, ids[i]);
    return STATUS_OK;
}

// Before min_tokens no token that ends the answer may be drawn, as in vLLM.
static void fill_masks(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    uint32_t *allowed = prompt->vocabulary.masks, *early = allowed + prompt->vocabulary.n_mask_words;
    size_t mask_bytes = (size_t)prompt->vocabulary.n_mask_words * sizeof *allowed;
    memset(allowed, request->vocabulary.n_allowed_tokens ? 0 : 0xff, mask_bytes);
    for (int32_t i = 0; i < request->vocabulary.n_allowed_tokens; i++)
        allowed[request->vocabulary.allowed_tokens[i] / 32] |= UINT32_C(1)
                                                               << request->vocabulary.allowed_tokens[i] % 32;
    for (int32_t i = 0; environment->sampled && i < prompt->vocabulary.n_mask_words; i++)
        allowed[i] &= environment->sampled[i];
    memcpy(early, allowed, mask_bytes);
    for (int32_t token = 0; token < environment->limits.n_vocab && !request->stop.ignore_eos; token++)
        if (tokenizer_ends_generation(environment->tokenizer, token))
            forbid_token(early, token);
    for (int32_t i = 0; i < request->stop.n_tokens; i++)
        forbid_token(early, request->stop.tokens[i]);
}

// True if no token of the vocabulary is allowed before min_tokens.
static bool is_mask_empty(const uint32_t *mask, int32_t n_vocab)
{
    for (int32_t token = 0; token < n_vocab; token++)
        if (token_mask_has(mask, token))
            return false;
    return true;
}

static enum status make_masks(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    int32_t n_vocab = environment->limits.n_vocab;
    enum status status =
        check_token_ids(prompt, "stop_token_ids", request->stop.tokens, request->stop.n_tokens, n_vocab);
    if (status == STATUS_OK)
        status = check_token_ids(prompt, "allowed_token_ids", request->vocabulary.allowed_tokens,
                                 request->vocabulary.n_allowed_tokens, n_vocab);
    prompt->vocabulary.sampled = environment->sampled;
    if (environment->sampled)
        prompt->vocabulary.n_mask_words = token_mask_words(n_vocab);
    if (status != STATUS_OK || (request->vocabulary.n_allowed_tokens == 0 && request->stop.min_tokens == 0))
        return status;
    prompt->vocabulary.n_mask_words = token_mask_words(n_vocab);
    prompt->vocabulary.masks =
        malloc(2 * (size_t)prompt->vocabulary.n_mask_words * sizeof *prompt->vocabulary.masks);
    if (!prompt->vocabulary.masks)
        return error_memory(&prompt->error, STATUS_RESTART, "a mask of %d tokens", n_vocab);
    fill_masks(prompt, environment);
    if (environment->sampled && is_mask_empty(prompt->vocabulary.masks, n_vocab))
        return error_set(&prompt->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "allowed_token_ids: the model's suppress_tokens has all of them");
    if (request->stop.min_tokens > 0 &&
        is_mask_empty(prompt->vocabulary.masks + prompt->vocabulary.n_mask_words, n_vocab))
        return error_set(
            &prompt->error, STATUS_REJECT, ERROR_INVALID_FIELD,
            "min_tokens: expected 0 where allowed_token_ids holds only tokens that end the answer, got %d",
            request->stop.min_tokens);
    return STATUS_OK;
}

// ---- what the answer may be ----

bool prompt_answer_rules(const struct prompt *prompt, struct answer_rules *rules)
{
    const struct request *request = &prompt->job->request;
    bool is_call = request->tools.choice == TOOLS_REQUIRED || request->tools.choice == TOOLS_NAMED;
    *rules = (struct answer_rules){.thinking = prompt->rules.thinking, .closes = request->constraint.closes};
    if (!is_call)
        rules->constraint = request->constraint;
    rules->format.thinking = prompt->rules.format.thinking;
    if (request->tools.choice != TOOLS_NONE) {
        rules->tools = request->tools;
        rules->tools_value = *value_get(&request->prompt.variables, "tools");
        rules->format.tools = prompt->rules.format.tools;
    }
    return rules->constraint.kind != CONSTRAINT_NONE || request->tools.choice != TOOLS_NONE;
}

const char *prompt_constraint_field(const struct prompt *prompt)
{
    const char *field = prompt->job->request.constraint.field;
    return field ? field : "tools";
}

// With close_at_max_tokens: refuses a max_tokens below the tokens of the shortest answer.
static void check_room(struct prompt *prompt)
{
    uint32_t n_tokens = prompt->rules.constraint->n_tokens_min;
    if (!prompt->job->request.constraint.closes || n_tokens <= (uint32_t)prompt->max_tokens)
        return;
    if (n_tokens == UINT32_MAX)
        (void)error_set(
            &prompt->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
            "close_at_max_tokens: no end of the answer is known in this model's tokens: a part of it may take "
            "more than 1,024 bytes");
    else
        (void)error_set(&prompt->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                        "close_at_max_tokens: the shortest answer has %u tokens, max_tokens is %d", n_tokens,
                        prompt->max_tokens);
}

void prompt_check_constraint(struct prompt *prompt, const struct prompt_limits *limits)
{
    const struct compiled_constraint *constraint = prompt->rules.constraint;
    if (!constraint || prompt->error.status != STATUS_OK)
        return;
    prompt->vocabulary.n_mask_words = token_mask_words(limits->n_vocab);
    if (constraint->error.status == STATUS_OK) {
        check_room(prompt);
        return;
    }
    enum status status = constraint->error.status == STATUS_REJECT ? STATUS_REJECT : STATUS_RESTART;
    if (constraint->function >= 0)
        (void)error_set(&prompt->error, status, constraint->error.code,
                        "tools[%d].function.parameters: %.300s", constraint->function,
                        constraint->error.text);
    else
        (void)error_set(&prompt->error, status, constraint->error.code, "%.64s: %.300s",
                        prompt_constraint_field(prompt), constraint->error.text);
}

// A prompt that is not a chat has no format of thoughts, so it cannot have a thinking budget.
static enum status check_budget(struct prompt *prompt)
{
    struct job *job = prompt->job;
    bool is_given = job->request.sampling.given & SAMPLING_THINKING_TOKEN_BUDGET;
    if (!is_given || prompt->rules.format.thinking ||
        job_warn(job, "field \"thinking_token_budget\" has no effect: %s",
                 job->request.prompt.kind == PROMPT_MESSAGES
                     ? "no thoughts are known in the answers to the model's chat template"
                     : "only answers to messages have thoughts"))
        return STATUS_OK;
    return error_memory(&prompt->error, STATUS_RESTART, "a warning");
}

// Choices are scored right after the prompt. If the model thinks first, its answer has other probabilities.
static enum status warn_of_scores(struct prompt *prompt)
{
    const struct answer_format *format = &prompt->rules.format;
    if (!prompt->job->request.scores.wanted || !format->thinking ||
        prompt->rules.thinking == THINKING_CLOSED ||
        job_warn(prompt->job,
                 "choice_logprobs: the choices are scored without the thoughts with which answers to the "
                 "model's chat template begin; reasoning_effort \"none\" leaves thoughts out where the "
                 "template can"))
        return STATUS_OK;
    return error_memory(&prompt->error, STATUS_RESTART, "a warning");
}

// As in vLLM: a request that requires a call has no other constraint.
static enum status check_tools(struct prompt *prompt)
{
    const struct request *request = &prompt->job->request;
    bool is_call = request->tools.choice == TOOLS_REQUIRED || request->tools.choice == TOOLS_NAMED;
    enum status status = chat_check_tools(prompt->job, &prompt->rules.format, &prompt->error);
    if (status != STATUS_OK)
        return status;
    if (is_call && request->constraint.field &&
        !job_warn(prompt->job, "%s: has no effect, because tool_choice asks for calls",
                  request->constraint.field))
        return error_memory(&prompt->error, STATUS_RESTART, "a warning");
    return STATUS_OK;
}

static enum status check_logit_bias(struct prompt *prompt, const struct prompt_limits *limits)
{
    const struct sampling *sampling = &prompt->job->request.sampling;
    for (int32_t i = 0; i < sampling->n_logit_bias; i++)
        if (sampling->logit_bias[i].token < 0 || sampling->logit_bias[i].token >= limits->n_vocab)
            return error_set(&prompt->error, STATUS_REJECT, ERROR_TOKEN_RANGE,
                             "logit_bias: expected a token id from 0 to %d, got %d", limits->n_vocab - 1,
                             sampling->logit_bias[i].token);
    return STATUS_OK;
}

enum status prompt_refuse_length(struct prompt *prompt, const struct prompt_limits *limits,
                                 int64_t n_positions)
{
    uint64_t n_pages =
        (uint64_t)(limits->n_context + limits->page_positions - 1) / (uint64_t)limits->page_positions;
    return error_set(&prompt->error, STATUS_REJECT, ERROR_OUT_OF_MEMORY,
                     "this worker's KV pages hold %d tokens, prompt and answer need %lld or more: "
                     "--kv-memory %lluM holds the model's whole context",
                     limits->n_positions_max, (long long)n_positions,
                     (unsigned long long)((n_pages * limits->page_bytes + (1 << 20) - 1) >> 20));
}

// The model's context bounds a sequence. The size of the KV cache never truncates an answer: a job that
// exceeds it fails, here if the prompt alone is too long, otherwise when its answer has grown beyond it.
static enum status check_length(struct prompt *prompt, const struct prompt_limits *limits)
{
    int64_t n_prompt = (int64_t)prompt->tokens.n_ids, most = limits->n_context;
    int32_t wanted = prompt->job->request.stop.max_tokens;
    if (n_prompt == 0)
        return error_set(&prompt->error, STATUS_REJECT, ERROR_EMPTY_PROMPT,
                         "the prompt has no token to start from");
    if (n_prompt > most || (wanted != 0 && n_prompt == most))
        return error_set(
            &prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
            "the model's context holds %lld tokens: the prompt has %lld, which leaves no room for an answer",
            (long long)most, (long long)n_prompt);
    if (wanted >= 0 && n_prompt + wanted > most)
        return error_set(
            &prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
            "the model's context holds %lld tokens: the prompt has %lld and max_tokens asks for %d more",
            (long long)most, (long long)n_prompt, wanted);
    int64_t scored = scoring_positions(prompt), needed = n_prompt + (wanted >= 0 ? wanted : 1);
    if (scored > most)
        return error_set(&prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                         "the model's context holds %lld tokens: the prompt and its longest choice have %lld",
                         (long long)most, (long long)scored);
    needed = scored > needed ? scored : needed;
    if (needed > limits->n_positions_max)
        return prompt_refuse_length(prompt, limits, needed);
    int64_t room = most - n_prompt;
    if (wanted < 0)
        wanted = (int32_t)(limits->max_tokens_default && limits->max_tokens_default < room
                               ? limits->max_tokens_default
                               : room);
    prompt->max_tokens = wanted;
    int64_t n_positions = n_prompt + wanted > scored ? n_prompt + wanted : scored;
    prompt->long_context = n_positions > limits->n_context_original;
    return STATUS_OK;
}

enum status prompt_prepare(struct prompt *prompt, const struct prompt_environment *environment)
{
    sampling_complete(&prompt->job->request.sampling, &environment->sampling_defaults);
    enum status status = tokenize_prompt(prompt, environment);
    if (status == STATUS_OK && prompt->tokens.failed)
        status = error_memory(&prompt->error, STATUS_RESTART, "tokenizing the prompt");
    if (status == STATUS_OK && prompt->tokens.n_ids > JOB_TOKENS_MAX)
        status = error_set(&prompt->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                           "the prompt has %zu tokens, more than the limit of %d", prompt->tokens.n_ids,
                           JOB_TOKENS_MAX);
    if (status == STATUS_OK)
        status = check_logit_bias(prompt, &environment->limits);
    if (status == STATUS_OK)
        status = make_masks(prompt, environment);
    if (status == STATUS_OK)
        status = bad_words_prepare(prompt, environment);
    if (status == STATUS_OK)
        status = check_tools(prompt);
    if (status == STATUS_OK)
        status = check_budget(prompt);
    if (status == STATUS_OK)
        status = warn_of_scores(prompt);
    if (status == STATUS_OK)
        status = scoring_prepare(prompt, environment);
    if (status == STATUS_OK)
        status = check_length(prompt, &environment->limits);
    prompt->job->result.prompt_tokens = (int32_t)prompt->tokens.n_ids;
    return status;
}
