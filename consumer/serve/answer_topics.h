// Completions over Kafka (--brokers): a request's jobs go to the jobs topic, and a thread, sheaf-answers, reads the
// results topic for their results, from where it ended when the server began. Any number of servers share the topics:
// each takes the results of its own jobs, by the job's id in the record's header, and skips all others unread.
//
//   connection  --- kafka_producer_send, under `sending` --->  jobs topic
//   connection  <-- topic_answer, under `lock` --- sheaf-answers  <---  results topic
//
// No request is stored, and only the mirror's figures of its result. A request whose client has gone is cancelled
// (gone_jobs.h); one whose server has gone is computed for nobody, until its deadline at most.
#pragma once

#include "consumer/serve/answer_merge.h"
#include "consumer/serve/serve_state.h"

struct settings;
struct answer_topics;

enum { ANSWER_TOPICS_LIMIT_S = 600 }; // the deadline of a request that gives none

// A request whose results are awaited. Its owner is the connection, its results are filled by sheaf-answers.
struct topic_answer {
    struct topic_answer *next;
    char id[SERVE_ID_BYTES];
    struct buffer *results; // [n], empty: not yet
    size_t n, n_left;
    size_t n_sent; // jobs on the jobs topic
    bool is_lost;  // the results topic could not be followed meanwhile
};

// STATUS_REFUSE: an option of Kafka is invalid. The brokers need not answer yet.
enum status answer_topics_open(struct answer_topics **answers, struct serve *serve,
                               const struct settings *settings, struct error *error) WARN_UNUSED;
void answer_topics_close(struct answer_topics *answers);
// Whether both topics can be used. Thread: any.
bool answer_topics_are_ready(struct answer_topics *answers);
// Sends n jobs, of the ids ID or, if there are several, ID-0, ID-1 and so on. STATUS_RETRY: a broker is away; REJECT:
// a job is larger than the topic takes. *answer is the caller's in each case; NULL: out of memory. Thread: a
// connection's, also below.
enum status answer_topics_send(struct answer_topics *answers, struct topic_answer **answer, const char *id,
                               const struct text *records, size_t n, struct error *error) WARN_UNUSED;
// Adds the results to `merge` once all have come. STATUS_RETRY: they may have been missed.
enum status answer_topics_take(struct answer_topics *answers, struct topic_answer *answer,
                               struct answer_merge *merge, bool *is_answered,
                               struct error *error) WARN_UNUSED;
// Destroys it, and cancels its jobs without a result; NULL is fine. until_ms: on the monotonic clock, when workers
// give the jobs up by themselves.
void answer_topics_forget(struct answer_topics *answers, struct topic_answer *answer, int64_t until_ms);
