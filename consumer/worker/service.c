#include "consumer/worker/service.h"

#include "consumer/observe/exporter.h"
#include "consumer/observe/log.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/local.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/stop.h"
#include "consumer/worker/task_runtime.h"
#include "engine/file/gguf.h"
#include "engine/file/interrupt.h"
#include "engine/model/adapter.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum status start_worker(const struct service *service, const struct settings *settings,
                                const struct runtime *runtime, struct error *error)
{
    char model[JOB_MODEL_BYTES_MAX + 1];
    snprintf(model, sizeof model, "%.*s", (int)runtime->model_name.size, runtime->model_name.data);
    const struct batch_limits *batch = &runtime->plan.batch;
    struct worker_description description = {.transport = settings->kafka.brokers ? "kafka" : "store",
                                             .model = model,
                                             .backend = runtime->device.backend->device.name,
                                             .arithmetic = runtime->fleet_arithmetic,
                                             .dataset = service->dataset,
                                             .n_sequences_max = batch->n_sequences_max,
                                             .n_tokens_max = batch->n_tokens_max,
                                             .n_pages = batch->n_pages,
                                             .page_positions = batch->page_positions};
    if (service->late) {
        late_store_start(service->late, &description);
        return STATUS_OK;
    }
    int64_t worker;
    enum status status = store_worker_start(service->store, &description, &worker, error);
    if (status == STATUS_OK && !settings->kafka.brokers)
        status = store_check_arithmetic(service->store, service->dataset, settings->worker.force_new, error);
    return status;
}

static enum status check_model_file(void *context, struct error *error)
{
    const struct runtime *runtime = context;
    enum status status = gguf_check_files(runtime->model->gguf, error);
    return status == STATUS_OK ? model_check_adapters(runtime->model, error) : status;
}

// Handles signals while the model loads and the transport opens; afterwards the worker handles them.
struct start_watch {
    struct stop_request stop;
    struct exporter *exporter;
    void (*log)(void *context, int level, const char *line); // Kafka's
    void *log_context;
};

// A signal that ends the start is no failure, as for a worker that was stopped without a job.
static enum status end_start(const struct start_watch *watch, enum status status, const struct error *error)
{
    if (status == STATUS_OK || !watch->stop.is_asked)
        return status;
    log_write(LOG_INFO, "%s; no job was taken", error->text);
    return STATUS_OK;
}

// A warning while the transport opens is also shown as what the start waits for.
static void announce_warning(void *context, int level, const char *line)
{
    struct start_watch *watch = context;
    watch->log(watch->log_context, level, line);
    if (level <= 4)
        exporter_announce_start(watch->exporter, line);
}

static enum status open_kafka(struct transport **transport, struct kafka_settings *kafka,
                              struct start_watch *watch, struct error *error)
{
    struct kafka_config *config = &kafka->config;
    watch->log = config->log;
    watch->log_context = config->log_context;
    config->log = announce_warning;
    config->log_context = watch;
    config->is_stopping = stop_is_asked;
    config->stop_context = &watch->stop;
    exporter_announce_start(watch->exporter, "connecting to Kafka");
    enum status status = kafka_transport_open(transport, config, error);
    config->is_stopping = NULL;
    config->stop_context = NULL;
    config->log = watch->log;
    config->log_context = watch->log_context;
    return status;
}

static enum status open_transport(struct transport **transport, struct kafka_settings *kafka,
                                  const struct service *service, const struct kafka_options *options,
                                  const struct dataset_shares *shares, struct start_watch *watch,
                                  struct error *error)
{
    if (!options->brokers) {
        store_set_shares(service->store, shares);
        return local_transport_open(transport, service->store, service->dataset, error);
    }
    enum status status = kafka_settings_init(kafka, options, service->late->path, error);
    if (status != STATUS_OK)
        return status;
    log_write(LOG_INFO, "Kafka at %s: topic %s, group %s, librdkafka %s", kafka->config.brokers,
              kafka->config.topics.jobs, kafka->config.group.name, kafka_library_version());
    return open_kafka(transport, kafka, watch, error);
}

static void attach_exporter(struct exporter *exporter, struct transport *transport,
                            const struct service *service, const struct kafka_settings *kafka,
                            const struct runtime *runtime, const struct settings *settings)
{
    snprintf(exporter->model, sizeof exporter->model, "%.*s", (int)runtime->model_name.size,
             runtime->model_name.data);
    exporter->metrics.recent.keeps_content = settings->worker.metrics_content;
    exporter->metrics.labels.is_counted = exporter->http != NULL;
    struct metrics_view view = {.version = SHEAF_VERSION,
                                .model = exporter->model,
                                .backend = runtime->device.backend->device.name,
                                .transport = transport->impl->name,
                                .group = kafka->config.group.name,
                                .output = settings->output.file,
                                .has_rows = service->requests_differ,
                                .store = service->late ? service->late->store : service->store};
    exporter_attach(exporter, transport, &view);
}

struct store_finder {
    struct late_store *late;
    struct exporter *exporter;
};

static struct store *find_store(void *context)
{
    struct store_finder *finder = context;
    finder->exporter->view.store = late_store_find(finder->late);
    return finder->late->store;
}

static void publish_figures(void *context)
{
    exporter_publish(context);
}

static enum status stop_worker(const struct service *service, struct error *error)
{
    struct store *store = service->late ? service->late->store : service->store;
    enum status status = service->late ? STATUS_OK : store_check_files(store, error);
    return status == STATUS_OK && store ? store_worker_stop(store, error) : status;
}

// The health endpoint answers until everything else is closed.
static void begin_close(struct closing *closing, struct exporter *exporter, const char *reason)
{
    closing_begin(closing, "the transport", reason);
    closing_at(closing, "the transport");
    if (exporter)
        exporter_announce_close(exporter, reason);
}

static struct duplicate_limits duplicate_limits(const struct worker_options *options,
                                                const struct runtime *runtime)
{
    const struct batch_limits *batch = &runtime->plan.batch;
    int32_t n_context = runtime->model->shape.n_context;
    int64_t n_positions = (int64_t)batch->n_pages * batch->page_positions;
    if (n_positions > runtime->model->shape.n_context_original)
        n_positions = runtime->model->shape.n_context_original;
    if (n_positions > n_context)
        n_positions = n_context;
    return (struct duplicate_limits){.is_within_dataset = options->no_reuse,
                                     .max_tokens_default = (int32_t)runtime->defaults.max_tokens,
                                     .n_context = n_context,
                                     .n_positions = (int32_t)n_positions};
}

// Everything but the members of one run: transport, files, metrics and contexts.
static struct worker_config configure_worker(const struct service *service, const struct settings *settings,
                                             const struct task_runtime *tasks)
{
    const struct runtime *runtime = &tasks->runtime;
    bool is_unbounded = settings->kafka.brokers || settings->engine.window;
    return (struct worker_config){
        .batcher = tasks->jobs,
        .inputs = {tasks->input_bytes, tasks->n_dimensions},
        .n_jobs_max = runtime->plan.batch.n_jobs_max,
        .n_batch = is_unbounded ? 0 : runtime->plan.batch.n_sequences_max,
        .names = {runtime->model_name, text_from_string(runtime->arithmetic), settings->worker.cached_tokens,
                  settings->worker.same_draws, runtime->names, tasks->task},
        .duplicates = {service->requests_differ && settings->worker.no_reuse, runtime->defaults.sampling,
                       runtime_reads_time(runtime), duplicate_limits(&settings->worker, runtime)},
        .records.store = service->store,
        .records.find_store = service->late ? find_store : NULL,
        .records.jobs_need_recording = settings->kafka.brokers != NULL,
        .records.unique = settings->worker.unique_jobs,
        .records.retain_s = settings_retain_s(settings),
        .records.retains_answers = settings->worker.retain_s <= 0,
        .limits.idle_s = service->exit_when_idle_s,
        .limits.datasets = dataset_shares_have_limits(&runtime->shares) ? &runtime->shares : NULL,
        .limits.crashes = (int32_t)settings->worker.crash_limit,
        .limits.model_failures = (int32_t)settings->worker.model_failures,
        .limits.dead_percent = settings->kafka.brokers ? (int32_t)settings->worker.dead_share : 0,
        .stop.on_terminal = isatty(STDERR_FILENO),
        .answers = service->answers,
        .refill = {service->refill, service->refill_context},
        .trace = runtime->trace,
        .model_check.run = check_model_file,
        .progress.show = service->line ? progress_line_show : NULL,
        .progress.context = service->line};
}

// NULL: the environment names no collector.
static enum status open_spans(struct spans **spans, const struct kafka_settings *kafka,
                              const struct transport *transport, struct error *error)
{
    struct spans_config config = {.worker = kafka->config.worker,
                                  .system = transport->impl->name,
                                  .group = kafka->config.group.name};
    char *url = NULL;
    enum status status = STATUS_OK;
    if (spans_from_environment(&config, &url)) {
        log_write(LOG_INFO, "spans of jobs to %s", url);
        status = spans_open(spans, &config, error);
    }
    free(url);
    return status;
}

// One run of a worker. Its parts are opened in this order, and closed in the reverse one.
struct run {
    const struct service *service;
    const struct settings *settings;
    struct start_watch watch;
    struct exporter *exporter;
    struct task_runtime tasks;
    struct kafka_settings kafka;
    struct transport *transport; // NULL: a signal ended the start
    struct spans *spans;
    struct closing closing;
};

// The exporter is opened first, so that a wrong address does not cost loading the model.
static enum status open_exporter(struct run *run, struct error *error)
{
    const struct service *service = run->service;
    const struct worker_options *options = &run->settings->worker;
    enum status status = exporter_open(&run->exporter, options->metrics, options->metrics_token, error);
    run->watch.exporter = run->exporter;
    if (status == STATUS_OK && service->attach) {
        exporter_share(run->exporter);
        service->attach(service->attach_context, run->exporter);
    }
    return status;
}

static enum status open_run(struct run *run, struct error *error)
{
    const struct settings *settings = run->settings;
    struct runtime *runtime = &run->tasks.runtime;
    struct interrupt interrupt = {stop_is_asked, &run->watch.stop};
    enum status status = open_exporter(run, error);
    if (status == STATUS_OK) {
        exporter_announce_start(run->exporter, "loading the model");
        status = task_runtime_open(&run->tasks, settings, settings->model.path, &interrupt, error);
    }
    if (status == STATUS_OK)
        status = start_worker(run->service, settings, runtime, error);
    if (status == STATUS_OK)
        status = open_transport(&run->transport, &run->kafka, run->service, &settings->kafka,
                                &runtime->shares, &run->watch, error);
    status = end_start(&run->watch, status, error);
    if (status == STATUS_OK && run->transport)
        status = open_spans(&run->spans, &run->kafka, run->transport, error);
    return status;
}

static enum status run_worker(struct run *run, struct worker_progress *progress, struct error *error)
{
    const struct service *service = run->service;
    struct runtime *runtime = &run->tasks.runtime;
    attach_exporter(run->exporter, run->transport, service, &run->kafka, runtime, run->settings);
    struct store_finder finder = {service->late, run->exporter};
    struct worker_config config = configure_worker(service, run->settings, &run->tasks);
    config.transport = run->transport;
    config.records.context = &finder;
    config.stop.fd = run->watch.stop.fd;
    config.model_check.context = runtime;
    config.metrics = &run->exporter->metrics;
    config.spans = run->spans;
    config.exporter.publish = publish_figures;
    config.exporter.context = run->exporter;
    config.exporter.fd = exporter_fd(run->exporter);
    config.closing = &run->closing;
    if (service->line) {
        service->line->counts_prompts = run->tasks.task != TASK_GENERATE;
        service->line->n_batch = runtime->plan.batch.n_sequences_max;
    }
    enum status status = worker_run(&config, progress, error);
    closing_at(&run->closing, "the store");
    struct error stopping = {0};
    if (stop_worker(service, &stopping) != STATUS_OK && service->late)
        log_write(LOG_WARNING, "%s; the last figures are lost", stopping.text);
    else if (stopping.status != STATUS_OK && status == STATUS_OK)
        *error = stopping, status = stopping.status;
    return status;
}

static void close_run(struct run *run)
{
    const struct service *service = run->service;
    if (run->transport)
        run->transport->impl->close(run->transport);
    if (service->store)
        store_set_shares(service->store, NULL);
    kafka_settings_finish(&run->kafka);
    closing_at(&run->closing, "the last spans");
    spans_close(run->spans);
    closing_at(&run->closing, "the model and its memory");
    task_runtime_close(&run->tasks);
    closing_end(&run->closing);
    if (service->attach)
        service->attach(service->attach_context, NULL);
    exporter_close(run->exporter);
    if (run->watch.stop.fd >= 0)
        close(run->watch.stop.fd);
}

enum status service_run(const struct service *service, const struct settings *settings,
                        struct worker_progress *progress, struct error *error)
{
    struct run run = {.service = service,
                      .settings = settings,
                      .watch.stop.fd = stop_fd_open()}; // before any thread
    enum status status = open_run(&run, error);
    progress->was_stopped = !run.transport;
    if (status == STATUS_OK && run.transport)
        status = run_worker(&run, progress, error);
    if (service->line)
        progress_line_clear(service->line);
    begin_close(&run.closing, run.exporter, closing_reason(status, error, progress->was_stopped));
    close_run(&run);
    return status;
}
