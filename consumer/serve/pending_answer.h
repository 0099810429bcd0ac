// A submitted request whose answer is awaited. Thread: the connection's.
#pragma once

#include "consumer/serve/call.h"

struct pending_answer {
    struct serve *serve;
    char id[SERVE_ID_BYTES]; // the job's
    char dataset[SERVE_ID_BYTES];
    int socket;           // the client's
    bool is_submitted;    // the dataset exists
    struct buffer record; // the result, when there is one
};

enum pending_end {
    PENDING_ANSWERED,
    PENDING_GONE,    // the client has closed its connection
    PENDING_CLOSING, // the server stops
    PENDING_LATE,    // limit_ms has passed
    PENDING_FAULT    // of the store
};

// `record`: the job's, a line of OpenAI's batch files.
enum status pending_answer_submit(struct pending_answer *pending, struct text record,
                                  struct error *error) WARN_UNUSED;
// limit_ms -1: none. After PENDING_ANSWERED the dataset is deleted.
enum pending_end pending_answer_wait(struct pending_answer *pending, int limit_ms, struct error *error);
// Cancels a request without an answer.
void pending_answer_finish(struct pending_answer *pending);
