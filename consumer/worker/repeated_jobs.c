// Records of Kafka with the job_id of another one. Both are answered, with a warning if their bodies differ;
// with --unique-jobs the first alone: the others are finished without a result. The earlier record is among
// the names kept in memory (job_ids.h), or finished according to the worker's store. A job that was redriven
// is no repetition.
#include "consumer/worker/worker_state.h"

#include "consumer/observe/log.h"
#include "schemas/base/clock.h"

#include <string.h>

// At intervals, with the number of such records since.
static void warn_of_other_body(struct worker *worker, const struct record *record, const struct job *job,
                               const struct known_id *earlier)
{
    struct worker_records *records = &worker->records;
    records->n_ids_met++;
    if (records->ids_warned_ms && clock_ms() - records->ids_warned_ms < WORKER_WARN_AGAIN_MS)
        return;
    log_write(
        LOG_WARNING,
        "topic %.*s: the records at partition %d offset %lld and partition %d offset %lld have one job_id, "
        "\"%.*s\" of dataset \"%.*s\", and different bodies: %s (%lld such records)",
        (int)record->topic.size, record->topic.data, (int)earlier->partition, (long long)earlier->offset,
        (int)record->partition, (long long)record->offset, (int)job->job_id.size, job->job_id.data,
        (int)job->dataset.size, job->dataset.data,
        worker->config->records.unique
            ? "the first alone is answered (--unique-jobs)"
            : "both are answered, and collect and the stores keep the first result",
        (long long)records->n_ids_met);
    records->ids_warned_ms = clock_ms();
    records->n_ids_met = 0;
}

static bool is_finished_in_store(struct worker *worker, const struct record *record, const struct job *job)
{
    struct store *store = worker_find_store(worker);
    struct error error;
    bool is_finished = false;
    if (!store || job->naming == JOB_NAMED_BY_PLACE)
        return false;
    if (store_find_finished(store, job, record->partition, record->offset, &is_finished, &error) != STATUS_OK)
        log_write(LOG_WARNING, "%s; whether job %.*s was answered before is not known: it is answered",
                  error.text, (int)job->job_id.size, job->job_id.data);
    return is_finished;
}

void repeated_jobs_take(struct worker *worker, const struct record *record, struct job *job)
{
    struct known_id earlier;
    if (!worker->records.ids)
        return;
    enum id_meeting meeting = job_ids_meet(worker->records.ids, job, record, &earlier);
    if (meeting == ID_OTHER_BODY)
        warn_of_other_body(worker, record, job, &earlier);
    if (!worker->config->records.unique || job->source.redriven ||
        (meeting == ID_NEW && !is_finished_in_store(worker, record, job)))
        return;
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_CANCELLED, "another record has its job_id");
    job_fail(job, &error);
    job->source.record = (struct text){0}; // no dead letter
    job->source.is_repeated = true;
}
