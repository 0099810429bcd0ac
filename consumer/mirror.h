// The fleet in one SQLite file, from the topics alone: jobs as they are submitted, results as they are published, and how
// the group stands. Goes on where it was stopped, in the same transaction as what it read. Thread: main.
#pragma once

#include "consumer/kafka/kafka.h"
#include "store/store.h"

struct mirror_config {
    struct store *store;
    const struct kafka_config *kafka;
    bool until_end; // stop when both topics were read to their ends; else on `stop_fd`
    int stop_fd;    // readable: leave; -1: none
    int64_t retain_s; // older rows of the store become sums; 0: never
    // After each transaction. NULL: nobody asks.
    void (*progress)(void *context, int64_t n_jobs, int64_t n_results);
    void *progress_context;
};

// STATUS_REFUSE: no broker answers at the start, a topic is missing, the store can't be used. A store that is busy or
// full, and a broker that is away later, are waited for.
enum status mirror_run(const struct mirror_config *config, struct error *error) WARN_UNUSED;
