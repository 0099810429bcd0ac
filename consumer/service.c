#include "consumer/service.h"

#include "consumer/exporter.h"
#include "consumer/kafka_settings.h"
#include "consumer/local.h"
#include "consumer/progress_line.h"
#include "consumer/stop.h"

#include <stdio.h>
#include <unistd.h>

static enum status start_worker(const struct service *service, const struct settings *settings,
                                const struct runtime *runtime, struct error *error)
{
    char model[256];
    snprintf(model, sizeof model, "%.*s", (int)runtime->model_name.size, runtime->model_name.data);
    const struct batch_limits *batch = &runtime->plan.batch;
    struct worker_description description = {.transport = settings->brokers ? "kafka" : "store",
                                             .model = model,
                                             .backend = runtime->backend->impl->name,
                                             .n_sequences_max = batch->n_sequences_max,
                                             .n_rows_max = batch->n_rows_max,
                                             .n_pages = batch->n_pages,
                                             .page_positions = batch->page_positions};
    int64_t worker;
    return store_worker_start(service->store, &description, &worker, error);
}

static enum status open_transport(struct transport **transport, struct kafka_settings *kafka,
                                  const struct service *service, const struct settings *settings,
                                  struct error *error)
{
    if (!settings->brokers)
        return local_transport_open(transport, service->store, service->dataset, error);
    enum status status = kafka_settings_init(kafka, settings, store_path(service->store), error);
    return status == STATUS_OK ? kafka_transport_open(transport, &kafka->config, error) : status;
}

static void attach_exporter(struct exporter *exporter, struct transport *transport, const struct service *service,
                            const struct kafka_settings *kafka, const struct runtime *runtime)
{
    snprintf(exporter->model, sizeof exporter->model, "%.*s", (int)runtime->model_name.size, runtime->model_name.data);
    struct metrics_view view = {.version = SHEAF_VERSION,
                                .model = exporter->model,
                                .backend = runtime->backend->impl->name,
                                .transport = transport->impl->name,
                                .group = kafka->config.group,
                                .store = service->store};
    exporter_attach(exporter, transport, &view);
}

enum status service_run(const struct service *service, const struct settings *settings, struct worker_progress *progress,
                        struct error *error)
{
    struct runtime runtime = {0};
    struct kafka_settings kafka = {0};
    struct transport *transport = NULL;
    struct exporter *exporter = NULL;
    int stop_fd = stop_fd_open(); // before any thread
    enum status status = exporter_open(&exporter, settings->metrics, error); // before a model is loaded for nothing
    if (status == STATUS_OK)
        status = runtime_open(&runtime, settings, settings->model, error);
    if (status == STATUS_OK)
        status = start_worker(service, settings, &runtime, error);
    if (status == STATUS_OK)
        status = open_transport(&transport, &kafka, service, settings, error);
    if (status == STATUS_OK) {
        attach_exporter(exporter, transport, service, &kafka, &runtime);
        struct worker_config config = {.transport = transport,
                                       .store = service->store,
                                       .batcher = runtime.batcher,
                                       .n_jobs_max = runtime.plan.batch.n_jobs_max,
                                       .model_name = runtime.model_name,
                                       .jobs_need_recording = settings->brokers != NULL,
                                       .exit_when_idle_s = service->exit_when_idle_s,
                                       .crash_limit = (int32_t)settings->crash_limit,
                                       .dead_share_max = settings->brokers ? (int32_t)settings->dead_share : 0,
                                       .retain_s = settings->retain,
                                       .on_terminal = isatty(STDERR_FILENO),
                                       .stop_fd = stop_fd,
                                       .metrics = &exporter->metrics,
                                       .http = exporter->http,
                                       .progress = service->line ? progress_line_show : NULL,
                                       .progress_context = service->line};
        status = worker_run(&config, progress, error);
        struct error stopping;
        if (store_worker_stop(service->store, &stopping) != STATUS_OK && status == STATUS_OK)
            *error = stopping, status = stopping.status;
    }
    if (service->line)
        progress_line_clear(service->line);
    exporter_close(exporter);
    if (transport)
        transport->impl->close(transport);
    kafka_settings_finish(&kafka);
    runtime_close(&runtime);
    if (stop_fd >= 0)
        close(stop_fd);
    return status;
}
