// A submitted request whose answer is awaited. Thread: the connection's.
#pragma once

#include "consumer/serve/answer_topics.h"
#include "consumer/serve/call.h"

struct pending_answer {
    struct serve *serve;
    struct answer_feed *feed; // owned; NULL: the answer arrives whole
    char id[SERVE_ID_BYTES];  // the job's
    char dataset[SERVE_ID_BYTES];
    int socket;                 // the client's
    bool is_streamed;           // its text is sent while it is computed, if this process computes it
    bool is_submitted;          // the dataset exists, or the jobs were sent; its answer was not read
    struct topic_answer *asked; // owned; over Kafka, else NULL
    int64_t until_ms;           // monotonic clock: when no result is awaited any more; 0: always
    struct buffer body;         // of the response, when there is one
    int status;                 // HTTP's, with `body`
};

enum pending_end {
    PENDING_ANSWERED,
    PENDING_TEXT,    // the feed has text
    PENDING_GONE,    // the client has closed its connection
    PENDING_CLOSING, // the server stops
    PENDING_LATE,    // limit_ms has passed
    PENDING_EXPIRED, // until_ms has passed
    PENDING_FAULT    // of the store
};

// `records`: [n] jobs, lines of OpenAI's batch files. Several are one request with a list of prompts, whose
// answers become one body (answer_merge.h).
enum { PENDING_JOBS_MAX = 2048 };
enum status pending_answer_submit(struct pending_answer *pending, const struct text *records, size_t n,
                                  struct error *error) WARN_UNUSED;
// limit_ms -1: none. After PENDING_ANSWERED `body` and `status` are set, and the dataset is deleted.
enum pending_end pending_answer_wait(struct pending_answer *pending, int limit_ms, struct error *error);
// Cancels a request without an answer.
void pending_answer_finish(struct pending_answer *pending);
