// Mirrors a fleet to one SQLite file, from the topics only: submitted jobs, published results, and the
// group's progress. Its position is committed in the same SQLite transaction as the rows, so it resumes
// exactly. Thread: main.
#pragma once

#include "consumer/queue/kafka.h"
#include "store/store.h"

struct mirror_config {
    struct store *store;
    const struct kafka_config *kafka;
    bool until_end;   // stop when both topics were read to their ends; else run until kafka->is_stopping
    int stop_fd;      // readable: ask kafka->is_stopping; -1: none
    int64_t retain_s; // older rows of the store are compacted to sums; 0: never
    // Called after each transaction; may be NULL.
    void (*progress)(void *context, int64_t n_jobs, int64_t n_results);
    void *progress_context;
};

// Reads a record of the results topic into a new job: the result from the record's value, its figures and the
// job's record from the headers. STATUS_REJECT: the record is not a result of sheaf.
enum status mirror_decode_result(struct job *job, const struct record *record) WARN_UNUSED;

// STATUS_REFUSE: no broker answers at the start; a topic is missing or was recreated; the store is unusable;
// with until_end, a transaction stays open, and only the records before it are mirrored. Retries while the
// store is busy or full, or a broker is unavailable later.
enum status mirror_run(const struct mirror_config *config, struct error *error) WARN_UNUSED;
