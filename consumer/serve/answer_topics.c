#include "consumer/serve/answer_topics.h"

#include "consumer/observe/log.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/serve/gone_jobs.h"
#include "schemas/base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    REOPEN_MS = 1000,
    POLL_MS = 250,
    POLL_RECORDS_MAX = 1000,
};

struct answer_topics {
    struct serve *serve;
    struct kafka_settings settings;
    bool creates_topics;
    char dataset[SERVE_ID_BYTES]; // of all requests of this server
    pthread_t thread;
    bool has_thread;
    int stop_fd; // eventfd

    pthread_mutex_t sending;
    struct kafka_producer *producer; // NULL: to be opened

    struct gone_jobs *gone;

    pthread_mutex_t lock;
    struct topic_answer *waiting;
    bool is_following;
};

// ---- results ----

// Finds the answer that a job id belongs to, and the job's number in it. Called with the lock held.
static struct topic_answer *find_answer(const struct answer_topics *answers, struct text job_id,
                                        size_t *number)
{
    for (struct topic_answer *at = answers->waiting; at; at = at->next) {
        size_t size = strlen(at->id);
        char digits[24] = "";
        *number = 0;
        if (job_id.size < size || memcmp(job_id.data, at->id, size) != 0)
            continue;
        if (at->n == 1 && job_id.size == size)
            return at;
        if (at->n == 1 || job_id.size < size + 2 || job_id.size - size > sizeof digits)
            continue;
        memcpy(digits, job_id.data + size + 1, job_id.size - size - 1);
        *number = strtoul(digits, NULL, 10);
        return *number < at->n ? at : NULL;
    }
    return NULL;
}

static enum status take_result(void *context, const struct record *record, struct error *error)
{
    struct answer_topics *answers = context;
    const struct kafka_config *config = &answers->settings.config;
    size_t number;
    (void)error;
    struct text id = headers_find(record->headers, record->n_headers, "ce_subject");
    if (id.size == 0 || !headers_are_of_topic(record->headers, record->n_headers, config->topics.jobs) ||
        !headers_are_of_group(record->headers, record->n_headers, config->group.name))
        return STATUS_OK;
    bool is_complete = false;
    pthread_mutex_lock(&answers->lock);
    struct topic_answer *answer = find_answer(answers, id, &number);
    if (answer && answer->results[number].size == 0) {
        buffer_add_text(&answer->results[number], record->value);
        is_complete = --answer->n_left == 0;
    }
    pthread_mutex_unlock(&answers->lock);
    if (!answer)
        gone_jobs_answered(answers->gone, id);
    if (is_complete)
        store_watch_announce(&answers->serve->watch);
    return STATUS_OK;
}

static void set_following(struct answer_topics *answers, bool is_following)
{
    pthread_mutex_lock(&answers->lock);
    answers->is_following = is_following;
    for (struct topic_answer *at = answers->waiting; at && !is_following; at = at->next)
        at->is_lost = true;
    pthread_mutex_unlock(&answers->lock);
    store_watch_announce(&answers->serve->watch);
}

static int64_t start_at_end(void *context, const char *topic, int32_t partition)
{
    (void)context, (void)topic, (void)partition;
    return FOLLOW_FROM_END;
}

static enum status open_follow(struct answer_topics *answers, struct kafka_follow **follow,
                               struct error *error)
{
    const struct kafka_config *config = &answers->settings.config;
    const char *topics[] = {config->topics.results};
    enum status status = answers->creates_topics ? kafka_create_topics(config, error) : STATUS_OK;
    if (status == STATUS_OK)
        answers->creates_topics = false;
    return status == STATUS_OK ? kafka_follow_open(follow, config, topics, 1, start_at_end, NULL, error)
                               : status;
}

// Reads until a fault or the end. Delivery reports are served here too.
static enum status follow_results(struct answer_topics *answers, struct kafka_follow *follow,
                                  struct error *error)
{
    enum status status = STATUS_OK;
    struct error ignored;
    while (status == STATUS_OK && !atomic_load(&answers->serve->is_closing)) {
        status = kafka_follow_poll(follow, POLL_MS, POLL_RECORDS_MAX, take_result, answers, error);
        if (status == STATUS_OK && kafka_follow_take_doubt(follow))
            status = error_set(error, STATUS_RETRY, ERROR_BROKER, "topic %s may have been recreated",
                               answers->settings.config.topics.results);
        pthread_mutex_lock(&answers->sending);
        if (answers->producer)
            (void)!kafka_producer_flush(answers->producer, 0, &ignored);
        pthread_mutex_unlock(&answers->sending);
        gone_jobs_turn(answers->gone);
    }
    return status;
}

static void *run(void *context)
{
    struct answer_topics *answers = context;
    struct pollfd stop = {answers->stop_fd, POLLIN, 0};
    char trouble[ERROR_TEXT_BYTES] = "";
    do {
        struct error error = {0};
        struct kafka_follow *follow = NULL;
        enum status status = open_follow(answers, &follow, &error);
        if (status == STATUS_OK) {
            set_following(answers, true);
            status = follow_results(answers, follow, &error);
            set_following(answers, false);
        }
        kafka_follow_close(follow);
        if (status != STATUS_OK && !atomic_load(&answers->serve->is_closing) &&
            strcmp(trouble, error.text) != 0)
            log_write(LOG_WARNING, "%s; trying again", error.text);
        snprintf(trouble, sizeof trouble, "%s", error.text);
    } while (!atomic_load(&answers->serve->is_closing) && poll(&stop, 1, REOPEN_MS) == 0);
    return NULL;
}

// ---- a connection ----

bool answer_topics_are_ready(struct answer_topics *answers)
{
    pthread_mutex_lock(&answers->lock);
    bool are = answers->is_following;
    pthread_mutex_unlock(&answers->lock);
    return are;
}

static enum status send_record(struct answer_topics *answers, struct text id, struct text value,
                               int64_t index, struct error *error)
{
    char number[INTEGER_TEXT_BYTES], created[INTEGER_TEXT_BYTES];
    struct header headers[] = {{TEXT("content-type"), TEXT(CONTENT_TYPE_JSON)},
                               {TEXT(HEADER_DATASET), text_from_string(answers->dataset)},
                               {TEXT(HEADER_JOB_ID), id},
                               {TEXT(HEADER_CUSTOM_ID), id},
                               {TEXT(HEADER_INDEX), text_from_integer(index, number)},
                               {TEXT(HEADER_CREATED), text_from_integer(clock_wall_us() / 1000000, created)}};
    struct kafka_record record = {id, value, headers, sizeof headers / sizeof headers[0]};
    enum status status = answers->producer
                             ? STATUS_OK
                             : kafka_producer_open(&answers->producer, &answers->settings.config,
                                                   answers->settings.config.topics.jobs, error);
    if (status == STATUS_OK)
        status = kafka_producer_send(answers->producer, &record, error);
    if (status == STATUS_OK || status == STATUS_REJECT)
        return status;
    kafka_producer_close(answers->producer); // it takes no more
    answers->producer = NULL;
    error->status = STATUS_RETRY;
    return STATUS_RETRY;
}

static void add_waiting(struct answer_topics *answers, struct topic_answer *answer)
{
    pthread_mutex_lock(&answers->lock);
    answer->is_lost = !answers->is_following;
    answer->next = answers->waiting;
    answers->waiting = answer;
    pthread_mutex_unlock(&answers->lock);
}

static struct topic_answer *create_answer(const char *id, size_t n)
{
    struct topic_answer *answer = calloc(1, sizeof *answer);
    struct buffer *results = calloc(n, sizeof *results);
    if (!answer || !results) {
        free(answer);
        free(results);
        return NULL;
    }
    *answer = (struct topic_answer){.n = n, .n_left = n, .results = results};
    snprintf(answer->id, sizeof answer->id, "%s", id);
    return answer;
}

enum { JOB_NAME_BYTES = SERVE_ID_BYTES + 24 };

static struct text name_job(const struct topic_answer *answer, size_t i, char name[JOB_NAME_BYTES])
{
    snprintf(name, JOB_NAME_BYTES, answer->n > 1 ? "%s-%zu" : "%s", answer->id, i);
    return text_from_string(name);
}

enum status answer_topics_send(struct answer_topics *answers, struct topic_answer **answer, const char *id,
                               const struct text *records, size_t n, struct error *error)
{
    *answer = create_answer(id, n);
    if (!*answer)
        return error_memory(error, STATUS_RETRY, "sending a request");
    add_waiting(answers, *answer); // before its result can be there
    if ((*answer)->is_lost)
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: topic %s is not read yet",
                         answers->settings.config.brokers, answers->settings.config.topics.results);
    enum status status = STATUS_OK;
    pthread_mutex_lock(&answers->sending);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        char name[JOB_NAME_BYTES];
        status = send_record(answers, name_job(*answer, i, name), records[i], (int64_t)i, error);
        (*answer)->n_sent += status == STATUS_OK;
    }
    pthread_mutex_unlock(&answers->sending);
    return status;
}

enum status answer_topics_take(struct answer_topics *answers, struct topic_answer *answer,
                               struct answer_merge *merge, bool *is_answered, struct error *error)
{
    pthread_mutex_lock(&answers->lock);
    *is_answered = answer->n_left == 0;
    bool is_lost = answer->is_lost && !*is_answered;
    pthread_mutex_unlock(&answers->lock);
    if (is_lost)
        return error_set(error, STATUS_RETRY, ERROR_BROKER,
                         "topic %s could not be read for a while: ask again",
                         answers->settings.config.topics.results);
    for (size_t i = 0; *is_answered && i < answer->n; i++) {
        const struct buffer *result = &answer->results[i];
        if (result->failed || !answer_merge_add(merge, (struct text){result->data, result->size}))
            return error_memory(error, STATUS_RETRY, "reading an answer");
    }
    return STATUS_OK;
}

// A stopping server has no time to see its cancellations through.
static void cancel_jobs(struct answer_topics *answers, const struct topic_answer *answer, int64_t until_ms)
{
    if (atomic_load(&answers->serve->is_closing))
        return;
    for (size_t i = 0; i < answer->n_sent; i++) {
        char name[JOB_NAME_BYTES];
        if (answer->results[i].size == 0)
            gone_jobs_add(answers->gone, name_job(answer, i, name), until_ms);
    }
}

void answer_topics_forget(struct answer_topics *answers, struct topic_answer *answer, int64_t until_ms)
{
    if (!answer)
        return;
    pthread_mutex_lock(&answers->lock);
    cancel_jobs(answers, answer, until_ms); // before a result can come that belongs to nobody
    for (struct topic_answer **at = &answers->waiting; *at; at = &(*at)->next)
        if (*at == answer) {
            *at = answer->next;
            break;
        }
    pthread_mutex_unlock(&answers->lock);
    for (size_t i = 0; i < answer->n; i++)
        buffer_finish(&answer->results[i]);
    free(answer->results);
    free(answer);
}

// ---- start and stop ----

static bool is_stopping(void *context)
{
    const struct serve *serve = context;
    return atomic_load(&serve->is_closing);
}

enum status answer_topics_open(struct answer_topics **answers, struct serve *serve,
                               const struct settings *settings, struct error *error)
{
    struct answer_topics *a = calloc(1, sizeof *a);
    if (!a)
        return error_memory(error, STATUS_REFUSE, "sheaf serve");
    a->serve = serve;
    a->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&a->sending, NULL);
    pthread_mutex_init(&a->lock, NULL);
    snprintf(a->dataset, sizeof a->dataset, "requests-%s", serve->name);
    a->gone = gone_jobs_create(&a->settings.config, a->dataset);
    enum status status = kafka_settings_init(&a->settings, &settings->kafka, NULL, error);
    a->settings.config.is_stopping = is_stopping;
    a->settings.config.stop_context = serve;
    a->creates_topics = settings->kafka.topics.create;
    if (status == STATUS_OK && !a->gone)
        status = error_memory(error, STATUS_REFUSE, "sheaf serve");
    if (status == STATUS_OK) {
        a->has_thread = pthread_create(&a->thread, NULL, run, a) == 0;
        if (a->has_thread)
            pthread_setname_np(a->thread, "sheaf-answers");
        else
            status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                               "sheaf serve: no thread could be started");
    }
    if (status != STATUS_OK) {
        answer_topics_close(a);
        return status;
    }
    *answers = a;
    return STATUS_OK;
}

void answer_topics_close(struct answer_topics *answers)
{
    if (!answers)
        return;
    static const uint64_t one = 1;
    if (answers->has_thread) {
        (void)!write(answers->stop_fd, &one, sizeof one);
        pthread_join(answers->thread, NULL);
    }
    if (answers->producer)
        kafka_producer_close(answers->producer);
    if (answers->stop_fd >= 0)
        close(answers->stop_fd);
    gone_jobs_destroy(answers->gone);
    kafka_settings_finish(&answers->settings);
    pthread_mutex_destroy(&answers->sending);
    pthread_mutex_destroy(&answers->lock);
    free(answers);
}
