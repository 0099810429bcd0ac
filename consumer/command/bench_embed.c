#include "consumer/command/bench_embed.h"

#include "consumer/observe/log.h"
#include "engine/embedding.h"
#include "engine/embedding_head.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"

#include <stdio.h>
#include <stdlib.h>

// Tokens of one measurement: enough that the steps are full.
enum { RUN_TOKENS = 4096, REPEATS_MAX = 1000 };

struct embed_bench {
    const struct model *model;
    struct embedder *embedder;
    int32_t *ids; // [RUN_TOKENS, or the longest text]
    struct embedding_text *texts;
    float *vectors; // [RUN_TOKENS, width]
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Texts of the length, different ones.
static int32_t fill_texts(const struct embed_bench *bench, int32_t length)
{
    int32_t n_texts = length < RUN_TOKENS ? RUN_TOKENS / length : 1;
    for (int32_t i = 0; i < n_texts * length; i++)
        bench->ids[i] = (int32_t)(hash_bytes(&i, sizeof i, 1) % (uint64_t)bench->model->shape.n_vocab);
    for (int32_t i = 0; i < n_texts; i++)
        bench->texts[i] = (struct embedding_text){bench->ids + (ptrdiff_t)i * length, length, NULL};
    return n_texts;
}

static enum status measure(const struct embed_bench *bench, const struct settings *settings, int32_t length,
                           bool first, struct error *error)
{
    double took_s[REPEATS_MAX], processor_s[REPEATS_MAX];
    int32_t n_texts = fill_texts(bench, length), n_runs = (int32_t)settings->bench.repeat;
    enum status status = STATUS_OK;
    for (int32_t run = -1; run < n_runs && status == STATUS_OK; run++) { // the first run warms up
        double start_s = clock_s();
        int64_t start_ns = clock_cpu_ns();
        status = embedder_compute(bench->embedder, bench->texts, n_texts, bench->vectors, error);
        took_s[run < 0 ? 0 : run] = clock_s() - start_s;
        processor_s[run < 0 ? 0 : run] = (double)(clock_cpu_ns() - start_ns) / 1e9;
    }
    if (status != STATUS_OK)
        return status;
    qsort(took_s, (size_t)n_runs, sizeof *took_s, by_value);
    qsort(processor_s, (size_t)n_runs, sizeof *processor_s, by_value);
    double texts = n_texts / took_s[n_runs / 2], of_processor = n_texts / processor_s[n_runs / 2] * length;
    if (settings->output.json)
        printf("%s{\"length\":%d,\"texts_per_second\":%.2f,\"tokens_per_second\":%.2f,"
               "\"tokens_per_processor_second\":%.2f}",
               first ? "[" : ",\n ", length, texts, texts * length, of_processor);
    else
        printf("%6d %12.1f %12.1f %22.1f\n", length, texts, texts * length, of_processor);
    fflush(stdout);
    return STATUS_OK;
}

static enum status measure_lengths(const struct embed_bench *bench, const struct settings *settings,
                                   int32_t n_longest, struct error *error)
{
    if (!settings->output.json)
        printf("%6s %12s %12s %22s   per second, median of %d\n", "length", "texts", "tokens",
               "tokens of a processor", (int)settings->bench.repeat);
    enum status status = STATUS_OK;
    for (int32_t length = n_longest < 8 ? n_longest : 8; status == STATUS_OK; length *= 4) {
        length = length < n_longest ? length : n_longest;
        status = measure(bench, settings, length, length <= 8, error);
        if (length == n_longest)
            break;
    }
    if (settings->output.json && status == STATUS_OK)
        puts("]");
    return status;
}

enum status bench_embed(struct runtime *runtime, const struct settings *settings, struct error *error)
{
    enum { LONGEST = 8192 };
    const struct model *model = runtime->model;
    struct embed_bench bench = {.model = model};
    int32_t n_longest = model->shape.n_context < LONGEST ? model->shape.n_context : LONGEST;
    struct limits_wanted wanted = {.n_tokens_max = (int32_t)settings->engine.n_tokens_max,
                                   .backend = runtime->device.backend,
                                   .device = runtime->device.on_gpu};
    struct embedder_options options = {
        .model = model, .normalize = true, .n_dimensions = embedding_width(model), .n_longest = n_longest};
    limits_set_embedding(&wanted, model, n_longest);
    enum status status = pooling_of_model(model, &options.pooling, error);
    if (status == STATUS_OK)
        status = runtime_plan(runtime, &settings->engine, &wanted, error);
    if (status == STATUS_OK)
        status = forward_create(&runtime->forward, model, runtime->device.backend, &runtime->plan.forward,
                                NULL, NULL, error);
    if (status != STATUS_OK)
        return status;
    options.forward = runtime->forward;
    options.limits = runtime->plan.forward;
    size_t n_ids = n_longest > RUN_TOKENS ? (size_t)n_longest : RUN_TOKENS;
    bench.ids = calloc(n_ids, sizeof *bench.ids);
    bench.texts = calloc(RUN_TOKENS, sizeof *bench.texts);
    bench.vectors = calloc((size_t)RUN_TOKENS * (size_t)options.n_dimensions, sizeof *bench.vectors);
    if (!bench.ids || !bench.texts || !bench.vectors)
        status = error_memory(error, STATUS_REFUSE, "bench");
    if (status == STATUS_OK)
        status = embedder_create(&bench.embedder, &options, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%s on %s, %d threads, steps of %d rows", model->name,
                  runtime->device.backend->device.name, pool_n_threads(runtime->device.pool),
                  options.limits.n_tokens_max);
    if (status == STATUS_OK)
        status = measure_lengths(&bench, settings, n_longest, error);
    embedder_destroy(bench.embedder);
    free(bench.ids);
    free(bench.texts);
    free(bench.vectors);
    return status;
}
