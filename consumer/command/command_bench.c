// sheaf bench: measures prefill and decode tokens per second by batch size on the forward pass alone: no
// queue, no text. The model is loaded once for all settings.
#include "consumer/command/bench_embed.h"
#include "consumer/command/bench_products.h"
#include "consumer/command/bench_settings.h"
#include "consumer/command/commands.h"
#include "consumer/observe/log.h"
#include "consumer/worker/check_log.h"
#include "consumer/worker/runtime.h"
#include "consumer/worker/trace.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"
#include "schemas/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct measurement {
    struct bench_setting setting;
    double prefill, decode; // tokens a second, medians
};

struct drawn_token {
    int32_t token;
    float logprob;
};

enum { ALONE_MAX = 3 };

// Tokens drawn for some of a batch's sequences, to compare them with the same sequences alone.
struct alone_check {
    int n_sequences;
    int32_t sequences[ALONE_MAX]; // first, middle and last one
    struct drawn_token *drawn;    // [2][ALONE_MAX][n_tokens_max]: in the batch, alone
    int32_t n_drawn[2][ALONE_MAX], n_tokens_max;
    int side; // of `drawn`: what the steps add to; -1: nothing
};

struct command_bench {
    const struct model *model;
    struct runtime *runtime;
    struct forward_limits limits;
    int32_t n_prompt, n_generate;
    // Arrays of a step of the largest batch; tokens, positions and sequences twice, for two steps in flight.
    int32_t *tokens, *positions, *output_rows, *pages, *drawn;
    struct step_sequence *sequences;
    struct sample_request *samples;
    struct sample_result *results;
    struct sampling sampling;
    int32_t n_pages_each;
    int32_t first; // number of the batch's first sequence, which determines its prompt
    struct alone_check alone;
    struct trace *trace; // gets the steps that the session times; NULL: none
};

static bool allocate_bench(struct command_bench *bench, int32_t batch_max, size_t n_pages)
{
    size_t rows = (size_t)bench->limits.n_tokens_max, batch = (size_t)batch_max;
    bench->tokens = calloc(2 * rows, sizeof *bench->tokens);
    bench->positions = calloc(2 * rows, sizeof *bench->positions);
    bench->output_rows = calloc(batch, sizeof *bench->output_rows);
    bench->drawn = calloc(batch, sizeof *bench->drawn);
    bench->sequences = calloc(2 * batch, sizeof *bench->sequences);
    bench->samples = calloc(batch, sizeof *bench->samples);
    bench->results = calloc(batch, sizeof *bench->results);
    bench->pages = calloc(n_pages, sizeof *bench->pages);
    bench->alone.drawn =
        calloc(2 * ALONE_MAX * (size_t)bench->alone.n_tokens_max, sizeof *bench->alone.drawn);
    bench->alone.side = -1;
    if (!bench->tokens || !bench->positions || !bench->output_rows || !bench->drawn || !bench->sequences ||
        !bench->samples || !bench->results || !bench->pages || !bench->alone.drawn)
        return false;
    bench->sampling = (struct sampling){.top_p = 1, .repetition_penalty = 1};
    for (size_t i = 0; i < batch; i++)
        bench->samples[i] = (struct sample_request){.sampling = &bench->sampling};
    for (size_t i = 0; i < n_pages; i++)
        bench->pages[i] = (int32_t)i;
    return true;
}

static int32_t prompt_token(const struct command_bench *bench, int32_t sequence, int32_t position)
{
    int32_t key[2] = {bench->first + sequence, position};
    return (int32_t)(hash_bytes(key, sizeof key, 1) % (uint64_t)bench->model->shape.n_vocab);
}

static struct step step_of(struct command_bench *bench)
{
    return (struct step){.tokens = bench->tokens,
                         .positions = bench->positions,
                         .sequences = bench->sequences,
                         .output_rows = bench->output_rows,
                         .samples = bench->samples};
}

static struct drawn_token *drawn_of(const struct alone_check *alone, int side, int i)
{
    return alone->drawn + (size_t)(side * ALONE_MAX + i) * (size_t)alone->n_tokens_max;
}

static void note_drawn(struct alone_check *alone, int32_t sequence, const struct sample_result *result)
{
    for (int i = 0; alone->side >= 0 && i < alone->n_sequences; i++)
        if (alone->sequences[i] == sequence)
            drawn_of(alone, alone->side, i)[alone->n_drawn[alone->side][i]++] =
                (struct drawn_token){result->token, result->logprob};
}

static void take_drawn(struct command_bench *bench, const int32_t *drawing, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        bench->drawn[drawing[i]] = bench->results[i].token < 0 ? 0 : bench->results[i].token;
        note_drawn(&bench->alone, bench->first + drawing[i], &bench->results[i]);
    }
}

static void report_findings(struct command_bench *bench)
{
    struct step_findings findings;
    session_take_findings(&bench->runtime->session, &findings);
    check_log(&findings.check);
    trace_write(bench->trace, &findings.trace);
}

static enum status run_step(struct command_bench *bench, struct step *step, const int32_t *drawing,
                            struct error *error)
{
    enum status status = session_step(&bench->runtime->session, step, bench->results, error);
    if (status != STATUS_OK)
        return status;
    take_drawn(bench, drawing, step->n_outputs);
    report_findings(bench);
    return STATUS_OK;
}

// Prefills all prompts, one after the other, in steps of up to n_tokens_max tokens: chunked prefill, as in
// the batcher.
static enum status prefill_batch(struct command_bench *bench, int32_t batch, struct error *error)
{
    int32_t sequence = 0, position = 0;
    while (sequence < batch) {
        struct step step = step_of(bench);
        int32_t drawing[LIMITS_SEQUENCES_MAX];
        while (sequence < batch && step.n_tokens < bench->limits.n_tokens_max) {
            int32_t n = bench->n_prompt - position;
            if (n > bench->limits.n_tokens_max - step.n_tokens)
                n = bench->limits.n_tokens_max - step.n_tokens;
            bench->sequences[step.n_sequences++] =
                (struct step_sequence){.first_row = step.n_tokens,
                                       .n_tokens = n,
                                       .position = position,
                                       .pages = bench->pages + sequence * bench->n_pages_each,
                                       .state_in = sequence,
                                       .state_out = sequence};
            for (int32_t i = 0; i < n; i++, position++) {
                bench->tokens[step.n_tokens] = prompt_token(bench, sequence, position);
                bench->positions[step.n_tokens++] = position;
            }
            if (position < bench->n_prompt)
                break;
            drawing[step.n_outputs] = sequence++;
            bench->output_rows[step.n_outputs++] = step.n_tokens - 1;
            position = 0;
        }
        enum status status = run_step(bench, &step, drawing, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

// Decode step number t. `pending`: the previous step is in flight, so its tokens are not known yet; token -1
// - i refers to its output i.
static struct step decode_step(struct command_bench *bench, int32_t batch, int32_t t, bool pending)
{
    struct step step = step_of(bench);
    int32_t *tokens = bench->tokens + t % 2 * bench->limits.n_tokens_max;
    int32_t *positions = bench->positions + t % 2 * bench->limits.n_tokens_max;
    struct step_sequence *sequences = bench->sequences + t % 2 * bench->limits.n_sequences_max;
    for (int32_t i = 0; i < batch; i++) {
        positions[i] = bench->n_prompt + t;
        sequences[i] = (struct step_sequence){.first_row = i,
                                              .n_tokens = 1,
                                              .position = positions[i],
                                              .pages = bench->pages + i * bench->n_pages_each,
                                              .state_in = i,
                                              .state_out = i};
        tokens[i] = pending ? -1 - i : bench->drawn[i];
        bench->output_rows[i] = i;
    }
    step.tokens = tokens;
    step.positions = positions;
    step.sequences = sequences;
    step.n_tokens = step.n_sequences = step.n_outputs = batch;
    return step;
}

static enum status collect_step(struct command_bench *bench, const struct step *step, struct error *error)
{
    enum status status = session_collect(&bench->runtime->session, step, bench->results, error);
    if (status != STATUS_OK)
        return status;
    take_drawn(bench, bench->output_rows, step->n_outputs);
    report_findings(bench);
    return STATUS_OK;
}

// As in the batcher: an asynchronous device gets the next step while the previous one runs.
static enum status decode_batch(struct command_bench *bench, int32_t batch, struct error *error)
{
    bool ahead = session_computes_ahead(&bench->runtime->session);
    struct step steps[2];
    enum status status = STATUS_OK;
    for (int32_t t = 0; status == STATUS_OK && t < bench->n_generate; t++) {
        struct step *step = &steps[t % 2];
        *step = decode_step(bench, batch, t, ahead && t > 0);
        status = ahead ? session_submit(&bench->runtime->session, step, error)
                       : run_step(bench, step, bench->output_rows, error);
        if (status == STATUS_OK && ahead && t > 0)
            status = collect_step(bench, &steps[1 - t % 2], error);
    }
    return status == STATUS_OK && ahead ? collect_step(bench, &steps[(bench->n_generate - 1) % 2], error)
                                        : status;
}

static int32_t pages_of(const struct bench_setting *setting)
{
    return (setting->n_prompt + setting->n_generate + LIMITS_PAGE_POSITIONS - 1) / LIMITS_PAGE_POSITIONS;
}

static void start_setting(struct command_bench *bench, const struct bench_setting *setting)
{
    bench->n_prompt = setting->n_prompt;
    bench->n_generate = setting->n_generate;
    bench->n_pages_each = pages_of(setting);
}

static enum status draw_batch(struct command_bench *bench, int32_t first, int32_t batch, int side,
                              struct error *error)
{
    bench->first = first;
    bench->alone.side = side;
    enum status status = prefill_batch(bench, batch, error);
    if (status == STATUS_OK)
        status = decode_batch(bench, batch, error);
    bench->first = 0;
    bench->alone.side = -1;
    return status;
}

// Computes the batch once more, then its first, middle and last sequence alone. *differing: the first sequence for which a
// token or a logprob is another one; -1: none.
static enum status check_alone(struct command_bench *bench, const struct bench_setting *setting,
                               int32_t *differing, struct error *error)
{
    struct alone_check *alone = &bench->alone;
    const int32_t wanted[ALONE_MAX] = {0, setting->batch / 2, setting->batch - 1};
    alone->n_sequences = 0;
    memset(alone->n_drawn, 0, sizeof alone->n_drawn);
    for (int i = 0; i < ALONE_MAX; i++)
        if (alone->n_sequences == 0 || alone->sequences[alone->n_sequences - 1] != wanted[i])
            alone->sequences[alone->n_sequences++] = wanted[i];
    start_setting(bench, setting);
    bench->sampling.logprobs = true;
    enum status status = draw_batch(bench, 0, setting->batch, 0, error);
    for (int i = 0; status == STATUS_OK && i < alone->n_sequences; i++)
        status = draw_batch(bench, alone->sequences[i], 1, 1, error);
    bench->sampling.logprobs = false;
    *differing = -1;
    for (int i = alone->n_sequences - 1; status == STATUS_OK && i >= 0; i--)
        if (alone->n_drawn[0][i] != alone->n_drawn[1][i] || alone->n_drawn[0][i] == 0 ||
            memcmp(drawn_of(alone, 0, i), drawn_of(alone, 1, i),
                   (size_t)alone->n_drawn[0][i] * sizeof *alone->drawn) != 0)
            *differing = alone->sequences[i];
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// After this much prefill time the prompts are not computed again: each decode run starts from the same
// pages.
enum { PREFILL_S_MAX = 15 };

static enum status measure_batch(struct command_bench *bench, struct measurement *measurement, int n_runs,
                                 struct error *error)
{
    double prefills[1000], decodes[1000], prefill_s = 0;
    int32_t batch = measurement->setting.batch;
    start_setting(bench, &measurement->setting);
    int n_prefills = 0;
    for (int run = 0; run < n_runs; run++) {
        enum status status = STATUS_OK;
        double start_s = clock_s(), prefilled_s = start_s;
        if (run == 0 || prefill_s < PREFILL_S_MAX) {
            status = prefill_batch(bench, batch, error);
            prefilled_s = clock_s();
            prefill_s += prefilled_s - start_s;
            prefills[n_prefills++] = (double)batch * bench->n_prompt / (prefilled_s - start_s);
        }
        if (status == STATUS_OK)
            status = decode_batch(bench, batch, error);
        double decoded_s = clock_s();
        if (status != STATUS_OK)
            return status;
        decodes[run] = (double)batch * bench->n_generate / (decoded_s - prefilled_s);
    }
    measurement->prefill = median_of(prefills, n_prefills);
    measurement->decode = median_of(decodes, n_runs);
    return STATUS_OK;
}

// `before`: the measurement printed last; NULL: none.
static void print_measurement(const struct measurement *m, const struct measurement *before,
                              const struct settings *settings)
{
    const struct bench_setting *setting = &m->setting;
    bool same_sizes = before && before->setting.n_prompt == setting->n_prompt &&
                      before->setting.n_generate == setting->n_generate;
    if (settings->output.json) {
        printf("%s{\"batch\":%d,\"prompt\":%d,\"generate\":%d,\"prefill_tokens_per_second\":%.2f,"
               "\"decode_tokens_per_second\":%.2f}",
               before ? ",\n " : "[", setting->batch, setting->n_prompt, setting->n_generate, m->prefill,
               m->decode);
    } else {
        if (!same_sizes)
            printf("%6s %12s %12s   tokens/s, prompt %d, generate %d, median of %d\n", "batch", "prefill",
                   "decode", setting->n_prompt, setting->n_generate, (int)settings->bench.repeat);
        printf("%6d %12.1f %12.1f\n", setting->batch, m->prefill, m->decode);
    }
    fflush(stdout);
}

// With --trace-steps: computes each batch once more, after all times are printed.
static enum status trace_settings(struct command_bench *bench, const struct bench_setting *chosen, int n,
                                  struct error *error)
{
    enum status status = STATUS_OK;
    session_time(&bench->runtime->session, bench->runtime->device.backend);
    for (int i = 0; status == STATUS_OK && i < n; i++) {
        start_setting(bench, &chosen[i]);
        status = draw_batch(bench, 0, chosen[i].batch, -1, error);
    }
    trace_close(bench->trace);
    bench->trace = NULL;
    return status;
}

// With --alone, after all times are printed.
static enum status check_settings(struct command_bench *bench, const struct bench_setting *chosen, int n,
                                  struct error *error)
{
    int n_differing = 0;
    for (int i = 0; i < n; i++) {
        int32_t differing;
        enum status status = check_alone(bench, &chosen[i], &differing, error);
        if (status != STATUS_OK)
            return status;
        n_differing += differing >= 0;
        if (differing >= 0)
            log_write(LOG_ERROR,
                      "prompt %d, generate %d, batch %d: sequence %d alone has other tokens or logprobs",
                      chosen[i].n_prompt, chosen[i].n_generate, chosen[i].batch, differing);
        else
            log_write(
                LOG_INFO,
                "prompt %d, generate %d, batch %d: %d sequences alone have the same tokens and logprobs",
                chosen[i].n_prompt, chosen[i].n_generate, chosen[i].batch, bench->alone.n_sequences);
    }
    if (n_differing == 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED,
                     "sequences alone differ from the same ones in a batch in %d of %d settings", n_differing,
                     n);
}

static enum status measure_all(struct command_bench *bench, const struct settings *settings,
                               const struct bench_setting *chosen, int n, struct error *error)
{
    struct measurement warm = {.setting = chosen[0]}, measured[OPTIONS_BATCHES_MAX];
    warm.setting.batch = 1;
    enum status status = measure_batch(bench, &warm, 1, error);
    for (int i = 0; status == STATUS_OK && i < n; i++) {
        measured[i].setting = chosen[i];
        status = measure_batch(bench, &measured[i], (int)settings->bench.repeat, error);
        if (status == STATUS_OK)
            print_measurement(&measured[i], i ? &measured[i - 1] : NULL, settings);
    }
    if (settings->output.json && status == STATUS_OK)
        puts("]");
    fflush(stdout);
    if (status == STATUS_OK && bench->trace)
        status = trace_settings(bench, chosen, n, error);
    return status == STATUS_OK && settings->bench.alone ? check_settings(bench, chosen, n, error) : status;
}

static int32_t larger_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

// Sizes the memory for the largest setting of each kind.
static enum status plan_settings(struct command_bench *bench, const struct settings *settings,
                                 const struct bench_setting *chosen, int n, struct error *error)
{
    int32_t batch_max = 1, n_pages = 1;
    for (int i = 0; i < n; i++) {
        int64_t positions = (int64_t)chosen[i].n_prompt + chosen[i].n_generate;
        if (positions > bench->model->shape.n_context)
            return error_set(error, STATUS_REFUSE, ERROR_CONTEXT_LENGTH,
                             "the model's context holds %d tokens: %s for %lld",
                             bench->model->shape.n_context,
                             settings->bench.settings ? "--settings asks" : "--prompt and --generate ask",
                             (long long)positions);
        batch_max = larger_of(batch_max, chosen[i].batch);
        n_pages = larger_of(n_pages, chosen[i].batch * pages_of(&chosen[i]));
        bench->alone.n_tokens_max = larger_of(bench->alone.n_tokens_max, chosen[i].n_generate + 1);
    }
    int32_t rows = settings->engine.n_tokens_max ? (int32_t)settings->engine.n_tokens_max : 512;
    bench->limits = (struct forward_limits){.n_tokens_max = larger_of(rows, batch_max),
                                            .n_outputs_max = batch_max,
                                            .n_sequences_max = batch_max,
                                            .page_positions = LIMITS_PAGE_POSITIONS,
                                            .n_pages = n_pages,
                                            .n_state_slots = batch_max,
                                            .kv_type = KV_F16};
    if (!allocate_bench(bench, batch_max, (size_t)n_pages))
        return error_memory(error, STATUS_REFUSE, "bench");
    return STATUS_OK;
}

// Plans the memory of the requested batches; fails if they do not fit.
static enum status place_model(const struct command_bench *bench, struct runtime *runtime,
                               const struct settings *settings, struct error *error)
{
    const struct forward_limits *limits = &bench->limits;
    struct limits_wanted wanted = {.n_sequences_max = limits->n_sequences_max,
                                   .n_tokens_max = limits->n_tokens_max,
                                   .no_snapshots = true,
                                   .kv_type = &limits->kv_type,
                                   .page_bytes = (uint64_t)limits->n_pages *
                                                 forward_page_bytes(bench->model, runtime->device.backend,
                                                                    limits->page_positions, limits->kv_type)};
    return runtime_plan(runtime, &settings->engine, &wanted, error);
}

static enum status check_files(const struct settings *settings, struct error *error)
{
    const struct file_use uses[] = {{"--model", settings->model.path, .is_model = true},
                                    {"--config", settings->line.config, false},
                                    {"--trace-steps", settings->engine.trace_steps, true}};
    return file_check_uses(uses, sizeof uses / sizeof uses[0], error);
}

// Without a model.
static enum status measure_products(const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    enum status status = runtime_open_backend(&runtime, settings, error);
    if (status == STATUS_OK)
        status = bench_products(&runtime, settings, error);
    runtime_close(&runtime);
    return status;
}

static enum status measure_embeddings(const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    enum status status = runtime_open_weights(&runtime, settings, settings->model.path, error);
    if (status == STATUS_OK)
        status = runtime_open_backend(&runtime, settings, error);
    if (status == STATUS_OK)
        status = bench_embed(&runtime, settings, error);
    runtime_close(&runtime);
    return status;
}

enum status command_bench(const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    struct command_bench bench = {0};
    struct bench_setting chosen[OPTIONS_BATCHES_MAX];
    int n = 0;
    if (settings->bench.products)
        return measure_products(settings, error);
    if (!settings->model.path)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf bench: expected a model, or --products");
    if (settings->bench.embed)
        return measure_embeddings(settings, error);
    enum status status = bench_settings_parse(&settings->bench, chosen, &n, error);
    if (status == STATUS_OK)
        status = check_files(settings, error);
    if (status == STATUS_OK)
        status = runtime_open_weights(&runtime, settings, settings->model.path, error);
    bench.model = runtime.model;
    if (status == STATUS_OK)
        status = runtime_open_backend(&runtime, settings, error);
    if (status == STATUS_OK)
        status = plan_settings(&bench, settings, chosen, n, error);
    if (status == STATUS_OK)
        status = runtime_kv_type(&settings->engine, &bench.limits.kv_type, error);
    if (status == STATUS_OK)
        status = place_model(&bench, &runtime, settings, error);
    double start_s = clock_s();
    if (status == STATUS_OK)
        status = forward_create(&runtime.forward, runtime.model, runtime.device.backend, &bench.limits, NULL,
                                NULL, error);
    bench.runtime = &runtime;
    if (status == STATUS_OK)
        status = runtime_open_session(&runtime, settings, &bench.limits, false, error);
    if (status == STATUS_OK && settings->engine.trace_steps)
        status = trace_open(&bench.trace, settings->engine.trace_steps, settings->output.overwrite, error);
    if (status == STATUS_OK) {
        log_write(LOG_INFO, "%s on %s, %d threads; loaded in %.2f s", runtime.model->name,
                  runtime.device.backend->device.name, pool_n_threads(runtime.device.pool),
                  clock_s() - start_s);
        status = measure_all(&bench, settings, chosen, n, error);
    }
    trace_close(bench.trace);
    free(bench.tokens);
    free(bench.positions);
    free(bench.output_rows);
    free(bench.drawn);
    free(bench.sequences);
    free(bench.samples);
    free(bench.results);
    free(bench.pages);
    free(bench.alone.drawn);
    runtime_close(&runtime);
    return status;
}
