// Sends dead letters to the jobs topic again, each once: jobs and the record of what was sent (redriven.h) are
// committed in one transaction, and a second redrive of the topics fences the first. A job keeps its key,
// value and headers; the reason of its death becomes the header __sheaf.errors.N.code and so on, with N
// the number of the redrive, which the header sheaf-redriven has too. Thread: main.
#pragma once

#include "consumer/queue/kafka.h"

struct topic_redriven {
    int64_t n_sent;
    int64_t n_before;    // sent by an earlier redrive
    int64_t n_unmatched; // left out by `where`
    int64_t n_foreign;   // no dead letters of jobs of this topic
    int64_t n_without;   // dead letters that lack their record: it was larger than the topic takes
    int64_t n_refused;   // larger than the jobs topic takes
};

// Checks `where`, a NULL-terminated list (NULL: none) of NAME=VALUE with NAME code, stage, dataset or job_id.
enum status topic_redrive_check(char *const *where, struct error *error) WARN_UNUSED;
// Reads the topic to its present end. A dead letter matches if for each name in `where` one of its values
// is the dead letter's. STATUS_REFUSE: fenced by another redrive, brokers that do not answer for a minute.
enum status topic_redrive(const struct kafka_config *config, char *const *where,
                          struct topic_redriven *redriven, struct error *error) WARN_UNUSED;
