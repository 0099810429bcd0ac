// Spools a dataset's results from the topics to an output file. The spool is an unnamed temporary SQLite
// file, so memory is bounded for any number of results. spool_close, or the end of the process, deletes the
// file.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdint.h>

enum { SPOOL_CACHE_KIB = 64 << 10 }; // pages kept in memory

struct spool;

enum status spool_open(struct spool **spool, int cache_kib, struct error *error) WARN_UNUSED;
void spool_close(struct spool *spool);

struct spool_counts {
    int64_t n_jobs;
    int64_t n_results;  // without those whose job was sent again
    int64_t n_missing;  // number of jobs without a result of their round
    int64_t n_finished; // jobs without a result that were added as finished
    int64_t n_repeated; // results skipped because their job had one of the same round already
};

// Adds a job that needs a result. `round`: how often it was sent again as a dead letter. Jobs with the same id
// count as one job of the highest round, which is finished if all of that round are.
enum status spool_add_job(struct spool *spool, struct text job_id, bool is_finished, int64_t round,
                          struct error *error) WARN_UNUSED;
// Adds a result. Of each id the first result of the highest round is kept. `index` -1 means no index; such
// results are sorted last.
enum status spool_add_result(struct spool *spool, struct text job_id, int64_t index, int64_t round,
                             struct text record, struct error *error) WARN_UNUSED;
enum status spool_count(struct spool *spool, struct spool_counts *counts, struct error *error) WARN_UNUSED;
// Passes the results in order of index, then of arrival.
enum status spool_read(struct spool *spool,
                       enum status (*receive)(void *context, struct text record, struct error *error),
                       void *context, struct error *error) WARN_UNUSED;
