// Records that a broker refuses for good: a record without a key on a compacted topic, one that breaks the topic's schema or
// size, a policy. Retried together with its neighbours such a record would keep them, and its partition, for ever.
//
//   a batch is refused              librdkafka before 2.6 names all its records: each of them is doubted, and sent in a
//                                   batch of its own by the next commit, which finds the first that is refused
//   a record is refused alone       it is committed apart from the others from now on
//   KAFKA_REFUSALS_MAX times        its job fails with ERROR_RESULT_REFUSED, and its record is a dead letter
//   twice that                      without key, value and headers of its own
//   three times that                the topic takes nothing: the worker ends
#include "consumer/kafka/kafka_transport.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(void *) >= 8, "an opaque holds a commit's number and a job's index");

// Of a batch of which the broker named one record as refused (KIP-467, librdkafka 2.6): the others'. Older headers lack it.
enum { INVALID_DIFFERENT_RECORD = -138 };

enum status kafka_refusals_begin(struct kafka_refusals *refusals, size_t n_jobs, struct error *error)
{
    refusals->n_records = 0;
    refusals->named = calloc(n_jobs + 1, sizeof *refusals->named);
    if (!refusals->named)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory to commit %zu jobs", n_jobs);
    refusals->commit_id++;
    refusals->n_jobs = n_jobs;
    refusals->is_alone = refusals->is_exact = false;
    return STATUS_OK;
}

void kafka_refusals_end(struct kafka_refusals *refusals)
{
    free(refusals->named);
    refusals->named = NULL;
}

void *kafka_refusals_opaque(const struct kafka_refusals *refusals, size_t index)
{
    return (void *)(uintptr_t)((uint64_t)refusals->commit_id << 32 | (uint32_t)index);
}

// The record's fault, not the producer's, the transaction's or the network's. Missing rights are not among them: they are
// the whole topic's, and end the worker.
static bool is_refusal(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_UNKNOWN: // a broker's plug-in failed
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        return true;
    default:
        return false;
    }
}

void kafka_refusals_hear(struct kafka_refusals *refusals, const void *opaque, rd_kafka_resp_err_t code, const char *topic,
                         int32_t partition)
{
    uint64_t bits = (uint64_t)(uintptr_t)opaque;
    size_t index = (uint32_t)bits;
    if (!refusals->named || bits >> 32 != refusals->commit_id || index >= refusals->n_jobs)
        return;
    if ((int)code == INVALID_DIFFERENT_RECORD || refusals->is_alone)
        refusals->is_exact = true;
    if (!is_refusal(code))
        return;
    refusals->named[index] = true;
    refusals->n_records++;
    refusals->partition = partition;
    snprintf(refusals->topic, sizeof refusals->topic, "%s", topic);
    refusals->code = code;
}

void kafka_refusals_published(struct kafka_refusals *refusals, const struct job *job)
{
    if (job->result.error.code != ERROR_RESULT_REFUSED)
        refusals->n_given_up = 0;
}

static void report_given_up(const struct kafka_transport *kafka, const struct job *job, const struct error *refused)
{
    char line[ERROR_TEXT_BYTES + 128];
    if (!kafka->config->log)
        return;
    snprintf(line, sizeof line, "job at partition %" PRId32 " offset %" PRId64 " fails: %s", job->source.partition,
             job->source.offset, refused->text);
    kafka->config->log(kafka->config->log_context, 4, line);
}

static enum status give_up(struct kafka_transport *kafka, struct job *job, struct error *error)
{
    struct kafka_refusals *refusals = &kafka->refusals;
    struct error refused;
    (void)error_set(&refused, STATUS_REJECT, ERROR_RESULT_REFUSED, "topic %s refused the job's record %d times: %s",
                    refusals->topic, KAFKA_REFUSALS_MAX, rd_kafka_err2str(refusals->code));
    if (++refusals->n_given_up > KAFKA_GIVEN_UP_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                         "Kafka at %s: topic %s refused the results of %d jobs in a row, %d times each: %s; is it the right "
                         "topic, with the right schema?",
                         kafka->config->brokers, refusals->topic, refusals->n_given_up, KAFKA_REFUSALS_MAX,
                         rd_kafka_err2str(refusals->code));
    report_given_up(kafka, job, &refused);
    return kafka_publish_give_up(kafka, job, &refused, error);
}

static enum status count_refusal(struct kafka_transport *kafka, struct job *job, struct error *error)
{
    const struct kafka_refusals *refusals = &kafka->refusals;
    job->source.refusals++;
    if (job->source.refusals == KAFKA_REFUSALS_MAX)
        return give_up(kafka, job, error);
    if (job->source.refusals < 3 * KAFKA_REFUSALS_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "Kafka at %s: topic %s refuses even an error without its job's key and headers: %s",
                     kafka->config->brokers, refusals->topic, rd_kafka_err2str(refusals->code));
}

enum status kafka_refusals_settle(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                                  struct error *error)
{
    const struct kafka_refusals *refusals = &kafka->refusals;
    if (refusals->n_records == 0)
        return error->status;
    bool is_exact = refusals->is_exact || refusals->n_records == 1;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++) {
        if (!refusals->named[i])
            continue;
        jobs[i]->source.is_doubted = true;
        if (is_exact)
            status = count_refusal(kafka, jobs[i], error);
    }
    if (status == STATUS_REFUSE)
        return kafka_stop(kafka, error);
    if (status != STATUS_OK)
        return status;
    kafka->figures.n_refused += (int64_t)refusals->n_records;
    if (refusals->code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && kafka_publish_read_limits(kafka, error) == STATUS_REFUSE)
        return kafka_stop(kafka, error);
    // The sequence numbers of what was refused are missing at the broker, which refuses the next ones of this producer too.
    if (kafka->transaction.phase == TRANSACTION_NONE)
        kafka->transaction.phase = TRANSACTION_BROKEN;
    return error_set(error, STATUS_RETRY, ERROR_RESULT_REFUSED,
                     "Kafka at %s: topic %s partition %" PRId32 " refused %s of %zu record%s: %s", kafka->config->brokers,
                     refusals->topic, refusals->partition, is_exact ? "each" : "a batch", refusals->n_records,
                     refusals->n_records == 1 ? "" : "s", rd_kafka_err2str(refusals->code));
}
