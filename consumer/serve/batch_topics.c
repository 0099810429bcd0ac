#include "consumer/serve/batch_topics.h"

#include "consumer/command/files/input.h"
#include "consumer/command/files/topic_collect.h"
#include "consumer/command/files/topic_submit.h"
#include "consumer/observe/log.h"
#include "consumer/observe/mirror.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/kafka/client/kafka_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

enum { MIRROR_RETRY_MS = 2000 };

struct batch_topics {
    struct serve *serve;
    const struct settings *settings;
    struct kafka_settings kafka;       // the keeper's
    int leader_file;                   // locked: this server leads; -1
    bool has_topics;                   // they were created (--create-topics)
    char (*cancelled)[SERVE_ID_BYTES]; // [n_cancelled] datasets that all workers were told of
    size_t n_cancelled;
    struct {
        struct kafka_settings kafka;
        struct store *store;
        pthread_t thread;
        bool has_thread;
        int stop_fd; // eventfd
    } mirror;
};

// ---- the mirror ----

static void *run_mirror(void *context)
{
    struct batch_topics *topics = context;
    struct pollfd stop = {topics->mirror.stop_fd, POLLIN, 0};
    const struct mirror_config config = {.store = topics->mirror.store,
                                         .kafka = &topics->mirror.kafka.config,
                                         .stop_fd = topics->mirror.stop_fd,
                                         .retain_s = settings_retain_s(topics->settings)};
    char trouble[ERROR_TEXT_BYTES] = "";
    do {
        struct error error = {0};
        if (mirror_run(&config, &error) == STATUS_OK)
            continue;
        if (strcmp(trouble, error.text) != 0)
            log_write(LOG_WARNING, "%s; trying again", error.text);
        snprintf(trouble, sizeof trouble, "%s", error.text);
    } while (poll(&stop, 1, MIRROR_RETRY_MS) == 0);
    return NULL;
}

static void start_mirror(struct batch_topics *topics)
{
    topics->mirror.has_thread = pthread_create(&topics->mirror.thread, NULL, run_mirror, topics) == 0;
    if (topics->mirror.has_thread)
        pthread_setname_np(topics->mirror.thread, "sheaf-mirror");
}

bool batch_topics_lead(struct batch_topics *topics)
{
    char path[PATH_MAX];
    if (topics->mirror.has_thread)
        return true;
    int length = snprintf(path, sizeof path, "%s/leader", topics->serve->folder);
    if (topics->leader_file < 0 && length > 0 && length < (int)sizeof path)
        topics->leader_file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (topics->leader_file >= 0 && flock(topics->leader_file, LOCK_EX | LOCK_NB) == 0)
        start_mirror(topics);
    return topics->mirror.has_thread;
}

// ---- batches ----

static enum status create_topics(struct batch_topics *topics, struct error *error)
{
    bool has_topics = topics->has_topics || !topics->settings->kafka.topics.create;
    enum status status = has_topics ? STATUS_OK : kafka_create_topics(&topics->kafka.config, error);
    topics->has_topics = status == STATUS_OK;
    return status;
}

enum status batch_topics_submit(struct batch_topics *topics, struct text dataset, const char *path,
                                struct error *error)
{
    struct input input;
    struct topic_submitted submitted;
    enum status status = create_topics(topics, error);
    if (status == STATUS_OK)
        status = input_open(&input, path, dataset, error);
    if (status != STATUS_OK)
        return status;
    status = topic_submit(&topics->kafka.config, dataset, &input, &submitted, error);
    input_close(&input);
    return status;
}

enum status batch_topics_cancel(struct batch_topics *topics, const char *dataset, struct error *error)
{
    for (size_t i = 0; i < topics->n_cancelled; i++)
        if (strcmp(topics->cancelled[i], dataset) == 0)
            return STATUS_OK;
    enum status status =
        kafka_cancel(&topics->kafka.config, text_from_string(dataset), (struct text){0}, -1, error);
    if (status != STATUS_OK)
        return status;
    void *more = reallocarray(topics->cancelled, topics->n_cancelled + 1, sizeof *topics->cancelled);
    if (!more)
        return STATUS_OK; // they are told again
    topics->cancelled = more;
    snprintf(topics->cancelled[topics->n_cancelled++], SERVE_ID_BYTES, "%s", dataset);
    return STATUS_OK;
}

enum status batch_topics_collect(struct batch_topics *topics, struct text dataset, struct output *output,
                                 struct error *error)
{
    struct topic_collected collected;
    enum status status = topic_collect(&topics->kafka.config, dataset, output, &collected, error);
    if (status == STATUS_OK && collected.n_missing)
        status = error_set(error, STATUS_RETRY, ERROR_BROKER,
                           "%.*s: %lld of its results are missing on topic %s", (int)dataset.size,
                           dataset.data, (long long)collected.n_missing, topics->kafka.config.topics.results);
    return status;
}

// ---- start and stop ----

static bool is_stopping(void *context)
{
    const struct serve *serve = context;
    return atomic_load(&serve->is_closing);
}

static enum status init_settings(struct batch_topics *topics, struct kafka_settings *kafka,
                                 struct error *error)
{
    enum status status = kafka_settings_init(kafka, &topics->settings->kafka, NULL, error);
    kafka->config.is_stopping = is_stopping;
    kafka->config.stop_context = topics->serve;
    return status;
}

enum status batch_topics_open(struct batch_topics **topics, struct serve *serve,
                              const struct settings *settings, struct error *error)
{
    struct batch_topics *t = calloc(1, sizeof *t);
    if (!t)
        return error_memory(error, STATUS_REFUSE, "sheaf serve");
    *t = (struct batch_topics){.serve = serve,
                               .settings = settings,
                               .leader_file = -1,
                               .mirror.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    enum status status = init_settings(t, &t->kafka, error);
    if (status == STATUS_OK)
        status = init_settings(t, &t->mirror.kafka, error);
    if (status == STATUS_OK)
        status = store_open(&t->mirror.store, serve->config.store_path, STORE_EXISTING, error);
    if (status == STATUS_OK && t->mirror.stop_fd < 0)
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "sheaf serve: no descriptor: %s",
                           strerror(errno));
    if (status != STATUS_OK) {
        batch_topics_close(t);
        return status;
    }
    *topics = t;
    return STATUS_OK;
}

void batch_topics_close(struct batch_topics *topics)
{
    if (!topics)
        return;
    static const uint64_t one = 1;
    if (topics->mirror.has_thread) {
        (void)!write(topics->mirror.stop_fd, &one, sizeof one);
        pthread_join(topics->mirror.thread, NULL);
    }
    if (topics->mirror.stop_fd >= 0)
        close(topics->mirror.stop_fd);
    if (topics->leader_file >= 0)
        close(topics->leader_file);
    store_close(topics->mirror.store);
    kafka_settings_finish(&topics->mirror.kafka);
    kafka_settings_finish(&topics->kafka);
    free(topics->cancelled);
    free(topics);
}
