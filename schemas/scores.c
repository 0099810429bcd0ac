#include "schemas/scores.h"

#include <math.h>

enum { VALUES_PER_CHOICE = 7 }; // an object with three members and their keys

static const double LOGPROB_LOWEST = -9999.0; // written for minus infinity, as OpenAI does

size_t scores_n_values(const struct result *result)
{
    return result->n_choice_logprobs ? 2 + VALUES_PER_CHOICE * (size_t)result->n_choice_logprobs : 0;
}

static struct value value_of_logprob(double logprob)
{
    return value_float(isfinite(logprob) ? logprob + 0.0 : LOGPROB_LOWEST);
}

bool scores_build(struct arena *arena, const struct result *result, struct value *object)
{
    struct value scores;
    if (result->n_choice_logprobs == 0)
        return true;
    if (!value_array_create(arena, (size_t)result->n_choice_logprobs, &scores))
        return false;
    for (int32_t i = 0; i < result->n_choice_logprobs; i++) {
        const struct choice_logprob *score = &result->choice_logprobs[i];
        struct value *item = &scores.array.items[i];
        if (!value_object_create(arena, 3, item))
            return false;
        value_put(item, "choice", value_string(score->choice));
        value_put(item, "logprob", value_of_logprob(score->logprob));
        value_put(item, "probability", value_single(score->probability));
    }
    value_put(object, "choice_logprobs", scores);
    return true;
}

void scores_add_members(struct buffer *out, const struct result *result)
{
    for (int32_t i = 0; i < result->n_choice_logprobs; i++) {
        const struct choice_logprob *score = &result->choice_logprobs[i];
        struct value logprob = value_of_logprob(score->logprob),
                     probability = value_single(score->probability);
        buffer_add_string(out, i ? ",{\"choice\":" : ",\"choice_logprobs\":[{\"choice\":");
        json_encode_string(score->choice, out);
        buffer_add_string(out, ",\"logprob\":");
        json_encode(&logprob, out);
        buffer_add_string(out, ",\"probability\":");
        json_encode(&probability, out);
        buffer_add_string(out, i + 1 < result->n_choice_logprobs ? "}" : "}]");
    }
}

// ---- reading ----

static enum status refuse_member(struct error *error, const char *name, const char *expected,
                                 const struct value *got)
{
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(got, description);
    return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "result: %s: expected %s, got %s", name,
                     expected, description);
}

static bool read_number(const struct value *object, const char *name, double *number)
{
    const struct value *value = value_get(object, name);
    bool is_number = value && (value->kind == VALUE_FLOAT || value->kind == VALUE_INTEGER);
    if (is_number)
        *number = value->kind == VALUE_FLOAT ? value->number : (double)value->integer;
    return is_number;
}

static bool read_score(const struct value *item, struct choice_logprob *score)
{
    const struct value *choice = value_get(item, "choice");
    double probability = 0.0;
    if (!choice || choice->kind != VALUE_STRING || !read_number(item, "logprob", &score->logprob) ||
        !read_number(item, "probability", &probability))
        return false;
    score->choice = choice->text;
    score->probability = (float)probability;
    return true;
}

enum status scores_read(struct job *job, const struct value *root, struct error *error)
{
    static const char expected[] = "a list of choices with logprob and probability";
    struct result *result = &job->result;
    const struct value *scores = value_get(root, "choice_logprobs");
    if (!scores)
        return STATUS_OK;
    if (scores->kind != VALUE_ARRAY || scores->array.n_items > JOB_CHOICES_MAX)
        return refuse_member(error, "choice_logprobs", expected, scores);
    size_t n = scores->array.n_items;
    result->choice_logprobs = arena_allocate_array(&job->arena, n, sizeof *result->choice_logprobs);
    if (!result->choice_logprobs)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "result: no memory to decode it");
    for (size_t i = 0; i < n; i++)
        if (!read_score(&scores->array.items[i], &result->choice_logprobs[i]))
            return refuse_member(error, "choice_logprobs", expected, &scores->array.items[i]);
    result->n_choice_logprobs = (int32_t)n;
    return STATUS_OK;
}
