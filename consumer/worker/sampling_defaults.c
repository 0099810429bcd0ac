#include "consumer/worker/sampling_defaults.h"

#include "consumer/observe/log.h"
#include "engine/model/folder/model_folder.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Parameters, by the names of their field, their option and the model's key (NULL: models have none).
static const struct parameter {
    const char *field, *option, *key;
    enum sampling_parameter bit;
    size_t setting; // in struct sampling_options
    size_t number;  // in struct sampling
} parameters[] = {
#define PARAMETER(name, option, key, bit)                                                                    \
    {                                                                                                        \
#name, option, key, bit, offsetof(struct sampling_options, name), offsetof(struct sampling, name)    \
    }
    PARAMETER(temperature, "temperature", "general.sampling.temp", SAMPLING_TEMPERATURE),
    PARAMETER(top_p, "top-p", "general.sampling.top_p", SAMPLING_TOP_P),
    PARAMETER(top_k, "top-k", "general.sampling.top_k", SAMPLING_TOP_K),
    PARAMETER(min_p, "min-p", "general.sampling.min_p", SAMPLING_MIN_P),
    PARAMETER(presence_penalty, "presence-penalty", NULL, SAMPLING_PRESENCE_PENALTY),
    PARAMETER(frequency_penalty, "frequency-penalty", NULL, SAMPLING_FREQUENCY_PENALTY),
    PARAMETER(repetition_penalty, "repetition-penalty", "general.sampling.penalty_repeat",
              SAMPLING_REPETITION_PENALTY),
    PARAMETER(thinking_token_budget, "thinking-token-budget", NULL, SAMPLING_THINKING_TOKEN_BUDGET),
#undef PARAMETER
};

enum { N_PARAMETERS = sizeof parameters / sizeof *parameters };

static enum status read_model(struct sampling_defaults *defaults, const struct gguf *gguf,
                              struct error *error)
{
    struct text refused = {0};
    double number;
    bool found;
    enum status status = gguf_text(gguf, MODEL_FOLDER_NO_SAMPLING, &refused, NULL, error);
    if (status == STATUS_OK && refused.data)
        status = error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                           "%.*s (--sampling-defaults none ignores the file's settings)", (int)refused.size,
                           refused.data);
    for (int i = 0; i < N_PARAMETERS && status == STATUS_OK; i++) {
        if (!parameters[i].key)
            continue;
        status = gguf_number(gguf, parameters[i].key, &number, &found, error);
        if (status != STATUS_OK || !found)
            continue;
        status = sampling_set(&defaults->sampling, parameters[i].field, number, error);
        if (status != STATUS_OK)
            error_prefix(error, "the model's %s (--sampling-defaults none ignores it)", parameters[i].key);
    }
    if (status == STATUS_OK)
        status = gguf_number(gguf, "general.sampling.max_new_tokens", &number, &found, error);
    if (status == STATUS_OK && found && number >= 1)
        defaults->max_tokens = number < JOB_MAX_TOKENS_MAX ? (int64_t)number : JOB_MAX_TOKENS_MAX;
    return status;
}

// Warns of settings of llama.cpp samplers that are not implemented, if they would change an answer.
static enum status warn_of_others(const struct gguf *gguf, struct error *error)
{
    enum { MIROSTAT, XTC_PROBABILITY, XTC_THRESHOLD, PENALTY_LAST_N, N_KEYS };
    static const char *const keys[N_KEYS] = {"general.sampling.mirostat", "general.sampling.xtc_probability",
                                             "general.sampling.xtc_threshold",
                                             "general.sampling.penalty_last_n"};
    double numbers[N_KEYS] = {[XTC_THRESHOLD] = 0.1, [PENALTY_LAST_N] = -1.0};
    bool found[N_KEYS];
    for (int i = 0; i < N_KEYS; i++) {
        enum status status = gguf_number(gguf, keys[i], &numbers[i], &found[i], error);
        if (status != STATUS_OK)
            return status;
    }
    // XTC needs several tokens above its threshold: above a threshold of one half there is at most one.
    bool has_xtc = numbers[XTC_PROBABILITY] > 0.0 && numbers[XTC_THRESHOLD] <= 0.5;
    const bool has_effect[N_KEYS] = {numbers[MIROSTAT] != 0.0, has_xtc, has_xtc && found[XTC_THRESHOLD],
                                     numbers[PENALTY_LAST_N] != -1.0}; // -1: all tokens, as here
    for (int i = 0; i < N_KEYS; i++)
        if (has_effect[i])
            log_write(LOG_WARNING, "the model's %s is %g: not supported, and ignored", keys[i], numbers[i]);
    return STATUS_OK;
}

static enum status read_options(struct sampling_defaults *defaults, const struct sampling_options *options,
                                struct error *error)
{
    for (int i = 0; i < N_PARAMETERS; i++) {
        const char *text = *(char *const *)(const void *)((const char *)options + parameters[i].setting);
        if (!text)
            continue;
        char *end;
        errno = 0;
        double number = strtod(text, &end);
        if (!*text || *end || errno || isnan(number))
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected a number, got \"%s\"",
                             parameters[i].option, text);
        enum status status = sampling_set(&defaults->sampling, parameters[i].field, number, error);
        if (status != STATUS_OK) {
            error->code = ERROR_USAGE;
            error_prefix(error, "--%s", parameters[i].option);
            return status;
        }
    }
    if (options->max_tokens_default)
        defaults->max_tokens = options->max_tokens_default;
    if (!options->reasoning_effort)
        return STATUS_OK;
    defaults->reasoning_effort = text_from_string(options->reasoning_effort);
    return reasoning_effort_is_known(defaults->reasoning_effort)
               ? STATUS_OK
               : error_set(error, STATUS_REFUSE, ERROR_USAGE,
                           "--reasoning-effort: expected none, minimal, low, medium, high, xhigh or max, got "
                           "\"%s\"",
                           options->reasoning_effort);
}

static void write_names(struct sampling_defaults *defaults)
{
    // at most ten parameters: a name of at most 21 bytes and a value of at most 12 bytes each
    size_t size = 0, room = sizeof defaults->names;
    for (int i = 0; i < N_PARAMETERS; i++) {
        const void *number = (const char *)&defaults->sampling + parameters[i].number;
        if (!(defaults->sampling.given & parameters[i].bit))
            continue;
        if (parameters[i].bit & (SAMPLING_TOP_K | SAMPLING_THINKING_TOKEN_BUDGET))
            size += (size_t)snprintf(defaults->names + size, room - size, " %s=%d", parameters[i].option,
                                     *(const int32_t *)number);
        else
            size += (size_t)snprintf(defaults->names + size, room - size, " %s=%.6g", parameters[i].option,
                                     (double)*(const float *)number);
    }
    if (defaults->max_tokens)
        size += (size_t)snprintf(defaults->names + size, room - size, " max-tokens=%lld",
                                 (long long)defaults->max_tokens);
    if (defaults->reasoning_effort.size)
        snprintf(defaults->names + size, room - size, " reasoning-effort=%s",
                 defaults->reasoning_effort.data);
}

enum status sampling_defaults_read(struct sampling_defaults *defaults, const struct gguf *gguf,
                                   const struct sampling_options *options, struct error *error)
{
    *defaults = (struct sampling_defaults){0};
    const char *whose = options->defaults ? options->defaults : "model";
    bool models = strcmp(whose, "model") == 0;
    if (!models && strcmp(whose, "none") != 0)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--sampling-defaults: expected model or none, got \"%s\"", whose);
    enum status status = models ? read_model(defaults, gguf, error) : STATUS_OK;
    if (status == STATUS_OK && models)
        status = warn_of_others(gguf, error);
    if (status == STATUS_OK)
        status = read_options(defaults, options, error);
    if (status != STATUS_OK)
        return status;
    write_names(defaults);
    if (defaults->names[0])
        log_write(LOG_INFO, "jobs that name no others have%s", defaults->names);
    return STATUS_OK;
}
