// The delivery reports of records that a broker refuses for good (kafka_isolation.c).
#include "consumer/queue/kafka/kafka_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(void *) >= 8, "an opaque holds a commit's number and a job's index");

// Error of the other records of a batch in which the broker named a refused record (KIP-467, librdkafka 2.6).
// Older headers lack it.
enum { INVALID_DIFFERENT_RECORD = -138 };

enum status kafka_refusals_begin(struct kafka_refusals *refusals, size_t n_jobs, struct error *error)
{
    refusals->n_records = 0;
    refusals->named = calloc(n_jobs + 1, sizeof *refusals->named);
    if (!refusals->named)
        return error_memory(error, STATUS_RETRY, "committing %zu jobs", n_jobs);
    refusals->commit_id++;
    refusals->n_jobs = n_jobs;
    refusals->is_alone = refusals->is_exact = false;
    refusals->host_fault = RD_KAFKA_RESP_ERR_NO_ERROR;
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

// Whether the record is at fault, for its content or size, not the producer, the transaction, the network or
// a host. Missing permissions are excluded: they apply to the whole topic, and end the worker.
static bool is_refusal(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        return true;
    default:
        return false;
    }
}

// Errors that any record gets until a host is repaired: no job may fail because of them.
static bool is_host_fault(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP || // the time of our records is this host's clock
           code == RD_KAFKA_RESP_ERR_UNKNOWN ||           // an exception in the broker
           code == RD_KAFKA_RESP_ERR_INVALID_MSG;         // a wrong CRC: the bytes were changed on the way
}

static void name_topic(struct kafka_refusals *refusals, const char *topic, int32_t partition)
{
    refusals->partition = partition;
    snprintf(refusals->topic, sizeof refusals->topic, "%s", topic);
}

void kafka_refusals_add(struct kafka_refusals *refusals, const void *opaque, rd_kafka_resp_err_t code,
                        const char *topic, int32_t partition)
{
    uint64_t bits = (uint64_t)(uintptr_t)opaque;
    size_t index = (uint32_t)bits;
    if (!refusals->named || bits >> 32 != refusals->commit_id || index >= refusals->n_jobs)
        return;
    if (is_host_fault(code)) {
        refusals->host_fault = code;
        name_topic(refusals, topic, partition);
        return;
    }
    if ((int)code == INVALID_DIFFERENT_RECORD || refusals->is_alone)
        refusals->is_exact = true;
    if (!is_refusal(code))
        return;
    refusals->named[index] = true;
    refusals->n_records++;
    name_topic(refusals, topic, partition);
    refusals->code = code;
}

void kafka_refusals_published(struct kafka_refusals *refusals, const struct job *job)
{
    if (job->result.error.code != ERROR_RESULT_REFUSED)
        refusals->n_given_up = 0;
}
