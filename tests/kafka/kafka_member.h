// A worker without an engine: it receives jobs from the Kafka transport and finishes them when a test
// requests it. The jobs it holds are those that a real worker would have in flight.
#pragma once

#include "consumer/queue/kafka.h"
#include "consumer/queue/kafka/client/kafka_client.h"

enum { MEMBER_JOBS_MAX = 20000 };

struct member {
    struct transport *transport;
    struct kafka_config config;
    struct kafka_property properties[8]; // those of the config that the group's protocol knows
    char prefix[64];
    char names[5][96]; // jobs, results, dead, control, group
    char folder[96];   // of the slots

    struct job *jobs[MEMBER_JOBS_MAX]; // received, in order
    size_t n_jobs;
    size_t n_received;  // ever
    size_t n_published; // commit said so
    size_t n_dropped;
    size_t n_cancels; // events
    int64_t last_cancel_until_s;
    char last_cancel[512];
    bool commit_on_revoke; // everything it holds is finished
    size_t n_revokes;
    size_t n_lost;      // events
    char last_lost[64]; // " 1 2": partitions
    char last_log[512];
    char warnings[4096];   // log lines of syslog's level 4, one behind the other
    int32_t last_attempts; // of the record received last
    int64_t bytes_max;     // of the records of a poll; 0: no limit
};

// Names that no other test uses, and a folder for the slots; nothing is opened. `name` is part of them.
void member_init(struct member *member, const char *brokers, const char *name);
// The same with topics of n_partitions, and the jobs topic's n_jobs in equal parts.
void member_init_with_jobs(struct member *member, const char *brokers, const char *name, int n_partitions,
                           int n_jobs);
// A second member of the first one's group.
void member_join(struct member *member, const struct member *first);
void member_open(struct member *member);   // must succeed
void member_close(struct member *member);  // the jobs it holds are dropped, as a crash would
void member_finish(struct member *member); // also removes the folder

// One poll of the transport, after waiting for its descriptor for at most 100 ms.
enum status member_poll(struct member *member, int n_max, struct error *error);
// The same, where only a retriable error is accepted.
void member_poll_well(struct member *member, int n_max);
// Polls until it holds n_jobs, or fails the test after 60 s.
void member_receive(struct member *member, size_t n_jobs);
// Polls until the transport says that all was delivered.
void member_drain(struct member *member);

// The jobs become done, with an answer that follows from the id.
void member_answer(struct job *job);
// Commits the jobs for which choose() is true (NULL: all) and lets go of them. Retries for 60 s.
void member_commit(struct member *member, bool (*choose)(const struct job *job));
// One call of commit; on STATUS_OK the jobs are let go of.
enum status member_commit_once(struct member *member, bool (*choose)(const struct job *job),
                               struct error *error);

// The same of the first job alone. On another status than STATUS_OK it becomes the last one.
enum status member_commit_first(struct member *member, struct error *error);

int member_job_number(const struct job *job); // of "job-7": 7

struct kafka_transport;
const struct kafka_transport *member_transport(const struct member *member); // its inside
size_t member_n_partitions(const struct member *member);                     // assigned now
