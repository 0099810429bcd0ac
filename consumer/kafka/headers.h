// The headers of the records that a worker publishes. A result is a CloudEvent in Kafka's binary mode
// (CloudEvents 1.0, Kafka Protocol Binding, section 3.2): the value is the result map, its attributes are
// headers. Beside them stand the trace context passed through (W3C Trace Context), where the job came from,
// and how the result came to be: what a mirror of the topics needs and the value, a pure function of model
// and request, must not hold. A dead letter keeps its own headers and gets text ones that say why it is one.
#pragma once

#include "schemas/job.h"

enum { RECORD_HEADERS_MAX = 24, RECORD_HEADER_TEXT_BYTES = 2048 };

// A zeroed struct is valid and empty. Texts point into `text`, into the job or to constants.
struct record_headers {
    struct header items[RECORD_HEADERS_MAX];
    int32_t n_items;
    size_t used_bytes;
    char text[RECORD_HEADER_TEXT_BYTES];
};

// `group` is the consumer group, `worker` this worker's name, `finished_us` since 1970 UTC.
void headers_of_result(struct record_headers *headers, const struct job *job, enum encoding encoding, const char *group,
                       const char *worker, int64_t finished_us);
// The job's own headers are not among them: they go before these. `omitted` says what of the record was left
// out because the topic does not take it, or is NULL.
void headers_of_dead_letter(struct record_headers *headers, const struct job *job, const char *omitted,
                            int64_t now_us);
// The value of a job's header by that name, the first one; empty when there is none.
struct text headers_find(const struct header *headers, int32_t n_headers, const char *name);
// Is it a result of a job of this topic? One without a source topic counts as such.
bool headers_are_of_topic(const struct header *headers, int32_t n_headers, const char *topic);
// A decimal number that is not negative. False: there is none, and `value` as it was.
bool headers_read_integer(const struct header *headers, int32_t n_headers, const char *name, int64_t *value);
