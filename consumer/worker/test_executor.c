#include "consumer/worker/test_executor.h"

#include "engine/tokenizer/tokenizer.h"
#include "schemas/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { END_ONE_IN = 8, TRIES_MAX = 64 };

struct test_executor {
    const struct tokenizer *tokenizer;
    int64_t step_us_min, step_us_max;
    uint64_t n_steps;
};

static bool parse_ms(const char *text, int64_t *us)
{
    char *end;
    errno = 0;
    long long ms = strtoll(text, &end, 10);
    if (!*text || *end || errno || ms < 0 || ms > TEST_ENGINE_MS_MAX)
        return false;
    *us = (int64_t)ms * 1000;
    return true;
}

static bool parse_spec(const char *spec, struct test_executor *executor)
{
    if (strcmp(spec, "instant") == 0)
        return true;
    if (strncmp(spec, "fixed:", 6) == 0 && parse_ms(spec + 6, &executor->step_us_max)) {
        executor->step_us_min = executor->step_us_max;
        return true;
    }
    return strncmp(spec, "random:", 7) == 0 && parse_ms(spec + 7, &executor->step_us_max);
}

enum status test_executor_create(struct test_executor **executor, const char *spec,
                                 const struct tokenizer *tokenizer, struct error *error)
{
    struct test_executor parsed = {.tokenizer = tokenizer};
    *executor = NULL;
    if (!parse_spec(spec, &parsed))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--engine-test: expected instant, fixed:MS or random:MS with MS from 0 to %d, got \"%s\"",
            TEST_ENGINE_MS_MAX, spec);
    *executor = malloc(sizeof **executor);
    if (!*executor)
        return error_memory(error, STATUS_REFUSE, "test engine");
    **executor = parsed;
    return STATUS_OK;
}

void test_executor_destroy(struct test_executor *executor)
{
    free(executor);
}

// From the drawn token on, the first that is neither a control token nor ends generation; the drawn token
// itself if there is none among TRIES_MAX.
static int32_t draw_word(const struct tokenizer *tokenizer, uint64_t draw)
{
    uint64_t n_tokens = (uint64_t)tokenizer_n_tokens(tokenizer);
    int32_t first = (int32_t)(draw % n_tokens), token = first;
    for (int i = 0; i < TRIES_MAX; i++, token = (int32_t)(((uint64_t)token + 1) % n_tokens))
        if (!tokenizer_is_control(tokenizer, token) && !tokenizer_ends_generation(tokenizer, token))
            return token;
    return first;
}

// The first allowed token from `token` on, cyclically; the mask allows at least one.
static int32_t find_allowed(const struct sample_request *request, int32_t token)
{
    int32_t n = request->n_allowed_words * 32;
    for (int32_t i = 0; i < n && !token_mask_has(request->allowed, token); i++)
        token = (token + 1) % n;
    return token;
}

static int32_t draw_token(const struct test_executor *executor, const struct sample_request *request)
{
    uint64_t seed = request->sampling->temperature > 0 ? request->sampling->seed : 0;
    uint64_t key[] = {hash_bytes(request->prompt, (size_t)request->n_prompt * sizeof *request->prompt, 0),
                      seed, request->choice, request->index};
    uint64_t draw = hash_bytes(key, sizeof key, 0);
    int32_t eos = tokenizer_eos(executor->tokenizer);
    bool ends = request->index > 0 && eos >= 0 && draw % END_ONE_IN == 0;
    int32_t token = ends ? eos : draw_word(executor->tokenizer, draw / END_ONE_IN);
    return request->allowed ? find_allowed(request, token) : token;
}

// Scores a given token.
static struct sample_result score_request(const struct sample_request *request)
{
    int32_t token = request->sampling->logit_bias->token;
    uint64_t hash = hash_bytes(&token, sizeof token, 0);
    return (struct sample_result){.token = token, .logprob = -(float)(hash % 64) / 8.0f};
}

static void take_time(struct test_executor *executor)
{
    uint64_t draw = hash_bytes(&executor->n_steps, sizeof executor->n_steps, 1);
    executor->n_steps++;
    if (executor->step_us_max == 0)
        return;
    int64_t us = executor->step_us_min +
                 (int64_t)(draw % (uint64_t)(executor->step_us_max - executor->step_us_min + 1));
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static enum status compute_step(void *context, struct step *step, struct sample_result *results,
                                struct error *error)
{
    struct test_executor *executor = context;
    if (step->await_masks)
        step->await_masks(step->masks_context);
    for (int32_t i = 0; i < step->n_outputs; i++)
        results[i] = step->samples[i].scores
                         ? score_request(&step->samples[i])
                         : (struct sample_result){.token = draw_token(executor, &step->samples[i])};
    take_time(executor);
    return STATUS_OK;
}

struct step_executor test_executor_bind(struct test_executor *executor)
{
    return (struct step_executor){.context = executor, .step = compute_step};
}
