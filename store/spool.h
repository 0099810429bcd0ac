// Spool for a dataset's results between the topics and an output file: an unnamed temporary SQLite file, so
// that memory is bounded for any number of results. The file is deleted by spool_close, or when the process
// ends.
#pragma once

#include "schemas/error.h"
#include "schemas/text.h"

#include <stdint.h>

enum { SPOOL_CACHE_KIB = 64 << 10 }; // of pages in memory

struct spool;

enum status spool_open(struct spool **spool, int cache_kib, struct error *error) WARN_UNUSED;
void spool_close(struct spool *spool);

struct spool_counts {
    int64_t n_jobs, n_results;
    int64_t n_missing;  // jobs without a result
    int64_t n_finished; // of these
    int64_t n_repeated; // results of a job that had one, left out
};

// Adds a job that needs a result. A job submitted twice under one id counts once, as finished if it is both times.
enum status spool_add_job(struct spool *spool, struct text job_id, bool is_finished,
                          struct error *error) WARN_UNUSED;
// Adds a result; the first of each id is kept. `index` -1: none, sorted last.
enum status spool_add_result(struct spool *spool, struct text job_id, int64_t index, struct text record,
                             struct error *error) WARN_UNUSED;
enum status spool_count(struct spool *spool, struct spool_counts *counts, struct error *error) WARN_UNUSED;
// Passes the results in order of index, then of arrival.
enum status spool_read(struct spool *spool,
                       enum status (*receive)(void *context, struct text record, struct error *error),
                       void *context, struct error *error) WARN_UNUSED;
