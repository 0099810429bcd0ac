// sheaf mirror: builds the whole fleet's store from the topics alone, and keeps it up to date.
#include "consumer/command/commands.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/log.h"
#include "consumer/observe/mirror.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/worker/stop.h"

#include <stdio.h>
#include <unistd.h>

struct mirror_line {
    int64_t n_jobs, n_results;
    bool is_terminal;
};

static void show_progress(void *context, int64_t n_jobs, int64_t n_results)
{
    struct mirror_line *line = context;
    line->n_jobs = n_jobs;
    line->n_results = n_results;
    if (line->is_terminal)
        fprintf(stderr, "\r\033[K%lld jobs and %lld results mirrored", (long long)n_jobs,
                (long long)n_results);
}

enum status command_mirror(const struct settings *settings, struct error *error)
{
    if (!settings->kafka.brokers)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf mirror: of which Kafka? give --brokers HOSTS");
    struct store *store = NULL;
    struct kafka_settings kafka = {0};
    struct mirror_line line = {.is_terminal = isatty(STDERR_FILENO) && !settings->log.quiet};
    struct stop_request stop = {.fd = stop_fd_open()}; // before any thread
    const char *path = named_store_path(settings);
    enum status status = store_open(&store, path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = kafka_settings_init(&kafka, &settings->kafka, path, error);
    kafka.config.is_stopping = stop_is_asked;
    kafka.config.stop_context = &stop;
    if (status == STATUS_OK) {
        log_write(LOG_INFO, "mirroring topics %s and %s and group %s into %s", kafka.config.topics.jobs,
                  kafka.config.topics.results, kafka.config.group.name, path);
        struct mirror_config config = {.store = store,
                                       .kafka = &kafka.config,
                                       .until_end = settings->follow.until_end,
                                       .stop_fd = stop.fd,
                                       .retain_s = settings_retain_s(settings),
                                       .progress = show_progress,
                                       .progress_context = &line};
        status = stop_excuse(&stop, mirror_run(&config, error), error);
        if (line.is_terminal)
            fputs("\r\033[K", stderr);
        log_write(LOG_INFO, "%lld jobs and %lld results mirrored", (long long)line.n_jobs,
                  (long long)line.n_results);
    }
    kafka_settings_finish(&kafka);
    store_close(store);
    if (stop.fd >= 0)
        close(stop.fd);
    return status;
}
