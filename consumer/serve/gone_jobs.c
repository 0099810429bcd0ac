#include "consumer/serve/gone_jobs.h"

#include "consumer/observe/log.h"
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/kafka_producer.h"
#include "schemas/base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GONE_ID_BYTES = 128,
    GONE_REOPEN_MS = 10000, // after a fault of the producer
};

struct gone_job {
    char id[GONE_ID_BYTES];
    bool has_ended;    // its result has come
    bool is_cancelled; // its cancellation was sent
    int64_t until_ms;
};

struct gone_jobs {
    const struct kafka_config *config;
    const char *dataset;
    struct kafka_producer *producer; // NULL: to be opened
    int64_t reopen_ms;
    char trouble[ERROR_TEXT_BYTES];
    struct buffer key, value;

    pthread_mutex_t lock;
    struct gone_job items[GONE_JOBS_MAX];
    int n_items;
};

struct gone_jobs *gone_jobs_create(const struct kafka_config *config, const char *dataset)
{
    struct gone_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return NULL;
    jobs->config = config;
    jobs->dataset = dataset;
    pthread_mutex_init(&jobs->lock, NULL);
    return jobs;
}

static void close_producer(struct gone_jobs *jobs)
{
    if (jobs->producer)
        kafka_producer_close(jobs->producer);
    jobs->producer = NULL;
}

void gone_jobs_destroy(struct gone_jobs *jobs)
{
    if (!jobs)
        return;
    close_producer(jobs);
    buffer_finish(&jobs->key);
    buffer_finish(&jobs->value);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

void gone_jobs_add(struct gone_jobs *jobs, struct text job_id, int64_t until_ms)
{
    pthread_mutex_lock(&jobs->lock);
    if (jobs->n_items < GONE_JOBS_MAX && job_id.size < GONE_ID_BYTES) {
        struct gone_job *job = &jobs->items[jobs->n_items++];
        *job = (struct gone_job){.until_ms = until_ms};
        memcpy(job->id, job_id.data, job_id.size);
    }
    pthread_mutex_unlock(&jobs->lock);
}

void gone_jobs_answered(struct gone_jobs *jobs, struct text job_id)
{
    pthread_mutex_lock(&jobs->lock);
    for (int i = 0; i < jobs->n_items; i++)
        if (text_equals_string(job_id, jobs->items[i].id))
            jobs->items[i].has_ended = true;
    pthread_mutex_unlock(&jobs->lock);
}

// A cancellation, or a withdrawal of it.
static enum status send_record(struct gone_jobs *jobs, const struct gone_job *job, bool is_withdrawal,
                               struct error *error)
{
    const struct cancel cancel = {.dataset = text_from_string(jobs->dataset),
                                  .job_id = text_from_string(job->id),
                                  .at_s = clock_wall_us() / 1000000};
    buffer_clear(&jobs->key);
    buffer_clear(&jobs->value);
    cancel_encode(&cancel, &jobs->key, &jobs->value);
    if (jobs->key.failed || jobs->value.failed) {
        jobs->key.failed = jobs->value.failed = false;
        return error_memory(error, STATUS_RETRY, "cancelling");
    }
    struct kafka_record record = {.key = {jobs->key.data, jobs->key.size}};
    if (!is_withdrawal)
        record.value = (struct text){jobs->value.data, jobs->value.size};
    return kafka_producer_send(jobs->producer, &record, error);
}

// Sends the record that the job's state needs. *is_over: nothing is left to do for the job.
static enum status advance_job(struct gone_jobs *jobs, struct gone_job *job, bool *is_over,
                               struct error *error)
{
    bool has_ended = job->has_ended || clock_ms() >= job->until_ms;
    bool is_due = has_ended ? job->is_cancelled : !job->is_cancelled;
    enum status status = is_due ? send_record(jobs, job, has_ended, error) : STATUS_OK;
    *is_over = has_ended && status == STATUS_OK;
    job->is_cancelled = job->is_cancelled || status == STATUS_OK;
    return status;
}

static enum status send_records(struct gone_jobs *jobs, struct error *error)
{
    enum status status = STATUS_OK;
    int n_kept = 0;
    pthread_mutex_lock(&jobs->lock);
    for (int i = 0; i < jobs->n_items; i++) {
        bool is_over = false;
        if (status == STATUS_OK)
            status = advance_job(jobs, &jobs->items[i], &is_over, error);
        if (!is_over)
            jobs->items[n_kept++] = jobs->items[i];
    }
    jobs->n_items = n_kept;
    pthread_mutex_unlock(&jobs->lock);
    if (status != STATUS_OK)
        return status;
    status = kafka_producer_flush(jobs->producer, 0, error);
    return status == STATUS_RETRY ? STATUS_OK : status; // not acknowledged yet
}

void gone_jobs_turn(struct gone_jobs *jobs)
{
    struct error error = {0};
    pthread_mutex_lock(&jobs->lock);
    bool any = jobs->n_items > 0;
    pthread_mutex_unlock(&jobs->lock);
    if ((!any && !jobs->producer) || clock_ms() < jobs->reopen_ms)
        return;
    enum status status = jobs->producer ? STATUS_OK
                                        : kafka_producer_open(&jobs->producer, jobs->config,
                                                              jobs->config->topics.control, &error);
    if (status == STATUS_OK)
        status = send_records(jobs, &error);
    if (status == STATUS_OK)
        return;
    if (strcmp(jobs->trouble, error.text) != 0)
        log_write(LOG_WARNING,
                  "jobs of gone clients are not cancelled, and run until their deadline at most: %s",
                  error.text);
    snprintf(jobs->trouble, sizeof jobs->trouble, "%s", error.text);
    close_producer(jobs);
    jobs->reopen_ms = clock_ms() + GONE_REOPEN_MS;
}
