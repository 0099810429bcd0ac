#include "consumer/command/bench_settings.h"

#include "batching/limits.h"

#include <stdlib.h>

enum { BENCH_TOKENS_MAX = 1 << 20 }; // as of --prompt and --generate

// A number from 1 to `max`; *at is moved after it.
static bool take_number(const char **at, long max, int32_t *number)
{
    char *end;
    long value = **at >= '0' && **at <= '9' ? strtol(*at, &end, 10) : 0;
    if (value < 1 || value > max)
        return false;
    *number = (int32_t)value;
    *at = end;
    return true;
}

// Adds a setting for each of the batch sizes, which `separator` separates.
static bool take_batches(const char **at, char separator, struct bench_setting setting,
                         struct bench_setting settings[OPTIONS_BATCHES_MAX], int *n)
{
    do {
        if (*n == OPTIONS_BATCHES_MAX || !take_number(at, LIMITS_SEQUENCES_MAX, &setting.batch))
            return false;
        settings[(*n)++] = setting;
    } while (**at == separator && (*at)++);
    return true;
}

static bool take_sizes(const char **at, struct bench_setting *setting)
{
    if (!take_number(at, BENCH_TOKENS_MAX, &setting->n_prompt) || *(*at)++ != '+')
        return false;
    return take_number(at, BENCH_TOKENS_MAX, &setting->n_generate) && *(*at)++ == '@';
}

static bool take_settings(const char *at, struct bench_setting settings[OPTIONS_BATCHES_MAX], int *n)
{
    do {
        struct bench_setting setting;
        if (!take_sizes(&at, &setting) || !take_batches(&at, '/', setting, settings, n))
            return false;
    } while (*at == ',' && at++);
    return *at == '\0';
}

enum status bench_settings_parse(const struct bench_options *options,
                                 struct bench_setting settings[OPTIONS_BATCHES_MAX], int *n,
                                 struct error *error)
{
    *n = 0;
    if (options->settings && take_settings(options->settings, settings, n))
        return STATUS_OK;
    if (options->settings)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--settings: expected up to %d batches as PROMPT+GENERATE@BATCH/BATCH,..., for example "
            "480+64@1/64,128+128@256, got \"%s\"",
            OPTIONS_BATCHES_MAX, options->settings);
    struct bench_setting setting = {.n_prompt = (int32_t)options->prompt,
                                    .n_generate = (int32_t)options->generate};
    const char *at = options->batch ? options->batch : "1,8,32";
    if (take_batches(&at, ',', setting, settings, n) && !*at)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--batch: expected up to %d sizes from 1 to %d, as 1,8,32, got \"%s\"",
                     OPTIONS_BATCHES_MAX, LIMITS_SEQUENCES_MAX, options->batch);
}
