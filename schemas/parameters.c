// Decodes generation parameters that need more than a range check.
#include "schemas/request.h"

#include <stdio.h>
#include <string.h>

static enum status decode_limit(struct decoding *decoding, const char *name, const struct value *value)
{
    int64_t max_tokens;
    enum status status = decoding_integer(decoding, name, value, 0, JOB_MAX_TOKENS_MAX, true, &max_tokens);
    if (status == STATUS_OK)
        decoding->job->request.stop.max_tokens = (int32_t)max_tokens;
    return status;
}

enum status parameters_decode_max_tokens(struct decoding *decoding, struct value *value)
{
    return decode_limit(decoding, "max_tokens", value);
}

// max_completion_tokens is OpenAI's newer name of max_tokens. Decoded after max_tokens.
enum status parameters_decode_max_completion_tokens(struct decoding *decoding, struct value *value)
{
    int32_t max_tokens = decoding->job->request.stop.max_tokens;
    enum status status = decode_limit(decoding, "max_completion_tokens", value);
    if (status == STATUS_OK && max_tokens >= 0 && max_tokens != decoding->job->request.stop.max_tokens)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "max_completion_tokens: given as %d beside max_tokens %d; one of them is enough",
                         decoding->job->request.stop.max_tokens, max_tokens);
    return status;
}

enum status parameters_decode_seed(struct decoding *decoding, struct value *value)
{
    int64_t seed;
    enum status status = decoding_integer(decoding, "seed", value, INT64_MIN, INT64_MAX, false, &seed);
    if (status == STATUS_OK && seed != -1) { // -1 means missing, as in vLLM and llama.cpp
        decoding->job->request.sampling.seed = (uint64_t)seed;
        decoding->job->request.sampling.seed_given = true;
    }
    return status;
}

static enum status check_stop(struct decoding *decoding, const char *path, const struct value *value)
{
    if (value->kind != VALUE_STRING || value->text.size == 0)
        return decoding_expected(decoding, path, "a string that is not empty", value);
    if (value->text.size > JOB_STOP_BYTES_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %d bytes, got %zu", path, JOB_STOP_BYTES_MAX,
                         value->text.size);
    return STATUS_OK;
}

enum status parameters_decode_stop(struct decoding *decoding, struct value *value)
{
    struct request *request = &decoding->job->request;
    bool alone = value->kind == VALUE_STRING;
    if (!alone && value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, "stop", "a string or a list of strings", value);
    size_t n_stop = alone ? 1 : value->array.n_items;
    if (n_stop > JOB_STOP_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "stop: expected at most %d strings, got %zu", JOB_STOP_MAX, n_stop);
    request->stop.strings =
        arena_allocate_array(&decoding->job->arena, n_stop, sizeof *request->stop.strings);
    if (!request->stop.strings)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n_stop; i++) {
        const struct value *item = alone ? value : &value->array.items[i];
        char path[32] = "stop";
        if (!alone)
            snprintf(path, sizeof path, "stop[%zu]", i);
        enum status status = check_stop(decoding, path, item);
        if (status != STATUS_OK)
            return status;
        request->stop.strings[i] = item->text;
    }
    request->stop.n_strings = (int32_t)n_stop;
    return STATUS_OK;
}

enum status parameters_decode_bad_words(struct decoding *decoding, struct value *value)
{
    struct request *request = &decoding->job->request;
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, "bad_words", "a list of strings", value);
    size_t n = value->array.n_items;
    if (n > JOB_BAD_WORDS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "bad_words: expected at most %d strings, got %zu", JOB_BAD_WORDS_MAX, n);
    request->vocabulary.bad_words =
        arena_allocate_array(&decoding->job->arena, n, sizeof *request->vocabulary.bad_words);
    if (!request->vocabulary.bad_words)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n; i++) {
        const struct value *item = &value->array.items[i];
        char path[32];
        snprintf(path, sizeof path, "bad_words[%zu]", i);
        if (item->kind == VALUE_STRING && text_trim(item->text).size == 0)
            return decoding_expected(decoding, path, "a string that is not blank", item);
        enum status status = check_stop(decoding, path, item);
        if (status != STATUS_OK)
            return status;
        request->vocabulary.bad_words[i] = item->text;
    }
    request->vocabulary.n_bad_words = (int32_t)n;
    return STATUS_OK;
}

// Decodes a list of token ids. Only a worker knows the vocabulary, so their range is not checked here.
static enum status decode_token_ids(struct decoding *decoding, const char *name, const struct value *value,
                                    int32_t n_max, int32_t **tokens, int32_t *n_tokens)
{
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, name, "a list of token ids", value);
    size_t n = value->array.n_items;
    if (n > (size_t)n_max)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %d tokens, got %zu", name, n_max, n);
    *tokens = arena_allocate_array(&decoding->job->arena, n, sizeof **tokens);
    if (!*tokens)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n; i++) {
        char path[48];
        int64_t token;
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        enum status status =
            decoding_integer(decoding, path, &value->array.items[i], 0, INT32_MAX, false, &token);
        if (status != STATUS_OK)
            return status;
        (*tokens)[i] = (int32_t)token;
    }
    *n_tokens = (int32_t)n;
    return STATUS_OK;
}

enum status parameters_decode_stop_token_ids(struct decoding *decoding, struct value *value)
{
    struct request *request = &decoding->job->request;
    return decode_token_ids(decoding, "stop_token_ids", value, JOB_STOP_TOKENS_MAX, &request->stop.tokens,
                            &request->stop.n_tokens);
}

enum status parameters_decode_allowed_token_ids(struct decoding *decoding, struct value *value)
{
    struct request *request = &decoding->job->request;
    if (value->kind == VALUE_ARRAY && value->array.n_items == 0)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "allowed_token_ids: expected at least one token, got none");
    return decode_token_ids(decoding, "allowed_token_ids", value, JOB_ALLOWED_TOKENS_MAX,
                            &request->vocabulary.allowed_tokens, &request->vocabulary.n_allowed_tokens);
}

// Parses digits without a leading zero, so that every token has one spelling. -1: invalid.
static int64_t token_from_key(struct text key)
{
    if (key.size == 0 || key.size > 10 || (key.data[0] == '0' && key.size > 1))
        return -1;
    int64_t token = 0;
    for (size_t i = 0; i < key.size; i++) {
        if (key.data[i] < '0' || key.data[i] > '9')
            return -1;
        token = token * 10 + (key.data[i] - '0');
    }
    return token <= INT32_MAX ? token : -1;
}

static enum status decode_bias(struct decoding *decoding, const struct value_member *member,
                               struct logit_bias *bias)
{
    const struct value *value = &member->value;
    double number = value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
    int64_t token = token_from_key(member->key);
    if (token < 0) {
        struct value key = value_string(member->key);
        return decoding_expected(decoding, "logit_bias", "token ids as keys", &key);
    }
    if ((value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT) || number < -100 || number > 100) {
        char path[48];
        snprintf(path, sizeof path, "logit_bias[\"%d\"]", (int)token);
        return decoding_expected(decoding, path, "a number from -100 to 100", value);
    }
    *bias = (struct logit_bias){(int32_t)token, (float)number + 0.0f};
    return STATUS_OK;
}

enum status parameters_decode_logit_bias(struct decoding *decoding, struct value *value)
{
    struct sampling *sampling = &decoding->job->request.sampling;
    if (value->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "logit_bias", "an object of token ids and numbers", value);
    size_t n_biases = value->object.n_members;
    if (n_biases > JOB_LOGIT_BIAS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "logit_bias: expected at most %d tokens, got %zu", JOB_LOGIT_BIAS_MAX, n_biases);
    sampling->logit_bias =
        arena_allocate_array(&decoding->job->arena, n_biases, sizeof *sampling->logit_bias);
    if (!sampling->logit_bias)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n_biases; i++) {
        enum status status = decode_bias(decoding, &value->object.members[i], &sampling->logit_bias[i]);
        if (status != STATUS_OK)
            return status;
    }
    sampling->n_logit_bias = (int32_t)n_biases;
    return STATUS_OK;
}

// In chats logprobs is true or false, and top_logprobs is given separately. In plain completions logprobs may
// also be the number of alternatives; then it replaces top_logprobs, which is decoded later.
enum status parameters_decode_logprobs(struct decoding *decoding, struct value *value)
{
    struct sampling *sampling = &decoding->job->request.sampling;
    if (value->kind == VALUE_BOOL) {
        sampling->logprobs = value->boolean;
        return STATUS_OK;
    }
    if (decoding_given(decoding, "messages"))
        return decoding_expected(decoding, "logprobs", "true or false", value);
    if (decoding_given(decoding, "top_logprobs"))
        return decoding_expected(decoding, "logprobs", "true or false beside top_logprobs", value);
    int64_t n_top;
    enum status status = decoding_integer(decoding, "logprobs", value, 0, JOB_TOP_LOGPROBS_MAX, true, &n_top);
    if (status == STATUS_OK) {
        sampling->logprobs = true;
        sampling->top_logprobs = (int32_t)n_top;
    }
    return status;
}

// Decodes the warnings of an earlier decoding; an encoded record includes them.
enum status parameters_decode_warnings(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, "warnings", "a list of strings", value);
    if (value->array.n_items > JOB_WARNINGS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "warnings: expected at most %d strings, got %zu", JOB_WARNINGS_MAX,
                         value->array.n_items);
    for (size_t i = 0; i < value->array.n_items; i++) {
        const struct value *item = &value->array.items[i];
        if (item->kind != VALUE_STRING)
            return decoding_expected(decoding, "warnings", "strings", item);
        int size = (int)(item->text.size < ERROR_TEXT_BYTES ? item->text.size : ERROR_TEXT_BYTES);
        if (!job_warn(decoding->job, "%.*s", size, item->text.data))
            return decoding_out_of_memory(decoding);
    }
    return STATUS_OK;
}

enum status parameters_finish(struct decoding *decoding)
{
    struct job *job = decoding->job;
    struct request *request = &job->request;
    struct sampling *sampling = &request->sampling;
    if (sampling->top_logprobs && !sampling->logprobs)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "top_logprobs: needs \"logprobs\": true");
    if (request->stop.max_tokens < 0 && decoding->max_tokens_default)
        request->stop.max_tokens = decoding->max_tokens_default;
    if (request->stop.max_tokens >= 0 && request->stop.min_tokens > request->stop.max_tokens)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "min_tokens: expected at most max_tokens, which is %d, got %d",
                         request->stop.max_tokens, request->stop.min_tokens);
    if (request->echo && request->prompt.kind == PROMPT_MESSAGES)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "echo: needs prompt or tokens, but messages is given");
    if (request->best_of && request->best_of < request->n)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "best_of: expected at least n, which is %d, got %d", request->n, request->best_of);
    if (request->best_of == request->n)
        request->best_of = 0;
    if (request->best_of && !sampling->logprobs)
        sampling->logprobs = request->hides_logprobs = true;
    if (sampling->top_k < 0)
        sampling->top_k = 0; // -1 and 0 both mean off
    if (!sampling->seed_given)
        sampling->seed = job_default_seed(job);
    return STATUS_OK;
}

bool parameters_encode_max_tokens(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.stop.max_tokens >= 0)
        *value = value_integer(job->request.stop.max_tokens);
    return true;
}

bool parameters_encode_seed(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.sampling.seed_given)
        *value = value_integer((int64_t)job->request.sampling.seed);
    return true;
}

static bool encode_texts(const struct text *texts, int32_t n_texts, struct arena *arena, struct value *value)
{
    if (n_texts == 0)
        return true;
    if (!value_array_create(arena, (size_t)n_texts, value))
        return false;
    for (int32_t i = 0; i < n_texts; i++)
        value->array.items[i] = value_string(texts[i]);
    return true;
}

bool parameters_encode_stop(const struct job *job, struct arena *arena, struct value *value)
{
    return encode_texts(job->request.stop.strings, job->request.stop.n_strings, arena, value);
}

bool parameters_encode_bad_words(const struct job *job, struct arena *arena, struct value *value)
{
    return encode_texts(job->request.vocabulary.bad_words, job->request.vocabulary.n_bad_words, arena, value);
}

static bool encode_token_ids(const int32_t *tokens, int32_t n_tokens, struct arena *arena,
                             struct value *value)
{
    if (n_tokens == 0)
        return true;
    if (!value_array_create(arena, (size_t)n_tokens, value))
        return false;
    for (int32_t i = 0; i < n_tokens; i++)
        value->array.items[i] = value_integer(tokens[i]);
    return true;
}

bool parameters_encode_stop_token_ids(const struct job *job, struct arena *arena, struct value *value)
{
    return encode_token_ids(job->request.stop.tokens, job->request.stop.n_tokens, arena, value);
}

bool parameters_encode_allowed_token_ids(const struct job *job, struct arena *arena, struct value *value)
{
    return encode_token_ids(job->request.vocabulary.allowed_tokens, job->request.vocabulary.n_allowed_tokens,
                            arena, value);
}

bool parameters_encode_warnings(const struct job *job, struct arena *arena, struct value *value)
{
    return encode_texts(job->result.warnings, job->result.n_warnings, arena, value);
}

bool parameters_encode_logprobs(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.sampling.logprobs && !job->request.hides_logprobs)
        *value = value_bool(true);
    return true;
}

bool parameters_encode_logit_bias(const struct job *job, struct arena *arena, struct value *value)
{
    const struct sampling *sampling = &job->request.sampling;
    if (sampling->n_logit_bias == 0)
        return true;
    if (!value_object_create(arena, (size_t)sampling->n_logit_bias, value))
        return false;
    for (int32_t i = 0; i < sampling->n_logit_bias; i++) {
        char digits[16];
        int size = snprintf(digits, sizeof digits, "%d", sampling->logit_bias[i].token);
        char *key = arena_copy(arena, digits, (size_t)size);
        if (!key)
            return false;
        value_put(value, key, value_single(sampling->logit_bias[i].bias));
    }
    return true;
}
