// The headers of the records that a worker publishes. A result is a CloudEvent in Kafka's binary mode
// (CloudEvents 1.0, Kafka Protocol Binding, section 3.2): the value is the result map, its attributes are
// headers. A job that is a CloudEvent is its result's `ce_causationid`. Other headers are the job's trace
// context, correlation and tenant, its source and the circumstances of its computation: a mirror of the topics needs them, and the value, a pure function of
// model and request, must not contain them. A dead letter keeps its own headers and gets text headers with
// the reason.
#pragma once

#include "consumer/queue/transport.h"
#include "schemas/job.h"

// Record headers with the identity of a job, which is thus known even if the record cannot be decoded. They
// are texts; index and created (seconds since 1970 UTC) are decimal.
#define HEADER_DATASET   "sheaf-dataset"
#define HEADER_JOB_ID    "sheaf-job-id"
#define HEADER_CUSTOM_ID "sheaf-custom-id"
#define HEADER_INDEX     "sheaf-index"
#define HEADER_CREATED   "sheaf-created"
// A text: the reason why the record has only the beginning of the submitted bytes.
#define HEADER_CUT "sheaf-cut"
// Decimal: how often the job was redriven as a dead letter; its result has it too. Of a job's results the ones
// of the highest number count.
#define HEADER_REDRIVEN "sheaf-redriven"

enum { RECORD_HEADERS_MAX = 24, RECORD_HEADER_TEXT_BYTES = 2048 };

// A zeroed struct is valid and empty. Its texts point into `text`, into the job or to constants.
struct record_headers {
    struct header items[RECORD_HEADERS_MAX];
    int32_t n_items;
    size_t used_bytes;
    char text[RECORD_HEADER_TEXT_BYTES];
};

// `group` is the consumer group, `worker` this worker's name, `finished_us` since 1970 UTC.
void headers_of_result(struct record_headers *headers, const struct job *job, const char *group,
                       const char *worker, int64_t finished_us);
// Copies to passed[n_headers] the job's headers that its result repeats: headers of traces, correlation and
// tenants, and the headers of `also`, names separated by commas of which one may end in '*' (NULL: none). Names
// are compared without regard to case. Returns their number.
int32_t headers_pass(const struct header *headers, int32_t n_headers, const char *also,
                     struct header *passed);
// Whether a result has a header of that name, or of its kind, of its own.
bool headers_are_own(struct text name);
// Writes headers of a dead letter, except the job's own headers, which precede them. `omitted` names the part
// of the record that was omitted because the topic rejects its size, or is NULL.
void headers_of_dead_letter(struct record_headers *headers, const struct job *job, const char *omitted,
                            int64_t now_us);
// Returns the value of the job's first header with that name; empty: none.
struct text headers_find(const struct header *headers, int32_t n_headers, const char *name);
// The topic that a job's result is to go to, by Spring's header or a plain one; empty: the worker's.
struct text headers_reply_topic(const struct header *headers, int32_t n_headers);
// The identity that a submitter wrote into the headers. Invalid numbers count as not given.
struct job_identity headers_identity(const struct header *headers, int32_t n_headers);
// True if it is a result of a job of this topic, or has no source topic.
bool headers_are_of_topic(const struct header *headers, int32_t n_headers, const char *topic);
// True if a worker of this consumer group wrote the result. The group is found in `ce_source`, which may lack
// one.
bool headers_are_of_group(const struct header *headers, int32_t n_headers, const char *group);
// Parses a decimal number >= 0. False: invalid, `value` is unchanged.
bool headers_read_integer(const struct header *headers, int32_t n_headers, const char *name, int64_t *value);
