// Jobs of completions over Kafka whose client has gone: each is cancelled by a record of the control topic, and the
// record is withdrawn when the job's result has come or its deadline has passed, so that the topic does not grow.
//
//   connection --- gone_jobs_add ---> listed --- cancellation ---> cancelled --- result, deadline ---> withdrawn
//                                        \--- result, deadline ---> removed
//
// If the control topic cannot be written, the jobs are computed for nobody, until their deadline at most.
#pragma once

#include "consumer/queue/kafka.h"

struct gone_jobs;

enum { GONE_JOBS_MAX = 4096 }; // known at a time; with more the next ones are not cancelled

// config: must outlive the jobs. dataset: of all of them. NULL: out of memory.
struct gone_jobs *gone_jobs_create(const struct kafka_config *config, const char *dataset);
void gone_jobs_destroy(struct gone_jobs *jobs);
// until_ms: on the monotonic clock, when workers give the job up by themselves. Thread: any.
void gone_jobs_add(struct gone_jobs *jobs, struct text job_id, int64_t until_ms);
// A result has come. Thread: sheaf-answers, also below.
void gone_jobs_answered(struct gone_jobs *jobs, struct text job_id);
// Sends cancellations and withdrawals. A fault is logged once.
void gone_jobs_turn(struct gone_jobs *jobs);
