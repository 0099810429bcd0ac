// Records that a broker refuses permanently: a record without a key on a compacted topic, a record that
// violates the topic's schema, size limit or a policy. Retried in a batch with its neighbors, such a record
// would block them and its partition forever.
//
//   a batch is refused              librdkafka before 2.6 names all its records: each is marked doubted, and
//                                   the next commit sends each in a batch of its own, until one is refused
//   a record is refused alone       it is committed apart from the others from now on
//   KAFKA_REFUSALS_MAX times        its job fails with ERROR_RESULT_REFUSED, and its record is a dead letter
//   twice that                      it is sent without key, value and headers of its own
//   three times that                the topic refuses every record: the worker ends
//
// An error that is a host's fault, such as a wrong clock, counts for no record: the commit is retried until
// the host is repaired, and the error says why.
#include "consumer/queue/kafka/kafka_transport.h"

#include <inttypes.h>
#include <stdio.h>

static void report_given_up(const struct kafka_transport *kafka, const struct job *job,
                            const struct error *refused)
{
    char line[ERROR_TEXT_BYTES + 128];
    snprintf(line, sizeof line, "job at partition %" PRId32 " offset %" PRId64 " fails: %s",
             job->source.partition, job->source.offset, refused->text);
    kafka_warn(kafka->config, line);
}

static enum status give_up(struct kafka_transport *kafka, struct job *job, struct error *error)
{
    struct kafka_refusals *refusals = &kafka->publishing.refusals;
    struct error refused;
    (void)error_set(&refused, STATUS_REJECT, ERROR_RESULT_REFUSED,
                    "topic %s refused the job's record %d times: %s", refusals->topic, KAFKA_REFUSALS_MAX,
                    rd_kafka_err2str(refusals->code));
    if (!job->source.reply_topic.size && ++refusals->n_given_up > KAFKA_GIVEN_UP_MAX)
        return error_set(
            error, STATUS_REFUSE, ERROR_BROKER,
            "Kafka at %s: topic %s refused the results of %d jobs in a row, %d times each: %s; is it the"
            " right topic, with the right schema?",
            kafka->config->brokers, refusals->topic, refusals->n_given_up, KAFKA_REFUSALS_MAX,
            rd_kafka_err2str(refusals->code));
    report_given_up(kafka, job, &refused);
    return kafka_publish_give_up(kafka, job, &refused, error);
}

static enum status count_refusal(struct kafka_transport *kafka, struct job *job, struct error *error)
{
    const struct kafka_refusals *refusals = &kafka->publishing.refusals;
    job->source.refusals++;
    if (job->source.refusals == KAFKA_REFUSALS_MAX)
        return give_up(kafka, job, error);
    if (job->source.refusals < 3 * KAFKA_REFUSALS_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "Kafka at %s: topic %s refuses even an error without its job's key and headers: %s",
                     kafka->config->brokers, refusals->topic, rd_kafka_err2str(refusals->code));
}

// The broker misses the sequence numbers of refused records, and refuses this producer's next records, too.
// So a new producer replaces it.
static void break_producer(struct kafka_transport *kafka)
{
    if (kafka->publishing.transaction.phase == TRANSACTION_NONE)
        kafka->publishing.transaction.phase = TRANSACTION_BROKEN;
}

static enum status report_host_fault(struct kafka_transport *kafka, struct error *error)
{
    const struct kafka_refusals *refusals = &kafka->publishing.refusals;
    char what[sizeof refusals->topic + 64];
    snprintf(what, sizeof what, "writing to topic %s partition %" PRId32, refusals->topic,
             refusals->partition);
    break_producer(kafka);
    return kafka_error_set(error, STATUS_RETRY, &kafka->clients.producer, what, refusals->host_fault);
}

enum status kafka_isolation_count(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                                  struct error *error)
{
    const struct kafka_refusals *refusals = &kafka->publishing.refusals;
    if (refusals->host_fault != RD_KAFKA_RESP_ERR_NO_ERROR)
        return report_host_fault(kafka, error);
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
    kafka->figures.records.n_refused += (int64_t)refusals->n_records;
    if (refusals->code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE &&
        kafka_publish_read_limits(kafka, error) == STATUS_REFUSE)
        return kafka_stop(kafka, error);
    break_producer(kafka);
    return error_set(error, STATUS_RETRY, ERROR_RESULT_REFUSED,
                     "Kafka at %s: topic %s partition %" PRId32 " refused %s of %zu record%s: %s",
                     kafka->config->brokers, refusals->topic, refusals->partition,
                     is_exact ? "each" : "a batch", refusals->n_records, refusals->n_records == 1 ? "" : "s",
                     rd_kafka_err2str(refusals->code));
}
