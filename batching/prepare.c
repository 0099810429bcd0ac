// From a job to a prompt: render the chat template, tokenize, check what fits.
#include "batching/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct prompt *prompt_create(struct job *job)
{
    struct prompt *prompt = calloc(1, sizeof *prompt);
    int32_t n = job->request.n > 0 ? job->request.n : 1;
    struct sequence *sequences = calloc((size_t)n, sizeof *sequences);
    if (!prompt || !sequences) {
        free(prompt);
        free(sequences);
        return NULL;
    }
    prompt->job = job;
    prompt->sequences = sequences;
    prompt->n_unfinished = n;
    for (int32_t i = 0; i < n; i++)
        sequences[i] = (struct sequence){.prompt = prompt, .choice = (uint32_t)i};
    job->running = prompt;
    return prompt;
}

void prompt_destroy(struct prompt *prompt)
{
    if (!prompt)
        return;
    int32_t n = prompt->job->request.n > 0 ? prompt->job->request.n : 1;
    for (int32_t i = 0; i < n; i++) {
        free(prompt->sequences[i].pages);
        free(prompt->sequences[i].generated);
        free(prompt->sequences[i].logprobs);
        buffer_finish(&prompt->sequences[i].text);
    }
    token_array_finish(&prompt->tokens);
    free(prompt->sequences);
    prompt->job->running = NULL;
    free(prompt);
}

// A template that writes the bos token itself must not get a second one from the tokenizer.
static unsigned rendered_flags(const struct prompt_environment *environment, struct text rendered)
{
    struct text bos = environment->bos_token;
    bool has_bos = bos.size && rendered.size >= bos.size && memcmp(rendered.data, bos.data, bos.size) == 0;
    return TOKENIZER_PARSE_SPECIAL | (has_bos ? 0 : TOKENIZER_ADD_SPECIAL);
}

static enum status tokenize_messages(struct prompt *prompt, const struct prompt_environment *environment)
{
    struct error *error = &prompt->error;
    const struct request *request = &prompt->job->request;
    if (!environment->chat_template)
        return error_set(error, STATUS_REJECT, ERROR_TEMPLATE,
                         "messages: the model has no chat template; send a prompt, or give the worker one with --chat-template");
    struct template_environment variables = {
        .bos_token = environment->bos_token, .eos_token = environment->eos_token, .now = prompt->job->created};
    struct buffer rendered = {0};
    enum status status =
        template_render(environment->chat_template, &request->variables, &variables, &rendered, error);
    struct text text = {rendered.data, rendered.size};
    if (status == STATUS_OK)
        status = tokenizer_encode(environment->tokenizer, text, rendered_flags(environment, text), &prompt->tokens,
                                  error);
    buffer_finish(&rendered);
    return status;
}

static enum status copy_tokens(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    for (int32_t i = 0; i < request->n_tokens; i++) {
        int32_t id = request->tokens[i];
        if (id < 0 || id >= environment->limits.n_vocab)
            return error_set(&prompt->error, STATUS_REJECT, ERROR_TOKEN_RANGE,
                             "tokens[%d]: expected an id from 0 to %d, got %d", i, environment->limits.n_vocab - 1, id);
        token_array_add(&prompt->tokens, id);
    }
    return STATUS_OK;
}

static enum status tokenize(struct prompt *prompt, const struct prompt_environment *environment)
{
    const struct request *request = &prompt->job->request;
    switch (request->prompt_kind) {
    case PROMPT_MESSAGES:
        return tokenize_messages(prompt, environment);
    case PROMPT_TOKENS:
        return copy_tokens(prompt, environment);
    case PROMPT_TEXT:
        return tokenizer_encode(environment->tokenizer, request->prompt,
                                TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &prompt->tokens, &prompt->error);
    }
    assert(!"prompt kind");
    return STATUS_REJECT;
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

// What bounds a sequence: the model's context, or less where page memory is small.
static enum status check_length(struct prompt *prompt, const struct prompt_limits *limits)
{
    int64_t n_prompt = (int64_t)prompt->tokens.n_ids;
    int64_t most = limits->n_context < limits->n_positions_max ? limits->n_context : limits->n_positions_max;
    const char *what = limits->n_context <= limits->n_positions_max ? "the model's context" : "the page memory";
    int32_t wanted = prompt->job->request.max_tokens;
    if (n_prompt == 0)
        return error_set(&prompt->error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "the prompt has no token to start from");
    if (n_prompt > most || (wanted != 0 && n_prompt == most))
        return error_set(&prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                         "%s holds %lld tokens: the prompt has %lld, which leaves no room for an answer", what,
                         (long long)most, (long long)n_prompt);
    if (wanted >= 0 && n_prompt + wanted > most)
        return error_set(&prompt->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                         "%s holds %lld tokens: the prompt has %lld and max_tokens asks for %d more", what,
                         (long long)most, (long long)n_prompt, wanted);
    int64_t room = most - n_prompt;
    if (wanted < 0)
        wanted = (int32_t)(limits->max_tokens_default && limits->max_tokens_default < room ? limits->max_tokens_default
                                                                                         : room);
    prompt->max_tokens = wanted;
    prompt->long_context = n_prompt + wanted > limits->n_context_original;
    return STATUS_OK;
}

enum status prompt_prepare(struct prompt *prompt, const struct prompt_environment *environment)
{
    enum status status = tokenize(prompt, environment);
    if (status == STATUS_OK && prompt->tokens.failed)
        status = error_set(&prompt->error, STATUS_REJECT, ERROR_OUT_OF_MEMORY, "tokenizing the prompt: out of memory");
    if (status == STATUS_OK && prompt->tokens.n_ids > JOB_TOKENS_MAX)
        status = error_set(&prompt->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                           "the prompt has %zu tokens, more than the limit of %d", prompt->tokens.n_ids,
                           JOB_TOKENS_MAX);
    if (status == STATUS_OK)
        status = check_logit_bias(prompt, &environment->limits);
    if (status == STATUS_OK)
        status = check_length(prompt, &environment->limits);
    prompt->job->result.prompt_tokens = (int32_t)prompt->tokens.n_ids;
    return status;
}
